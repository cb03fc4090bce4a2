"""A seeded discrete-event simulation of the jobs: training, saving, failing and reading, on shared storage."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import simpy

from sizing.explore.clusters.bandwidth import SharedBandwidth
from sizing.explore.clusters.job import Job
from sizing.explore.clusters.load import JobLoad
from sizing.explore.clusters.observed import Observed, Simulated
from sizing.explore.clusters.sharing import Sharer
from sizing.explore.clusters.transfer_load import TransferLoad

Progress = Callable[[float], None]

_PROGRESS_STEPS = 200
"""A bar moves twice per percent."""


def unseen(_fraction: float) -> None:
    """Progress that nobody looks at."""


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
    world = Simulated([Observed() for _ in loads], write, _shared_read(env, loads, read_bytes_per_second))
    jobs = [
        Job(env, load, kind, world=world, index=index, seed=seed)
        for kind, load in enumerate(loads)
        for index in range(load.group.count)
    ]
    for step in range(1, _PROGRESS_STEPS + 1):
        env.run(until=horizon_seconds * step / _PROGRESS_STEPS)
        progress(step / _PROGRESS_STEPS)
    for job in jobs:
        job.count_unfinished_work()
    return world


def _shared_read(
    env: simpy.Environment, loads: Sequence[JobLoad], bytes_per_second: float | None
) -> SharedBandwidth | None:
    """What all jobs read from; None where no read rate is known, of the file system or of a job."""
    restores = [load.restore for load in loads if load.restore]
    if bytes_per_second is None or len(restores) < len(loads):
        return None
    return SharedBandwidth(env, bytes_per_second=bytes_per_second, sharers=list(map(_sharer, restores)))


def _sharer(load: TransferLoad) -> Sharer:
    return Sharer(load.max_bytes_per_second, load.weight)
