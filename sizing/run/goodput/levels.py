"""The levels of saving, the fast ones often and the slow ones seldom: what they stall, and when to save to each."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sizing.run.goodput.single_level import young_seconds
from sizing.storage.transfer import Numbers

MIN_PROBABILITY = 1e-30
"""Probabilities below count as this: the times of hopeless runs stay finite, even those of nine levels on top of each
other, whose factors multiply to 1e270."""

_MIN_USED_FRACTION = 1e-12
"""Below, no failure needs the level: what is left is rounding of 1 less the shares of the others."""


@dataclass(frozen=True, slots=True)
class Level:
    """One level of saving: numbers, or arrays that broadcast.

    `interval_seconds` from start to start of its saves, a multiple of that of the level before; `stall_seconds` of
    one; `drain_seconds` until it counts; `recovery_seconds` from a failure until training goes on from it, of which
    `waiting_seconds` until it is read; `used_fraction` of the failures that are recovered from it, as no faster level
    survives them; `outlived_fraction` of these that leave drains going. A drain that goes on counts if it has ended
    when its level is read, and is given up otherwise.
    """

    interval_seconds: Numbers
    stall_seconds: Numbers
    drain_seconds: Numbers
    recovery_seconds: Numbers
    used_fraction: Numbers
    outlived_fraction: Numbers = 0.0
    waiting_seconds: Numbers = 0.0


def exposed_drain_seconds(level: Level) -> Numbers:
    """Part of a drain in which a failure that needs its level loses the save: D - f min(D, W).

    Args: `level` with drain D, outlived fraction f and waiting time W.
    Source: of the time X to the next failure, exponential with mean M, save n of period P counts where X >= n P + D, or
    where X is up to min(D, W) less, the drain outlives the failure and nothing else ends it before it is done:
    e^(-(n P + D)/M) (1 + f/M times the integral of e^(f u/M) from 0 to min(D, W)) = e^(-(n P + D - f min(D, W))/M).
    Not counted: drains that end in time because a further failure began the recovery anew.

    >>> level = Level(3600.0, 5.0, 500.0, 700.0, 1.0, outlived_fraction=0.5, waiting_seconds=400.0)
    >>> float(exposed_drain_seconds(level))
    300.0
    """
    saved = level.outlived_fraction * np.minimum(level.drain_seconds, level.waiting_seconds)
    exposed: Numbers = level.drain_seconds - saved
    return exposed


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
    some = np.greater(level.used_fraction, _MIN_USED_FRACTION)
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


def whole_multiples(intervals: Sequence[Numbers], levels: Sequence[Level]) -> list[Numbers]:
    """Intervals of levels with each one a whole multiple of the one before, the nearest in which its save drains.

    Source: a slower save drains from a faster one, so both are made at the same moment.

    >>> levels = [Level(60.0, 1.0, 0.0, 0.0, 0.8), Level(600.0, 0.0, 500.0, 0.0, 0.2)]
    >>> [float(seconds) for seconds in whole_multiples([70.0, 600.0], levels)]
    [70.0, 630.0]
    """
    whole = [intervals[0]]
    for seconds, level in zip(intervals[1:], levels[1:], strict=True):
        step, needed = whole[-1], level.stall_seconds + level.drain_seconds
        number = np.maximum(np.round(np.divide(seconds, step)), np.ceil(np.divide(needed, step) * (1 - 1e-9)))
        whole.append(np.maximum(number, 1.0) * step)
    return whole


def _together(levels: Sequence[Level], mtbf_seconds: Numbers) -> Numbers:
    """The interval of levels that are saved to at the same moments, infinite where no failure needs them."""
    stall = sum((level.stall_seconds for level in levels), start=0.0)
    used = sum((level.used_fraction for level in levels), start=0.0)
    some = np.greater(used, _MIN_USED_FRACTION)
    between = np.divide(mtbf_seconds, np.where(some, used, 1.0))
    return np.where(some, stall + young_seconds(stall, mtbf_seconds=between), np.inf)
