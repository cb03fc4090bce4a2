"""Saves that hold less than everything: the `checkpoint.reduction` block of a Scenario, and what is left to save."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sizing.errors import InvalidInput, broken_rule
from sizing.layout import CheckpointLayout, Parallelism
from sizing.provenance import Assumption
from sizing.ranges import PlausibleChoice, plausible_choice
from sizing.run.read_plan import PartRead, ReadPlan
from sizing.run.workload import Chain, CheckpointWorkload
from sizing.spelling import AnySpelling
from sizing.state import StatePart
from sizing.state.optimizers import BYTES_PER_VALUE
from sizing.state.saved_state import is_plain
from sizing.storage.limits import Demand
from sizing.storage.terms import in_turn
from sizing.strict_model import InputModel
from sizing.units import BytesPerSecond, Fraction, OrText

PATH = "checkpoint.reduction"
Against = Literal["previous", "full"]

_Kept = OrText[Annotated[Fraction, Field(gt=0, le=1, allow_inf_nan=False)]]
_Every = Annotated[int, Field(ge=2, le=10_000)]


def compression_choice(name: str) -> PlausibleChoice:
    """The plausible values of a field of `compression`.

    >>> round(compression_choice("weights_fraction").midpoint, 4)
    0.72
    """
    return plausible_choice(f"{PATH}.compression.{name}")


_PACKING = compression_choice("compress_bytes_per_second")
_UNPACKING = compression_choice("decompress_bytes_per_second")


class Compression(InputModel):
    """Lossless compression of each rank's share before it is written.

    Measure the fractions on a checkpoint of your own: they depend on dtypes and on the stage of training.
    """

    weights_fraction: _Kept | None = Field(
        None,
        description="Fraction of the bytes of weights that is left, as measured. "
        "Default: 0.72 of 16-bit weights, 0.82 of fp32, 1 of others.",
    )
    master_fraction: _Kept | None = Field(
        None, description="Fraction of the bytes of the fp32 master copy that is left, as measured. Default: 0.82."
    )
    moments_fraction: _Kept | None = Field(
        None,
        description="Fraction of the bytes of the optimizer's moments that is left, as measured. "
        "Default: 0.82 of fp32, 0.72 of 16-bit moments, 1 of others.",
    )
    ema_fraction: _Kept | None = Field(
        None,
        description="Fraction of the bytes of a moving average of the weights that is left, as measured. "
        "Default: 0.82 of fp32, 0.72 of 16 bits, 1 of others.",
    )
    compress_bytes_per_second: BytesPerSecond = Field(
        _PACKING.midpoint,
        json_schema_extra={"source": _PACKING.reason},
        description="Rate at which one writing rank compresses, in bytes per second of uncompressed state. "
        "Default: 1.885 GB/s, midpoint of published rates on CPUs.",
    )
    decompress_bytes_per_second: BytesPerSecond = Field(
        _UNPACKING.midpoint,
        json_schema_extra={"source": _UNPACKING.reason},
        description="Rate at which one reading rank decompresses, in bytes per second of uncompressed state. "
        "Default: 2.495 GB/s, midpoint of published rates on CPUs.",
    )


class Delta(InputModel):
    """Saves of what has changed, between full ones."""

    full_every: _Every = Field(description="Of so many saves one is full, and the others are deltas.")
    fraction: _Kept = Field(
        description="Fraction of the bytes of a full, uncompressed save that a delta takes as stored, as measured."
    )
    against: AnySpelling[Against] = Field(
        "previous",
        description="What a delta is made from. With previous a restore reads the full save and every delta after it, "
        "with full the full save and one delta.",
    )
    bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Rate at which one rank makes or applies a delta, in bytes per second of uncompressed state. "
        "Default: it takes no time beside the writing.",
    )


class PartialExperts(InputModel):
    """Saves of some of the routed experts in turn; all else is in every save."""

    num_per_save: Annotated[int, Field(ge=1, le=100_000)] = Field(
        description="Routed experts of each layer that one save holds, the next ones in the next save."
    )
    full_every: _Every | None = Field(
        None, description="Of so many saves one holds all experts. Default: none does, all are partial."
    )


class Reduction(InputModel):
    """Less than everything: what is written to the main storage and behind it. Tiers in front keep whole states."""

    compression: Compression | None = Field(None, description="Compression of what is saved. Default: none.")
    delta: Delta | None = Field(
        None, description="Deltas between full saves. Default: none. It excludes partial_experts."
    )
    partial_experts: PartialExperts | None = Field(
        None, description="Some experts in each save. Default: all of them are saved. It excludes delta."
    )

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Self:
        if self.delta is not None and self.partial_experts is not None:
            raise broken_rule("has both delta and partial_experts", "remove one of them")
        if self.compression is None and self.delta is None and self.partial_experts is None:
            raise broken_rule(
                "must have compression, delta or partial_experts", "give one of them, or remove reduction"
            )
        return self


_RANGE_OF_WIDTH = {2: compression_choice("weights_fraction"), 4: compression_choice("master_fraction")}
"""Where the fraction of values of so many bytes has its range; narrower ones are taken to be as random as they look."""


@dataclass(frozen=True, slots=True)
class _Save:
    """One save: bytes of state that go into it, bytes that are stored, and seconds of packing on a mean rank.

    Where it holds some experts, its busiest rank has `rank_imbalance` times as much of the mean as in a save of
    everything, its fullest node `node_imbalance` times.
    """

    state_bytes: float
    stored_bytes: float
    packing_seconds: float
    rank_imbalance: float = 1.0
    node_imbalance: float = 1.0


@dataclass(frozen=True, slots=True)
class _Part:
    """A part in the files: bytes of dense tensors and of experts, and the fraction that compression leaves."""

    name: str
    dense_bytes: float
    expert_bytes: float
    fraction: float


@dataclass(frozen=True, slots=True)
class _Reduced:
    """The saves of a layout under one reduction: full ones, small ones, and their mean."""

    workload: CheckpointWorkload
    reduction: Reduction
    parts: tuple[_Part, ...]
    num_experts: int
    expert_degree: int
    num_expert_nodes: int

    @property
    def partial_fraction(self) -> float:
        """Share of the experts in a partial save."""
        partial = self.reduction.partial_experts
        return partial.num_per_save / self.num_experts if partial else 1.0

    def save(self, experts: float) -> _Save:
        """A save of all that is dense and a share of the experts, compressed."""
        state = sum(part.dense_bytes + experts * part.expert_bytes for part in self.parts)
        stored = sum(part.fraction * (part.dense_bytes + experts * part.expert_bytes) for part in self.parts)
        compression = self.reduction.compression
        rate = compression.compress_bytes_per_second if compression else None
        rank, node = (self._imbalance(units, experts, state) for units in (self.expert_degree, self.num_expert_nodes))
        return _Save(state, stored, self._rank_seconds(state, rate), rank, node)

    @property
    def small(self) -> _Save:
        """A save that is not full: a delta, or one of some experts."""
        delta = self.reduction.delta
        if delta is None:
            return self.save(self.partial_fraction)
        state = float(self.workload.written_bytes)
        return _Save(state, delta.fraction * state, self._rank_seconds(state, delta.bytes_per_second))

    @property
    def full_every(self) -> int | None:
        """How many saves there are to each full one: 1 where all are full, None where none is."""
        delta, partial = self.reduction.delta, self.reduction.partial_experts
        return delta.full_every if delta else partial.full_every if partial else 1

    @property
    def num_in_turn(self) -> int:
        """Partial saves that hold all experts together."""
        partial = self.reduction.partial_experts
        return -(-self.num_experts // partial.num_per_save) if partial else 1

    @property
    def num_together(self) -> int:
        """Saves, at most, that hold the whole state together: back to the full one, or a turn of the experts."""
        every = self.full_every
        if every is None:
            return self.num_in_turn
        return min(self.num_in_turn, every) if self.reduction.partial_experts else every

    @property
    def mean(self) -> _Save:
        """The mean save of a cycle, from one full save to the next."""
        every, small = self.full_every, self.small
        if every is None:
            return small
        full, stored = self.save(1.0), small.stored_bytes
        all_stored = full.stored_bytes + (every - 1) * stored
        return _Save(
            state_bytes=(full.state_bytes + (every - 1) * small.state_bytes) / every,
            stored_bytes=all_stored / every,
            packing_seconds=(full.packing_seconds + (every - 1) * small.packing_seconds) / every,
            rank_imbalance=(full.stored_bytes + (every - 1) * stored * small.rank_imbalance) / all_stored,
            node_imbalance=(full.stored_bytes + (every - 1) * stored * small.node_imbalance) / all_stored,
        )

    def _imbalance(self, num_units: int, experts: float, state_bytes: float) -> float:
        """The busiest of ranks, or nodes, over the mean: of K experts on n of them one writes ceil(K/n)."""
        partial = self.reduction.partial_experts
        if partial is None or experts == 1.0:
            return 1.0
        busiest = -(-partial.num_per_save // num_units) * num_units / partial.num_per_save
        return 1.0 + (busiest - 1.0) * experts * sum(part.expert_bytes for part in self.parts) / state_bytes

    def _rank_seconds(self, state_bytes: float, rate: float | None) -> float:
        return 0.0 if rate is None else state_bytes / float(self.workload.write.num_streams) / rate


def reduce_saves(
    workload: CheckpointWorkload,
    reduction: Reduction | None,
    *,
    checkpoint_layout: CheckpointLayout,
    num_experts: int | None,
    parallelism: Parallelism,
) -> CheckpointWorkload:
    """The workload of a layout whose saves hold less than everything: means over its saves.

    The ranks of an expert group are taken to follow each other on nodes, as in the default `rank_order`.
    Raises InvalidInput where the model has no experts to choose from.
    """
    if reduction is None:
        return workload
    partial = reduction.partial_experts
    if partial is not None:
        _check_experts(partial, num_experts)
    scale = workload.written_bytes / checkpoint_layout.size.total_bytes  # in the proportion of an observed size
    parts = tuple(
        _Part(
            part.name,
            checkpoint_layout.dense_bytes[part.name] * scale,
            checkpoint_layout.expert_bytes[part.name] * scale,
            fraction_of(part, reduction.compression),
        )
        for part in checkpoint_layout.parts
    )
    expert_ranks_per_node = max(1, checkpoint_layout.on_nodes.gpus_per_node // parallelism.expert_tensor_degree)
    num_expert_nodes = -(-parallelism.expert // expert_ranks_per_node)
    less = _Reduced(workload, reduction, parts, num_experts or 1, parallelism.expert, num_expert_nodes)
    mean_deltas = max_deltas = 0.0  # that a restore reads: every one since the full save, or the newest alone
    if reduction.delta is not None:
        num_between = reduction.delta.full_every - 1.0
        reads_every = reduction.delta.against == "previous"
        mean_deltas = num_between / (2 if reads_every else reduction.delta.full_every)
        max_deltas = num_between if reads_every else 1.0
    mean = _replace_saves(less, less.mean, num_deltas=mean_deltas)
    largest = max(less.save(1.0), less.small, key=lambda save: save.stored_bytes)
    longest = _replace_saves(less, largest, num_deltas=max_deltas)
    has_cycle = less.full_every != 1
    return replace(
        mean,
        whole=workload,
        longest=longest if has_cycle and less.full_every is not None else None,
        chain=_chain(less) if has_cycle else None,
        num_experts=num_experts,
        assumptions=tuple(_assumptions(checkpoint_layout, reduction.compression)),
    )


def fraction_of(part: StatePart, compression: Compression | None) -> float:
    """What compression leaves of a part: as measured, else the midpoint for the width of its values, else all.

    Source: `ranges.toml`.

    >>> round(fraction_of(StatePart("master", "fp32"), Compression()), 4)
    0.82
    """
    if compression is None or part.is_of_rank:
        return 1.0
    given: float | None = getattr(compression, f"{part.name}_fraction")
    return _assumed_fraction(part) if given is None else given


def _assumed_fraction(part: StatePart) -> float:
    has_values = all(moment.rule == "value" for moment in part.moments)
    dtype = part.of_frozen.dtype if part.is_kept_of_frozen else part.dtype  # a base is nearly all of the weights
    width = BYTES_PER_VALUE[dtype] if has_values and is_plain(dtype) else None
    choice = _RANGE_OF_WIDTH.get(width or 0)
    return choice.midpoint if choice else 1.0


def _check_experts(partial: PartialExperts, num_experts: int | None) -> None:
    if partial.num_per_save >= (num_experts or 0):
        raise InvalidInput.of(
            f"{PATH}.partial_experts.num_per_save",
            f"must be less than the {num_experts} routed experts of a layer"
            if num_experts
            else "needs a model with routed experts, and this one has none",
            value=partial.num_per_save,
            remedy="give fewer experts, or remove partial_experts",
        )


def _replace_saves(less: _Reduced, save: _Save, *, num_deltas: float) -> CheckpointWorkload:
    """The workload with such a save, and restores of a full save and so many deltas."""
    workload = less.workload
    weights = next((part.fraction for part in less.parts if part.name in ("weights", "master")), 1.0)
    stored_bytes = round(save.stored_bytes)
    return replace(
        workload,
        write=replace(
            workload.write,
            total_bytes=stored_bytes,
            copied_over_written=workload.write.copied_over_written * save.state_bytes / stored_bytes,
            mean_compression_seconds=save.packing_seconds,
            largest_over_mean=workload.write.largest_over_mean * save.rank_imbalance,
            fullest_node_over_mean=workload.write.fullest_node_over_mean * save.node_imbalance,
        ),
        restores={name: _reduce_plan(less, plan, num_deltas) for name, plan in workload.restores.items()},
        own_restore=_reduce_plan(less, workload.own_restore, num_deltas),
        written_bytes=stored_bytes,
        weights_bytes=round(workload.weights_bytes * weights),
    )


def _reduce_plan(less: _Reduced, plan: ReadPlan, num_deltas: float) -> ReadPlan:
    """The plan for a restore of a full save and so many deltas."""
    fractions = {part.name: part.fraction for part in less.parts}
    delta = less.reduction.delta
    more = num_deltas * delta.fraction if delta else 0.0
    read = {
        # `.metadata` has no fraction, and is read as it is
        name: reading._replace(read_bytes=round(reading.read_bytes * (fractions[name] + more)))
        if name in fractions
        else reading
        for name, reading in plan.parts.items()
    }
    steps = zip(plan.steps, plan.read_together, strict=True)
    reduced_steps = tuple(in_turn(_reduce_step(less, plan, read, step, names, num_deltas) for step, names in steps))
    before = plan.read_bytes or 1
    scale = sum(reading.read_bytes for reading in read.values()) / before
    return replace(
        plan,
        parts=read,
        steps=reduced_steps,
        max_rank_read_bytes=plan.max_rank_read_bytes * scale,
        max_rank_bytes_of_steps=tuple(num_bytes * scale for num_bytes in plan.max_rank_bytes_of_steps),
    )


def _reduce_step(
    less: _Reduced,
    plan: ReadPlan,
    read: dict[str, PartRead],
    step: Demand,
    names: tuple[str, ...],
    num_deltas: float,
) -> Demand:
    state = sum(plan.parts[name].read_bytes for name in names)
    if not any(name in {part.name for part in less.parts} for name in names):
        return step
    compression, delta = less.reduction.compression, less.reduction.delta
    rank_bytes = state / float(step.num_streams)
    seconds = rank_bytes / compression.decompress_bytes_per_second if compression else 0.0
    if delta is not None and delta.bytes_per_second is not None:
        seconds += num_deltas * rank_bytes / delta.bytes_per_second
    return replace(
        step,
        total_bytes=sum(read[name].read_bytes for name in names),
        num_files=round(float(step.num_files) * (1 + num_deltas)),
        mean_compression_seconds=seconds,
    )


def _chain(less: _Reduced) -> Chain:
    delta, every = less.reduction.delta, less.full_every
    needs_full_alone = delta is not None and delta.against != "previous"
    return Chain(
        full_bytes=round(less.save(1.0).stored_bytes),
        small_bytes=round(less.small.stored_bytes),
        full_every=every,
        num_needed=1 if needs_full_alone else less.num_together - 1,
        needs_full_alone=needs_full_alone,
    )


def _assumptions(checkpoint_layout: CheckpointLayout, compression: Compression | None) -> Iterator[Assumption]:
    """List the fractions that nobody measured."""
    if compression is None:
        return
    for part in checkpoint_layout.parts:
        name = f"{part.name}_fraction"
        if not part.is_of_rank and getattr(compression, name) is None:
            reason = compression_choice(name).source
            yield Assumption(field=f"{PATH}.compression.{name}", value=_assumed_fraction(part), reason=reason)
