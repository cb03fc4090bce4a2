"""The min write rate with which some interval meets all targets, where the interval may be chosen too."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from sizing.explore.requirements.asked import INTERVAL, WRITE_RATE, Asked, interval_bounds
from sizing.explore.requirements.best_interval import best_interval_seconds
from sizing.explore.requirements.edge import last_that_meets
from sizing.run.evaluation import RunReport
from sizing.storage.transfer import Numbers
from sizing.units import MOST_BYTES

_TARGETS = ("max_stall_seconds", "max_overhead_fraction", "min_goodput_fraction")
_ROUNDING = 1 + 1e-12
"""So that stall / interval is not above the target by the last digit."""
_TINY = 1e-30
"""Where the tiers alone miss the target: an interval without end, but no division by 0."""


class AtFreeInterval(BaseModel):
    """The min write rate that meets every target on stall, overhead and goodput, and the interval to take with it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    write_bytes_per_second: float = Field(
        description="Min write rate with which some interval meets all targets, in bytes per second."
    )
    interval_seconds: float = Field(description="Interval to take with it, in seconds from start to start.")
    stall_seconds: float = Field(description="Seconds for which training then waits in each save.")
    overhead_fraction: float = Field(description="Fraction of the time for which saves then stall training.")
    goodput_fraction: float = Field(description="Fraction of the time that is then useful work (goodput, ETTR).")


def at_free_interval(asked: Asked) -> AtFreeInterval | None:
    """The min write rate when the interval is free, or None without a goodput target or where none is enough.

    Goodput has its max at the optimal interval, and overhead needs an interval of stall / overhead or more. So for each
    rate the longer of the two is the interval to try. Both fall with the rate.
    """
    if asked.inputs.targets.min_goodput_fraction is None:
        return None
    max_rate = float(MOST_BYTES)

    def meets(rates: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        return _met(_at_best_interval(asked, rates), len(rates))

    if not meets(np.array([max_rate]))[0]:
        return None
    rate = last_that_meets(meets, good=max_rate, bad=1.0)
    found = _at_best_interval(asked, rate)
    assert found.write is not None  # noqa: S101  a rate is set
    every = found.interval.effective_interval_seconds or found.interval.interval_seconds
    return AtFreeInterval(
        write_bytes_per_second=rate,
        interval_seconds=min(every, interval_bounds(asked)[1]),
        stall_seconds=found.write.stall_seconds,
        overhead_fraction=found.overhead.fraction or 0.0,
        goodput_fraction=found.interval.goodput_at_interval_fraction or 0.0,
    )


def _at_best_interval(asked: Asked, rates: float | npt.NDArray[np.float64]) -> RunReport:
    figures = asked.at({WRITE_RATE: rates})
    best = best_interval_seconds(asked, figures, rates)
    wanted = np.maximum(best, _min_for_overhead(figures) * _ROUNDING)
    return asked.at({WRITE_RATE: rates, INTERVAL: np.clip(wanted, *interval_bounds(asked))})


def _min_for_overhead(figures: RunReport) -> Numbers:
    """The min interval for the overhead target: stall / (target - overhead of the tiers); no end where they miss."""
    assert figures.write is not None  # noqa: S101  a rate is set
    main = next((row for row in figures.tiers if row.kind == "storage"), None)
    others = sum((row.overhead_fraction for row in figures.tiers if row is not main), start=0.0)
    stall = figures.write.stall_seconds if main is None else main.stall_seconds
    needed: Numbers = np.divide(stall, np.maximum(_TINY, figures.overhead.max_overhead_fraction - others))
    return needed


def _met(figures: RunReport, num_rates: int) -> npt.NDArray[np.bool_]:
    """Whether all of the targets are met that are set; one of which nothing is known is not."""
    met = np.ones(num_rates, dtype=bool)
    for check in figures.targets:
        if check.target in _TARGETS:
            met &= np.asarray(check.met, dtype=bool)
    return met
