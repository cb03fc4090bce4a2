"""GPU memory for the training state: weights, gradients and optimizer. Memory figures, never checkpoint sizes."""

from __future__ import annotations

from dataclasses import dataclass

from sizing.layout import Parallelism
from sizing.layout.formats import FORMATS, FormatName, zero_stage_of
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
    """What a GPU keeps of each parameter, and over how many ranks each part is divided."""

    weights: float
    gradients: float
    optimizer: float
    zero_stage: int
    num_sharing: int
    num_sharing_experts: int

    @classmethod
    def of(cls, training: Training, parallelism: Parallelism, name: FormatName) -> StateRule:
        """The rule of a framework and its format."""
        weights, optimizer = _weights_and_optimizer(training)
        kind = (training.framework, training.precision)
        fsdp, shards = parallelism.shard_ranks, FORMATS[name].shards_optimizer
        is_fsdp = name == "fsdp-sharded"
        return cls(
            weights=weights,
            gradients=GRADIENT_BYTES_PER_PARAMETER[kind],
            optimizer=optimizer + MAIN_GRADIENT_BYTES_PER_PARAMETER.get(kind, 0),
            zero_stage={"megatron": 1, "fsdp2": 3}.get(training.framework, zero_stage_of(name, parallelism)),
            num_sharing=fsdp if is_fsdp else parallelism.num_replicas if shards else 1,
            num_sharing_experts=fsdp if is_fsdp else parallelism.num_expert_replicas if shards else 1,
        )

    def rank_bytes(self, dense: Content, expert: Content) -> float:
        """Bytes of a rank that holds some dense tensors and some of routed experts."""
        return self._bytes(dense, self.num_sharing) + self._bytes(expert, self.num_sharing_experts)

    def _bytes(self, content: Content, num_sharing: int) -> float:
        parts = (
            (content.trained_parameters * self.optimizer, self.zero_stage >= 1),
            (content.trained_parameters * self.gradients, self.zero_stage >= 2),
            (content.parameters * self.weights, self.zero_stage >= 3),
        )
        return sum(num_bytes / num_sharing if is_shared else num_bytes for num_bytes, is_shared in parts)


def _weights_and_optimizer(training: Training) -> tuple[float, float]:
    """Bytes per parameter of a large matrix."""
    shape = (4096, 4096)
    parts = {p.name: p.tensor_bytes(shape, is_hidden_matrix=True) / (4096 * 4096) for p in resident_parts(training)}
    return parts["weights"], sum(parts.values()) - parts["weights"]
