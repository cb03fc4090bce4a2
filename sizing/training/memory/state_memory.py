"""GPU memory for the training state: weights, gradients and optimizer. Memory figures, never checkpoint sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sizing.layout.sharding import Sharding
from sizing.layout.shards import Content
from sizing.state import Training, resident_parts
from sizing.state.training import Framework, Precision
from sizing.training.execution import value_bytes
from sizing.training.placement import OnGpu

GRADIENT_BYTES_PER_PARAMETER: dict[tuple[Framework, Precision], int] = {
    ("megatron", "bf16-mixed"): 4,
    ("megatron", "fp16-mixed"): 2,
    ("megatron", "fp8-mixed"): 4,
    ("megatron", "mxfp8-mixed"): 4,
    ("megatron", "nvfp4-mixed"): 4,
    ("megatron", "fp32"): 4,
    ("deepspeed", "bf16-mixed"): 2,
    ("deepspeed", "fp16-mixed"): 2,
    ("deepspeed", "fp32"): 4,
    ("fsdp2", "bf16-mixed"): 4,
    ("fsdp2", "fp16-mixed"): 4,
    ("fsdp2", "fp8-mixed"): 4,
    ("fsdp2", "mxfp8-mixed"): 4,
    ("fsdp2", "nvfp4-mixed"): 4,
    ("fsdp2", "bf16"): 2,
    ("fsdp2", "fp32"): 4,
    ("torchtitan", "bf16-mixed"): 4,
    ("torchtitan", "fp8-mixed"): 4,
    ("torchtitan", "mxfp8-mixed"): 4,
    ("torchtitan", "nvfp4-mixed"): 4,
    ("torchtitan", "bf16"): 2,
    ("torchtitan", "fp32"): 4,
    ("maxtext", "bf16-mixed"): 4,
    ("maxtext", "bf16"): 2,
    ("maxtext", "fp32"): 4,
}
"""Gradients; in Megatron they are fp32 with bf16, fp8 and block formats, and fp16 with fp16.

Source: Megatron-LM documentation, distributed optimizer; Rajbhandari et al. 2020, arXiv 1910.02054; see
`published/zero_model_state_memory.json`; in MaxText gradients have the dtype of the weights (jax.grad).
"""

MAIN_GRADIENT_BYTES_PER_PARAMETER: dict[tuple[Framework, Precision], int] = {("megatron", "fp16-mixed"): 4}
"""The optimizer's own fp32 copy of the gradients, shared as it is: 20 bytes per parameter in all, or 4 + 16/d.

Source: as GRADIENT_BYTES_PER_PARAMETER.
"""


@dataclass(frozen=True, slots=True)
class StateRule:
    """Bytes that each part keeps of a parameter, and over how many ranks it is divided.

    `gathered`: bytes per parameter of the weights that a stage keeps whole beside their shard.
    """

    weights: float
    gradients: float
    optimizer: float
    sharding: Sharding
    gathered: float = 0.0

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
            gathered=value_bytes(training) if sharding.gathers == "stages" else 0.0,
        )

    def kept(self, share: OnGpu) -> StateRule:
        """The rule of what stays on the GPU where some of it is offloaded; what a stage gathers stays."""
        return replace(
            self,
            weights=self.weights * share.weights,
            gradients=self.gradients * share.gradients,
            optimizer=self.optimizer * share.optimizer,
        )

    def rank_bytes(self, dense: Content, expert: Content) -> float:
        """Bytes of a rank that holds some dense tensors and some of routed experts."""
        shared = self.sharding
        return self._bytes(
            dense, weights=shared.weights.dense, gradients=shared.gradients.dense, optimizer=shared.optimizer.dense
        ) + self._bytes(
            expert, weights=shared.weights.expert, gradients=shared.gradients.expert, optimizer=shared.optimizer.expert
        )

    def version_bytes(self, dense: Content, expert: Content) -> float:
        """Bytes of one more version of the trained weights on such a rank, divided as the weights are."""
        divided = dense.trained_parameters / self.sharding.weights.dense
        return self.weights * (divided + expert.trained_parameters / self.sharding.weights.expert)

    def _bytes(self, content: Content, *, weights: int, gradients: int, optimizer: int) -> float:
        """Of a content whose parts are divided over so many ranks."""
        return (
            content.trained_parameters * self.optimizer / optimizer
            + content.trained_parameters * self.gradients / gradients
            + content.parameters * (self.weights / weights + self.gathered)
        )


def _weights_and_optimizer(training: Training, sharding: Sharding) -> tuple[float, float]:
    """Bytes per parameter of a large matrix."""
    shape = (4096, 4096)
    resident = resident_parts(training, copies_fp32_weights=sharding.copies_fp32_weights)
    parts = {part.name: part.tensor_bytes(shape, is_hidden_matrix=True) / (4096 * 4096) for part in resident}
    return parts["weights"], sum(parts.values()) - parts["weights"]
