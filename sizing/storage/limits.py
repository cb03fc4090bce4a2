"""Which resource limits a save or a restore, and how much slack the others have."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import Numbers, files_seconds, shared_seconds, transfer_seconds

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
    """How long demands take on a storage profile, and why. Its numbers are arrays where the profile's rates are.

    `steps` holds, for each demand, the seconds of every shared resource; `serial` those of what nothing overlaps.
    """

    shared_seconds: Numbers
    serial_seconds: Numbers
    total_bytes: int
    steps: tuple[dict[Resource, Numbers], ...]
    serial: dict[Resource, Numbers]

    @property
    def seconds(self) -> Numbers:
        """From start to end."""
        return transfer_seconds(self.serial_seconds, self.shared_seconds)

    @property
    def bottleneck(self) -> Resource:
        """The resource that decides longest; for arrays an array of names."""
        return _longest(self.serial | _decided(self.steps))

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Every resource with its time and slack, of numbers alone."""
        bottleneck = self.bottleneck
        shared = {resource: sum(step[resource] for step in self.steps) for resource in self.steps[0]}
        return tuple(
            Limit(
                resource=resource,
                seconds=float(seconds),
                bytes_per_second=float(self.total_bytes / seconds) if resource in shared else None,
                slack_fraction=float(1 - seconds / self.shared_seconds) if resource in shared else None,
                binds=resource == bottleneck,
            )
            for resource, seconds in (shared | self.serial).items()
        )


def transfer(profile: StorageProfile, demands: Sequence[Demand], *, direction: Direction) -> Transfer | None:
    """The time of demands one after the other, or None where the profile gives no rate for the direction.

    The profile's fields may hold arrays that broadcast together, set by `model_copy`.
    """
    steps = tuple(dict(_shared(profile, demand, direction)) for demand in demands)
    if not steps[0]:
        return None
    serial = serial_steps(profile, demands, direction=direction)
    serial_seconds = sum(serial.values(), start=0.0)
    slowest = sum(functools.reduce(np.maximum, step.values()) for step in steps)
    total_bytes = sum(demand.total_bytes for demand in demands)
    return Transfer(slowest, serial_seconds, total_bytes, steps, serial)


def serial_steps(
    profile: StorageProfile, demands: Sequence[Demand], *, direction: Direction
) -> dict[Resource, Numbers]:
    """Seconds of each step that nothing overlaps, whatever rates are known."""
    seconds: dict[Resource, Numbers] = {}
    for demand in demands:
        for resource, step in _serial(profile, demand, direction):
            seconds[resource] = seconds.get(resource, 0.0) + step
    fixed: float | None = getattr(profile, f"fixed_{direction}_seconds")
    return seconds if fixed is None else seconds | {"fixed": fixed}


def _decided(steps: Sequence[dict[Resource, Numbers]]) -> dict[Resource, Numbers]:
    """The time of the steps in which a resource was the slowest."""
    decided: dict[Resource, Numbers] = {}
    for step in steps:
        slowest = functools.reduce(np.maximum, step.values())
        for resource, seconds in step.items():
            decided[resource] = decided.get(resource, 0.0) + np.where(seconds == slowest, seconds, 0.0)
    return decided


def _longest(seconds: dict[Resource, Numbers]) -> Resource:
    names = list(seconds)
    if not any(map(np.ndim, seconds.values())):
        return max(names, key=lambda name: seconds[name])
    longest: Resource = np.array(names)[np.argmax(np.stack(np.broadcast_arrays(*seconds.values())), axis=0)]
    return longest


def _shared(profile: StorageProfile, demand: Demand, direction: Direction) -> Iterator[tuple[Resource, Numbers]]:
    """Seconds of each resource that all bytes pass through at once."""
    units: tuple[tuple[Resource, str, float], ...] = (
        ("writer", f"writer_{direction}_bytes_per_second", demand.num_streams),
        ("node", f"node_{direction}_bytes_per_second", demand.num_nodes),
        ("file-system", f"{direction}_bytes_per_second", 1),
    )
    for resource, field, num_units in units:
        rate: float | None = getattr(profile, field)
        if rate is not None:
            yield resource, shared_seconds(demand.total_bytes, num_units=num_units, unit_bytes_per_second=rate)


def _serial(profile: StorageProfile, demand: Demand, direction: Direction) -> Iterator[tuple[Resource, Numbers]]:
    """Seconds of each step of a demand that nothing overlaps."""
    copy_rate = profile.device_to_host_bytes_per_second
    if direction == "write" and copy_rate is not None:
        copied = shared_seconds(demand.total_bytes, num_units=demand.num_streams, unit_bytes_per_second=copy_rate)
        yield "device-to-host", copied
    if profile.files_per_second is not None:
        yield "metadata", files_seconds(demand.num_files, files_per_second=profile.files_per_second)
