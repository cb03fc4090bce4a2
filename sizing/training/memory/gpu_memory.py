"""Whether it runs: state and activations on the fullest GPU, compared with its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from sizing.cluster import ResolvedNode
from sizing.layout import Parallelism
from sizing.layout.cells import Cell
from sizing.layout.gradient_errors import GradientErrors
from sizing.layout.sharding import Sharding
from sizing.layout.stages import StageSpan
from sizing.model import ResolvedModel
from sizing.state import Training
from sizing.state.training import Recomputation
from sizing.training.execution import Execution, execution_of
from sizing.training.memory.activations import activations_of
from sizing.training.memory.host_bytes import host_traffic
from sizing.training.memory.hosted import Hosted, hosted
from sizing.training.memory.in_flight import in_flight_of
from sizing.training.memory.moments import Moments
from sizing.training.memory.stage_activations import StageActivations
from sizing.training.memory.state_memory import GRADIENT_BYTES_PER_PARAMETER, StateRule
from sizing.training.placement import on_gpu
from sizing.training.time.host_traffic import HostTraffic
from sizing.training.time.step import StepTime
from sizing.training.time.step_time import StateBytes, step_time
from sizing.training.time.work import ModelWork, model_work

MAX_FRAGMENTED_FRACTION = 0.33
"""Of what PyTorch's caching allocator reserves, and no tensor uses: up to 33 %, 15 % on average over eight models.

Source: Guo et al. 2024, GMLake, arXiv 2401.08156, abstract: what it saves of the memory that PyTorch reserves.
"""


class GpuMemory(BaseModel):
    """The `training` block of the report: what the fullest GPU holds. Without a batch, its state alone is known."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gpu_state_bytes: int = Field(
        description="Bytes of weights in all versions that the schedule keeps, gradients, their errors where they are "
        "compressed, and optimizer state on the "
        "GPU that holds the max."
    )
    gpu_memory_bytes: int | None = Field(description="Memory of one GPU, in bytes. Null when the node does not say.")
    state_fits: bool | None = Field(
        description="Whether the state alone fits that memory. Null when the memory is unknown."
    )
    activation_bytes: int | None = Field(
        None,
        description="Bytes of activations that wait for the backward pass on the fullest GPU. "
        "Null when activations are not counted: no micro_batch_size, or a mere parameter count.",
    )
    working_bytes: int | None = Field(
        None,
        description="Bytes held beside them at the fullest moment: the loss or what a layer computes again, gathered "
        "weights, gradients on their way, buffers. Null when activations are not counted.",
    )
    total_bytes: int | None = Field(
        None,
        description="Bytes of state, activations and working memory on the fullest GPU, as tensors are allocated. "
        "Null when activations are not counted.",
    )
    reserved_bytes: tuple[int, int] | None = Field(
        None,
        description="Range of bytes that PyTorch's allocator reserves for them: from no fragments up to a third of it. "
        "Null when activations are not counted.",
    )
    fits: bool | None = Field(
        None,
        description="Whether state, activations and working memory together fit the GPU. "
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
        description="Fraction of a step for which a pipeline stage idles, with the times of passes that the schedule's "
        "paper takes. Null without global_batch_size.",
    )
    recomputation: Recomputation | None = Field(
        None,
        description="What the backward pass computes again, as counted here. Null when activations are not counted.",
    )
    step: StepTime | None = Field(
        None,
        description="How long a step takes. Null without global_batch_size, or where the node does not name its GPU.",
    )

    cannot_run: str | None = Field(
        None,
        description="Why the layout cannot run: what it needs of a GPU's memory. "
        "Null when it fits, or the memory is unknown.",
    )
    remedy: str | None = Field(
        None, description="The nearest layout that fits, or what else to change. Null when the layout fits."
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
    work: ModelWork | None = None,
) -> GpuMemory:
    """State and, with a batch, activations and working memory of the fullest GPU, compared with its memory.

    Total = state + buffers + max over three moments: kept + logits of the loss; kept + backward pass of a layer; what
    is reduced after the last of them.
    State bytes = parameters on the rank x (weights + gradients + optimizer), each divided over as many ranks as its
    sharding says: by a distributed optimizer or ZeRO 1 the optimizer, by ZeRO 2 also the
    gradients, by ZeRO 3 and FSDP everything.
    Source: as state_memory.GRADIENT_BYTES_PER_PARAMETER; `published/state_memory_per_gpu.json` agrees.
    Raises InvalidInput where batch and degrees do not go together, or the framework offloads no such part.
    """
    rule = StateRule.of(training, sharding).kept(on_gpu(training, parallelism))
    errors = GradientErrors.of(training, parallelism)
    execution, capacity = execution_of(training, parallelism), node.spec.gpu_memory_bytes
    asked = _Asked(training, parallelism, cells, sharding, rule, errors, execution)
    state_bytes = max(each.state_bytes for each in asked.hosted(lambda _: Moments.none()))
    state = GpuMemory(
        gpu_state_bytes=round(state_bytes),
        gpu_memory_bytes=capacity,
        state_fits=None if capacity is None else state_bytes <= capacity,
    )
    if execution is None:
        return state
    of_step = {"num_microbatches": execution.num_microbatches, "bubble_fraction": execution.bubble_fraction}
    activations = activations_of(model, training, parallelism)
    if activations is None:
        return state.model_copy(update=of_step)
    kept = StageActivations(activations, parallelism=parallelism, execution=execution)
    of_memory = _of_fullest(asked.fullest(model, kept), execution, capacity=capacity)
    traffic = asked.traffic(kept, execution)
    step = asked.step(work or model_work(model), node, execution=execution, state_bytes=state_bytes, traffic=traffic)
    return state.model_copy(update=of_step | of_memory | {"step": step})


def _of_fullest(fullest: Hosted, execution: Execution, *, capacity: float | None) -> dict[str, Any]:
    """The fields of what the fullest GPU holds."""
    stage, needed, waiting = fullest.cell.span.stages.start, fullest.total_bytes, fullest.moments.activation_bytes
    return {
        "recomputation": execution.recomputation,
        "activation_bytes": round(waiting),
        "working_bytes": round(needed) - round(fullest.state_bytes) - round(waiting),
        "total_bytes": round(needed),
        "reserved_bytes": (round(needed), round(needed / (1 - MAX_FRAGMENTED_FRACTION))),
        "fits": None if capacity is None else needed <= capacity,
        "fullest_stage": stage,
        "in_flight_microbatches": execution.in_flight_microbatches(stage),
    }


@dataclass(frozen=True, slots=True)
class _Asked:
    """A layout, whose GPUs are asked for what they hold; `execution` where a batch is given."""

    training: Training
    parallelism: Parallelism
    cells: Sequence[Cell]
    sharding: Sharding
    rule: StateRule
    errors: GradientErrors | None
    execution: Execution | None

    def hosted(self, moments: Callable[[StageSpan], Moments]) -> Iterable[Hosted]:
        """What its GPUs hold of the state, with what they hold of a step."""
        return hosted(self.cells, self.rule, self.execution, moments, self.errors)

    def fullest(self, model: ResolvedModel, kept: StageActivations) -> Hosted:
        """The GPU that holds the max of state, activations and what is in flight beside them."""
        offload = self.training.offload
        staying = 1.0 - (offload.activations_fraction or 0.0) if offload else 1.0

        def moments(span: StageSpan) -> Moments:
            beside = in_flight_of(span, model.inventory, self.training, self.parallelism, self.sharding)
            return Moments(kept.of_stage(span).staying(staying), beside)

        return max(self.hosted(moments), key=lambda each: each.total_bytes)

    def traffic(self, kept: StageActivations, execution: Execution) -> HostTraffic | None:
        """What passes the fullest GPU's link in a step, where something is offloaded."""
        offload = self.training.offload
        if offload is None or execution.num_microbatches is None:
            return None
        spans = {cell.span.stages.start: cell.span for cell in self.cells}
        waiting = max(kept.of_stage(span).kept / execution.held_of_stage(stage) for stage, span in spans.items())
        return host_traffic(
            self.training,
            self.parallelism,
            cells=self.cells,
            rule=StateRule.of(self.training, self.sharding),
            num_microbatches=execution.num_microbatches,
            computes_again=execution.recomputation == "full",
            activations=(offload.activations_fraction or 0.0) * waiting * execution.num_microbatches,
        )

    def step(
        self,
        work: ModelWork | None,
        node: ResolvedNode,
        *,
        execution: Execution,
        state_bytes: float,
        traffic: HostTraffic | None,
    ) -> StepTime | None:
        """How long a step takes, where the model's work is known."""
        if not work:
            return None
        return step_time(
            work,
            self.training,
            self.parallelism,
            execution=execution,
            cells=self.cells,
            sharding=self.sharding,
            node=node,
            state=StateBytes(
                state_bytes, GRADIENT_BYTES_PER_PARAMETER[self.training.framework, self.training.precision], traffic
            ),
        )
