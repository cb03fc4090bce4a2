"""One job of the simulation: it trains, saves, fails and reads."""

from __future__ import annotations

import itertools
import math
import random
from array import array
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import cast

import simpy

from sizing.questions.cluster.bandwidth_sharing import ActiveTransfer, SharedBandwidth, Sharer
from sizing.questions.cluster.load import ExportLoad, JobLoad, JobPreemption, PublicationLoad, TransferLoad
from sizing.run.levels import Level


@dataclass(slots=True)
class GroupRecord:
    """What the jobs of a group went through. `at_seconds` is when each stall ended.

    `useful_seconds_by_batch` is the work that was done, and not undone, by the end of each equal part of the horizon.
    """

    stall_seconds: array[float] = field(default_factory=lambda: array("d"))
    at_seconds: array[float] = field(default_factory=lambda: array("d"))
    restore_seconds: array[float] = field(default_factory=lambda: array("d"))
    num_written: int = 0
    num_met_another: int = 0
    num_failures: int = 0
    num_preemptions: int = 0
    useful_seconds: float = 0.0
    useful_seconds_by_batch: array[float] = field(default_factory=lambda: array("d"))


@dataclass(frozen=True, slots=True)
class SimulationRecord:
    """What a simulation recorded of all jobs and of the storage; `read` is None where no read rate is known."""

    groups: list[GroupRecord]
    write: SharedBandwidth
    read: SharedBandwidth | None


_ROUNDING = 1e-9
"""Rounding of a position that lies on a step of a tier and was added up from floats."""


class UnsavedWork:
    """Work of `seconds` between two saves, `interval_seconds` apart, of which a first one may skip the beginning.

    Positions in it are fractions. A tier is saved to at even steps and holds a copy once that has drained; what has
    been recovered from a tier is held by it and by those before it. All tiers hold the beginning.
    """

    def __init__(
        self, seconds: float, *, begins_fraction: float, interval_seconds: float, tiers: Sequence[Level]
    ) -> None:
        self._seconds = seconds
        self._begins = self._at = begins_fraction
        self._held = [begins_fraction] * len(tiers)
        self._steps = [float(tier.interval_seconds) / interval_seconds for tier in tiers]
        self._drains = [float(tier.drain_seconds) for tier in tiers]

    @property
    def worked_seconds(self) -> float:
        """Time worked so far that has not been undone."""
        return (self._at - self._begins) * self._seconds

    @property
    def left_seconds(self) -> float:
        """Time to work until the next save."""
        return (1 - self._at) * self._seconds

    def work(self, seconds: float) -> None:
        """Go on by that time."""
        self._at = min(1.0, self._at + seconds / self._seconds) if self._seconds else 1.0

    def go_back(self, tier: int, *, since_work_seconds: float) -> None:
        """Go back to what a tier holds, so long after the work stopped."""
        for index, (step, drain) in enumerate(zip(self._steps, self._drains, strict=True)):
            drained = self._at + (since_work_seconds - drain) / self._seconds if self._seconds else self._at
            newest = math.floor(min(self._at, drained) / step + _ROUNDING) * step
            self._held[index] = max(self._held[index], newest)
        self._at = self._held[tier]
        self._held[: tier + 1] = [self._at] * (tier + 1)


_PREEMPTED = -1
"""What interrupts a job beside the levels that failures need."""

Steps = Generator[simpy.Event, object, None]


def make_sharer(load: TransferLoad) -> Sharer:
    """Make of a transfer what it can draw of a file system that others use too."""
    return Sharer(load.max_bytes_per_second, load.weight)


class JobProcess:
    """A job as a process. Work is useful once a checkpoint that holds it is complete on the shared storage.

    A failure that needs the shared storage undoes what is not; one that a tier in front survives undoes what that tier
    does not hold, and leaves the shared storage alone. A preemption takes all nodes, and with them all tiers: the job
    saves within the notice, at its share of the bandwidth, and loses what is not written by its end. Nothing strikes
    a job that has no nodes.
    """

    def __init__(
        self, env: simpy.Environment, load: JobLoad, kind: int, *, simulation: SimulationRecord, index: int, seed: int
    ) -> None:
        self._env = env
        self._load = load
        self._kind = kind
        self._write = simulation.write
        self._read = simulation.read
        self._record = simulation.groups[kind]
        self._compute_seconds = load.compute_seconds(simulation.write.bytes_per_second)
        self._useful_fraction = load.useful_fraction(simulation.write.bytes_per_second) * load.throughput_fraction
        self._random = random.Random(f"{seed}/{kind}/{index}")  # noqa: S311  chance, not a secret
        self._begins_fraction = 1.0 - self._phase(index)
        self._work: UnsavedWork | None = None
        self._is_working = False
        self._since = 0.0
        self._failed_level: int | None = None
        self._draining_seconds = 0.0
        self._drain: simpy.Process | None = None
        self._nodes_at, self._is_noticed, self._is_preempted = 0.0, False, False
        self._back_at = [0.0] * (int(load.pool.num_spares) + 1 if load.pool else 0)
        self._num_saves = 0
        if load.export and load.group.start != "together":
            of_exports = random.Random(f"{seed}/{kind}/{index}/exports")  # noqa: S311  chance, not a secret
            self._num_saves = of_exports.randrange(load.export.every)
        process = env.process(self._live())
        if load.publication is not None:
            env.process(self._publish(load.publication))
        # Interruptions have streams of their own: they come at the same times whatever the job does between them.
        failures, preemptions = (
            random.Random(f"{seed}/{kind}/{index}/{stream}")  # noqa: S311  chance, not a secret
            for stream in ("failures", "preemptions")
        )
        if load.mtbf_seconds is not None:
            env.process(self._strike(process, failures, 1 / load.mtbf_seconds, self._level_of_failure))
        if load.preemption is not None:
            env.process(self._strike(process, preemptions, load.preemption.per_second, lambda _: _PREEMPTED))

    def count_work_of_batch(self) -> None:
        """At the end of a batch, add to its entry the work of the job that is not saved yet."""
        since_seconds = self._env.now - self._since if self._is_working else 0.0
        unsaved = self._draining_seconds + self._unsaved_seconds + since_seconds * self._useful_fraction
        self._record.useful_seconds_by_batch[-1] += unsaved

    def count_unfinished_work(self) -> None:
        """At the end, count work that no failure has undone yet."""
        self._count_done_work()
        self._record.useful_seconds += self._draining_seconds + self._unsaved_seconds

    @property
    def _unsaved_seconds(self) -> float:
        return self._work.worked_seconds * self._useful_fraction if self._work else 0.0

    def _phase(self, index: int) -> float:
        group = self._load.group
        match group.start:
            case "together":
                return 1.0
            case "staggered":
                return (index + 1) / group.count
            case "random":
                return self._random.random()

    def _strike(
        self, process: simpy.Process, stream: random.Random, per_second: float, cause: Callable[[random.Random], int]
    ) -> Steps:
        """Interrupt the job at random; not while it has no nodes, which leaves the rest of the times as likely."""
        while True:
            yield self._env.timeout(stream.expovariate(per_second))
            drawn = cause(stream)
            if self._env.now >= self._nodes_at:
                process.interrupt(drawn)

    def _level_of_failure(self, stream: random.Random) -> int:
        """The tier that a failure is recovered from; one beyond the last for the shared storage."""
        tiers = self._load.tiers
        left = stream.random() if tiers else 1.0
        for index, tier in enumerate(tiers):
            left -= float(tier.used_fraction)
            if left < 0:
                return index
        return len(tiers)

    def _live(self) -> Steps:
        while True:
            try:
                if self._failed_level is not None:
                    yield from self._recover(self._failed_level)
                    self._failed_level = None
                while True:
                    yield from self._compute()
                    yield from self._save()
            except simpy.Interrupt as interruption:
                cause = cast("int", interruption.cause)
                if cause == _PREEMPTED:
                    self._receive_notice()
                else:
                    self._lose_work(cause)
                    self._wait_for_node()

    def _lose_work(self, level: int) -> None:
        """Undo the work that a failure undoes; during a recovery it needs that recovery's level at least."""
        self._record.num_failures += 1
        self._count_done_work()
        if self._failed_level is not None:
            level = max(level, self._failed_level)
        self._failed_level = level
        if level < len(self._load.tiers):
            if self._work is not None:
                self._work.go_back(level, since_work_seconds=self._env.now - self._since)
            if self._random.random() >= self._load.tiers[level].outlived_fraction:
                self._end_drain()
            return
        self._lose_all()

    def _wait_for_node(self) -> None:
        """Send a node into repair, where the failure took one; one that is back, or comes back first, replaces it."""
        pool = self._load.pool
        if pool is None or self._random.random() >= float(pool.lost_fraction):
            return
        now, back_at = self._env.now, self._back_at
        back_at[back_at.index(min(back_at))] = now + self._random.expovariate(1 / float(pool.repair_seconds))
        self._nodes_at = max(now, min(back_at))

    def _receive_notice(self) -> None:
        """Stop work; a job that trains saves within the notice, one that recovers has nothing new to save."""
        self._record.num_preemptions += 1
        self._count_done_work()
        self._is_noticed = self._failed_level is None
        self._is_preempted, self._failed_level = True, len(self._load.tiers)
        if not self._is_noticed:
            self._lose_all()

    def _leave(self, preemption: JobPreemption) -> Steps:
        """Save within the notice, as far as that goes, and lose the nodes until there is capacity again."""
        if self._is_noticed:
            saving = self._env.process(self._save_before_leaving(preemption))
            try:
                yield saving | self._env.timeout(preemption.notice_seconds)
            finally:
                self._is_noticed = False
                if saving.is_alive:
                    saving.interrupt()
        self._lose_all()
        self._is_preempted = False
        wait = preemption.capacity_wait_seconds
        self._nodes_at = self._env.now + (self._random.expovariate(1 / wait) if wait else 0.0)

    def _save_before_leaving(self, preemption: JobPreemption) -> Steps:
        try:
            if self._drain is not None and self._drain.is_alive:
                yield self._drain
            yield self._env.timeout(preemption.copy_seconds)
            yield from self._write_out(self._draining_seconds + self._unsaved_seconds)
        except simpy.Interrupt:
            return
        self._work, self._draining_seconds, self._begins_fraction = None, 0.0, 0.0

    def _lose_all(self) -> None:
        """Lose the work that is not on the shared storage."""
        self._work = None
        self._draining_seconds = 0.0
        self._end_drain()

    def _end_drain(self) -> None:
        """End a drain: what it would have saved is left to the next save, as long as a tier in front holds it."""
        if self._drain is not None and self._drain.is_alive:
            self._drain.interrupt()
        self._drain = None

    def _count_done_work(self) -> None:
        """Count the work since `_since`, where work goes on; from now on it does not."""
        if self._is_working and self._work is not None:
            self._work.work(self._env.now - self._since)
            self._since = self._env.now
        self._is_working = False

    def _compute(self) -> Steps:
        if self._work is None:
            self._work = self._begin_work()
        self._is_working, self._since = True, self._env.now
        yield self._env.timeout(self._work.left_seconds)
        self._count_done_work()

    def _begin_work(self) -> UnsavedWork:
        jitter = self._load.group.compute_jitter_fraction
        return UnsavedWork(
            self._compute_seconds * (1 + jitter * (2 * self._random.random() - 1)),
            begins_fraction=self._begins_fraction,
            interval_seconds=self._load.interval_seconds,
            tiers=self._load.tiers,
        )

    def _save(self) -> Steps:
        """Block until the checkpoint is written, or its snapshot taken, and exported where training waits for that."""
        start, snapshot = self._env.now, self._load.snapshot_seconds
        if self._drain is not None and self._drain.is_alive:
            yield self._drain
        self._num_saves += 1
        export = self._load.export
        if export is not None and self._num_saves % export.every:
            export = None
        waited = export if export and export.waits else None
        left = None if waited else export
        if snapshot is None:
            yield from self._write_out(self._unsaved_seconds, left=left)
            self._work, self._begins_fraction = None, 0.0
            yield from self._export(waited)
        else:
            yield self._env.timeout(snapshot)
            yield from self._export(waited)
            self._draining_seconds += self._unsaved_seconds
            self._drain = self._env.process(self._write_in_background(left))
            self._work, self._begins_fraction = None, 0.0
        self._record.stall_seconds.append(self._env.now - start)
        self._record.at_seconds.append(self._env.now)

    def _export(self, export: ExportLoad | None) -> Steps:
        """Move what an export writes and reads, one step after the other; reads take no time without a read rate."""
        if export is None:
            return
        if export.gather_seconds:
            yield self._env.timeout(export.gather_seconds)
        for written, read in itertools.zip_longest(export.writes, export.reads):
            if written is not None:
                yield from self._move(self._write, written, kind=self._write.kind_of(make_sharer(written)))
            if read is not None and self._read is not None:
                yield from self._move(self._read, read, kind=self._read.kind_of(make_sharer(read)))

    def _publish(self, publication: PublicationLoad) -> Steps:
        """Write weights in each interval in which the job trains or saves, and let the engines read them."""
        write, read = publication.write, publication.read
        yield self._env.timeout(publication.interval_seconds * (1.0 - self._begins_fraction))
        while True:
            began = self._env.now
            if self._failed_level is None:
                yield from self._move(self._write, write, kind=self._write.kind_of(make_sharer(write)))
                if read is not None and self._read is not None:
                    yield from self._move(self._read, read, kind=self._read.kind_of(make_sharer(read)))
            yield self._env.timeout(max(0.0, began + publication.interval_seconds - self._env.now))

    def _write_in_background(self, left: ExportLoad | None) -> Steps:
        try:
            yield from self._write_out(self._draining_seconds, left=left)
        except simpy.Interrupt:
            return
        self._draining_seconds = 0.0

    def _write_out(self, useful_seconds: float, *, left: ExportLoad | None = None) -> Steps:
        """Write a checkpoint, and leave its export to another job, where there is one."""
        transfer = yield from self._move(self._write, self._load.write, kind=self._kind)
        if left is not None:
            self._env.process(self._export(left))
        self._record.num_written += 1
        self._record.num_met_another += transfer.met_another
        self._record.useful_seconds += useful_seconds

    def _recover(self, level: int) -> Steps:
        start, tiers, preemption = self._env.now, self._load.tiers, self._load.preemption
        is_told = self._is_preempted and preemption is not None
        if is_told and preemption is not None:
            yield from self._leave(preemption)
        if self._env.now < self._nodes_at:
            yield self._env.timeout(self._nodes_at - self._env.now)
        if level < len(tiers):
            yield self._env.timeout(float(tiers[level].recovery_seconds))
        else:
            yield self._env.timeout(
                preemption.start_seconds if is_told and preemption is not None else self._load.recovery_seconds
            )
            if self._read is not None and self._load.restore is not None:
                yield from self._move(self._read, self._load.restore, kind=self._kind)
        self._record.restore_seconds.append(self._env.now - start)

    def _move(
        self, storage: SharedBandwidth, load: TransferLoad, *, kind: int
    ) -> Generator[simpy.Event, object, ActiveTransfer]:
        if load.lead_seconds:
            yield self._env.timeout(load.lead_seconds)
        transfer = storage.start(kind, load.num_bytes)
        try:
            yield transfer.done
        except simpy.Interrupt:
            storage.cancel(transfer)
            raise
        return transfer
