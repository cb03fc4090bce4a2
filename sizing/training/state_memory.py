"""GPU memory for the training state: weights, gradients and optimizer. Memory figures, never checkpoint sizes."""

from __future__ import annotations

from dataclasses import dataclass

from sizing.layout.sharding import Sharding
from sizing.layout.shards import Content
from sizing.state import Training, resident_parts
from sizing.state.training import Framework, Precision

GRADIENT_BYTES_PER_PARAMETER: dict[tuple[Framework, Precision], int] = {
    ("megatron", "bf16-mixed"): 4,
    ("megatron", "fp16-mixed"): 2,
    ("megatron", "fp32"): 4,
    ("deepspeed", "bf16-mixed"): 2,
    ("deepspeed", "fp16-mixed"): 2,
    ("deepspeed", "fp32"): 4,
    ("fsdp2", "bf16-mixed"): 4,
    ("fsdp2", "fp16-mixed"): 4,
    ("fsdp2", "bf16"): 2,
    ("fsdp2", "fp32"): 4,
}
"""Gradients; in Megatron they are fp32 with bf16, and fp16 with fp16.

Source: Megatron-LM documentation, distributed optimizer; Rajbhandari et al. 2020, arXiv 1910.02054; see
`published/zero_model_state_memory.json`.
"""

MAIN_GRADIENT_BYTES_PER_PARAMETER: dict[tuple[Framework, Precision], int] = {("megatron", "fp16-mixed"): 4}
"""The optimizer's own fp32 copy of the gradients, shared as it is: 20 bytes per parameter in all, or 4 + 16/d.

Source: as GRADIENT_BYTES_PER_PARAMETER.
"""


@dataclass(frozen=True, slots=True)
class StateRule:
    """Bytes that each part keeps of a parameter, and over how many ranks it is divided."""

    weights: float
    gradients: float
    optimizer: float
    sharding: Sharding

    @classmethod
    def of(cls, training: Training, sharding: Sharding) -> StateRule:
        """The rule of a framework and what it shards."""
        weights, optimizer = _weights_and_optimizer(training, sharding)
        kind = (training.framework, training.precision)
        return cls(
            weights=weights,
            gradients=GRADIENT_BYTES_PER_PARAMETER[kind],
            optimizer=optimizer + MAIN_GRADIENT_BYTES_PER_PARAMETER.get(kind, 0),
            sharding=sharding,
        )

    def rank_bytes(self, dense: Content, expert: Content) -> float:
        """Bytes of a rank that holds some dense tensors and some of routed experts."""
        shared = self.sharding
        return self._bytes(
            dense, weights=shared.weights.dense, gradients=shared.gradients.dense, optimizer=shared.optimizer.dense
        ) + self._bytes(
            expert, weights=shared.weights.expert, gradients=shared.gradients.expert, optimizer=shared.optimizer.expert
        )

    def _bytes(self, content: Content, *, weights: int, gradients: int, optimizer: int) -> float:
        """Of a content whose parts are divided over so many ranks."""
        return (
            content.trained_parameters * self.optimizer / optimizer
            + content.trained_parameters * self.gradients / gradients
            + content.parameters * self.weights / weights
        )


def _weights_and_optimizer(training: Training, sharding: Sharding) -> tuple[float, float]:
    """Bytes per parameter of a large matrix."""
    shape = (4096, 4096)
    resident = resident_parts(training, copies_fp32_weights=sharding.copies_fp32_weights)
    parts = {part.name: part.tensor_bytes(shape, is_hidden_matrix=True) / (4096 * 4096) for part in resident}
    return parts["weights"], sum(parts.values()) - parts["weights"]
