"""Check of GPU memory: state, activations and tensors in flight on the fullest GPU, compared with its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import Field

from sizing.cluster import ResolvedNode
from sizing.frameworks import FRAMEWORKS
from sizing.layout import Parallelism
from sizing.layout.gradient_errors import GradientErrors
from sizing.layout.holders import HolderClass, holder_classes
from sizing.layout.sharding import Sharding, resident_holders
from sizing.layout.stages import StageSpan, stage_spans
from sizing.layout.trained_model import trained_inventory
from sizing.model import ResolvedModel
from sizing.state import Training
from sizing.state.training import Recomputation
from sizing.strict_model import StrictModel
from sizing.training.activations import HeldBytes, StageActivations, activations_of
from sizing.training.execution import Execution, execution_of
from sizing.training.in_flight import InFlight, gathered_of, in_flight_of
from sizing.training.layer_work import ModelWork, model_work
from sizing.training.state_memory import StateRule, host_traffic, on_gpu
from sizing.training.step_time import StateBytes, StepTime, step_time


@dataclass(frozen=True, slots=True)
class Peaks:
    """Bytes that a rank holds beside its state: activations of a stage, and tensors in flight.

    The max is at one of three times: at the loss, in the backward pass of a layer, or after the last layer.
    """

    held: HeldBytes
    beside: InFlight

    def __add__(self, other: Peaks) -> Peaks:
        """Add two stages on one GPU: kept activations add up, but only one stage at a time is at its peak."""
        held = HeldBytes(
            kept=self.held.kept + other.held.kept,
            kept_logits=self.held.kept_logits + other.held.kept_logits,
            loss=max(self.held.loss, other.held.loss),
            layer=max(self.held.layer, other.held.layer),
        )
        beside = InFlight(
            loss=max(self.beside.loss, other.beside.loss),
            layer=max(self.beside.layer, other.beside.layer),
            end=max(self.beside.end, other.beside.end),
            buffers=self.beside.buffers + other.beside.buffers,
        )
        return Peaks(held, beside)

    @property
    def activation_bytes(self) -> float:
        """Bytes of activations that wait for the backward pass."""
        return self.held.kept + self.held.kept_logits

    @property
    def loss_bytes(self) -> float:
        """Bytes at the loss, with buffers that are always there."""
        held, beside = self.held, self.beside
        return held.kept + max(held.loss, held.kept_logits) + beside.loss + beside.buffers

    @property
    def layer_bytes(self) -> float:
        """Bytes in the backward pass of a layer, with buffers that are always there."""
        return self.held.kept + self.held.layer + self.beside.layer + self.beside.buffers

    @property
    def end_bytes(self) -> float:
        """Bytes after the last layer's backward pass, with buffers that are always there."""
        return self.beside.end + self.beside.buffers

    @property
    def max_bytes(self) -> float:
        """Bytes at the fullest time."""
        return max(self.loss_bytes, self.layer_bytes, self.end_bytes)


@dataclass(frozen=True, slots=True)
class RankMemory:
    """Bytes that each rank of a holder class holds, on the first stage of its span."""

    holder: HolderClass
    state_bytes: float
    peaks: Peaks

    @property
    def total_bytes(self) -> float:
        """Bytes of the state plus the max of everything else."""
        return self.state_bytes + self.peaks.max_bytes


def memory_by_rank(
    holders: Sequence[HolderClass],
    rule: StateRule,
    execution: Execution | None,
    peaks: Callable[[StageSpan], Peaks],
    errors: GradientErrors | None = None,
) -> Iterator[RankMemory]:
    """Yield the memory of each rank class; `peaks` returns the peaks of the first stage of a span.

    State bytes: state + (versions - 1) x bytes of the trained weights + `errors` of compressed gradients. With a
    schedule that runs both ways, the sum over stages i and p - 1 - i.
    Source: PipelineSchedule.weight_versions and is_two_way.
    """
    if execution is not None and execution.rules.is_two_way:
        yield from _memory_of_pairs(holders, rule, execution, peaks, errors)
        return
    spans = {holder.span.stages.start: holder.span for holder in holders}
    of_first = {stage: peaks(span) for stage, span in spans.items()}
    for holder in holders:
        yield RankMemory(holder, _state_bytes(holder, rule, execution, errors), of_first[holder.span.stages.start])


def _state_bytes(
    holder: HolderClass, rule: StateRule, execution: Execution | None, errors: GradientErrors | None
) -> float:
    state = rule.rank_bytes(holder.dense, holder.expert) + (errors.kept_bytes(holder) if errors else 0)
    if execution is None:
        return state
    versions = execution.rules.weight_versions(execution.pipeline, holder.span.stages.start)
    return state + (versions - 1) * rule.version_bytes(holder.dense, holder.expert)


def _memory_of_pairs(
    holders: Sequence[HolderClass],
    rule: StateRule,
    execution: Execution,
    peaks: Callable[[StageSpan], Peaks],
    errors: GradientErrors | None,
) -> Iterator[RankMemory]:
    """Yield the memory of each GPU that holds a stage of the first half and its counterpart in the second."""
    by_stage = {
        stage: [holder for holder in holders if stage in holder.span.stages] for stage in range(execution.num_stages)
    }
    for stage in range(execution.num_stages // 2):
        other = execution.num_stages - 1 - stage
        one, back = (peaks(replace(by_stage[each][0].span, stages=range(each, each + 1))) for each in (stage, other))
        for left in by_stage[stage]:
            for right in by_stage[other]:
                if set(left.tensor_ranks) & set(right.tensor_ranks):
                    state = sum(_state_bytes(holder, rule, execution, errors) for holder in (left, right))
                    span = replace(left.span, stages=range(stage, stage + 1))
                    yield RankMemory(replace(left, span=span), state, one + back)


MAX_FRAGMENTED_FRACTION = 0.33
"""Share of PyTorch's reserved memory that no tensor uses: up to 33 %, 15 % on average over eight models.

Source: Guo et al. 2024, GMLake, arXiv 2401.08156, abstract: what it saves of the memory that PyTorch reserves.
"""


class GpuMemory(StrictModel):
    """The `training` block of the report: what the fullest GPU holds. Without a batch, its state alone is known."""

    gpu_state_bytes: int = Field(
        description="Bytes of weights in all versions that the schedule keeps, gradients, their errors where they are "
        "compressed, and optimizer state on the "
        "GPU that holds the max."
    )
    gpu_memory_bytes: int | None = Field(description="Memory of one GPU, in bytes. Null when the node does not say.")
    state_fits: bool | None = Field(
        description="Whether the state alone fits that memory. Null when the memory is unknown."
    )
    gathered_bytes: int | None = Field(
        None,
        description="Bytes of weights and gradients that FSDP or ZeRO 3 gathers whole at one time, beside the state. "
        "Null where nothing is gathered, or where working_bytes counts them.",
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
        description="Fraction of a step for which a pipeline stage idles where backward passes take twice as long as "
        "forward ones. Null without global_batch_size.",
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
        """Bytes of all that is known to be needed on the fullest GPU.

        Source: definition.

        >>> GpuMemory(gpu_state_bytes=7, gpu_memory_bytes=None, state_fits=None).needed_bytes
        7
        """
        return self.gpu_state_bytes if self.total_bytes is None else self.total_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes that the fullest GPU is known to hold at one time: those needed, and what is gathered beside the state.

        Source: definition.

        >>> GpuMemory(gpu_state_bytes=7, gathered_bytes=2, gpu_memory_bytes=None, state_fits=None).held_bytes
        9
        """
        return self.needed_bytes + (self.gathered_bytes or 0)

    @property
    def runs(self) -> bool | None:
        """Whether the bytes known to be needed fit; None where the GPU's memory is unknown."""
        return self.state_fits if self.fits is None else self.fits


def holders_in_training(
    model: ResolvedModel, training: Training, parallelism: Parallelism, sharding: Sharding
) -> tuple[HolderClass, ...]:
    """Return the classes of ranks that hold alike, with what training keeps of their tensors."""
    inventory = trained_inventory(model.inventory, training)
    is_folded = training.folds_pipeline
    spans = stage_spans(inventory, parallelism, num_layers=model.num_layers, is_folded=is_folded)
    return resident_holders(holder_classes(spans, parallelism, ()), training, parallelism, sharding)


def gpu_memory(
    training: Training,
    parallelism: Parallelism,
    *,
    holders: Sequence[HolderClass],
    sharding: Sharding,
    model: ResolvedModel,
    node: ResolvedNode,
    work: ModelWork | None = None,
) -> GpuMemory:
    """Return what the fullest GPU holds, compared with its memory: state and, with a batch, also activations.

    Total = state + buffers + max over three times: kept + logits of the loss; kept + backward pass of a layer; what
    is reduced after the last of them.
    State bytes = parameters on the rank x (weights + gradients + optimizer), each divided over as many ranks as its
    sharding says: by a distributed optimizer or ZeRO 1 the optimizer, by ZeRO 2 also the
    gradients, by ZeRO 3 and FSDP everything.
    Source: `keeps` of the framework; `published/state_memory_per_gpu.json` agrees.
    Raises InvalidInput where batch and degrees do not go together, or the framework offloads no such part.
    """
    whole = StateRule.of(training, sharding)
    rule = whole.kept(on_gpu(training, parallelism))
    errors = GradientErrors.of(training, parallelism)
    execution, capacity = execution_of(training, parallelism), node.spec.gpu_memory_bytes
    nothing = Peaks(HeldBytes(), InFlight())
    state_bytes = max(each.state_bytes for each in memory_by_rank(holders, rule, execution, lambda _: nothing, errors))
    state = GpuMemory(
        gpu_state_bytes=round(state_bytes),
        gpu_memory_bytes=capacity,
        state_fits=None if capacity is None else state_bytes <= capacity,
    )
    activations = None if execution is None else activations_of(model, training, parallelism)
    if activations is None:
        gathered = gathered_of(model.inventory, training, parallelism, sharding)
        state = state.model_copy(update={"gathered_bytes": gathered.num_bytes if gathered else None})
    if execution is None:
        return state
    of_step = {"num_microbatches": execution.num_microbatches, "bubble_fraction": execution.bubble_fraction}
    if activations is None:
        return state.model_copy(update=of_step)
    kept = StageActivations(activations, parallelism=parallelism, execution=execution)
    offloaded_fraction = (training.offload.activations_fraction or 0.0) if training.offload else 0.0

    def peaks(span: StageSpan) -> Peaks:
        in_flight = in_flight_of(span, model.inventory, training, parallelism, sharding)
        return Peaks(kept.of_stage(span).staying(1.0 - offloaded_fraction), in_flight)

    ranks = memory_by_rank(holders, rule, execution, peaks, errors)
    fullest = _describe_fullest(max(ranks, key=lambda each: each.total_bytes), execution, capacity=capacity)
    work, step = work or model_work(model, training), None
    if training.reinforcement is not None and training.reinforcement.critic_parameters is not None:
        policy = training.model_copy(update={"reinforcement": None})  # its critic takes a step of its own
        alone = holders_in_training(model, policy, parallelism, sharding)
        step = gpu_memory(policy, parallelism, holders=alone, sharding=sharding, model=model, node=node, work=work).step
    elif work:
        spans = {holder.span.stages.start: holder.span for holder in holders}
        waiting = 0.0
        if offloaded_fraction:
            waiting = max(kept.of_stage(span).kept / execution.held_of_stage(stage) for stage, span in spans.items())
        traffic = host_traffic(
            training,
            parallelism,
            holders=holders,
            rule=whole,
            num_microbatches=execution.num_microbatches or 1,
            activations=offloaded_fraction * waiting * (execution.num_microbatches or 0),
        )
        gradient_bytes = FRAMEWORKS[training.framework].keeps[training.precision].gradient_bytes
        step = step_time(
            work,
            training,
            parallelism,
            execution=execution,
            holders=holders,
            sharding=sharding,
            node=node,
            state=StateBytes(state_bytes, gradient_bytes, traffic),
        )
    return state.model_copy(update=of_step | fullest | {"step": step})


def _describe_fullest(fullest: RankMemory, execution: Execution, *, capacity: float | None) -> dict[str, Any]:
    """Return the report's fields about the fullest GPU."""
    stage, needed, waiting = fullest.holder.span.stages.start, fullest.total_bytes, fullest.peaks.activation_bytes
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
