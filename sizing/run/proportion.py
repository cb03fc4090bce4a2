"""Probability of what was counted in independent trials, and how far chance may have moved it."""

from __future__ import annotations

from pydantic import Field

from sizing.strict_model import StrictModel

_CONFIDENCE = 0.95


class ProbabilityInterval(StrictModel):
    """Ends between which a probability lies in at least 95 of 100 cases, as far as the chance of the trials goes."""

    low: float = Field(description="Lower end of the 95 % interval, as a fraction.")
    high: float = Field(description="Upper end of the 95 % interval, as a fraction.")


def proportion_interval(num_met: int, num_trials: int) -> ProbabilityInterval:
    """Exact 95 % interval of a probability, of which k of n trials are met.

    I(k, n - k + 1; low) = 0.025 and I(k + 1, n - k; high) = 0.975, where I(a, b; p) is the regularized incomplete beta
    function; the lower end is 0 where k is 0, the upper end 1 where k is n.
    Source: Clopper and Pearson 1934, Biometrika 26(4), pages 404 to 413. Assumes independent trials. It covers the
    probability at least as often as it says, however small that is.

    >>> round(proportion_interval(0, 10).high, 4)  # 1 - 0.025^(1 / 10)
    0.3085
    """
    from scipy.special import betaincinv  # noqa: PLC0415 - only odds need it

    beyond, missed = (1 - _CONFIDENCE) / 2, num_trials - num_met
    return ProbabilityInterval(
        low=float(betaincinv(num_met, missed + 1, beyond)) if num_met else 0.0,
        high=float(betaincinv(num_met + 1, missed, 1 - beyond)) if missed else 1.0,
    )
