"""What saves that hold less than everything ask of the storage, and the restores that put the state together again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sizing.errors import InvalidInput
from sizing.layout import LaidOut
from sizing.provenance import Assumption
from sizing.run.demands.chain import Chain
from sizing.run.demands.demands import Demands
from sizing.run.demands.readings import Reading, RestorePlan
from sizing.run.reduction.settings import PATH, Compression, Delta, PartialExperts, Reduction, compression_choice
from sizing.state import StatePart
from sizing.state.optimizers import BYTES_PER_VALUE
from sizing.state.saved_state import is_plain
from sizing.storage.limits import Demand

_RANGE_OF_WIDTH = {2: compression_choice("weights_fraction"), 4: compression_choice("master_fraction")}
"""Where the fraction of values of so many bytes has its range; narrower ones are taken to be as random as they look."""


@dataclass(frozen=True, slots=True)
class _Save:
    """One save: bytes of state that go into it, bytes that are stored, and seconds of packing on each rank."""

    state_bytes: float
    stored_bytes: float
    packing_seconds: float


@dataclass(frozen=True, slots=True)
class _Part:
    """A part in the files: bytes of dense tensors and of experts, and the fraction that compression leaves."""

    name: str
    dense_bytes: float
    expert_bytes: float
    fraction: float


@dataclass(frozen=True, slots=True)
class _Reduced:
    """A layout's saves under one reduction."""

    demands: Demands
    reduction: Reduction
    parts: tuple[_Part, ...]
    num_experts: int
    expert_degree: int

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
        return _Save(state, stored, self._rank_seconds(state, rate))

    @property
    def small(self) -> _Save:
        """What a save is that is not full."""
        delta = self.reduction.delta
        if delta is None:
            return self.save(self.partial_fraction)
        state = float(self.demands.written_bytes)
        return _Save(state, delta.fraction * state, self._rank_seconds(state, delta.bytes_per_second))

    @property
    def full_every(self) -> int | None:
        """Of how many saves one is full: 1 where all are, None where none is."""
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
        """The mean over the saves of a cycle."""
        every, small = self.full_every, self.small
        if every is None:
            return small
        full = self.save(1.0)
        return _Save(
            state_bytes=(full.state_bytes + (every - 1) * small.state_bytes) / every,
            stored_bytes=(full.stored_bytes + (every - 1) * small.stored_bytes) / every,
            packing_seconds=(full.packing_seconds + (every - 1) * small.packing_seconds) / every,
        )

    def _rank_seconds(self, state_bytes: float, rate: float | None) -> float:
        return 0.0 if rate is None else state_bytes / float(self.demands.write.num_streams) / rate


def reduced(
    demands: Demands,
    reduction: Reduction | None,
    *,
    laid_out: LaidOut,
    num_experts: int | None,
    expert_degree: int,
) -> Demands:
    """The demands of a layout whose saves hold less than everything: means over its saves.

    Raises InvalidInput where the model has no experts to choose from.
    """
    if reduction is None:
        return demands
    partial = reduction.partial_experts
    if partial is not None:
        _check_experts(partial, num_experts)
    parts = tuple(_parts(laid_out, demands, reduction.compression))
    less = _Reduced(demands, reduction, parts, num_experts or 1, expert_degree)
    mean = _with(less, less.mean, num_deltas=_mean_deltas(reduction.delta))
    longest = _with(less, less.save(1.0), num_deltas=_max_deltas(reduction.delta))
    has_cycle = less.full_every != 1
    return replace(
        mean,
        whole=demands,
        longest=longest if has_cycle and less.full_every is not None else None,
        chain=_chain(less) if has_cycle else None,
        num_experts=num_experts,
        assumptions=tuple(_assumptions(laid_out, reduction.compression)),
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
    width = BYTES_PER_VALUE[part.dtype] if has_values and is_plain(part.dtype) else None
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


def _parts(laid_out: LaidOut, demands: Demands, compression: Compression | None) -> Iterator[_Part]:
    """The parts in the proportion of an observed size, if there is one."""
    scale = demands.written_bytes / laid_out.size.total_bytes
    for part in laid_out.parts:
        dense, expert = laid_out.dense_bytes[part.name], laid_out.expert_bytes[part.name]
        yield _Part(part.name, dense * scale, expert * scale, fraction_of(part, compression))


def _with(less: _Reduced, save: _Save, *, num_deltas: float) -> Demands:
    """The demands with such a save, and restores of a full save and so many deltas."""
    demands = less.demands
    weights = next((part.fraction for part in less.parts if part.name in ("weights", "master")), 1.0)
    return replace(
        demands,
        write=replace(
            demands.write,
            total_bytes=round(save.stored_bytes),
            copied_over_written=save.state_bytes / save.stored_bytes,
            compression_seconds=save.packing_seconds,
            largest_over_mean=demands.write.largest_over_mean * _imbalance(less),
        ),
        restores={name: _plan(less, plan, num_deltas) for name, plan in demands.restores.items()},
        written_bytes=round(save.stored_bytes),
        weights_bytes=round(demands.weights_bytes * weights),
    )


def _imbalance(less: _Reduced) -> float:
    """The busiest rank over the mean in a partial save: of K experts on n ranks one writes ceil(K/n)."""
    partial = less.reduction.partial_experts
    if partial is None:
        return 1.0
    busiest = -(-partial.num_per_save // less.expert_degree) * less.expert_degree / partial.num_per_save
    experts = sum(part.expert_bytes for part in less.parts) * less.partial_fraction
    return 1.0 + (busiest - 1.0) * experts / less.small.state_bytes


def _plan(less: _Reduced, plan: RestorePlan, num_deltas: float) -> RestorePlan:
    fractions = {part.name: part.fraction for part in less.parts}
    delta = less.reduction.delta
    more = num_deltas * delta.fraction if delta else 0.0
    read = {name: _read(reading, fractions.get(name), more) for name, reading in plan.readings.items()}
    steps = zip(plan.demands, plan.read_together, strict=True)
    demands = tuple(_step(less, plan, read, step, names, num_deltas) for step, names in steps)
    before = plan.read_bytes or 1
    scale = sum(reading.read_bytes for reading in read.values()) / before
    return replace(plan, readings=read, demands=demands, max_rank_read_bytes=plan.max_rank_read_bytes * scale)


def _read(reading: Reading, fraction: float | None, more: float) -> Reading:
    """What is read of a part; of `.metadata`, which has no fraction, as much as before."""
    return reading if fraction is None else reading._replace(read_bytes=round(reading.read_bytes * (fraction + more)))


def _step(
    less: _Reduced,
    plan: RestorePlan,
    read: dict[str, Reading],
    step: Demand,
    names: tuple[str, ...],
    num_deltas: float,
) -> Demand:
    state = sum(plan.readings[name].read_bytes for name in names)
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
        compression_seconds=seconds,
    )


def _mean_deltas(delta: Delta | None) -> float:
    """Deltas that a restore reads, on average over the saves of a cycle: (k - 1)/2, or (k - 1)/k of the last alone."""
    if delta is None:
        return 0.0
    return (delta.full_every - 1) / (2 if delta.against == "previous" else delta.full_every)


def _max_deltas(delta: Delta | None) -> float:
    if delta is None:
        return 0.0
    return delta.full_every - 1.0 if delta.against == "previous" else 1.0


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


def _assumptions(laid_out: LaidOut, compression: Compression | None) -> Iterator[Assumption]:
    """The fractions that nobody measured."""
    if compression is None:
        return
    for part in laid_out.parts:
        name = f"{part.name}_fraction"
        if not part.is_of_rank and getattr(compression, name) is None:
            reason = compression_choice(name).source
            yield Assumption(field=f"{PATH}.compression.{name}", value=_assumed_fraction(part), reason=reason)
