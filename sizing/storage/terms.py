"""The terms of the transfer model: what each resource takes of a save or a restore.

Rates are numbers or numpy arrays, so one answer, a sweep over a million rows and the draws of a calibration run the
same lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sizing.storage.rates import Rates
from sizing.storage.transfer import (
    Numbers,
    file_latency_seconds,
    files_seconds,
    planning_seconds,
    shared_seconds,
    transfer_seconds,
)

Resource = Literal[
    "device-to-host",
    "writer",
    "page-cache",
    "node",
    "storage-network",
    "file-system",
    "planning",
    "metadata",
    "per-file",
    "commit",
    "fixed",
]
"""What can limit. `writer` is one stream, `page-cache` all buffered streams of a node, `storage-network` the adapters
of a node where the cluster states them, `metadata` the rate of creating or opening files, `per-file` each file's own
latency within its stream."""

Terms = dict[Resource, Numbers]


@dataclass(frozen=True, slots=True)
class Demand:
    """What one save, or one step of a restore, asks of the storage: numbers, or arrays that broadcast.

    `num_streams` writers or readers move `total_bytes` in `num_files` opened files. They stand on as many nodes as
    they would if each held as many of them as the fullest does: `num_nodes` = streams / max on one node. The plans
    of `num_planned_ranks` are gathered before, in `planning_seconds_per_rank` where the storage does not say it, of
    which `stalling_planning_fraction` stops the training in asynchronous saves; `metadata_bytes` go through one stream
    after. Where the adapters of a node are known to carry `node_network_bytes_per_second` at most, that limits whatever
    the storage does.
    """

    total_bytes: Numbers
    num_streams: Numbers
    num_nodes: Numbers
    num_files: Numbers
    num_planned_ranks: Numbers = 0
    metadata_bytes: Numbers = 0
    planning_seconds_per_rank: Numbers = 0.0
    stalling_planning_fraction: Numbers = 1.0
    node_network_bytes_per_second: Numbers | None = None

    @property
    def network_seconds(self) -> Numbers:
        """The time that its bytes take through the adapters of the nodes; 0 where these do not limit."""
        rate = self.node_network_bytes_per_second
        if rate is None:
            return 0.0
        return shared_seconds(self.total_bytes, num_units=self.num_nodes, unit_bytes_per_second=rate)


def shared_terms(rates: Rates, demand: Demand) -> Terms:
    """Seconds of each resource that all bytes pass through at once: the slowest hides the others."""
    units: tuple[tuple[Resource, Numbers | None, Numbers], ...] = (
        ("writer", rates.stream_bytes_per_second, demand.num_streams),
        ("page-cache", rates.node_buffered_bytes_per_second, demand.num_nodes),
        ("node", rates.node_bytes_per_second, demand.num_nodes),
        ("storage-network", demand.node_network_bytes_per_second, demand.num_nodes),
        ("file-system", rates.file_system_bytes_per_second, 1),
    )
    return {
        resource: shared_seconds(demand.total_bytes, num_units=num_units, unit_bytes_per_second=rate)
        for resource, rate, num_units in units
        if rate is not None
    }


def serial_terms(rates: Rates, demand: Demand) -> Terms:
    """Seconds of each step that nothing overlaps and that each demand pays anew."""
    steps: tuple[tuple[Resource, Numbers | None], ...] = (
        ("device-to-host", _copy_seconds(rates, demand)),
        ("planning", _planning_seconds(rates, demand)),
        ("metadata", _metadata_seconds(rates, demand)),
        ("per-file", _latency_seconds(rates, demand)),
    )
    return {resource: seconds for resource, seconds in steps if seconds is not None}


def once_terms(rates: Rates) -> Terms:
    """Seconds of what a whole save or restore pays once, whatever its demands."""
    steps: tuple[tuple[Resource, Numbers | None], ...] = (
        ("commit", rates.commit_seconds),
        ("fixed", rates.fixed_seconds),
    )
    return {resource: seconds for resource, seconds in steps if seconds is not None}


def total_seconds(rates: Rates, demands: Sequence[Demand]) -> Numbers:
    """Time of demands one after the other, whose rates give at least one shared resource.

    Source: `transfer.transfer_seconds`, for each demand, and what is paid once.

    >>> float(total_seconds(Rates(file_system_bytes_per_second=2.0), [Demand(8, 1, 1, 1)]))
    4.0
    """
    seconds = sum(once_terms(rates).values(), start=np.float64(0.0))
    for demand in demands:
        serial = sum(serial_terms(rates, demand).values(), start=np.float64(0.0))
        seconds = seconds + transfer_seconds(serial, *shared_terms(rates, demand).values())
    return seconds


def _copy_seconds(rates: Rates, demand: Demand) -> Numbers | None:
    rate = rates.device_to_host_bytes_per_second
    if rate is None:
        return None
    return shared_seconds(demand.total_bytes, num_units=demand.num_streams, unit_bytes_per_second=rate)


def _planning_seconds(rates: Rates, demand: Demand) -> Numbers | None:
    given = rates.planning_seconds_per_rank
    seconds = demand.planning_seconds_per_rank if given is None else given
    if not np.any(demand.num_planned_ranks) or (given is None and not np.any(seconds)):
        return None
    return planning_seconds(demand.num_planned_ranks, seconds_per_rank=seconds)


def _metadata_seconds(rates: Rates, demand: Demand) -> Numbers | None:
    """To create or open the files, and to move what the plans left to one stream."""
    files, stream = rates.files_per_second, rates.stream_bytes_per_second
    seconds = None if files is None else files_seconds(demand.num_files, files_per_second=files)
    if stream is None or not np.any(demand.metadata_bytes):
        return seconds
    moved = shared_seconds(demand.metadata_bytes, num_units=1, unit_bytes_per_second=stream)
    return moved if seconds is None else seconds + moved


def _latency_seconds(rates: Rates, demand: Demand) -> Numbers | None:
    seconds = rates.file_seconds
    if seconds is None:
        return None
    latency = file_latency_seconds(demand.num_files, num_streams=demand.num_streams, seconds_per_file=seconds)
    return latency * np.greater(demand.total_bytes, 0)
