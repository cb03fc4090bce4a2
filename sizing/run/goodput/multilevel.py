"""Goodput of a run that saves to several levels: a recursion over segments of work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sizing.run.goodput.levels import (
    MIN_PROBABILITY,
    Level,
    exposed_drain_seconds,
    overhead_of_levels_fraction,
)
from sizing.run.goodput.single_level import goodput_fraction
from sizing.storage.transfer import Numbers

_MAX_EXPONENT = 300.0
"""Of failures expected in one drain: hopeless runs keep finite times."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A stretch of work: expected time until it ends or is given up, and how likely is which (both, for precision)."""

    seconds: Numbers
    done_fraction: Numbers
    exit_fraction: Numbers


def multilevel_goodput_fraction(levels: Sequence[Level], *, mtbf_seconds: Numbers) -> Numbers:
    """Share of the wall time that is useful work with levels 1..L, the most frequent first.

    A segment of level k is n_k = T_k / T_(k-1) segments of level k - 1 and the save s_k. A failure that needs level k
    sends the run back to the start of that segment, after R_k + D_k, in which failures strike too. With the
    probability p_k that a segment ends before a failure that needs a higher level, and its expected time E_k:
    p_k = q / (1 - u r), E_k = (t + u rho) / (1 - u r), where one attempt succeeds with q = p_(k-1)^n_k, takes t, and
    fails for level k with u; r and rho are probability and time of a recovery. The goodput is the compute time of
    a segment of level L over E_L. The work that a failure undoes beside the segment, `undone_drain_seconds`, counts as
    recovery, which is exact for one level and first order in D_k / M for more.
    Args: `levels`, whose used fractions add up to 1; `mtbf_seconds` M of all failures.
    Source: for one level Daly 2006, equation 20 (`goodput_fraction`); the recursion after Moody et al. 2010, SC10, for
    exponential failures.

    >>> one = Level(14400.0 + 50.55, 50.55, 0.0, 0.0, 1.0)
    >>> round(float(multilevel_goodput_fraction([one], mtbf_seconds=34615.38)), 4)
    0.8029
    """
    first, compute = levels[0], _compute_seconds(levels)
    rates = list(_rates(levels, mtbf_seconds))
    done = [replace(first, drain_seconds=exposed_drain_seconds(first))]
    segment = _retried(_stretch(compute + first.stall_seconds, rates[0].total), _recovery(done[0], rates[0]))
    for index in range(1, len(levels)):
        before, level, here = levels[index - 1], levels[index], rates[index]
        work = _repeated(segment, level.interval_seconds / before.interval_seconds)
        save = _retried(_stretch(level.stall_seconds, here.total), *_recoveries_of_save(done, rates[:index]))
        attempt = _then(work, save)
        undone = undone_drain_seconds(
            levels[: index + 1],
            mtbf_seconds=mtbf_seconds,
            needed_per_second=here.from_here,
            broken_off_fraction=attempt.exit_fraction,
        )
        done.append(replace(level, drain_seconds=undone))
        segment = _retried(attempt, _recovery(done[-1], here))
    goodput: Numbers = compute * (levels[-1].interval_seconds / first.interval_seconds) / segment.seconds
    return goodput


def goodput_of_levels_fraction(levels: Sequence[Level], *, mtbf_seconds: Numbers) -> Numbers:
    """Share of the wall time that is useful work, of one level or of several.

    Source: `single_level.goodput_fraction`, `multilevel_goodput_fraction`.

    >>> one = Level(14400.0, 50.55, 0.0, 600.0, 1.0)
    >>> round(float(goodput_of_levels_fraction([one], mtbf_seconds=34615.38)), 4)
    0.7897
    """
    if len(levels) > 1:
        return multilevel_goodput_fraction(levels, mtbf_seconds=mtbf_seconds)
    (main,) = levels
    return goodput_fraction(
        np.maximum(0.0, main.interval_seconds - main.stall_seconds),
        stall_seconds=main.stall_seconds,
        mtbf_seconds=mtbf_seconds,
        recovery_seconds=main.recovery_seconds,
        drain_seconds=exposed_drain_seconds(main),
    )


def undone_drain_seconds(
    levels: Sequence[Level],
    *,
    mtbf_seconds: Numbers,
    needed_per_second: Numbers,
    broken_off_fraction: Numbers,
) -> Numbers:
    """Work that a failure undoes of the last of some levels, beside what was done since its last save that counts.

    Failures that a faster level recovers end the drain too, and then the save before is the newest that counts. Let
    segments of length T end with the probability p before a failure that needs the level, at the rate l, and let the
    others strike at the rate m, c of them in a drain that they end. Then what is undone is as by a drain of
    D' + (c + ln(1 - p + p e^(-c v))) / l without them, D' of `exposed_drain_seconds`; where l is small that is D' and
    e^c - 1 segments. v, with ln p = -(l + m (1 - v)) T, is the probability that none that needs the level strikes while
    one of the others is made good. A failure within the drain of its own faster level, D_j, is followed by the save
    once more, so c is the sum over these levels of q_j (1 - f_j) (D - D_j) / M.
    Args: `levels` up to that one, with q_j and f_j the used and outlived fractions; `mtbf_seconds` M;
    `needed_per_second` l; `broken_off_fraction` 1 - p.
    Source: renewal reward theorem on the saves between failures that need the level, which are exponential: with
    w = e^(-(l D' + c)) a save counts; with r = p (1 - e^(-c v)) its drain ends, and the next save is made before a
    failure needs one; so a save or one after it counts with the probability w / (1 - r).

    >>> fast, slow = Level(60.0, 1.0, 0.0, 60.0, 0.8), Level(600.0, 0.0, 494.0, 300.0, 0.2)
    >>> undone = undone_drain_seconds(
    ...     [fast, slow], mtbf_seconds=1200.0, needed_per_second=0.2 / 1200, broken_off_fraction=0.1
    ... )
    >>> round(float(undone), 1)
    746.5
    """
    *faster, level = levels
    ending = sum((_ended_by(one, level, mtbf_seconds) for one in faster), start=np.float64(0.0))
    ending = np.minimum(ending, _MAX_EXPONENT)
    others = sum((one.used_fraction for one in faster), start=np.float64(0.0)) / mtbf_seconds * level.interval_seconds
    needed = np.multiply(needed_per_second, level.interval_seconds)
    p = np.maximum(1.0 - broken_off_fraction, MIN_PROBABILITY)
    struck = np.maximum(0.0, -np.log(p) - needed) / np.maximum(others, MIN_PROBABILITY)
    repeated = -np.expm1(-ending * np.maximum(0.0, 1.0 - struck))
    kept = np.maximum(1.0 - p * repeated, np.exp(-ending))
    log_kept = np.where(np.less(repeated, 0.5), np.log1p(-p * np.minimum(repeated, 0.5)), np.log(kept))
    some = np.greater(needed_per_second, 0)
    more = np.where(some, (ending + log_kept) / np.where(some, needed_per_second, 1.0), 0.0)
    undone: Numbers = exposed_drain_seconds(level) + more
    return undone


def _ended_by(faster: Level, level: Level, mtbf_seconds: Numbers) -> Numbers:
    """Expected failures that the faster level recovers and that end a drain of the other for good."""
    per_second = np.divide(faster.used_fraction * (1.0 - faster.outlived_fraction), mtbf_seconds)
    ended: Numbers = per_second * np.maximum(0.0, np.subtract(level.drain_seconds, faster.drain_seconds))
    return ended


@dataclass(frozen=True, slots=True)
class _Recovery:
    """Expected time of a recovery, how likely it ends in going on here, and the share of failures that begin it."""

    seconds: Numbers
    fraction: Numbers
    share: Numbers


@dataclass(frozen=True, slots=True)
class _Rates:
    """Failures per second: of all kinds, of those that need this level or a lower or higher one; and two shares.

    `own_share` is that of this level among those that need it or a higher one.
    """

    total: Numbers
    up_to_here: Numbers
    from_here: Numbers
    own_share: Numbers


def _rates(levels: Sequence[Level], mtbf_seconds: Numbers) -> Iterator[_Rates]:
    total = np.divide(1.0, mtbf_seconds)
    lower: Numbers = 0.0
    for level in levels[:-1]:
        used = np.minimum(level.used_fraction, 1.0 - lower)
        higher = 1.0 - lower
        share = np.where(np.greater(higher, 0), used / np.where(np.greater(higher, 0), higher, 1.0), 1.0)
        yield _Rates(total, (lower + used) * total, higher * total, share)
        lower = lower + used
    yield _Rates(total, total, (1.0 - lower) * total, 1.0)


def _compute_seconds(levels: Sequence[Level]) -> Numbers:
    """Compute time of one segment of the first level, 0 where saving takes all of it."""
    compute: Numbers = np.maximum(0.0, levels[0].interval_seconds * (1.0 - overhead_of_levels_fraction(levels)))
    return compute


def _stretch(seconds: Numbers, rate: Numbers) -> _Attempt:
    """Work that any failure of that rate breaks off."""
    expected = np.multiply(seconds, rate)
    exit_fraction, some = -np.expm1(-expected), np.greater(rate, 0)
    worked = np.where(some, exit_fraction / np.where(some, rate, 1.0), seconds)
    return _Attempt(worked, np.exp(-expected), exit_fraction)


def _then(first: _Attempt, second: _Attempt) -> _Attempt:
    return _Attempt(
        first.seconds + first.done_fraction * second.seconds,
        first.done_fraction * second.done_fraction,
        first.exit_fraction + first.done_fraction * second.exit_fraction,
    )


def _repeated(segment: _Attempt, times: Numbers) -> _Attempt:
    """So many segments, one after the other, until one is given up."""
    leaving = segment.exit_fraction
    done = np.maximum(segment.done_fraction, MIN_PROBABILITY)
    log_done = times * np.where(np.less(leaving, 0.5), np.log1p(-np.minimum(leaving, 0.5)), np.log(done))
    exit_fraction, some = -np.expm1(log_done), np.greater(leaving, 0)
    number = np.where(some, exit_fraction / np.where(some, leaving, 1.0), times)
    return _Attempt(number * segment.seconds, np.exp(log_done), exit_fraction)


def _retried(attempt: _Attempt, *recoveries: _Recovery) -> _Attempt:
    """The attempt, begun again after each failure that one of the recoveries makes good."""
    up = 1.0 - sum((one.share * one.fraction for one in recoveries), start=0.0)
    recovering = sum((one.share * one.seconds for one in recoveries), start=0.0)
    ended = np.maximum(attempt.done_fraction + attempt.exit_fraction * up, MIN_PROBABILITY)
    return _Attempt(
        (attempt.seconds + attempt.exit_fraction * recovering) / ended,
        attempt.done_fraction / ended,
        attempt.exit_fraction * up / ended,
    )


def _recovery(level: Level, rates: _Rates) -> _Recovery:
    """The reading of a level, and the work of its drain done again.

    Every failure breaks off the reading; the work only those that need this level or a higher one, as the levels
    below have copies of it.
    """
    reading = _stretch(level.recovery_seconds, rates.total)
    draining = _stretch(level.drain_seconds, rates.from_here)
    both = _then(reading, draining)
    up = reading.exit_fraction * (1.0 - rates.up_to_here / rates.total)
    up = up + reading.done_fraction * draining.exit_fraction * (1.0 - rates.own_share)
    ended = np.maximum(both.done_fraction + up, MIN_PROBABILITY)
    return _Recovery(both.seconds / ended, both.done_fraction / ended, rates.own_share)


def _recoveries_of_save(levels: Sequence[Level], rates: Sequence[_Rates]) -> Iterator[_Recovery]:
    """After failures during the save that follows the work of these levels: each reads its own level."""
    recovered = rates[-1].up_to_here
    for level, own in zip(levels, rates, strict=True):
        within = replace(own, up_to_here=recovered, own_share=recovered / own.total)
        yield replace(_recovery(level, within), share=level.used_fraction)
