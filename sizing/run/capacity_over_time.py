"""Storage that the kept checkpoints take from day to day of a run, and when it is full."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sizing.run.retention import Capacity, Retention, usable_bytes
from sizing.storage.transfer import Numbers
from sizing.units import SECONDS_PER_DAY

_NUM_PARTS = 10
"""Of the run, at the end of each of which a row stands: a table that can be read."""


class CapacityAt(BaseModel):
    """What the storage must hold some time after the run began."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    at_seconds: float = Field(description="Seconds of training since the run began.")
    num_checkpoints: int = Field(description="Whole checkpoints that are there, with the one being written.")
    checkpoints_bytes: float = Field(description="Bytes of these checkpoints, with those that they need.")
    kept_weights_bytes: float = Field(description="Bytes of the weights that stay for good.")
    usable_bytes: float = Field(
        description="Size of the file system in bytes that holds all this, exports too, with the fraction that stays "
        "free."
    )


class Held(NamedTuple):
    """What must fit over a run, and when an offered capacity is full; None where it never is."""

    over_time: list[CapacityAt]
    full_seconds: float | None


def held_over_time(
    capacity: Capacity,
    retention: Retention,
    *,
    interval_seconds: float,
    run_seconds: float,
    offered_bytes: float | None,
) -> Held:
    """What must fit from day to day, beside an offered capacity."""
    over_time = capacity_over_time(capacity, retention, interval_seconds=interval_seconds, run_seconds=run_seconds)
    if offered_bytes is None:
        return Held(over_time, None)
    full = full_after_seconds(capacity, retention, interval_seconds=interval_seconds, offered_bytes=offered_bytes)
    return Held(over_time, full)


def capacity_over_time(
    capacity: Capacity, retention: Retention, *, interval_seconds: Numbers, run_seconds: Numbers | None
) -> list[CapacityAt]:
    """What must fit at the begin, when all kept checkpoints are there, and at each tenth of the run.

    None for arrays, and where the length of the run is not known.
    """
    numbers = (interval_seconds, run_seconds, retention.free_fraction, *vars(capacity).values())
    if run_seconds is None or any(np.ndim(number) for number in numbers):
        return []
    interval, length = float(interval_seconds), float(run_seconds)
    full = (capacity.num_checkpoints - 1) * interval
    times = {length * part / _NUM_PARTS for part in range(_NUM_PARTS + 1)} | {min(full, length)}
    return [_at(seconds, capacity, retention, interval) for seconds in sorted(times)]


def _at(seconds: float, capacity: Capacity, retention: Retention, interval_seconds: float) -> CapacityAt:
    """The number of checkpoints grows by one in each interval until all that are kept are there."""
    number = min(capacity.num_checkpoints, 1 + math.floor(seconds / interval_seconds * (1 + 1e-12)))
    checkpoints = capacity.checkpoints_bytes * number / capacity.num_checkpoints
    weights = capacity.growth_bytes_per_day * seconds / SECONDS_PER_DAY
    held = checkpoints + weights + capacity.exported_bytes
    return CapacityAt(
        at_seconds=seconds,
        num_checkpoints=number,
        checkpoints_bytes=checkpoints,
        kept_weights_bytes=weights,
        usable_bytes=float(usable_bytes(held, free_fraction=retention.free_fraction)),
    )


def full_after_seconds(
    capacity: Capacity, retention: Retention, *, interval_seconds: float, offered_bytes: float
) -> float | None:
    """When what must fit passes an offered capacity C: (C (1 - f) - K) / g, of kept weights that grow by g; or never.

    K are the checkpoints and exports; where these alone do not fit, it is when the first of them does not.
    Source: definition, with f of `retention.usable_bytes`.

    >>> kept = {"num_checkpoints": 2, "checkpoints_bytes": 20, "further_checkpoint_bytes": 10, "kept_weights_bytes": 0}
    >>> rest = {"capacity_bytes": 20, "usable_bytes": 20, "raw_bytes": 20, "written_bytes_per_day": 240}
    >>> found = Capacity(**kept, **rest, growth_bytes_per_day=5)
    >>> [full_after_seconds(found, Retention(), interval_seconds=3600, offered_bytes=c) for c in (5, 15, 30)]
    [0.0, 3600.0, 172800.0]
    """
    room = offered_bytes * (1 - retention.free_fraction) - capacity.exported_bytes
    each = capacity.checkpoints_bytes / capacity.num_checkpoints
    if room < capacity.checkpoints_bytes:
        return float(max(0, math.floor(room / each)) * interval_seconds)
    growth = capacity.growth_bytes_per_day / SECONDS_PER_DAY
    return (room - capacity.checkpoints_bytes) / growth if growth else None
