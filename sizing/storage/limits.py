"""Which resource limits a save or a restore, and how much slack the others have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    """What one save, or one step of a restore, asks of the storage.

    `num_streams` writers or readers move `total_bytes` in `num_files` opened files. They stand on as many nodes as
    they would if each held as many of them as the fullest does: `num_nodes` = streams / most on one node.
    """

    total_bytes: int
    num_streams: int
    num_nodes: float
    num_files: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """How long demands take on a storage profile, and why."""

    seconds: float
    serial_seconds: float
    bottleneck: Resource
    limits: tuple[Limit, ...]


def transfer(profile: StorageProfile, demands: Sequence[Demand], *, direction: Direction) -> Transfer | None:
    """The time of demands one after the other, or None where the profile gives no rate for the direction."""
    steps = [dict(_shared(profile, demand, direction)) for demand in demands]
    if not steps[0]:
        return None
    serial = serial_steps(profile, demands, direction=direction)
    shared = {resource: sum(step[resource] for step in steps) for resource in steps[0]}
    slowest = sum(max(step.values()) for step in steps)
    bottleneck = max(serial | _decided(steps), key=lambda resource: (serial | _decided(steps))[resource])
    total_bytes = sum(demand.total_bytes for demand in demands)
    limits = [
        Limit(
            resource=resource,
            seconds=seconds,
            bytes_per_second=total_bytes / seconds,
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
    total_serial = sum(serial.values())
    return Transfer(float(transfer_seconds(total_serial, slowest)), total_serial, bottleneck, tuple(limits))


def serial_steps(profile: StorageProfile, demands: Sequence[Demand], *, direction: Direction) -> dict[Resource, float]:
    """Seconds of each step that nothing overlaps, whatever rates are known."""
    seconds: dict[Resource, float] = {}
    for demand in demands:
        for resource, step in _serial(profile, demand, direction):
            seconds[resource] = seconds.get(resource, 0.0) + step
    fixed: float | None = getattr(profile, f"fixed_{direction}_seconds")
    return seconds if fixed is None else seconds | {"fixed": fixed}


def _decided(steps: Sequence[dict[Resource, float]]) -> dict[Resource, float]:
    """The time of the steps in which a resource was the slowest."""
    decided: dict[Resource, float] = {}
    for step in steps:
        slowest = max(step, key=lambda resource: step[resource])
        decided[slowest] = decided.get(slowest, 0.0) + step[slowest]
    return decided


def _shared(profile: StorageProfile, demand: Demand, direction: Direction) -> Iterator[tuple[Resource, float]]:
    """Seconds of each resource that all bytes pass through at once."""
    units: tuple[tuple[Resource, str, float], ...] = (
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
    """Seconds of each step of a demand that nothing overlaps."""
    copy_rate = profile.device_to_host_bytes_per_second
    if direction == "write" and copy_rate is not None:
        seconds = shared_seconds(demand.total_bytes, num_units=demand.num_streams, unit_bytes_per_second=copy_rate)
        yield "device-to-host", float(seconds)
    if profile.files_per_second is not None:
        yield "metadata", float(files_seconds(demand.num_files, files_per_second=profile.files_per_second))
