"""What groups of jobs move through the file system: on average by formula, and as simulated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from sizing.explore.clusters.bandwidth import SharedBandwidth
from sizing.explore.clusters.cluster_report import FileSystemUse
from sizing.explore.clusters.load import JobLoad
from sizing.explore.clusters.statistics import use_of


class Flow(NamedTuple):
    """What a group's jobs move: each so many bytes once in a period, at most so fast."""

    num_jobs: int
    num_bytes: float
    period_seconds: float
    max_bytes_per_second: float

    @property
    def mean_bytes_per_second(self) -> float:
        """Of all its jobs together."""
        return self.num_jobs * self.num_bytes / self.period_seconds


def writes(loads: Sequence[JobLoad]) -> list[Flow]:
    """One checkpoint per interval."""
    return [
        Flow(load.group.count, load.write.num_bytes, load.interval_seconds, load.write.max_bytes_per_second)
        for load in loads
    ]


def restores(loads: Sequence[JobLoad]) -> list[Flow]:
    """One restore per failure that needs the shared storage, none where failures are not known."""
    return [
        Flow(
            load.group.count,
            load.restore.num_bytes,
            load.between_restores_seconds,
            load.restore.max_bytes_per_second,
        )
        for load in loads
        if load.restore
    ]


def file_system_use(flows: Sequence[Flow], storage: SharedBandwidth, *, horizon_seconds: float) -> FileSystemUse:
    """What flows ask of the file system on average and at once, beside what the simulation saw of it."""
    mean = sum(flow.mean_bytes_per_second for flow in flows)
    together = sum(flow.num_jobs * flow.max_bytes_per_second for flow in flows)
    return FileSystemUse(
        bytes_per_second=storage.bytes_per_second,
        mean_bytes_per_second=mean,
        utilization_fraction=mean / storage.bytes_per_second,
        all_at_once_bytes_per_second=together if math.isfinite(together) else None,
        simulated=use_of(storage, horizon_seconds=horizon_seconds),
    )
