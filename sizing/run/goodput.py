"""What share of the time is useful work (goodput), for one level of saving and for several.

tau is the compute time between two saves, d the stall of a save, D what goes on in the background until the save
counts, M the mean time between failures, R the time from a failure until training goes on. The period from start to
start of a save is tau + d.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sizing.run.levels import (
    MAX_EXPONENT,
    MIN_PROBABILITY,
    Level,
    exposed_drain_seconds,
    overhead_of_levels_fraction,
)
from sizing.storage.transfer import Numbers

MAX_FAILURES_OF_A_SEGMENT = 25.0
"""Mean failures in an interval: 1 - e^-25 still differs from 1 by 10^5 of the smallest steps of a float."""


def goodput_of_levels_fraction(levels: Sequence[Level], *, mtbf_seconds: Numbers) -> Numbers:
    """Share of the wall time that is useful work, of one level or of several.

    Source: `goodput_fraction`, `multilevel_goodput_fraction`.

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


def goodput_fraction(
    compute_seconds: Numbers,
    *,
    stall_seconds: Numbers,
    mtbf_seconds: Numbers,
    recovery_seconds: Numbers = 0.0,
    drain_seconds: Numbers = 0.0,
) -> Numbers:
    """Share of the wall time that is useful work: tau / (M e^((R + D)/M) (e^((tau + d)/M) - 1)).

    Args: `compute_seconds` tau, `stall_seconds` d, `mtbf_seconds` M, `recovery_seconds` R, `drain_seconds` D, which
    is at most tau and which a failure interrupts.
    Source: Daly 2006, Future Generation Computer Systems 22(3), equation 20; assumes exponential failures
    that may also strike during a save or a recovery. The drain: of the time X to the next failure, exponential with
    mean M, floor((X - D)/(tau + d)) saves count, on average e^(-D/M)/(e^((tau + d)/M) - 1).

    >>> round(float(goodput_fraction(14400, stall_seconds=13.8e12 / 273e9, mtbf_seconds=34615.38)), 4)
    0.8029
    """
    period = np.divide(np.add(compute_seconds, stall_seconds), mtbf_seconds)
    useful = np.divide(compute_seconds, mtbf_seconds)
    recovery = np.divide(np.add(recovery_seconds, drain_seconds), mtbf_seconds)
    goodput: Numbers = np.divide(useful * np.exp(-period - recovery), -np.expm1(-period))
    return goodput


def lost_to_failures_fraction(goodput: Numbers, *, compute_seconds: Numbers, stall_seconds: Numbers) -> Numbers:
    """Share of the wall time lost to failures: work done again, detection and restart: 1 - g (tau + d) / tau.

    The wall time less goodput g and the stalls of completed saves, g d / tau.
    Source: definition, with g from `goodput_fraction`.

    >>> round(float(lost_to_failures_fraction(0.8, compute_seconds=100.0, stall_seconds=10.0)), 2)
    0.12
    """
    return 1.0 - goodput * np.divide(np.add(compute_seconds, stall_seconds), compute_seconds)


def ettr_fraction(
    interval_seconds: Numbers, *, stall_seconds: Numbers, mtbf_seconds: Numbers, recovery_seconds: Numbers
) -> Numbers:
    """Effective training time ratio, first order: (1 - (R + T/2)/M) / (1 + d/T), T the interval.

    A second way to `goodput_fraction`, for T much shorter than M; 0 where it has no meaning.
    Source: Kokolis et al. 2024, arXiv 2410.21680, section 4, with M = 1/(N r).

    >>> round(float(ettr_fraction(421.0, stall_seconds=10, mtbf_seconds=86400 / 9.75, recovery_seconds=300)), 4)
    0.9205
    """
    lost = np.divide(np.add(recovery_seconds, np.divide(interval_seconds, 2)), mtbf_seconds)
    ratio: Numbers = np.maximum(0.0, 1 - lost) / (1 + np.divide(stall_seconds, interval_seconds))
    return ratio


def first_order_waste_fraction(stall_seconds: Numbers, *, mtbf_seconds: Numbers) -> Numbers:
    """Share of the time that stall and rework take together at Young's interval: sqrt(2 d / M).

    For one tier of several, M is the mean time between the failures that need it, and the shares add up.
    Source: Young 1974; for two levels Moody et al. 2010, SC10, and Di et al. 2014, IPDPS, to first order.

    >>> round(sum(float(first_order_waste_fraction(d, mtbf_seconds=11136 / q)) for d, q in ((5, 0.8), (60, 0.2))), 4)
    0.0732
    """
    return np.sqrt(np.divide(np.multiply(2.0, stall_seconds), mtbf_seconds))


def multilevel_goodput_fraction(levels: Sequence[Level], *, mtbf_seconds: Numbers) -> Numbers:
    """Share of the wall time that is useful work with levels 1..L, the most frequent first.

    A segment of level k is n_k = T_k / T_(k-1) segments of level k - 1 and the save s_k. A failure that needs level k
    sends the run back to the start of that segment, after R_k + D_k, in which failures strike too. With the
    probability p_k that a segment ends before a failure that needs a higher level, and its expected time E_k:
    p_k = q / (1 - u r), E_k = (t + u rho) / (1 - u r), where one attempt succeeds with q = p_(k-1)^n_k, takes t, and
    fails for level k with u; r and rho are probability and time of a recovery. The goodput is the compute time of
    a segment of level L over E_L. The work that a failure undoes beside the segment, `undone_drain_seconds`, counts as
    recovery, which is exact for one level and first order in D_k / M for more. Saves within notices are the first
    level: nothing that strikes while one is read goes back further, and each E_k above is less by
    `noticed_segment_ratio`, which is exact for one level behind them. Of a longer interval than
    MAX_FAILURES_OF_A_SEGMENT failures it is that of so many: saves within notices bound what is lost.
    Args: `levels`, whose used fractions add up to 1; `mtbf_seconds` M of all failures.
    Source: for one level Daly 2006, equation 20 (`goodput_fraction`); the recursion after Moody et al. 2010, SC10, for
    exponential failures.

    >>> one = Level(14400.0 + 50.55, 50.55, 0.0, 0.0, 1.0)
    >>> round(float(multilevel_goodput_fraction([one], mtbf_seconds=34615.38)), 4)
    0.8029
    """
    if levels[0].is_notice:
        longest = MAX_FAILURES_OF_A_SEGMENT * np.divide(mtbf_seconds, np.maximum(1.0 - levels[0].used_fraction, 1e-9))
        if np.any(np.greater(levels[-1].interval_seconds, longest)):
            kept = np.minimum(1.0, longest / levels[-1].interval_seconds)  # notices come in any part of it
            front = replace(levels[0], interval_seconds=levels[0].interval_seconds * kept)
            saved = [replace(each, interval_seconds=np.minimum(each.interval_seconds, longest)) for each in levels[1:]]
            return multilevel_goodput_fraction([front, *saved], mtbf_seconds=mtbf_seconds)
    first = levels[0]
    compute = np.maximum(0.0, first.interval_seconds * (1.0 - overhead_of_levels_fraction(levels)))
    rates = list(_rates(levels, mtbf_seconds))
    done = [replace(first, drain_seconds=exposed_drain_seconds(first))]
    if first.is_notice:
        until_on = expected_recovery_seconds(levels, mtbf_seconds=mtbf_seconds)[0]
        done = [replace(first, recovery_seconds=until_on)]
    segment = _retry(_stretch(compute + first.stall_seconds, rates[0].total), _recovery(done[0], rates[0]))
    for index in range(1, len(levels)):
        before, level, here = levels[index - 1], levels[index], rates[index]
        work = _repeat(segment, level.interval_seconds / before.interval_seconds)
        save = _retry(_stretch(level.stall_seconds, here.total), *_recoveries_of_save(done, rates[:index]))
        attempt = _then(work, save)
        undone = undone_drain_seconds(
            [each for each in levels[: index + 1] if not each.is_notice],  # which replaces what it ends
            mtbf_seconds=mtbf_seconds,
            needed_per_second=here.from_here,
            broken_off_fraction=attempt.exit_fraction,
        )
        done.append(replace(level, drain_seconds=undone))
        segment = _retry(attempt, _recovery(done[-1], here))
        if first.is_notice:
            ratio = noticed_segment_ratio(
                level.interval_seconds,
                needed_per_second=level.used_fraction * here.total,
                noticed_per_second=first.used_fraction * here.total,
            )
            segment = replace(segment, seconds=segment.seconds * ratio)
    goodput: Numbers = compute * (levels[-1].interval_seconds / first.interval_seconds) / segment.seconds
    return goodput


def noticed_segment_ratio(
    interval_seconds: Numbers, *, needed_per_second: Numbers, noticed_per_second: Numbers
) -> Numbers:
    """Time of a segment with saves within notices over that without: (ln N / n) / ((e^(mT) - 1) / m).

    N = (m + n e^((m + n) T)) / (m + n), of failures at the rate m that go back to the newest save, and preemptions at
    the rate n that make one. The expected time V(L) to do the rest L of a segment of T, in units of a cycle of training
    and recovery, has V(0) = 0 and V' = (m + n) e^((m + n) L) / (m + n e^((m + n) L)), so V(T) = ln N / n.
    Args: `interval_seconds` T, `needed_per_second` m, `noticed_per_second` n.
    Source: first-step analysis of the next interruption, exponential: m sends the run back to L, n leaves L - x to do.

    >>> round(float(noticed_segment_ratio(1.0, needed_per_second=1.0, noticed_per_second=1.0)), 4)
    0.8344
    >>> float(noticed_segment_ratio(1.0, needed_per_second=1.0, noticed_per_second=0.0))
    1.0
    """
    both = np.add(needed_per_second, noticed_per_second)
    some = np.greater(both, 0.0)
    noticed = np.where(some, noticed_per_second / np.where(some, both, 1.0), 0.0)
    struck = np.minimum(both * interval_seconds, MAX_EXPONENT)
    is_both = np.greater(noticed, MIN_PROBABILITY) & np.less(noticed, 1.0)
    part = np.where(is_both, noticed, 0.5)
    needed = 1.0 - part
    ratio = np.log1p(part * np.expm1(struck)) / part * needed / np.expm1(needed * np.maximum(struck, MIN_PROBABILITY))
    return np.where(is_both & np.greater(struck, MIN_PROBABILITY), ratio, 1.0)


def expected_recovery_seconds(levels: Sequence[Level], *, mtbf_seconds: Numbers) -> list[Numbers]:
    """Expected time e_k from a failure that needs level k until training goes on, failures meanwhile included.

    e_k = M x_k + x_k sum over j of q_j e_max(j, k), x_k = 1 - e^(-R_k / M), as failures strike during a recovery too
    and may need a higher level.
    Args: `levels` with `recovery_seconds` R_k and `used_fraction` q_k; `mtbf_seconds` M.
    Source: first-step analysis of the next failure, exponential.

    >>> main = Level(14400.0, 50.55, 0.0, 600.0, 1.0)
    >>> [round(float(seconds), 2) for seconds in expected_recovery_seconds([main], mtbf_seconds=34615.38)]
    [605.23]
    """
    upward: Numbers = 0.0  # sum over the levels above of q_j e_j
    above: Numbers = 0.0  # sum over the levels above of q_j
    recoveries: list[Numbers] = []
    for level in reversed(levels):
        broken_off = -np.expm1(-np.divide(level.recovery_seconds, mtbf_seconds))
        again = broken_off * (1.0 - above)
        expected = broken_off * np.add(mtbf_seconds, upward) / np.maximum(1.0 - again, MIN_PROBABILITY)
        upward, above = upward + level.used_fraction * expected, above + level.used_fraction
        recoveries.insert(0, expected)
    return recoveries


def recoveries_per_second(levels: Sequence[Level], *, mtbf_seconds: Numbers) -> list[Numbers]:
    """Recoveries from each level that are begun per second, those that a further failure broke off included.

    a_k = q_k (t / M + sum over i < k of a_i x_i) / (1 - x_k Q_k), x_k = 1 - e^(-R_k / M): a failure during a recovery
    begins it again from the same level, or from a higher one if it needs that. Q_k is the sum of q_i over i <= k; t is
    the share of the time in which the run trains.
    Args: `levels` with `recovery_seconds` R_k and `used_fraction` q_k; `mtbf_seconds` M.
    Source: balance of what is begun and broken off, for exponential failures; t of `expected_recovery_seconds`.

    >>> low, high = Level(60.0, 1.0, 0.0, 300.0, 0.9), Level(3600.0, 9.0, 0.0, 600.0, 0.1)
    >>> [round(float(rate) * 1e6, 2) for rate in recoveries_per_second([low, high], mtbf_seconds=1000.0)]
    [831.63, 168.37]
    """
    expected = expected_recovery_seconds(levels, mtbf_seconds=mtbf_seconds)
    lasting = sum((one.used_fraction * each for one, each in zip(levels, expected, strict=True)), start=np.float64(0.0))
    training = 1.0 / np.add(mtbf_seconds, lasting)
    broken_off: Numbers = 0.0
    up_to_here: Numbers = 0.0
    begun: list[Numbers] = []
    for level in levels:
        up_to_here = up_to_here + level.used_fraction
        struck = -np.expm1(-np.divide(level.recovery_seconds, mtbf_seconds))
        rest = np.maximum(1.0 - struck * up_to_here, MIN_PROBABILITY)
        begun.append(level.used_fraction * (training + broken_off) / rest)
        broken_off = broken_off + begun[-1] * struck
    return begun


@dataclass(frozen=True, slots=True)
class _FailureRates:
    """Failures per second: of all kinds, of those that need this level or a lower or higher one; and two shares.

    `own_share` is that of this level among those that need it or a higher one.
    """

    total: Numbers
    up_to_here: Numbers
    from_here: Numbers
    own_share: Numbers


def _rates(levels: Sequence[Level], mtbf_seconds: Numbers) -> Iterator[_FailureRates]:
    total = np.divide(1.0, mtbf_seconds)
    lower: Numbers = 0.0
    for level in levels[:-1]:
        used = np.minimum(level.used_fraction, 1.0 - lower)
        higher = 1.0 - lower
        share = np.where(np.greater(higher, 0), used / np.where(np.greater(higher, 0), higher, 1.0), 1.0)
        yield _FailureRates(total, (lower + used) * total, higher * total, share)
        lower = lower + used
    yield _FailureRates(total, total, (1.0 - lower) * total, 1.0)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A stretch of work: expected time until it ends or is given up, and how likely is which (both, for precision)."""

    seconds: Numbers
    done_fraction: Numbers
    exit_fraction: Numbers


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


def _repeat(segment: _Attempt, times: Numbers) -> _Attempt:
    """Repeat a segment, until one is given up."""
    leaving = segment.exit_fraction
    done = np.maximum(segment.done_fraction, MIN_PROBABILITY)
    log_done = times * np.where(np.less(leaving, 0.5), np.log1p(-np.minimum(leaving, 0.5)), np.log(done))
    exit_fraction, some = -np.expm1(log_done), np.greater(leaving, 0)
    number = np.where(some, exit_fraction / np.where(some, leaving, 1.0), times)
    return _Attempt(number * segment.seconds, np.exp(log_done), exit_fraction)


def _retry(attempt: _Attempt, *recoveries: _Recovery) -> _Attempt:
    """The attempt, begun again after each failure that one of the recoveries makes good."""
    up = 1.0 - sum((one.share * one.fraction for one in recoveries), start=0.0)
    recovering = sum((one.share * one.seconds for one in recoveries), start=0.0)
    ended = np.maximum(attempt.done_fraction + attempt.exit_fraction * up, MIN_PROBABILITY)
    return _Attempt(
        (attempt.seconds + attempt.exit_fraction * recovering) / ended,
        attempt.done_fraction / ended,
        attempt.exit_fraction * up / ended,
    )


@dataclass(frozen=True, slots=True)
class _Recovery:
    """Expected time of a recovery, how likely it ends in going on here, and the share of failures that begin it."""

    seconds: Numbers
    fraction: Numbers
    share: Numbers


def _recovery(level: Level, rates: _FailureRates) -> _Recovery:
    """The reading of a level, and the work of its drain done again.

    Every failure breaks off the reading; the work only those that need this level or a higher one, as the levels
    below have copies of it. After a save within a notice `recovery_seconds` hold all failures that strike meanwhile.
    """
    if level.is_notice:
        return _Recovery(level.recovery_seconds, 1.0, rates.own_share)
    reading = _stretch(level.recovery_seconds, rates.total)
    draining = _stretch(level.drain_seconds, rates.from_here)
    both = _then(reading, draining)
    up = reading.exit_fraction * (1.0 - rates.up_to_here / rates.total)
    up = up + reading.done_fraction * draining.exit_fraction * (1.0 - rates.own_share)
    ended = np.maximum(both.done_fraction + up, MIN_PROBABILITY)
    return _Recovery(both.seconds / ended, both.done_fraction / ended, rates.own_share)


def _recoveries_of_save(levels: Sequence[Level], rates: Sequence[_FailureRates]) -> Iterator[_Recovery]:
    """The recoveries from failures during the save that follows the work of these levels, each from its own level."""
    recovered = rates[-1].up_to_here
    for level, own in zip(levels, rates, strict=True):
        within = replace(own, up_to_here=recovered, own_share=recovered / own.total)
        yield replace(_recovery(level, within), share=level.used_fraction)


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
    ending: Numbers = 0.0
    for one in faster:
        per_second = np.divide(one.used_fraction * (1.0 - one.outlived_fraction), mtbf_seconds)
        ending = ending + per_second * np.maximum(0.0, np.subtract(level.drain_seconds, one.drain_seconds))
    ending = np.minimum(ending, MAX_EXPONENT)
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
