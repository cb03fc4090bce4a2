"""The `shares` block of the report: where all of the wall time goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field

from sizing.run.figures import Figures
from sizing.run.goodput.levels import MIN_PROBABILITY, Level, overhead_of_levels_fraction
from sizing.storage.transfer import Numbers


class Shares(Figures):
    """Shares of the wall time, which add to 1.

    They are None where write times or failures are not known, and where saving takes all of the interval.
    """

    useful_fraction: float | None = Field(
        description="Fraction of the wall time that advances training (goodput, ETTR). "
        "Null without reliability or a write rate, and where saves take the whole interval."
    )
    saving_fraction: float | None = Field(
        description="Fraction of the wall time for which saves that complete stall training. "
        "Null without reliability or a write rate, and where saves take the whole interval."
    )
    redone_fraction: float | None = Field(
        description="Fraction of the wall time that failures undo: work, and the saves of it, done again. "
        "Null without reliability or a write rate, and where saves take the whole interval."
    )
    recovering_fraction: float | None = Field(
        description="Fraction of the wall time from failures until training goes on: detection, relaunch, restore. "
        "Null without reliability or a write rate, and where saves take the whole interval."
    )

    @property
    def by_name(self) -> dict[str, Any]:
        """The shares as tables and charts name them, goodput first: numbers, arrays, or None."""
        return {
            "goodput": self.useful_fraction,
            "saving": self.saving_fraction,
            "done again": self.redone_fraction,
            "recovering": self.recovering_fraction,
        }


UNKNOWN_SHARES = Shares(useful_fraction=None, saving_fraction=None, redone_fraction=None, recovering_fraction=None)


def shares_of(levels: Sequence[Level], *, goodput: Numbers, mtbf_seconds: Numbers) -> Shares:
    """Where the wall time goes at a goodput g: each useful second needs o / (1 - o) of stalls that count.

    o is the overhead of the levels; `recovering_fraction` is the time in recovery; the rest is done again.
    Source: definition; g of `goodput.interval`, which the Monte Carlo of `simulation` confirms share by share.
    """
    overhead = overhead_of_levels_fraction(levels)
    advances = np.less(overhead, 1)
    kept = goodput / np.where(advances, 1 - overhead, np.nan)
    recovering = recovering_fraction(levels, mtbf_seconds=mtbf_seconds)
    return Shares.of(
        useful_fraction=np.where(advances, goodput, np.nan),
        saving_fraction=kept * overhead,
        redone_fraction=np.maximum(0.0, 1 - kept - recovering),
        recovering_fraction=np.where(advances, recovering, np.nan),
    )


def recovering_fraction(levels: Sequence[Level], *, mtbf_seconds: Numbers) -> Numbers:
    """Share of the wall time in recovery: E / (M + E), E the expected time of a recovery.

    For one level that is 1 - e^(-R/M). With more, a failure that needs level k takes e_k until training goes on:
    e_k = M x_k + x_k sum over j of q_j e_max(j, k), x_k = 1 - e^(-R_k / M), as failures strike during a recovery too
    and may need a higher level; E = sum of q_k e_k.
    Args: `levels` with `recovery_seconds` R_k and `used_fraction` q_k; `mtbf_seconds` M.
    Source: renewal reward theorem on cycles of training, on average M, and recovery, for exponential failures.

    >>> one = Level(14400.0, 50.55, 0.0, 600.0, 1.0)
    >>> round(float(recovering_fraction([one], mtbf_seconds=34615.38)), 5)
    0.01718
    """
    upward: Numbers = 0.0  # sum over the levels above of q_j e_j
    above: Numbers = 0.0  # sum over the levels above of q_j
    for level in reversed(levels):
        broken_off = -np.expm1(-np.divide(level.recovery_seconds, mtbf_seconds))
        again = broken_off * (1.0 - above)
        expected = broken_off * np.add(mtbf_seconds, upward) / np.maximum(1.0 - again, MIN_PROBABILITY)
        upward, above = upward + level.used_fraction * expected, above + level.used_fraction
    share: Numbers = upward / np.add(mtbf_seconds, upward)
    return share
