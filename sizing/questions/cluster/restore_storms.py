"""Restore storms: all jobs that one failure stops read their checkpoints again at the same time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sizing.errors import InvalidInput
from sizing.questions.cluster.bandwidth_sharing import Sharer, fair_rates
from sizing.questions.cluster.load import JobLoad
from sizing.questions.cluster.report import Storm
from sizing.units import SECONDS_PER_HOUR

MAX_RACKS = 100_000
"""Few are distinct and computed, but finding them takes memory for all."""


def find_restore_storms(
    loads: Sequence[JobLoad], *, read_bytes_per_second: float, nodes_per_rack: int | None
) -> list[Storm]:
    """Find what the failure of the worst rack costs, where racks are asked for, and that of all nodes.

    Raises InvalidInput where there are more than 100,000 racks.
    """
    everybody = [load.group.count for load in loads]
    found = [_make_storm("power", loads, everybody, read_bytes_per_second)]
    if nodes_per_rack is None:
        return found
    hits = _count_jobs_by_rack(loads, nodes_per_rack)
    racks = [_make_storm("rack", loads, hit, read_bytes_per_second) for hit in hits]
    return [max(racks, key=lambda storm: storm.last_back_seconds), *found]


def _make_storm(failure: str, loads: Sequence[JobLoad], counts: Sequence[int], read_bytes_per_second: float) -> Storm:
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

    Source: `finish_seconds`, of transfers that begin after detection, relaunch and the serial steps.

    >>> from sizing.questions.cluster.request import ClusterScenario
    >>> from sizing.questions.cluster.load import compute_job_loads
    >>> jobs = [{"name": "8B", "count": 2, "scenario": {"model": {"preset": "llama-3.1-8b"}}}]
    >>> rates = {"write_bytes_per_second": 1e9, "read_bytes_per_second": 1e9}
    >>> loads = compute_job_loads(ClusterScenario.model_validate({"jobs": jobs, "storage": {"profile": rates}}))
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


def _count_jobs_by_rack(loads: Sequence[JobLoad], nodes_per_rack: int) -> Iterator[list[int]]:
    """Count the jobs of each group of which a rack holds nodes, for each kind of rack that there is."""
    counts = np.array([load.group.count for load in loads])
    nodes = np.repeat([load.report.layout.num_nodes for load in loads], counts)
    ends = np.cumsum(nodes)
    num_racks = -(-int(ends[-1]) // nodes_per_rack)
    if num_racks > MAX_RACKS:
        raise InvalidInput.of(
            "nodes_per_rack", f"makes more than {MAX_RACKS:,} racks", value=nodes_per_rack, remedy="give more nodes"
        )
    starts = np.arange(num_racks) * nodes_per_rack
    first = np.searchsorted(ends, starts, side="right")
    last = np.searchsorted(ends - nodes, starts + nodes_per_rack, side="left") - 1
    upper = np.cumsum(counts)
    held = np.minimum(last[:, None], upper - 1) - np.maximum(first[:, None], upper - counts) + 1
    distinct: npt.NDArray[np.int_] = np.unique(np.maximum(held, 0), axis=0)
    return iter(distinct.tolist())


class Batch(NamedTuple):
    """`num_transfers` equal transfers of `num_bytes` each that begin together at `start_seconds`."""

    sharer: Sharer
    num_transfers: int
    num_bytes: float
    start_seconds: float = 0.0


@dataclass(slots=True)
class _UnderWay:
    """A batch of which each transfer has still to move `left_bytes`, until `end_seconds`."""

    batch: Batch
    left_bytes: float
    end_seconds: float = math.inf

    def has_ended(self) -> bool:
        return math.isfinite(self.end_seconds)

    def num_running(self, now: float) -> int:
        return self.batch.num_transfers if self.batch.start_seconds <= now and self.left_bytes > 0 else 0

    def end_at(self, rate: float, now: float) -> float:
        return now + self.left_bytes / rate

    def move(self, rate: float, now: float, then: float) -> None:
        self.left_bytes = 0.0 if self.end_at(rate, now) <= then else self.left_bytes - rate * (then - now)
        if self.left_bytes <= 0:
            self.end_seconds = then


def finish_seconds(bytes_per_second: float, batches: Sequence[Batch]) -> list[float]:
    """When the transfers of each batch end if nothing else uses the file system.

    Between starts and ends the rates of `fair_rates` stand still, so this steps from one to the next.
    Source: definition of processor sharing, integrated.

    >>> alike = Sharer(float("inf"), 1.0)
    >>> finish_seconds(10.0, [Batch(alike, 1, 10.0), Batch(alike, 1, 30.0), Batch(alike, 1, 10.0, 3.0)])
    [2.0, 5.0, 5.0]
    """
    under_way = [_UnderWay(batch, batch.num_bytes) for batch in batches]
    now = min(batch.start_seconds for batch in batches)
    while not all(map(_UnderWay.has_ended, under_way)):
        now = _move(under_way, bytes_per_second, now)
    return [each.end_seconds for each in under_way]


def _move(under_way: Sequence[_UnderWay], bytes_per_second: float, now: float) -> float:
    """Move bytes until the next start or end, and return its time."""
    counts = [each.num_running(now) for each in under_way]
    rates = fair_rates(bytes_per_second, [each.batch.sharer for each in under_way], counts=counts)
    running = [(each, rate) for each, rate, count in zip(under_way, rates, counts, strict=True) if count]
    ends = [each.end_at(rate, now) for each, rate in running]
    starts = [each.batch.start_seconds for each in under_way if each.batch.start_seconds > now]
    then = min([*ends, *starts])
    for each, rate in running:
        each.move(rate, now, then)
    return then
