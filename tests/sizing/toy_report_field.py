"""The time that saves stall training in a day: a field that `Overhead` does not have."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from sizing.run import interval
from sizing.run.targets import Targets
from sizing.storage.transfer import Numbers
from sizing.units import SECONDS_PER_DAY


class Overhead(interval.Overhead):
    """As it is, with one field more."""

    stall_seconds_per_day: float | None = Field(
        description="Seconds of each day for which saves stall training. Null without a write rate."
    )


def stall_seconds_per_day(stall_fraction: Numbers) -> Numbers:
    """Time per day in which training stands still: f D, at most D.

    Args: f, the fraction of the time for which saves stall; D is a day, 86,400 s.
    Source: definition of the fraction; a save that takes longer than the interval stalls all day.

    >>> float(stall_seconds_per_day(0.01)), float(stall_seconds_per_day(1.5))
    (864.0, 86400.0)
    """
    return np.multiply(SECONDS_PER_DAY, np.minimum(stall_fraction, 1.0))


def overhead_of(stalled: Numbers | None, targets: Targets) -> Overhead:
    """The block where no failures are known."""
    limit = targets.max_overhead_fraction
    return Overhead.of(
        fraction=stalled,
        max_overhead_fraction=limit,
        meets_target=None if stalled is None else stalled <= limit,
        rework_fraction=None,
        stall_seconds_per_day=None if stalled is None else stall_seconds_per_day(stalled),
    )
