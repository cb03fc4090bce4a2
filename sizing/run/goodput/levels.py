"""The levels of saving, the fast ones often and the slow ones seldom: what they stall, and when to save to each."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sizing.run.goodput.single_level import young_seconds
from sizing.storage.transfer import Numbers

LEAST_PROBABILITY = 1e-30
"""Probabilities below count as this: the times of hopeless runs stay finite, even those of nine levels on top of each
other, whose factors multiply to 1e270."""

_LEAST_USED_FRACTION = 1e-12
"""Below, no failure needs the level: what is left is rounding of 1 less the shares of the others."""


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
    """Interval of each level, from start to start, with the min loss to first order: s + sqrt(2 s M / q).

    Where that of a level were longer than that of a later one, both have the interval of their stalls and shares
    together: T_k is the max over i <= k of the min over j >= k of that of levels i to j. Not below the time
    that a save and its drain take; the interval as it is where no failure needs these levels.
    Source: Young 1974 for each level; isotonic regression by max-min formulas, Robertson, Wright and Dykstra 1988,
    Order Restricted Statistical Inference, section 1.4.

    >>> fast, slow = Level(60.0, 2.0, 0.0, 0.0, 0.5), Level(3600.0, 50.0, 0.0, 0.0, 0.5)
    >>> [round(float(seconds)) for seconds in first_order_level_intervals([fast, slow], mtbf_seconds=9e4)]
    [851, 4293]
    """
    intervals: list[Numbers] = []
    for k, level in enumerate(levels):
        minima = (
            functools.reduce(np.minimum, (_together(levels[i : j + 1], mtbf_seconds) for j in range(k, len(levels))))
            for i in range(k + 1)
        )
        spaced = functools.reduce(np.maximum, minima)
        spaced = np.where(np.isfinite(spaced), spaced, level.interval_seconds)
        needed = level.stall_seconds + level.drain_seconds
        intervals.append(np.maximum(np.maximum(spaced, needed), intervals[-1] if intervals else 0.0))
    return intervals


def _together(levels: Sequence[Level], mtbf_seconds: Numbers) -> Numbers:
    """The interval of levels that are saved to at the same moments, infinite where no failure needs them."""
    stall = sum((level.stall_seconds for level in levels), start=0.0)
    used = sum((level.used_fraction for level in levels), start=0.0)
    some = np.greater(used, _LEAST_USED_FRACTION)
    between = np.divide(mtbf_seconds, np.where(some, used, 1.0))
    return np.where(some, stall + young_seconds(stall, mtbf_seconds=between), np.inf)
