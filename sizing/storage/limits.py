"""Which resource limits a save or a restore, and how much slack the others have."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np
from pydantic import Field

from sizing.storage.profile import StorageProfile
from sizing.storage.rates import Direction, Rates, Resource
from sizing.storage.terms import (
    Demand,
    Terms,
    is_storage_known,
    once_terms,
    serial_terms,
    shared_terms,
)
from sizing.storage.transfer import Numbers, combined_seconds, transfer_seconds
from sizing.strict_model import StrictModel

__all__ = [
    "NETWORK",
    "Demand",
    "Direction",
    "Limit",
    "Resource",
    "Transfer",
    "limit_text",
    "name_of_max",
    "serial_steps",
    "steps_seconds",
    "transfer",
]

NETWORK: Resource = "storage-network"
"""The resource that no storage makes faster: the adapters of the nodes."""

_Name = TypeVar("_Name", bound=str)


class Limit(StrictModel):
    """One resource: the rate that it allows, and the time that it takes."""

    resource: Resource = Field(
        description="What limits: one writer's stream, a node, its adapters, the whole file system, or a step that "
        "nothing overlaps."
    )
    seconds: float = Field(description="Seconds that the transfer takes of this resource.")
    bytes_per_second: float | None = Field(
        description="Rate that the resource allows over all of its units, in bytes per second. "
        "Null for steps that add up, and where it takes no time, as a cache that holds the whole save."
    )
    slack_fraction: float | None = Field(
        description="Fraction of the transfer for which the resource could idle, 0 for the bottleneck. "
        "Null for steps that add up."
    )
    binds: bool = Field(description="Whether it takes longer than every other resource.")


@dataclass(frozen=True)
class Transfer:
    """How long demands take on a storage profile, and why. Its numbers are arrays where the profile's rates are.

    `steps` holds, for each demand, the seconds of every shared resource; `serial` those of what nothing overlaps.
    """

    shared_seconds: Numbers
    serial_seconds: Numbers
    total_bytes: Numbers
    steps: tuple[Terms, ...]
    serial: Terms

    @functools.cached_property
    def seconds(self) -> Numbers:
        """Time of the transfer from start to end."""
        return transfer_seconds(self.serial_seconds, self.shared_seconds)

    @functools.cached_property
    def bottleneck(self) -> Resource:
        """The resource that decides for the longest time; for arrays an array of names."""
        if len(self.steps) == 1:
            return name_of_max(self.serial | self.steps[0])
        decided: Terms = {}  # of each resource the time of the steps in which it was the slowest
        for step in self.steps:
            slowest = functools.reduce(np.maximum, step.values())
            for resource, seconds in step.items():
                decided[resource] = decided.get(resource, 0.0) + np.where(seconds == slowest, seconds, 0.0)
        return name_of_max(self.serial | decided)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Every resource with its time and slack, of numbers alone."""
        bottleneck = self.bottleneck
        shared = {resource: sum(float(step[resource]) for step in self.steps) for resource in self.steps[0]}
        together = float(self.shared_seconds)
        return (
            *(
                Limit(
                    resource=resource,
                    seconds=seconds,
                    bytes_per_second=float(self.total_bytes) / seconds if seconds else None,
                    slack_fraction=1 - seconds / together if together else 0.0,
                    binds=resource == bottleneck,
                )
                for resource, seconds in shared.items()
            ),
            *(
                Limit(
                    resource=resource,
                    seconds=float(seconds),
                    bytes_per_second=None,
                    slack_fraction=None,
                    binds=resource == bottleneck,
                )
                for resource, seconds in self.serial.items()
            ),
        )


def transfer(profile: StorageProfile, demands: Sequence[Demand], *, direction: Direction) -> Transfer | None:
    """The time of demands one after the other, or None where the profile gives no rate for the direction.

    Adapters and processes alone give no time: storage of unknown speed stands behind them.
    The profile's fields may hold arrays that broadcast together, set by `model_copy`.
    """
    rates = profile.rates(direction)
    steps = tuple(shared_terms(rates, demand) for demand in demands)
    if not is_storage_known(rates, steps[0]):
        return None
    serial = serial_steps(rates, demands)
    serial_seconds = sum(serial.values(), start=0.0)
    slowest = sum(combined_seconds(*step.values(), knee_power=rates.knee_power) for step in steps)
    total_bytes = sum(demand.total_bytes for demand in demands)
    return Transfer(slowest, serial_seconds, total_bytes, steps, serial)


def steps_seconds(profile: StorageProfile | None, steps: Sequence[Demand], *, direction: Direction) -> Numbers | None:
    """Time of steps one after the other, 0 of none; None where the profile gives no rate for the direction.

    Source: `transfer`.

    >>> from sizing.storage.rates import Rates
    >>> profile = StorageProfile.of(read=Rates(file_system_bytes_per_second=2.0))
    >>> float(steps_seconds(profile, [Demand(8.0, 1, 1, 1)], direction="read"))
    4.0
    """
    if not steps:
        return 0.0
    moved = transfer(profile, steps, direction=direction) if profile else None
    return None if moved is None else moved.seconds


def limit_text(resource: Resource) -> str:
    """A resource for a reader, with what stands behind the one that no storage makes faster.

    >>> limit_text("file-system"), limit_text("storage-network")
    ('file-system', 'storage-network (the adapters of cluster.storage_nics)')
    """
    return f"{resource} (the adapters of cluster.storage_nics)" if resource == NETWORK else resource


def name_of_max(seconds: Mapping[_Name, Numbers]) -> _Name:
    """The name of the largest value; for arrays an array of names."""
    names = list(seconds)
    if not any(isinstance(value, np.ndarray) and value.ndim for value in seconds.values()):
        return max(names, key=lambda name: seconds[name])
    greatest, index = seconds[names[0]], np.zeros((), np.int8)
    for number, name in enumerate(names[1:], start=1):
        index = np.where(np.greater(seconds[name], greatest), np.int8(number), index)
        greatest = np.maximum(greatest, seconds[name])
    return cast("_Name", np.array(names, dtype=object)[index])


def serial_steps(rates: Rates, demands: Sequence[Demand]) -> Terms:
    """Seconds of each step that nothing overlaps, whatever rates are known."""
    seconds = once_terms(rates)
    for demand in demands:
        for resource, step in serial_terms(rates, demand).items():
            seconds[resource] = seconds.get(resource, 0.0) + step
    return seconds
