"""One configuration: a warm-up, then repetitions until the rates have settled or the caps are reached."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from io_bench.engines import Engine, StreamingEngine
from io_bench.errors import explained_io_errors
from io_bench.payload.payload import ResidentPayload, StreamedPayload
from io_bench.planning.plan import Plan, WriterPlan
from io_bench.repetition.caps import Caps
from io_bench.repetition.part import Part, ReadingPart, StreamingPart, WaitingPart, WritingPart
from io_bench.repetition.sample import Bench, Sample, steadiness_of
from io_bench.repetition.spread import is_settled
from io_bench.repetition.stopwatch import Timing
from io_bench.shapes.companies import COMPANIES, DEFAULT_BATCH_BYTES
from io_bench.shapes.company import Company
from io_bench.shapes.retention import Replacing, Retaining, Retention
from io_bench.target.run_files import RunFiles
from io_bench.terminal import StepProgress

SETTLED_FRACTION = 0.05
"""A choice: the width falls with the root of the repetitions, so half of it takes four times as many."""
MIN_STEADY_REPETITIONS = 3
"""At the rate that goes on: a choice. Two may be the end of a cache that empties in between."""
MAX_REPETITIONS = 50
"""Storage that has not settled by then does not: its spread is the result."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """How often: at least `min_repetitions` times, and on until the rates have settled where `until_settled`.

    With `until_steady` on until they are also kept: over three repetitions after the last change.
    """

    min_repetitions: int
    until_settled: bool
    until_steady: bool = False

    @property
    def max_repetitions(self) -> int:
        """Repetitions after which it ends in any case."""
        return max(self.min_repetitions, MAX_REPETITIONS) if self._goes_on else self.min_repetitions

    @property
    def _goes_on(self) -> bool:
        return self.until_settled or self.until_steady

    def is_enough(self, samples: list[Sample], *, warm_up: Sample | None = None) -> bool:
        """Whether both rates are as well known as was asked for."""
        moved = samples if warm_up is None else [warm_up, *samples]
        if len(samples) < self.min_repetitions or (self.until_steady and not _is_steady(moved)):
            return False
        return not self.until_settled or all(
            is_settled(seconds, within_fraction=SETTLED_FRACTION)
            for seconds in ([s.write.seconds for s in samples], [s.restore.seconds for s in samples])
        )


def _is_steady(samples: list[Sample]) -> bool:
    found = [steadiness_of(samples, operation) for operation in ("write", "restore")]
    return all(each.is_steady and each.num_steady >= MIN_STEADY_REPETITIONS for each in found)


@dataclass(frozen=True, slots=True)
class Samples:
    """All that was measured in a configuration. `stopped_by` names the cap that ended it early; empty if none did.

    The last of them is the only one that may be corrupt.
    """

    plan: Plan
    warm_up: Sample
    kept: tuple[Sample, ...]
    null_sink: Timing
    stopped_by: str
    snapshot: Timing | None = None


def tried_seconds(
    plan: Plan,
    engine: Engine,
    files: RunFiles,
    *,
    directory: Path | None,
    seed: int,
    caps: Caps,
    progress: StepProgress,
) -> float:
    """The time of one write or one restore, whichever takes less, of a checkpoint that is gone afterwards."""
    files.tune(plan.transfer)
    with contextlib.closing(engine):
        tried = Bench(plan, _part(plan, engine, files, seed=seed), directory, progress).sample(0)
    caps.spend(tried.moved_bytes if tried else 0)
    files.remove_created()
    seconds = min(tried.write.seconds, tried.restore.seconds) if tried else None
    return float(plan.writers.group.decided(seconds, lambda values: values[0], doing="removing the first checkpoint"))


def repeated(
    plan: Plan,
    engine: Engine,
    files: RunFiles,
    *,
    directory: Path | None,
    seed: int,
    repeat: Repeat,
    caps: Caps,
    progress: StepProgress,
) -> Samples | None:
    """The samples of a configuration, on rank 0, which alone keeps them; one to warm up goes before those that count.

    Args: `directory` to measure, where the target is one.
    At least one repetition counts, whatever the caps. Raises as Part, and as ProcessGroup.
    """
    files.tune(plan.transfer)
    with contextlib.closing(engine), _company(plan, files) as company:
        bench = Bench(plan, _part(plan, engine, files, seed=seed), directory, progress, company)
        warm_up = bench.sample(0)
        caps.spend(warm_up.moved_bytes if warm_up else 0)
        if plan.writers.group.told(warm_up is not None and bool(warm_up.corruption), doing="verifying"):
            return Samples(plan, warm_up, (warm_up,), warm_up.write, "") if warm_up else None
        null_sink, snapshot = bench.null_sink(), bench.snapshot()
        samples, stopped_by = _kept(bench, repeat, caps, warm_up)
    if warm_up is None or null_sink is None:
        return None
    return Samples(plan, warm_up, tuple(samples), null_sink, stopped_by, snapshot)


def _kept(bench: Bench, repeat: Repeat, caps: Caps, warm_up: Sample | None) -> tuple[list[Sample], str]:
    """The samples that count, on rank 0, and the cap that ended them; all ranks end at once, when rank 0 says so."""
    group = bench.plan.writers.group
    samples: list[Sample] = []
    is_over, stopped_by, repetition = False, "", 0
    while not is_over:
        caps.pause(group)
        repetition += 1
        sample = bench.sample(repetition)
        if sample:
            samples.append(sample)
            caps.spend(sample.moved_bytes)
        verdict = _verdict(samples, repeat, caps, warm_up) if samples else None
        is_over, stopped_by = group.told(verdict, doing="checking the caps")
    return samples, stopped_by


def _verdict(samples: list[Sample], repeat: Repeat, caps: Caps, warm_up: Sample | None) -> tuple[bool, str]:
    """Whether it is over, and the cap that ended it.

    None did where the rates are known as well as was asked for, or what was written did not come back.
    """
    if samples[-1].corruption or repeat.is_enough(samples, warm_up=warm_up):
        return True, ""
    reached = caps.reached_by_one_more(samples[-1])
    if len(samples) < repeat.max_repetitions:
        return bool(reached), reached
    return True, reached or f"The max of {MAX_REPETITIONS} repetitions"


@contextlib.contextmanager
def _company(plan: Plan, files: RunFiles) -> Iterator[Company | None]:
    """What runs beside the saves of this rank, if it writes and anything does."""
    index, beside, own = plan.writers.index, plan.configuration.beside, plan.own
    if beside is None or index is None or own is None:
        yield None
        return
    batch_bytes = plan.configuration.batch_bytes or DEFAULT_BATCH_BYTES
    rank = plan.writers.group.rank
    with explained_io_errors(f"preparing {beside}", rank=rank):
        company = COMPANIES[beside].start(
            files, index=index, payload_bytes=own.inventory.num_bytes, batch_bytes=batch_bytes
        )
    try:
        yield company
    finally:
        with explained_io_errors(f"ending {beside}", rank=rank):
            company.close()


def _part(plan: Plan, engine: Engine, files: RunFiles, *, seed: int) -> Part:
    """What this rank does: write and read; read what the first replica writes; or wait."""
    if plan.own is None:
        return WaitingPart()
    if plan.writers.index is None:
        return ReadingPart(_writing_part(plan, plan.own, engine, _retention(plan, files, names=()), seed=seed))
    retention = _retention(plan, files, names=plan.own.engine_plan.all_files)
    return _writing_part(plan, plan.own, engine, retention, seed=seed)


def _retention(plan: Plan, files: RunFiles, *, names: Sequence[str]) -> Retention:
    count, deletion = plan.configuration.retained_checkpoints, plan.configuration.deletion
    if count is None or deletion is None:
        return Replacing(files, names)
    return Retaining(files, names, count=count, deletion=deletion)


def _writing_part(plan: Plan, own: WriterPlan, engine: Engine, retention: Retention, *, seed: int) -> WritingPart:
    shard = plan.source_index if plan.writers.index is None else plan.writers.index
    inventory, rank = own.inventory, plan.writers.group.rank
    if own.engine_plan.is_streamed and isinstance(engine, StreamingEngine):
        streamed = StreamedPayload(inventory, seed=seed, rank=shard)
        source = StreamedPayload(inventory, seed=seed, rank=plan.source_index)
        engine.prepare(streamed, own.engine_plan, device=plan.device, writers=plan.connected)
        return StreamingPart(
            own,
            engine=engine,
            payload=streamed,
            source_payload=source,
            retention=retention,
            device=plan.device,
            rank=rank,
        )
    payload = ResidentPayload(inventory, seed=seed, rank=shard, device=plan.device.name)
    if plan.configuration.resharding is not None:
        return _resharded_part(plan, own, engine, retention, payload, seed=seed)
    source_payload = functools.partial(StreamedPayload, inventory, seed=seed, rank=plan.source_index)
    engine.prepare(payload, own.engine_plan, device=plan.device, writers=plan.connected)
    return WritingPart(
        own,
        engine=engine,
        payload=payload,
        source_payload=source_payload,
        retention=retention,
        device=plan.device,
        rank=rank,
    )


def _resharded_part(
    plan: Plan, own: WriterPlan, engine: Engine, retention: Retention, payload: ResidentPayload, *, seed: int
) -> WritingPart:
    """That of a rank whose checkpoint other ranks restore."""
    from io_bench.repetition.resharded_part import ReshardedPart  # noqa: PLC0415 - DTensor takes a second to import
    from io_bench.shapes.resharded_dcp import ReshardedDcp, ReshardedPayload  # noqa: PLC0415 - likewise

    resharding, place = plan.configuration.resharding, plan.connected.index
    assert isinstance(engine, ReshardedDcp)  # noqa: S101 - the campaign made it for this configuration
    assert resharding is not None  # noqa: S101 - likewise
    assert place is not None  # noqa: S101 - it takes part
    engine.prepare(payload, own.engine_plan, device=plan.device, writers=plan.connected)
    return ReshardedPart(
        own,
        engine=engine,
        payload=payload,
        source_payload=functools.partial(ReshardedPayload, own.inventory, resharding=resharding, rank=place, seed=seed),
        retention=retention,
        device=plan.device,
        rank=plan.writers.group.rank,
    )
