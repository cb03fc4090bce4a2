"""One configuration: a warm-up, then repetitions until the rates have settled or the caps are reached."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from io_bench import interruption
from io_bench.engines import Engine, StreamingEngine
from io_bench.errors import explained_io_errors
from io_bench.measure.plan import MeasurementPlan, WriterPlan
from io_bench.measure.rank_roles import (
    IdleRole,
    RankRole,
    ReplicaReaderRole,
    ReshardedWriterRole,
    StreamingWriterRole,
    WriterRole,
)
from io_bench.measure.sample import Bench, Sample, steadiness_of
from io_bench.measure.spread import is_settled
from io_bench.payload.payload import Payload, ResidentPayload, StreamedPayload
from io_bench.ranks.process_group import ProcessGroup
from io_bench.target.target import RunFiles
from io_bench.terminal import StepProgress
from io_bench.workloads.background_kinds import BACKGROUND_KINDS, DEFAULT_BATCH_BYTES
from io_bench.workloads.background_load import BackgroundLoad
from io_bench.workloads.retention import CheckpointRetention, Replacing, Retaining

SETTLED_FRACTION = 0.05
"""A choice: the width falls with the root of the repetitions, so half of it takes four times as many."""
MIN_STEADY_REPETITIONS = 3
"""Min repetitions at the rate that goes on: a choice. Two may be the end of a cache that empties in between."""
MAX_REPETITIONS = 50
"""Storage that has not settled by then does not: its spread is the result."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """Number of repetitions: at least `min_repetitions`, and more until rates have settled where `until_settled`.

    With `until_steady`, more until the rates are also steady: over three repetitions after the last change.
    """

    min_repetitions: int
    until_settled: bool
    until_steady: bool = False

    @property
    def max_repetitions(self) -> int:
        """Number of repetitions that is never exceeded."""
        goes_on = self.until_settled or self.until_steady
        return max(self.min_repetitions, MAX_REPETITIONS) if goes_on else self.min_repetitions

    def is_enough(self, samples: list[Sample], *, warm_up: Sample | None = None) -> bool:
        """Whether both rates are as well known as the run requires."""
        if len(samples) < self.min_repetitions:
            return False
        if self.until_steady:
            moved = samples if warm_up is None else [warm_up, *samples]
            both = [steadiness_of(moved, operation) for operation in ("write", "restore")]
            if not all(each.is_steady and each.num_steady >= MIN_STEADY_REPETITIONS for each in both):
                return False
        return not self.until_settled or all(
            is_settled(seconds, within_fraction=SETTLED_FRACTION)
            for seconds in ([s.write.seconds for s in samples], [s.restore.seconds for s in samples])
        )


@dataclass(frozen=True, slots=True)
class Samples:
    """All that was measured in a configuration, on rank 0. Of `kept` the last alone may be corrupt.

    `null_sink_seconds` is a write with writes discarded, `snapshot_seconds` the copy from GPUs to host memory.
    `stopped_by` names the cap that ended the repetitions early; empty if none did.
    """

    plan: MeasurementPlan
    warm_up: Sample
    kept: tuple[Sample, ...]
    null_sink_seconds: float
    stopped_by: str
    snapshot_seconds: float | None = None


def time_first_checkpoint(
    plan: MeasurementPlan,
    engine: Engine,
    files: RunFiles,
    *,
    directory: Path | None,
    seed: int,
    caps: Caps,
    progress: StepProgress,
) -> float:
    """Measure one write and one restore, whichever takes less, of a checkpoint that is gone afterwards."""
    files.tune(plan.transfer)
    with contextlib.closing(engine):
        sample = Bench(plan, _make_role(plan, engine, files, seed=seed), directory, progress).sample(0)
    caps.spend(sample.moved_bytes if sample else 0)
    files.remove_created()
    seconds = min(sample.write.seconds, sample.restore.seconds) if sample else None
    return float(plan.writers.group.decide(seconds, lambda values: values[0], doing="removing the first checkpoint"))


def measure_repeatedly(
    plan: MeasurementPlan,
    engine: Engine,
    files: RunFiles,
    *,
    directory: Path | None,
    seed: int,
    repeat: Repeat,
    caps: Caps,
    progress: StepProgress,
) -> Samples | None:
    """Measure a configuration repeatedly, after one repetition that warms up; on rank 0 the samples.

    Args: `directory` to measure, where the target is one.
    At least one repetition counts, whatever the caps. Raises as RankRole, and as ProcessGroup.
    """
    files.tune(plan.transfer)
    with contextlib.closing(engine), _background_load(plan, files) as background:
        bench = Bench(plan, _make_role(plan, engine, files, seed=seed), directory, progress, background)
        warm_up = bench.sample(0)
        caps.spend(warm_up.moved_bytes if warm_up else 0)
        if plan.writers.group.broadcast(warm_up is not None and bool(warm_up.corruption), doing="verifying"):
            return Samples(plan, warm_up, (warm_up,), warm_up.write.seconds, "") if warm_up else None
        null_sink_seconds, snapshot_seconds = bench.null_sink_seconds(), bench.snapshot_seconds()
        samples, stopped_by = _collect_samples(bench, repeat, caps, warm_up)
    if warm_up is None or null_sink_seconds is None:
        return None
    return Samples(plan, warm_up, tuple(samples), null_sink_seconds, stopped_by, snapshot_seconds)


def _collect_samples(bench: Bench, repeat: Repeat, caps: Caps, warm_up: Sample | None) -> tuple[list[Sample], str]:
    """Collect the samples that count, on rank 0, and name the cap that ended them. All ranks end as rank 0 says."""
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
        decision = _decide_end(samples, repeat, caps, warm_up) if samples else None
        is_over, stopped_by = group.broadcast(decision, doing="checking the caps")
    return samples, stopped_by


def _decide_end(samples: list[Sample], repeat: Repeat, caps: Caps, warm_up: Sample | None) -> tuple[bool, str]:
    """Decide whether the repetitions are over, and name the cap that ended them.

    None did where the rates are known as well as was asked for, or what was written did not come back.
    """
    if samples[-1].corruption or repeat.is_enough(samples, warm_up=warm_up):
        return True, ""
    reached = caps.reached_by_one_more(samples[-1])
    if len(samples) < repeat.max_repetitions:
        return bool(reached), reached
    return True, reached or f"The max of {MAX_REPETITIONS} repetitions"


@contextlib.contextmanager
def _background_load(plan: MeasurementPlan, files: RunFiles) -> Iterator[BackgroundLoad | None]:
    """Start and end the background load of this rank, if it writes and there is one."""
    index, beside, own = plan.writers.index, plan.configuration.beside, plan.own
    if beside is None or index is None or own is None:
        yield None
        return
    batch_bytes = plan.configuration.batch_bytes or DEFAULT_BATCH_BYTES
    rank = plan.writers.group.rank
    with explained_io_errors(f"preparing {beside}", rank=rank):
        background = BACKGROUND_KINDS[beside].start(
            files, index=index, payload_bytes=own.inventory.num_bytes, batch_bytes=batch_bytes
        )
    try:
        yield background
    finally:
        with explained_io_errors(f"ending {beside}", rank=rank):
            background.close()


def _make_role(plan: MeasurementPlan, engine: Engine, files: RunFiles, *, seed: int) -> RankRole:
    """Make the role of this rank: it writes and reads, reads what the first replica writes, or waits."""
    if plan.own is None:
        return IdleRole()
    if plan.writers.index is None:
        return ReplicaReaderRole(
            _make_writer_role(plan, plan.own, engine, _make_retention(plan, files, names=()), seed=seed)
        )
    retention = _make_retention(plan, files, names=plan.own.engine_plan.all_files)
    return _make_writer_role(plan, plan.own, engine, retention, seed=seed)


def _make_retention(plan: MeasurementPlan, files: RunFiles, *, names: Sequence[str]) -> CheckpointRetention:
    count, deletion = plan.configuration.retained_checkpoints, plan.configuration.deletion
    if count is None or deletion is None:
        return Replacing(files, names)
    return Retaining(files, names, count=count, deletion=deletion)


def _make_writer_role(
    plan: MeasurementPlan, own: WriterPlan, engine: Engine, retention: CheckpointRetention, *, seed: int
) -> WriterRole[Any]:
    """Make the role of a rank that writes, or that reads what a rank with the same payload writes."""
    shard = plan.source_index if plan.writers.index is None else plan.writers.index
    inventory, resharding, place = own.inventory, plan.configuration.resharding, plan.connected.index
    kind: type[WriterRole[Any]] = WriterRole
    source_payload: Callable[[], Payload] = functools.partial(
        StreamedPayload, inventory, seed=seed, rank=plan.source_index
    )
    if own.engine_plan.is_streamed and isinstance(engine, StreamingEngine):
        kind, source_payload = StreamingWriterRole, functools.cache(source_payload)  # one for all repetitions
        payload: Payload = StreamedPayload(inventory, seed=seed, rank=shard)
    else:
        payload = ResidentPayload(inventory, seed=seed, rank=shard, device=plan.device.name)
    if resharding is not None and place is not None:
        # DTensor takes a second to import.
        from io_bench.workloads.resharded_dcp import ReshardedPayload  # noqa: PLC0415 - see above

        kind = ReshardedWriterRole
        source_payload = functools.partial(ReshardedPayload, inventory, resharding=resharding, rank=place, seed=seed)
    engine.prepare(payload, own.engine_plan, device=plan.device, writers=plan.connected)
    return kind(
        own,
        engine=engine,
        payload=payload,
        source_payload=source_payload,
        retention=retention,
        device=plan.device,
        rank=plan.writers.group.rank,
    )


_MAX_PAUSE_SECONDS = 1.0
"""Max pause between two looks whether a signal has ended the run."""


@dataclass(slots=True)
class Caps:
    """Limits of a run, and what it has used of them, as rank 0 counts it; None where there is no limit.

    `max_bytes_per_second` bounds the mean over the run: the ranks pause between repetitions, so that what is measured
    is the storage and not the cap.
    """

    max_seconds: float | None = None
    max_bytes: int | None = None
    max_bytes_per_second: float | None = None
    moved_bytes: int = 0
    started: float = field(default_factory=time.monotonic)

    def spend(self, num_bytes: int) -> None:
        """Count bytes that were written and read."""
        self.moved_bytes += num_bytes

    def reached_by_one_more(self, last: Sample) -> str:
        """Name the cap that another sample like the last would exceed; empty if none."""
        return self._exceeded(last.moved_bytes, last.elapsed_seconds)

    def reached(self) -> str:
        """Name the cap that is reached; empty if none."""
        return self._exceeded(0, 0.0)

    def pause(self, group: ProcessGroup) -> None:
        """Wait until the mean bandwidth so far, as rank 0 counts it, is within its cap, on all ranks.

        In steps that let peers see a lost rank.
        """
        if self.max_bytes_per_second is None:
            return
        while True:
            rest = self.moved_bytes / self.max_bytes_per_second - self._elapsed_seconds()
            rest = group.broadcast(rest, doing="pausing")
            if rest <= 0:
                return
            interruption.sleep(min(rest, _MAX_PAUSE_SECONDS))

    def _exceeded(self, more_bytes: int, more_seconds: float) -> str:
        if self.max_seconds is not None and self._elapsed_seconds() + more_seconds > self.max_seconds:
            return "--max-seconds"
        if self.max_bytes is not None and self.moved_bytes + more_bytes > self.max_bytes:
            return "--max-bytes"
        return ""

    def _elapsed_seconds(self) -> float:
        return time.monotonic() - self.started
