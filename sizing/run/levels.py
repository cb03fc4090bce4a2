"""The levels of saving, the fast ones often and the slow ones seldom: what they stall, and when to save to each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sizing.run.interval import young_seconds
from sizing.storage.transfer import Numbers

_LEAST_USED_FRACTION = 1e-12


@dataclass(frozen=True, slots=True)
class Level:
    """One level of saving: numbers, or arrays that broadcast.

    `interval_seconds` from start to start of its saves, a multiple of that of the level before; `stall_seconds` of
    one; `drain_seconds` until it counts; `recovery_seconds` from a failure until training goes on from it;
    `used_fraction` of the failures that are recovered from it, as no faster level survives them.
    """

    interval_seconds: Numbers
    stall_seconds: Numbers
    drain_seconds: Numbers
    recovery_seconds: Numbers
    used_fraction: Numbers


def overhead_of_levels_fraction(levels: Sequence[Level]) -> Numbers:
    """Share of the time in which training stands still to save: sum over levels of stall / interval.

    Source: definition.

    >>> levels = [Level(60.0, 1.0, 0.0, 0.0, 0.8), Level(600.0, 5.0, 0.0, 0.0, 0.2)]
    >>> round(overhead_of_levels_fraction(levels), 4)
    0.025
    """
    return sum((level.stall_seconds / level.interval_seconds for level in levels), start=0.0)


def level_mtbf_seconds(level: Level, *, mtbf_seconds: Numbers) -> Numbers:
    """Mean time between the failures that need a level: M / q; no number where there are none.

    Source: thinning of a Poisson process.

    >>> float(level_mtbf_seconds(Level(60.0, 1.0, 0.0, 0.0, 0.5), mtbf_seconds=3600.0))
    7200.0
    """
    some = np.greater(level.used_fraction, _LEAST_USED_FRACTION)
    return np.divide(mtbf_seconds, np.where(some, level.used_fraction, np.nan))


def first_order_level_intervals(levels: Sequence[Level], *, mtbf_seconds: Numbers) -> list[Numbers]:
    """Interval of each level, from start to start, that wastes least to first order: s + sqrt(2 s M / q).

    At least the time that a save and its drain take, and that of the level before.
    """
    intervals: list[Numbers] = []
    for level in levels:
        needed = level.stall_seconds + level.drain_seconds
        between = level_mtbf_seconds(level, mtbf_seconds=mtbf_seconds)
        spaced = level.stall_seconds + young_seconds(level.stall_seconds, mtbf_seconds=between)
        spaced = np.where(np.isnan(spaced), level.interval_seconds, spaced)
        intervals.append(np.maximum(np.maximum(spaced, needed), intervals[-1] if intervals else 0.0))
    return intervals
