"""How often to checkpoint, and what share of the time is then useful.

tau is the compute time between two saves, d the stall of a save, D what goes on in the background until the save
counts, M the mean time between failures, R the time from a failure until training goes on. The period from start to
start of a save is tau + d.
"""

from __future__ import annotations

import numpy as np

from sizing.storage.transfer import Numbers

_NEWTON_STEPS = 4
"""With three the interval is 2e-7 off at worst, with four the error is that of rounding (over ratios of 1e-9 to 50)."""
_SMALL_RATIO = 0.6
"""Where the two ways to begin are about equally near: anything from 0.5 to 1.2 reaches every digit in four steps."""
_BELOW_ONE = 1 - 2.0**-53
"""The largest float below 1, at which the logarithm is still finite."""


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


def optimal_seconds(stall_seconds: Numbers, *, mtbf_seconds: Numbers) -> Numbers:
    """Compute time between saves at which `goodput_fraction` is greatest, exactly.

    With x = tau / M the derivative vanishes where ln(1 - x) + x + r = 0, r = d / M. Newton's method starts from
    Daly's estimate, s - s^2/3 + s^3/36 with s = sqrt(2 r), or where r is large from 1 - e^(-1 - r), and has every
    digit after four steps.
    Source: argmin of Daly 2006, equation 20, which is `goodput_fraction` below.

    >>> round(float(optimal_seconds(50.5, mtbf_seconds=10800)), 3), float(optimal_seconds(0.0, mtbf_seconds=10800))
    (1011.022, 0.0)
    """
    ratio = np.divide(stall_seconds, mtbf_seconds)
    root = np.sqrt(2 * ratio)
    x = np.where(ratio < _SMALL_RATIO, root * (1 - root / 3 + root * root / 36), -np.expm1(-1 - ratio))
    for _ in range(_NEWTON_STEPS):
        x = np.minimum(x, _BELOW_ONE)
        # A save that stalls nothing is best made all the time: x stays 0.
        x = x + (np.log1p(-x) + x + ratio) * (1 - x) / np.where(np.greater(x, 0), x, 1.0)
    optimum: Numbers = np.multiply(x, mtbf_seconds)
    return optimum


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


def effective_interval_seconds(interval_seconds: Numbers, *, stall_seconds: Numbers, drain_seconds: Numbers) -> Numbers:
    """Period from start to start in effect: a save starts once the one before has drained, max(T, d + D) where D > 0.

    Source: PyTorch 2.13, torch.distributed.checkpoint.async_save, whose caller waits for the save before.

    >>> float(effective_interval_seconds(60.0, stall_seconds=2.0, drain_seconds=98.0))
    100.0
    """
    drained = np.where(np.greater(drain_seconds, 0), np.add(stall_seconds, drain_seconds), 0.0)
    return np.maximum(interval_seconds, drained)


def availability_period_seconds(stall_seconds: Numbers, *, mtbf_seconds: Numbers, recovery_seconds: Numbers) -> Numbers:
    """Period, from start to start, at which the availability is greatest: T = d + sqrt(2 (M + R) d + d^2).

    Source: arXiv 2410.18124, the availability optimum; counts a failure as half a period lost.

    >>> round(float(availability_period_seconds(10.0, mtbf_seconds=11136.0, recovery_seconds=600.0)), 2)
    494.58
    """
    sum_of_times = np.add(mtbf_seconds, recovery_seconds)
    period: Numbers = stall_seconds + np.sqrt(2 * np.multiply(sum_of_times, stall_seconds) + np.square(stall_seconds))
    return period


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
