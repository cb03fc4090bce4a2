"""Whether it runs: state and activations on the fullest GPU, compared with its memory."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from sizing.cluster import ResolvedNode
from sizing.layout import Parallelism
from sizing.layout.cells import Cell
from sizing.layout.sharding import Sharding
from sizing.model import ResolvedModel
from sizing.state import Training
from sizing.state.training import Recomputation
from sizing.training.activations import StageActivations, activations_of
from sizing.training.execution import execution_of
from sizing.training.state_memory import StateRule


class GpuMemory(BaseModel):
    """The `training` block of the report: what the fullest GPU holds. Without a batch, its state alone is known."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gpu_state_bytes: int = Field(
        description="Bytes of weights, gradients and optimizer state on the GPU that holds the max."
    )
    gpu_memory_bytes: int | None = Field(description="Memory of one GPU, in bytes. Null when the node does not say.")
    state_fits: bool | None = Field(
        description="Whether the state alone fits that memory. Null when the memory is unknown."
    )
    activation_bytes: int | None = Field(
        None,
        description="Bytes of activations on the fullest GPU. "
        "Null when activations are not counted: no micro_batch_size, or a mere parameter count.",
    )
    total_bytes: int | None = Field(
        None, description="Bytes of state and activations on the fullest GPU. Null when activations are not counted."
    )
    fits: bool | None = Field(
        None,
        description="Whether state and activations together fit the GPU. "
        "Null when activations are not counted or the memory is unknown.",
    )
    fullest_stage: int | None = Field(
        None, description="Pipeline stage of the fullest GPU, from 0. Null when activations are not counted."
    )
    in_flight_microbatches: float | None = Field(
        None,
        description="Microbatches whose activations the fullest GPU holds at once. "
        "Null when activations are not counted.",
    )
    num_microbatches: int | None = Field(
        None, description="Microbatches of one replica in one step. Null without global_batch_size."
    )
    bubble_fraction: float | None = Field(
        None,
        description="Fraction of a step for which a pipeline stage idles (Narayanan et al. 2021). "
        "Null without global_batch_size.",
    )
    recomputation: Recomputation | None = Field(
        None,
        description="What the backward pass computes again, as counted here. Null when activations are not counted.",
    )

    @property
    def needed_bytes(self) -> int:
        """All that is known to be needed on the fullest GPU.

        Source: definition.

        >>> GpuMemory(gpu_state_bytes=7, gpu_memory_bytes=None, state_fits=None).needed_bytes
        7
        """
        return self.gpu_state_bytes if self.total_bytes is None else self.total_bytes

    @property
    def runs(self) -> bool | None:
        """Whether what is known to be needed fits; None where the GPU's memory is not known."""
        return self.state_fits if self.fits is None else self.fits


def gpu_memory(
    training: Training,
    parallelism: Parallelism,
    *,
    cells: Sequence[Cell],
    sharding: Sharding,
    model: ResolvedModel,
    node: ResolvedNode,
) -> GpuMemory:
    """State and, with a batch, activations of the fullest GPU, compared with its memory.

    State bytes = parameters on the rank x (weights + gradients + optimizer), each divided over
    as many ranks as its sharding says: by a distributed optimizer or ZeRO 1 the optimizer, by ZeRO 2 also the
    gradients, by ZeRO 3 and FSDP everything.
    Source: as state_memory.GRADIENT_BYTES_PER_PARAMETER; `published/state_memory_per_gpu.json` agrees.
    Raises InvalidInput where batch and degrees do not go together.
    """
    rule = StateRule.of(training, sharding)
    state_bytes = max(rule.rank_bytes(cell.dense, cell.expert) for cell in cells)
    capacity = node.spec.gpu_memory_bytes
    state = GpuMemory(
        gpu_state_bytes=round(state_bytes),
        gpu_memory_bytes=capacity,
        state_fits=None if capacity is None else state_bytes <= capacity,
    )
    execution = execution_of(training, parallelism)
    if execution is None:
        return state
    step = {"num_microbatches": execution.num_microbatches, "bubble_fraction": execution.bubble_fraction}
    activations = activations_of(model, training, parallelism)
    if activations is None:
        return state.model_copy(update=step)
    kept = StageActivations(activations, parallelism=parallelism, execution=execution)
    fullest, needed, kept_bytes = _fullest(cells, rule, kept)
    stage = fullest.span.stages.start
    return state.model_copy(
        update=step
        | {
            "recomputation": execution.recomputation,
            "activation_bytes": round(kept_bytes),
            "total_bytes": round(needed),
            "fits": None if capacity is None else needed <= capacity,
            "fullest_stage": stage,
            "in_flight_microbatches": execution.in_flight_microbatches(stage),
        }
    )


def _fullest(cells: Sequence[Cell], rule: StateRule, kept: StageActivations) -> tuple[Cell, float, float]:
    """The ranks that hold the max, the bytes of state and activations there, and those of activations alone."""
    activations = {cell.span.stages.start: kept.stage_bytes(cell.span) for cell in cells}
    held = [(cell, activations[cell.span.stages.start]) for cell in cells]
    return max(
        ((cell, rule.rank_bytes(cell.dense, cell.expert) + kept_bytes, kept_bytes) for cell, kept_bytes in held),
        key=lambda each: each[1],
    )
