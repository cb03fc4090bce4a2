"""A seeded discrete-event simulation of the jobs: training, saving, failing and reading, on shared storage."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

import simpy

from sizing.explore.clusters.bandwidth import SharedBandwidth, Transfer
from sizing.explore.clusters.load import JobLoad, TransferLoad
from sizing.explore.clusters.sharing import Sharer

Progress = Callable[[float], None]
Steps = Generator[simpy.Event, object, None]

_PROGRESS_STEPS = 200


def unseen(_fraction: float) -> None:
    """Progress that nobody looks at."""


@dataclass(slots=True)
class Observed:
    """What the jobs of a group went through. `at_seconds` is when each stall ended."""

    stall_seconds: array[float] = field(default_factory=lambda: array("d"))
    at_seconds: array[float] = field(default_factory=lambda: array("d"))
    restore_seconds: array[float] = field(default_factory=lambda: array("d"))
    num_written: int = 0
    num_met_another: int = 0
    num_failures: int = 0
    useful_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Simulated:
    """Everything that was observed; `read` is None where no read rate is known."""

    groups: list[Observed]
    write: SharedBandwidth
    read: SharedBandwidth | None


def simulate(
    loads: Sequence[JobLoad],
    *,
    write_bytes_per_second: float,
    read_bytes_per_second: float | None,
    horizon_seconds: float,
    seed: int,
    progress: Progress = unseen,
) -> Simulated:
    """What happens to all jobs over the horizon. Equal arguments give equal results.

    Every job draws from its own stream, so that two storage systems are compared on the same failures and jitter.
    `progress` is told the fraction that is done.
    """
    env = simpy.Environment()
    write = SharedBandwidth(env, bytes_per_second=write_bytes_per_second, sharers=[_sharer(j.write) for j in loads])
    read = None
    if read_bytes_per_second is not None and all(load.restore for load in loads):
        sharers = [_sharer(load.restore) for load in loads if load.restore]
        read = SharedBandwidth(env, bytes_per_second=read_bytes_per_second, sharers=sharers)
    world = Simulated([Observed() for _ in loads], write, read)
    jobs = [
        _Job(env, load, kind, world=world, index=index, seed=seed, compute_seconds=compute_seconds)
        for kind, load in enumerate(loads)
        for compute_seconds in [load.compute_seconds(write_bytes_per_second)]
        for index in range(load.group.count)
    ]
    for step in range(1, _PROGRESS_STEPS + 1):
        env.run(until=horizon_seconds * step / _PROGRESS_STEPS)
        progress(step / _PROGRESS_STEPS)
    for job in jobs:
        job.count_unfinished_work()
    return world


def _sharer(load: TransferLoad) -> Sharer:
    return Sharer(load.most_bytes_per_second, load.weight)


class _Job:
    """One job. Work is useful once a checkpoint that holds it is complete; a failure undoes what is not."""

    def __init__(
        self,
        env: simpy.Environment,
        load: JobLoad,
        kind: int,
        *,
        world: Simulated,
        index: int,
        seed: int,
        compute_seconds: float,
    ) -> None:
        self._env = env
        self._load = load
        self._kind = kind
        self._write = world.write
        self._read = world.read
        self._observed = world.groups[kind]
        self._compute_seconds = compute_seconds
        self._random = random.Random(f"{seed}/{kind}/{index}")  # noqa: S311  chance, not a secret
        self._first_fraction = self._phase(index)
        self._unsaved_seconds = 0.0
        self._saving_seconds = 0.0
        self._computing_since: float | None = None
        self._drain: simpy.Process | None = None
        process = env.process(self._live())
        if load.mtbf_seconds is not None:
            env.process(self._fail(process, load.mtbf_seconds))

    def count_unfinished_work(self) -> None:
        """At the end, count work that no failure has undone yet."""
        if self._computing_since is not None:
            self._unsaved_seconds += self._env.now - self._computing_since
        self._observed.useful_seconds += self._unsaved_seconds + self._saving_seconds

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
            process.interrupt()

    def _live(self) -> Steps:
        failed, first = False, self._first_fraction
        while True:
            try:
                if failed:
                    yield from self._recover()
                    failed = False
                while True:
                    yield from self._compute(first)
                    first = 1.0
                    yield from self._save()
            except simpy.Interrupt:
                failed = True
                self._lose_work()

    def _lose_work(self) -> None:
        self._observed.num_failures += 1
        self._unsaved_seconds = self._saving_seconds = 0.0
        self._computing_since = None
        if self._drain is not None and self._drain.is_alive:
            self._drain.interrupt()
        self._drain = None

    def _compute(self, fraction: float) -> Steps:
        jitter = self._load.group.compute_jitter_fraction
        seconds = fraction * self._compute_seconds * (1 + jitter * (2 * self._random.random() - 1))
        self._computing_since = self._env.now
        yield self._env.timeout(seconds)
        self._unsaved_seconds += seconds
        self._computing_since = None

    def _save(self) -> Steps:
        """Block until the checkpoint is written, or, saving asynchronously, until its snapshot is taken."""
        start, snapshot = self._env.now, self._load.snapshot_seconds
        if self._drain is not None and self._drain.is_alive:
            yield self._drain
        if snapshot is not None:
            yield self._env.timeout(snapshot)
        self._saving_seconds, self._unsaved_seconds = self._unsaved_seconds, 0.0
        if snapshot is None:
            yield from self._write_out()
        else:
            self._drain = self._env.process(self._write_in_background())
        self._observed.stall_seconds.append(self._env.now - start)
        self._observed.at_seconds.append(self._env.now)

    def _write_in_background(self) -> Steps:
        try:
            yield from self._write_out()
        except simpy.Interrupt:
            return

    def _write_out(self) -> Steps:
        transfer = yield from self._move(self._write, self._load.write)
        self._observed.num_written += 1
        self._observed.num_met_another += transfer.met_another
        self._observed.useful_seconds += self._saving_seconds
        self._saving_seconds = 0.0

    def _recover(self) -> Steps:
        start = self._env.now
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
