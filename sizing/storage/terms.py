"""The terms of the transfer model: what each resource takes of a save or a restore.

Rates are a mapping of StorageProfile's field names to numbers or numpy arrays; a field that is not in it does not
limit. So one answer, a sweep over a million rows and the draws of a calibration run the same lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

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
    "file-system",
    "planning",
    "metadata",
    "per-file",
    "commit",
    "fixed",
]
"""What can limit. `writer` is one stream, `page-cache` all buffered streams of a node, `metadata` the rate of
creating or opening files, `per-file` each file's own latency within its stream."""

Direction = Literal["write", "read"]
Rates = Mapping[str, Numbers]
Terms = dict[Resource, Numbers]


@dataclass(frozen=True, slots=True)
class Demand:
    """What one save, or one step of a restore, asks of the storage: numbers, or arrays that broadcast.

    `num_streams` writers or readers move `total_bytes` in `num_files` opened files. They stand on as many nodes as
    they would if each held as many of them as the fullest does: `num_nodes` = streams / most on one node. The plans
    of `num_planned_ranks` are gathered before; `metadata_bytes` go through one stream after.
    """

    total_bytes: Numbers
    num_streams: Numbers
    num_nodes: Numbers
    num_files: Numbers
    num_planned_ranks: Numbers = 0
    metadata_bytes: Numbers = 0


def shared_terms(rates: Rates, demand: Demand, *, direction: Direction) -> Terms:
    """Seconds of each resource that all bytes pass through at once: the slowest hides the others."""
    units: tuple[tuple[Resource, str, Numbers], ...] = (
        ("writer", _writer_field(rates, direction), demand.num_streams),
        ("page-cache", f"node_buffered_{direction}_bytes_per_second", demand.num_nodes),
        ("node", f"node_{direction}_bytes_per_second", demand.num_nodes),
        ("file-system", f"{direction}_bytes_per_second", 1),
    )
    return {
        resource: shared_seconds(demand.total_bytes, num_units=num_units, unit_bytes_per_second=rates[field])
        for resource, field, num_units in units
        if field in rates
    }


def serial_terms(rates: Rates, demand: Demand, *, direction: Direction) -> Terms:
    """Seconds of each step that nothing overlaps and that each demand pays anew."""
    return dict(_serial(rates, demand, direction))


def once_terms(rates: Rates, *, direction: Direction) -> Terms:
    """Seconds of what a whole save or restore pays once, whatever its demands."""
    fields: tuple[tuple[Resource, str], ...] = (("fixed", f"fixed_{direction}_seconds"),)
    if direction == "write":
        fields = (("commit", "commit_seconds"), *fields)
    return {resource: rates[field] for resource, field in fields if field in rates}


def total_seconds(rates: Rates, demands: Sequence[Demand], *, direction: Direction) -> Numbers:
    """Time of demands one after the other, whose rates give at least one shared resource.

    Source: `transfer.transfer_seconds`, for each demand, and what is paid once.

    >>> float(total_seconds({"write_bytes_per_second": 2.0}, [Demand(8, 1, 1, 1)], direction="write"))
    4.0
    """
    seconds = sum(once_terms(rates, direction=direction).values(), start=np.float64(0.0))
    for demand in demands:
        serial = sum(serial_terms(rates, demand, direction=direction).values(), start=np.float64(0.0))
        seconds = seconds + transfer_seconds(serial, *shared_terms(rates, demand, direction=direction).values())
    return seconds


def files_field(direction: Direction) -> str:
    """The profile's field for files created by saves, or opened by restores."""
    return "files_per_second" if direction == "write" else "read_files_per_second"


def planning_field(direction: Direction) -> str:
    """The profile's field for the time to gather a rank's plan of a save, or of a restore."""
    return "planning_seconds_per_rank" if direction == "write" else "read_planning_seconds_per_rank"


def _serial(rates: Rates, demand: Demand, direction: Direction) -> Iterator[tuple[Resource, Numbers]]:
    copy_rate = rates.get("device_to_host_bytes_per_second")
    if direction == "write" and copy_rate is not None:
        yield (
            "device-to-host",
            shared_seconds(demand.total_bytes, num_units=demand.num_streams, unit_bytes_per_second=copy_rate),
        )
    planning = rates.get(planning_field(direction))
    if planning is not None and np.any(demand.num_planned_ranks):
        yield "planning", planning_seconds(demand.num_planned_ranks, seconds_per_rank=planning)
    files_rate = rates.get(files_field(direction))
    metadata = [files_seconds(demand.num_files, files_per_second=files_rate)] if files_rate is not None else []
    writer_rate = rates.get(_writer_field(rates, direction))
    if writer_rate is not None and np.any(demand.metadata_bytes):
        metadata.append(shared_seconds(demand.metadata_bytes, num_units=1, unit_bytes_per_second=writer_rate))
    if metadata:
        yield "metadata", sum(metadata[1:], metadata[0])
    latency = rates.get(f"file_{direction}_seconds")
    if latency is not None:
        yield (
            "per-file",
            file_latency_seconds(demand.num_files, num_streams=demand.num_streams, seconds_per_file=latency),
        )


def _writer_field(rates: Rates, direction: Direction) -> str:
    buffered = f"writer_buffered_{direction}_bytes_per_second"
    return buffered if buffered in rates else f"writer_{direction}_bytes_per_second"
