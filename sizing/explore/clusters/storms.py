"""Restore storms: all jobs that one failure stops read their checkpoints again at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from sizing.errors import InvalidInput
from sizing.explore.clusters.load import JobLoad
from sizing.explore.clusters.sharing import Batch, Sharer, finish_seconds
from sizing.units import SECONDS_PER_HOUR

MOST_RACKS = 100_000
"""Few are distinct and computed, but finding them takes memory for all."""


class Storm(BaseModel):
    """What a failure costs that stops several jobs at once, detection and restart included."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    failure: str = Field(description="What fails: the rack with the max recovery time, or the power of all nodes.")
    num_jobs: int = Field(description="Jobs that the failure stops.")
    num_gpus: int = Field(description="GPUs of the jobs that the failure stops.")
    read_bytes: int = Field(description="Bytes that the stopped jobs read to restore.")
    first_back_seconds: float = Field(description="Seconds from the failure until the first job trains again.")
    last_back_seconds: float = Field(description="Seconds from the failure until every job trains again (RTO).")
    last_back_alone_seconds: float = Field(
        description="Seconds until the slowest job trains again, if nobody else read at that time."
    )
    gpu_hours: float = Field(
        description="GPU-hours that stand still until every job trains again, work done again not counted."
    )


def storms(loads: Sequence[JobLoad], *, read_bytes_per_second: float, nodes_per_rack: int | None) -> list[Storm]:
    """The worst rack, where racks are asked for, and all jobs at once.

    Raises InvalidInput where there are more than 100,000 racks.
    """
    everybody = [load.group.count for load in loads]
    found = [_storm("power", loads, everybody, read_bytes_per_second)]
    if nodes_per_rack is None:
        return found
    hits = _jobs_by_rack(loads, nodes_per_rack)
    racks = [_storm("rack", loads, hit, read_bytes_per_second) for hit in hits]
    return [max(racks, key=lambda storm: storm.last_back_seconds), *found]


def _storm(failure: str, loads: Sequence[JobLoad], counts: Sequence[int], read_bytes_per_second: float) -> Storm:
    hit = [(load, count) for load, count in zip(loads, counts, strict=True) if count]
    back = back_seconds(loads, counts, read_bytes_per_second=read_bytes_per_second)
    gpus = [load.report.layout.num_gpus * count for load, count in hit]
    return Storm(
        failure=failure,
        num_jobs=sum(counts),
        num_gpus=sum(gpus),
        read_bytes=sum(load.report.restore.read_bytes * count for load, count in hit),
        first_back_seconds=min(back),
        last_back_seconds=max(back),
        last_back_alone_seconds=max(
            load.before_reading_seconds(read_bytes_per_second) + load.restore.alone_seconds(read_bytes_per_second)
            for load, _ in hit
            if load.restore
        ),
        gpu_hours=sum(num_gpus * seconds for num_gpus, seconds in zip(gpus, back, strict=True)) / SECONDS_PER_HOUR,
    )


def back_seconds(loads: Sequence[JobLoad], counts: Sequence[int], *, read_bytes_per_second: float) -> list[float]:
    """When the jobs train again that a failure stops, so many of each group; each reads once it has restarted.

    Source: `sharing.finish_seconds`, of transfers that begin after detection, relaunch and the serial steps.

    >>> from sizing.explore.clusters.cluster_scenario import cluster_scenario_from
    >>> from sizing.explore.clusters.load import job_loads
    >>> jobs = [{"name": "8B", "count": 2, "scenario": {"model": {"preset": "llama-3.1-8b"}}}]
    >>> rates = {"write_bytes_per_second": 1e9, "read_bytes_per_second": 1e9}
    >>> loads = job_loads(cluster_scenario_from({"jobs": jobs, "storage": {"profile": rates}}))
    >>> (one,), (both,) = (back_seconds(loads, [count], read_bytes_per_second=1e9) for count in (1, 2))
    >>> round(both / one, 9)
    2.0
    """
    batches = [
        Batch(
            Sharer(load.restore.max_bytes_per_second, load.restore.weight),
            count,
            load.restore.num_bytes,
            load.before_reading_seconds(read_bytes_per_second) + load.restore.lead_seconds,
        )
        for load, count in zip(loads, counts, strict=True)
        if load.restore and count
    ]
    return finish_seconds(read_bytes_per_second, batches)


def _jobs_by_rack(loads: Sequence[JobLoad], nodes_per_rack: int) -> Iterator[list[int]]:
    """How many jobs of each group a rack holds nodes of, for each kind of rack that there is."""
    counts = np.array([load.group.count for load in loads])
    nodes = np.repeat([load.report.layout.num_nodes for load in loads], counts)
    ends = np.cumsum(nodes)
    num_racks = -(-int(ends[-1]) // nodes_per_rack)
    if num_racks > MOST_RACKS:
        raise InvalidInput.of(
            "nodes_per_rack", f"makes more than {MOST_RACKS:,} racks", value=nodes_per_rack, remedy="give more nodes"
        )
    starts = np.arange(num_racks) * nodes_per_rack
    first = np.searchsorted(ends, starts, side="right")
    last = np.searchsorted(ends - nodes, starts + nodes_per_rack, side="left") - 1
    upper = np.cumsum(counts)
    held = np.minimum(last[:, None], upper - 1) - np.maximum(first[:, None], upper - counts) + 1
    distinct: npt.NDArray[np.int_] = np.unique(np.maximum(held, 0), axis=0)
    return iter(distinct.tolist())
