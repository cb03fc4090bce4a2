"""The levels of saving, the fast ones often and the slow ones seldom, and the interval of each with the min loss.

tau is the compute time between two saves, d the stall of a save, D what goes on in the background until the save
counts, M the mean time between failures, R the time from a failure until training goes on. The period from start to
start of a save is tau + d.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sizing.storage.transfer import Numbers

MIN_PROBABILITY = 1e-30
"""Probabilities below count as this: the times of hopeless runs stay finite, even those of nine levels on top of each
other, whose factors multiply to 1e270."""
MAX_EXPONENT = 300.0
"""Max failures expected in one save, drain or segment: hopeless runs keep finite times."""
_MIN_USED_FRACTION = 1e-12
"""Below, no failure needs the level: what is left is rounding of 1 less the shares of the others."""
_RARE = 1e-4
"""Failures in an interval below which the first two terms of the series in them are exact to 1e-11."""
_NEWTON_STEPS = 4
"""With three the interval is 2e-7 off at worst, with four the error is that of rounding (over ratios of 1e-9 to 50)."""
_SMALL_RATIO = 0.6
"""Where the two ways to begin are about equally near: anything from 0.5 to 1.2 reaches every digit in four steps."""
_BELOW_ONE = 1 - 2.0**-53
"""The largest float below 1, at which the logarithm is still finite."""


@dataclass(frozen=True, slots=True)
class Level:
    """One level of saving, which no failure needs where nothing else is said: numbers, or arrays that broadcast.

    `interval_seconds` from start to start of its saves, a multiple of that of the level before; `stall_seconds` of
    one; `drain_seconds` until it counts; `recovery_seconds` from a failure until training goes on from it, of which
    `waiting_seconds` until it is read, in which a drain may go on; `before_read_seconds` until it is read whatever
    becomes of drains; `used_fraction` of the failures that are recovered from it, as no faster level
    survives them; `outlived_fraction` of these that leave drains going. A drain that goes on counts if it has ended
    when its level is read, and is given up otherwise. Where saves differ, the largest goes on for
    `longest_drain_seconds` after the stall. `is_notice` marks the saves that are made within the notice of a
    preemption: whatever strikes next, nothing before them is lost.
    """

    interval_seconds: Numbers
    stall_seconds: Numbers
    drain_seconds: Numbers
    recovery_seconds: Numbers = 0.0
    used_fraction: Numbers = 0.0
    outlived_fraction: Numbers = 0.0
    waiting_seconds: Numbers = 0.0
    before_read_seconds: Numbers = 0.0
    longest_drain_seconds: Numbers = 0.0
    is_notice: bool = False

    @property
    def max_drain_seconds(self) -> Numbers:
        """Time from the stall until any save has drained, until which the next one waits."""
        return np.maximum(self.drain_seconds, self.longest_drain_seconds)


def overhead_fraction(stall_seconds: Numbers, *, interval_seconds: Numbers) -> Numbers:
    """Share of the time in which training stands still to save: stall / period.

    Args: `interval_seconds` from the start of one save to the start of the next.
    Source: VAST Data 2024, "A Checkpoint on Checkpoints in LLMs".

    >>> round(float(overhead_fraction(50.55, interval_seconds=14400)), 5)
    0.00351
    """
    return np.divide(stall_seconds, interval_seconds)


def overhead_of_levels_fraction(levels: Sequence[Level]) -> Numbers:
    """Share of the time in which training stands still to save: sum over levels of stall / interval.

    Source: definition.

    >>> levels = [Level(60.0, 1.0, 0.0, 0.0, 0.8), Level(600.0, 5.0, 0.0, 0.0, 0.2)]
    >>> round(overhead_of_levels_fraction(levels), 4)
    0.025
    """
    return sum((level.stall_seconds / level.interval_seconds for level in levels), start=0.0)


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


def effective_interval_seconds(interval_seconds: Numbers, *, stall_seconds: Numbers, drain_seconds: Numbers) -> Numbers:
    """Period from start to start in effect: a save starts once the one before has drained, max(T, d + D) where D > 0.

    Source: PyTorch 2.13, torch.distributed.checkpoint.async_save, whose caller waits for the save before.

    >>> float(effective_interval_seconds(60.0, stall_seconds=2.0, drain_seconds=98.0))
    100.0
    """
    drained = np.where(np.greater(drain_seconds, 0), np.add(stall_seconds, drain_seconds), 0.0)
    return np.maximum(interval_seconds, drained)


def rework_seconds(interval_seconds: Numbers, *, mtbf_seconds: Numbers) -> Numbers:
    """Mean work since the newest save that a failure undoes: M - T / (e^(T/M) - 1); T/2 where failures are rare.

    Args: `interval_seconds` T from save to save; `mtbf_seconds` M between failures that go back to one.
    Source: mean of X mod T for an exponential time X to the next failure, with mean M.

    >>> [round(float(rework_seconds(7200.0, mtbf_seconds=m))) for m in (4000.0, 1e12)]
    [2574, 3600]
    """
    per_failure = np.divide(interval_seconds, mtbf_seconds)
    often = np.clip(per_failure, _RARE, MAX_EXPONENT)
    rework: Numbers = np.where(
        np.greater(per_failure, _RARE),
        mtbf_seconds - interval_seconds / np.expm1(often),
        np.divide(interval_seconds, 2.0) * (1.0 - per_failure / 6.0),
    )
    return rework


def level_mtbf_seconds(level: Level, *, mtbf_seconds: Numbers) -> Numbers:
    """Mean time between the failures that need a level: M / q; no number where there are none.

    Source: thinning of a Poisson process.

    >>> float(level_mtbf_seconds(Level(60.0, 1.0, 0.0, 0.0, 0.5), mtbf_seconds=3600.0))
    7200.0
    """
    some = np.greater(level.used_fraction, _MIN_USED_FRACTION)
    return np.divide(mtbf_seconds, np.where(some, level.used_fraction, np.nan))


def young_seconds(stall_seconds: Numbers, *, mtbf_seconds: Numbers) -> Numbers:
    """Compute time between saves by Young: tau = sqrt(2 d M).

    Source: Young 1974, CACM 17(9), p. 530; first order, for d much shorter than M.

    >>> round(float(young_seconds(50.5, mtbf_seconds=10800)), 3)
    1044.414
    """
    return np.sqrt(np.multiply(2.0, np.multiply(stall_seconds, mtbf_seconds)))


def daly_first_order_seconds(stall_seconds: Numbers, *, mtbf_seconds: Numbers) -> Numbers:
    """Compute time between saves by Daly's first-order estimate: tau = sqrt(2 d M) - d.

    Source: Daly 2006, Future Generation Computer Systems 22(3), the first-order model, without restart.

    >>> round(float(daly_first_order_seconds(50.5, mtbf_seconds=10800)), 3)
    993.914
    """
    return young_seconds(stall_seconds, mtbf_seconds=mtbf_seconds) - stall_seconds


def daly_seconds(stall_seconds: Numbers, *, mtbf_seconds: Numbers) -> Numbers:
    """Compute time between saves by Daly's higher-order estimate.

    tau = sqrt(2 d M) (1 + (1/3) sqrt(d / (2 M)) + (1/9) d / (2 M)) - d for d < 2 M, else M.
    Source: Daly 2006, Future Generation Computer Systems 22(3), equation 37.

    >>> round(float(daly_seconds(50.5, mtbf_seconds=10800)), 3)
    1011.018
    """
    ratio = np.divide(stall_seconds, np.multiply(2.0, mtbf_seconds))
    young = young_seconds(stall_seconds, mtbf_seconds=mtbf_seconds)
    estimate = young * (1 + np.sqrt(ratio) / 3 + ratio / 9) - stall_seconds
    return np.where(ratio < 1, estimate, mtbf_seconds)


def availability_period_seconds(stall_seconds: Numbers, *, mtbf_seconds: Numbers, recovery_seconds: Numbers) -> Numbers:
    """Period, from start to start, at which the availability is greatest: T = d + sqrt(2 (M + R) d + d^2).

    Source: arXiv 2410.18124, the availability optimum; counts a failure as half a period lost.

    >>> round(float(availability_period_seconds(10.0, mtbf_seconds=11136.0, recovery_seconds=600.0)), 2)
    494.58
    """
    sum_of_times = np.add(mtbf_seconds, recovery_seconds)
    period: Numbers = stall_seconds + np.sqrt(2 * np.multiply(sum_of_times, stall_seconds) + np.square(stall_seconds))
    return period


def best_compute_seconds(stall_seconds: Numbers, *, mtbf_seconds: Numbers) -> Numbers:
    """Compute time between saves at which `goodput_fraction` is greatest, exactly.

    With x = tau / M the derivative vanishes where ln(1 - x) + x + r = 0, r = d / M. Newton's method starts from
    Daly's estimate, s - s^2/3 + s^3/36 with s = sqrt(2 r), or where r is large from 1 - e^(-1 - r), and has every
    digit after four steps.
    Source: argmin of Daly 2006, equation 20, which is `goodput_fraction` below.

    >>> [round(float(best_compute_seconds(stall, mtbf_seconds=10800)), 3) for stall in (50.5, 0.0)]
    [1011.022, 0.0]
    """
    ratio = np.divide(stall_seconds, mtbf_seconds)
    root = np.sqrt(2 * ratio)
    x = np.where(ratio < _SMALL_RATIO, root * (1 - root / 3 + root * root / 36), -np.expm1(-1 - ratio))
    for _ in range(_NEWTON_STEPS):
        x = np.minimum(x, _BELOW_ONE)
        # A save that stalls nothing is best made all the time: x stays 0.
        x = x + (np.log1p(-x) + x + ratio) * (1 - x) / np.where(np.greater(x, 0), x, 1.0)
    best: Numbers = np.multiply(x, mtbf_seconds)
    return best


def stall_with_repeats_seconds(stall_seconds: Numbers, *, broken_off_per_second: Numbers) -> Numbers:
    """Expected time of training in a save that failures break off and that is then begun again: (e^(l d) - 1) / l.

    Args: `stall_seconds` d, `broken_off_per_second` l.
    Source: expected time until a stretch of d without a failure, for exponential failures (Daly 2006, section 2).

    >>> round(float(stall_with_repeats_seconds(100.0, broken_off_per_second=0.01)), 2)
    171.83
    """
    expected = np.multiply(stall_seconds, broken_off_per_second)
    some = np.greater(expected, 0.0)
    repeats = np.where(some, np.expm1(np.minimum(expected, MAX_EXPONENT)) / np.where(some, expected, 1.0), 1.0)
    return np.multiply(stall_seconds, repeats)


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
        needed = level.stall_seconds + level.max_drain_seconds
        intervals.append(np.maximum(np.maximum(spaced, needed), intervals[-1] if intervals else 0.0))
    return intervals


def _together(levels: Sequence[Level], mtbf_seconds: Numbers) -> Numbers:
    """The interval of levels that are saved to at the same moments, infinite where no failure needs them."""
    stall = sum((level.stall_seconds for level in levels), start=0.0)
    used = sum((level.used_fraction for level in levels), start=0.0)
    some = np.greater(used, _MIN_USED_FRACTION)
    between = np.divide(mtbf_seconds, np.where(some, used, 1.0))
    return np.where(some, stall + young_seconds(stall, mtbf_seconds=between), np.inf)


def whole_multiples(intervals: Sequence[Numbers], levels: Sequence[Level]) -> list[Numbers]:
    """Intervals of levels with each one a whole multiple of the one before, the nearest in which its save drains.

    Source: a slower save drains from a faster one, so both are made at the same moment.

    >>> levels = [Level(60.0, 1.0, 0.0, 0.0, 0.8), Level(600.0, 0.0, 500.0, 0.0, 0.2)]
    >>> [float(seconds) for seconds in whole_multiples([70.0, 600.0], levels)]
    [70.0, 630.0]
    """
    whole = [intervals[0]]
    for seconds, level in zip(intervals[1:], levels[1:], strict=True):
        step, needed = whole[-1], level.stall_seconds + level.max_drain_seconds
        number = np.maximum(np.round(np.divide(seconds, step)), np.ceil(np.divide(needed, step) * (1 - 1e-9)))
        whole.append(np.maximum(number, 1.0) * step)
    return whole
