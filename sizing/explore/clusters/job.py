"""One job of the simulation: it trains, saves, fails and reads."""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import cast

import simpy

from sizing.explore.clusters.bandwidth import SharedBandwidth, Transfer
from sizing.explore.clusters.load import JobLoad
from sizing.explore.clusters.observed import Simulated
from sizing.explore.clusters.segment import Segment
from sizing.explore.clusters.transfer_load import TransferLoad

Steps = Generator[simpy.Event, object, None]


class Job:
    """One job. Work is useful once a checkpoint that holds it is complete on the shared storage.

    A failure that needs the shared storage undoes what is not; one that a tier in front survives undoes what that tier
    does not hold, and leaves the shared storage alone.
    """

    def __init__(
        self, env: simpy.Environment, load: JobLoad, kind: int, *, world: Simulated, index: int, seed: int
    ) -> None:
        self._env = env
        self._load = load
        self._kind = kind
        self._write = world.write
        self._read = world.read
        self._observed = world.groups[kind]
        self._compute_seconds = load.compute_seconds(world.write.bytes_per_second)
        self._useful_fraction = load.useful_fraction(world.write.bytes_per_second)
        self._random = random.Random(f"{seed}/{kind}/{index}")  # noqa: S311  chance, not a secret
        self._begins_fraction = 1.0 - self._phase(index)
        self._segment: Segment | None = None
        self._works = False
        self._since = 0.0
        self._failed_level: int | None = None
        self._draining_seconds = 0.0
        self._drain: simpy.Process | None = None
        process = env.process(self._live())
        if load.mtbf_seconds is not None:
            env.process(self._fail(process, load.mtbf_seconds))

    def count_unfinished_work(self) -> None:
        """At the end, count work that no failure has undone yet."""
        self._count_work()
        self._observed.useful_seconds += self._draining_seconds + self._unsaved_seconds

    @property
    def _unsaved_seconds(self) -> float:
        return self._segment.worked_seconds * self._useful_fraction if self._segment else 0.0

    def _phase(self, index: int) -> float:
        group = self._load.group
        match group.start:
            case "together":
                return 1.0
            case "staggered":
                return (index + 1) / group.count
            case "random":
                return self._random.random()

    def _fail(self, process: simpy.Process, mtbf_seconds: float) -> Steps:
        while True:
            yield self._env.timeout(self._random.expovariate(1 / mtbf_seconds))
            process.interrupt(self._level_of_failure())

    def _level_of_failure(self) -> int:
        """The tier that a failure is recovered from; one beyond the last for the shared storage."""
        tiers = self._load.tiers
        left = self._random.random() if tiers else 1.0
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
            except simpy.Interrupt as failure:
                self._lose_work(cast("int", failure.cause))

    def _lose_work(self, level: int) -> None:
        """Undo what a failure undoes; during a recovery it needs that recovery's level at least."""
        self._observed.num_failures += 1
        self._count_work()
        if self._failed_level is not None:
            level = max(level, self._failed_level)
        self._failed_level = level
        if level < len(self._load.tiers):
            if self._segment is not None:
                self._segment.go_back(level, since_work_seconds=self._env.now - self._since)
            if self._random.random() >= self._load.tiers[level].outlived_fraction:
                self._end_drain()
            return
        self._segment = None
        self._draining_seconds = 0.0
        self._end_drain()

    def _end_drain(self) -> None:
        """What it would have saved is left to the next save, as long as a tier in front holds it."""
        if self._drain is not None and self._drain.is_alive:
            self._drain.interrupt()
        self._drain = None

    def _count_work(self) -> None:
        """What was worked since `_since`, where work goes on; from now on it does not."""
        if self._works and self._segment is not None:
            self._segment.work(self._env.now - self._since)
            self._since = self._env.now
        self._works = False

    def _compute(self) -> Steps:
        if self._segment is None:
            self._segment = self._next_segment()
        self._works, self._since = True, self._env.now
        yield self._env.timeout(self._segment.left_seconds)
        self._count_work()

    def _next_segment(self) -> Segment:
        jitter = self._load.group.compute_jitter_fraction
        return Segment(
            self._compute_seconds * (1 + jitter * (2 * self._random.random() - 1)),
            begins_fraction=self._begins_fraction,
            interval_seconds=self._load.interval_seconds,
            tiers=self._load.tiers,
        )

    def _save(self) -> Steps:
        """Block until the checkpoint is written, or, saving asynchronously, until its snapshot is taken."""
        start, snapshot = self._env.now, self._load.snapshot_seconds
        if self._drain is not None and self._drain.is_alive:
            yield self._drain
        if snapshot is None:
            yield from self._write_out(self._unsaved_seconds)
        else:
            yield self._env.timeout(snapshot)
            self._draining_seconds += self._unsaved_seconds
            self._drain = self._env.process(self._write_in_background())
        self._segment, self._begins_fraction = None, 0.0
        self._observed.stall_seconds.append(self._env.now - start)
        self._observed.at_seconds.append(self._env.now)

    def _write_in_background(self) -> Steps:
        try:
            yield from self._write_out(self._draining_seconds)
        except simpy.Interrupt:
            return
        self._draining_seconds = 0.0

    def _write_out(self, useful_seconds: float) -> Steps:
        transfer = yield from self._move(self._write, self._load.write)
        self._observed.num_written += 1
        self._observed.num_met_another += transfer.met_another
        self._observed.useful_seconds += useful_seconds

    def _recover(self, level: int) -> Steps:
        start, tiers = self._env.now, self._load.tiers
        if level < len(tiers):
            yield self._env.timeout(float(tiers[level].recovery_seconds))
        else:
            yield self._env.timeout(self._load.recovery_seconds)
            if self._read is not None and self._load.restore is not None:
                yield from self._move(self._read, self._load.restore)
        self._observed.restore_seconds.append(self._env.now - start)

    def _move(self, storage: SharedBandwidth, load: TransferLoad) -> Generator[simpy.Event, object, Transfer]:
        if load.lead_seconds:
            yield self._env.timeout(load.lead_seconds)
        transfer = storage.start(self._kind, load.num_bytes)
        try:
            yield transfer.done
        except simpy.Interrupt:
            storage.cancel(transfer)
            raise
        return transfer
