"""Which resource limits a save or a restore, and how much slack the others have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import files_seconds, shared_seconds, transfer_seconds

Resource = Literal["device-to-host", "writer", "node", "file-system", "metadata", "fixed"]
Direction = Literal["write", "read"]


class Limit(BaseModel):
    """One resource: the rate that it allows over all units, and the time that it takes.

    `slack_fraction` is the part of the transfer during which the resource could have idled: 0 where it
    binds. It is None for serial steps, which add up instead of hiding behind each other.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    resource: Resource
    seconds: float
    bytes_per_second: float | None
    slack_fraction: float | None
    binds: bool = Field(description="takes longer than every other resource")


@dataclass(frozen=True, slots=True)
class Demand:
    """What one save or restore asks of the storage.

    `num_streams` writers or readers on `num_nodes` nodes move `total_bytes` in `num_files` opened files.
    """

    total_bytes: int
    num_streams: int
    num_nodes: int
    num_files: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """How long a demand takes on a storage profile, and why."""

    seconds: float
    serial_seconds: float
    bottleneck: Resource
    limits: tuple[Limit, ...]


def transfer(profile: StorageProfile, demand: Demand, *, direction: Direction) -> Transfer | None:
    """The time of a demand, or None where the profile gives no rate for the direction."""
    shared = dict(_shared(profile, demand, direction))
    if not shared:
        return None
    serial = dict(_serial(profile, demand, direction))
    total_serial = sum(serial.values())
    slowest = max(shared.values())
    bottleneck = max(serial | shared, key=lambda resource: (serial | shared)[resource])
    limits = [
        Limit(
            resource=resource,
            seconds=seconds,
            bytes_per_second=demand.total_bytes / seconds,
            slack_fraction=1 - seconds / slowest,
            binds=resource == bottleneck,
        )
        for resource, seconds in shared.items()
    ] + [
        Limit(
            resource=resource,
            seconds=seconds,
            bytes_per_second=None,
            slack_fraction=None,
            binds=resource == bottleneck,
        )
        for resource, seconds in serial.items()
    ]
    seconds = float(transfer_seconds(total_serial, *shared.values()))
    return Transfer(seconds, total_serial, bottleneck, tuple(limits))


def _shared(profile: StorageProfile, demand: Demand, direction: Direction) -> Iterator[tuple[Resource, float]]:
    """Seconds of each resource that all bytes pass through at once."""
    units: tuple[tuple[Resource, str, int], ...] = (
        ("writer", f"writer_{direction}_bytes_per_second", demand.num_streams),
        ("node", f"node_{direction}_bytes_per_second", demand.num_nodes),
        ("file-system", f"{direction}_bytes_per_second", 1),
    )
    for resource, field, num_units in units:
        rate: float | None = getattr(profile, field)
        if rate is not None:
            seconds = shared_seconds(demand.total_bytes, num_units=num_units, unit_bytes_per_second=rate)
            yield resource, float(seconds)


def _serial(profile: StorageProfile, demand: Demand, direction: Direction) -> Iterator[tuple[Resource, float]]:
    """Seconds of each step that nothing overlaps."""
    copy_rate = profile.device_to_host_bytes_per_second
    if direction == "write" and copy_rate is not None:
        seconds = shared_seconds(demand.total_bytes, num_units=demand.num_streams, unit_bytes_per_second=copy_rate)
        yield "device-to-host", float(seconds)
    if profile.files_per_second is not None:
        yield "metadata", float(files_seconds(demand.num_files, files_per_second=profile.files_per_second))
    fixed: float | None = getattr(profile, f"fixed_{direction}_seconds")
    if fixed is not None:
        yield "fixed", fixed
