"""How often to checkpoint, and what share of the time is then useful.

tau is the compute time between two saves, d the stall of a save, M the mean time between failures, R the
time from a failure until training goes on. The period from start to start of a save is tau + d.
"""

from __future__ import annotations

import numpy as np

from sizing.storage.transfer import Numbers

_NEWTON_STEPS = 4
_SMALL_RATIO = 0.6
_BELOW_ONE = 1 - 2.0**-53


def young_seconds(stall_seconds: Numbers, *, mtbf_seconds: Numbers) -> Numbers:
    """Compute time between saves by Young: tau = sqrt(2 d M).

    Source: Young 1974, CACM 17(9), p. 530; first order, for d much shorter than M.

    >>> round(float(young_seconds(50.5, mtbf_seconds=10800)), 3)
    1044.414
    """
    return np.sqrt(np.multiply(2.0, np.multiply(stall_seconds, mtbf_seconds)))


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

    >>> round(float(optimal_seconds(50.5, mtbf_seconds=10800)), 3)
    1011.022
    """
    ratio = np.divide(stall_seconds, mtbf_seconds)
    root = np.sqrt(2 * ratio)
    x = np.where(ratio < _SMALL_RATIO, root * (1 - root / 3 + root * root / 36), -np.expm1(-1 - ratio))
    for _ in range(_NEWTON_STEPS):
        x = np.minimum(x, _BELOW_ONE)
        x = x + (np.log1p(-x) + x + ratio) * (1 - x) / x
    optimum: Numbers = np.multiply(x, mtbf_seconds)
    return optimum


def goodput_fraction(
    compute_seconds: Numbers,
    *,
    stall_seconds: Numbers,
    mtbf_seconds: Numbers,
    recovery_seconds: Numbers = 0.0,
) -> Numbers:
    """Share of the wall time that is useful work: tau / (M e^(R/M) (e^((tau + d)/M) - 1)).

    Args: `compute_seconds` tau, `stall_seconds` d, `mtbf_seconds` M, `recovery_seconds` R.
    Source: Daly 2006, Future Generation Computer Systems 22(3), equation 20; assumes exponential failures
    that may also strike during a save or a recovery.

    >>> round(float(goodput_fraction(14400, stall_seconds=13.8e12 / 273e9, mtbf_seconds=34615.38)), 4)
    0.8029
    """
    period = np.divide(np.add(compute_seconds, stall_seconds), mtbf_seconds)
    useful = np.divide(compute_seconds, mtbf_seconds)
    recovery = np.divide(recovery_seconds, mtbf_seconds)
    goodput: Numbers = np.divide(useful * np.exp(-period - recovery), -np.expm1(-period))
    return goodput


def lost_to_failures_fraction(goodput: Numbers, *, compute_seconds: Numbers, stall_seconds: Numbers) -> Numbers:
    """Share of the wall time lost to failures: work done again, detection and restart: 1 - g (tau + d) / tau.

    What is left of the wall time beside goodput g and the stalls of completed saves, g d / tau.
    Source: definition, with g from `goodput_fraction`.

    >>> round(float(lost_to_failures_fraction(0.8, compute_seconds=100.0, stall_seconds=10.0)), 2)
    0.12
    """
    return 1.0 - goodput * np.divide(np.add(compute_seconds, stall_seconds), compute_seconds)
