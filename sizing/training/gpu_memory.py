"""GPU memory for the training state: memory figures, never checkpoint sizes."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

from sizing.cluster import ResolvedNode
from sizing.layout import LaidOut, Parallelism
from sizing.layout.formats import FORMATS
from sizing.layout.shards import Content
from sizing.state import Training, resident_parts
from sizing.state.training import Framework, Precision
from sizing.units import decimal_bytes_text

GRADIENT_BYTES_PER_PARAMETER: dict[tuple[Framework, Precision], int] = {
    ("megatron", "bf16-mixed"): 4,
    ("megatron", "fp16-mixed"): 6,
    ("megatron", "fp32"): 4,
    ("deepspeed", "bf16-mixed"): 2,
    ("deepspeed", "fp16-mixed"): 2,
    ("deepspeed", "fp32"): 4,
    ("fsdp2", "bf16-mixed"): 4,
    ("fsdp2", "fp16-mixed"): 4,
    ("fsdp2", "bf16"): 2,
    ("fsdp2", "fp32"): 4,
}
"""Gradients; in Megatron they are fp32 with bf16, and fp16 with an fp32 main copy with fp16.

Source: Megatron-LM documentation, distributed optimizer: 18, 20 and 16 bytes per parameter in all; Rajbhandari et
al. 2020, arXiv 1910.02054; see `published/zero_model_state_memory.json`.
"""


class GpuMemory(BaseModel):
    """The `training` block of the report: state on the GPU that holds most. Activations come on top."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gpu_state_bytes: int = Field(description="weights, gradients and optimizer state")
    gpu_memory_bytes: int | None
    state_fits: bool | None


def gpu_memory(training: Training, laid_out: LaidOut, *, parallelism: Parallelism, node: ResolvedNode) -> GpuMemory:
    """The training state of the most loaded rank beside the memory of its GPU.

    Bytes = parameters on the rank x (weights + gradients + optimizer), of which a distributed optimizer or ZeRO 1
    divides the optimizer over the ranks that hold the same parameters, ZeRO 2 also the gradients, ZeRO 3 and
    FSDP everything.
    Source: as GRADIENT_BYTES_PER_PARAMETER; `published/state_memory_per_gpu.json` agrees.
    """
    state_bytes = sum(
        _state_bytes(training, laid_out, content, num_sharing=num_sharing)
        for content, num_sharing in (
            (laid_out.max_dense, _sharing(laid_out, parallelism, parallelism.num_replicas)),
            (
                laid_out.max_expert,
                _sharing(laid_out, parallelism, parallelism.num_expert_replicas),
            ),
        )
    )
    capacity = node.spec.gpu_memory_bytes
    return GpuMemory(
        gpu_state_bytes=round(state_bytes),
        gpu_memory_bytes=capacity,
        state_fits=None if capacity is None else state_bytes <= capacity,
    )


def _sharing(laid_out: LaidOut, parallelism: Parallelism, num_replicas: int) -> int:
    """Ranks over which the sharded parts are divided."""
    if laid_out.size.format == "fsdp-sharded":
        return parallelism.shard_ranks
    return num_replicas if FORMATS[laid_out.size.format].shards_optimizer else 1


def _state_bytes(training: Training, laid_out: LaidOut, content: Content, *, num_sharing: int) -> float:
    weights, optimizer = _weights_and_optimizer(training)
    gradients = GRADIENT_BYTES_PER_PARAMETER[training.framework, training.precision]
    stage = {"megatron": 1, "fsdp2": 3}.get(training.framework, laid_out.zero_stage)
    parts = (
        (content.trained_parameters * optimizer, stage >= 1),
        (content.trained_parameters * gradients, stage >= 2),
        (content.parameters * weights, stage >= 3),
    )
    return sum(num_bytes / num_sharing if is_shared else num_bytes for num_bytes, is_shared in parts)


def _weights_and_optimizer(training: Training) -> tuple[float, float]:
    """Bytes per parameter of a large matrix."""
    shape = (4096, 4096)
    parts = {p.name: p.tensor_bytes(shape, is_hidden_matrix=True) / (4096 * 4096) for p in resident_parts(training)}
    return parts["weights"], sum(parts.values()) - parts["weights"]


def memory_warnings(memory: GpuMemory) -> Iterator[str]:
    """What a reader must know before believing that the layout runs."""
    if memory.state_fits is False:
        yield (
            f"the training state needs {decimal_bytes_text(memory.gpu_state_bytes)} on the fullest GPU, which has "
            f"{decimal_bytes_text(memory.gpu_memory_bytes or 0)}: this layout cannot run; "
            "raise parallelism.tensor or parallelism.pipeline"
        )
