"""GPU memory for the training state: memory figures, never checkpoint sizes."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

from sizing.cluster import ResolvedNode
from sizing.state import Training, resident_parts
from sizing.state.training import Precision

GRADIENT_BYTES_PER_PARAMETER: dict[Precision, int] = {"bf16-mixed": 4, "fp16-mixed": 6, "fp32": 4}
"""Gradients, fp16 ones with their fp32 main copy.

Source: Megatron-LM documentation, distributed optimizer: 18, 20 and 16 bytes per parameter in all; see
`published/zero_model_state_memory.json`.
"""


class GpuMemory(BaseModel):
    """The `training` block of the report: state on the GPU that holds most. Activations come on top."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gpu_state_bytes: int = Field(description="weights, gradients and optimizer state")
    gpu_memory_bytes: int | None
    state_fits: bool | None


def gpu_memory(training: Training, *, max_rank_parameters: int, node: ResolvedNode) -> GpuMemory:
    """The training state of the most loaded rank beside the memory of its GPU.

    Bytes = parameters on the rank x (weights + gradients + master + moments), without a distributed
    optimizer. Source: as `GRADIENT_BYTES_PER_PARAMETER`; `published/state_memory_per_gpu.json` agrees.
    """
    kept = sum(part.bytes_per_parameter for part in resident_parts(training))
    state_bytes = max_rank_parameters * (kept + GRADIENT_BYTES_PER_PARAMETER[training.precision])
    capacity = node.spec.gpu_memory_bytes
    return GpuMemory(
        gpu_state_bytes=state_bytes,
        gpu_memory_bytes=capacity,
        state_fits=None if capacity is None else state_bytes <= capacity,
    )


def memory_warnings(memory: GpuMemory) -> Iterator[str]:
    """What a reader must know before believing that the layout runs."""
    if memory.state_fits is False:
        yield (
            f"the training state needs {memory.gpu_state_bytes / 1e9:.1f} GB on the fullest GPU, which has "
            f"{(memory.gpu_memory_bytes or 0) / 1e9:.0f} GB: this layout cannot run; "
            "raise parallelism.tensor or parallelism.pipeline"
        )
