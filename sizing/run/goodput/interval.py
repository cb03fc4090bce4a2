"""The `interval` block of the report: what is left of the time at the interval asked for, and at the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from pydantic import Field

from sizing.run.figures import Figures
from sizing.run.goodput.levels import (
    Level,
    exposed_drain_seconds,
    first_order_level_intervals,
    level_mtbf_seconds,
    whole_multiples,
)
from sizing.run.goodput.multilevel import multilevel_goodput_fraction
from sizing.run.goodput.single_level import (
    availability_period_seconds,
    daly_first_order_seconds,
    daly_seconds,
    goodput_fraction,
    optimal_seconds,
    young_seconds,
)
from sizing.run.write import Write
from sizing.storage.transfer import Numbers
from sizing.units import seconds_text

_ROUNDING = 1e-9
"""Of a sum of a stall and a drain, which is compared with the interval that was made of it."""

Method = Literal["exact", "first-order"]


class Interval(Figures):
    """The `interval` block of the report.

    With tiers in front, the best interval is for the failures that need the main storage.
    """

    method: Method = Field(
        "exact", description="How the best interval was found: exact for a single tier, first-order with several."
    )
    interval_seconds: float = Field(
        description="Seconds from the start of one checkpoint to the start of the next, as asked for."
    )
    effective_interval_seconds: float | None = Field(
        None,
        description="Seconds between starts in effect: longer than asked for when an asynchronous save has "
        "not drained by then. Null without a write rate.",
    )
    mtbf_seconds: float | None = Field(
        None,
        description="Mean seconds between failures of the whole job (MTBF). Null without reliability or a write rate.",
    )
    recovery_seconds: float | None = Field(
        None,
        description="Mean seconds from a failure until training goes on (RTO), over all failures. "
        "Null without reliability or a write rate.",
    )
    optimal_seconds: float | None = Field(
        None,
        description="Seconds of compute between saves that maximize goodput: optimal_period_seconds - stall. "
        "Without tiers the argmin of Daly 2006, eq. 20, and at least the drain of an asynchronous save; "
        "with tiers to first order, or the intervals asked for where they lose less. "
        "Null without reliability or a write rate.",
    )
    optimal_period_seconds: float | None = Field(
        None,
        description="Best interval from start to start, in seconds: optimal_seconds and the stall. "
        "Null without reliability or a write rate.",
    )
    young_seconds: float | None = Field(
        None,
        description="Seconds of compute between saves by Young 1974: sqrt(2 x stall x MTBF). "
        "MTBF counts the failures that need the main storage. "
        "Null without reliability or a write rate.",
    )
    daly_first_order_seconds: float | None = Field(
        None,
        description="Seconds of compute between saves by Daly 2006, first order: sqrt(2 x stall x MTBF) - stall. "
        "MTBF counts the failures that need the main storage. "
        "Null without reliability or a write rate.",
    )
    daly_seconds: float | None = Field(
        None,
        description="Seconds of compute between saves by Daly 2006, eq. 37. "
        "MTBF counts the failures that need the main storage. "
        "Null without reliability or a write rate.",
    )
    availability_period_seconds: float | None = Field(
        None,
        description="Seconds from start to start that maximize availability: stall + sqrt(2 (MTBF + recovery) stall + "
        "stall^2), arXiv 2410.18124. MTBF counts the failures that need the main storage. "
        "Null without reliability or a write rate.",
    )
    goodput_at_interval_fraction: float | None = Field(
        None,
        description="Fraction of the time that is useful work (goodput, ETTR) at the interval asked for. "
        "Null without reliability or a write rate.",
    )
    goodput_at_optimum_fraction: float | None = Field(
        None,
        description="Fraction of the time that is useful work (goodput, ETTR) at the best interval. "
        "Null without reliability or a write rate.",
    )
    lost_at_interval_fraction: float | None = Field(
        None,
        description="Fraction of the time lost to stalls and failures at the interval asked for: 1 - goodput. "
        "Null without reliability or a write rate.",
    )


def interval_of(
    levels: Sequence[Level],
    *,
    best: Sequence[Level],
    mtbf_seconds: Numbers | None,
    interval_seconds: Numbers,
    effective_interval_seconds: Numbers | None,
) -> Interval:
    """Goodput at the interval asked for and at the optimum, `best_levels`; unknown without `levels`.

    The last level is the main storage. Draining makes every interval of a single level lose the same, so the best one
    is that of the stall alone, if the drain ends in it.
    """
    if not levels or mtbf_seconds is None:
        return Interval.of(interval_seconds=interval_seconds, effective_interval_seconds=effective_interval_seconds)
    main = levels[-1]
    mtbf_of_main = level_mtbf_seconds(main, mtbf_seconds=mtbf_seconds)
    at_interval = goodput_of_levels_fraction(levels, mtbf_seconds=mtbf_seconds)
    period = best[-1].interval_seconds
    return Interval.of(
        method="exact" if len(levels) == 1 else "first-order",
        interval_seconds=interval_seconds,
        effective_interval_seconds=effective_interval_seconds,
        mtbf_seconds=mtbf_seconds,
        recovery_seconds=sum((level.used_fraction * level.recovery_seconds for level in levels), start=0.0),
        optimal_seconds=period - main.stall_seconds,
        optimal_period_seconds=period,
        young_seconds=young_seconds(main.stall_seconds, mtbf_seconds=mtbf_of_main),
        daly_first_order_seconds=daly_first_order_seconds(main.stall_seconds, mtbf_seconds=mtbf_of_main),
        daly_seconds=daly_seconds(main.stall_seconds, mtbf_seconds=mtbf_of_main),
        availability_period_seconds=availability_period_seconds(
            main.stall_seconds, mtbf_seconds=mtbf_of_main, recovery_seconds=main.recovery_seconds
        ),
        goodput_at_interval_fraction=at_interval,
        goodput_at_optimum_fraction=goodput_of_levels_fraction(best, mtbf_seconds=mtbf_seconds),
        lost_at_interval_fraction=1 - at_interval,
    )


def best_levels(levels: Sequence[Level], *, mtbf_seconds: Numbers) -> list[Level]:
    """The levels at the intervals with the min loss: exact for one; for more to first order, or as asked if better."""
    if len(levels) == 1:
        (main,) = levels
        compute = np.maximum(optimal_seconds(main.stall_seconds, mtbf_seconds=mtbf_seconds), main.drain_seconds)
        return [replace(main, interval_seconds=compute + main.stall_seconds)]
    intervals = whole_multiples(first_order_level_intervals(levels, mtbf_seconds=mtbf_seconds), levels)
    spaced = [replace(level, interval_seconds=t) for level, t in zip(levels, intervals, strict=True)]
    is_better = np.greater_equal(
        goodput_of_levels_fraction(spaced, mtbf_seconds=mtbf_seconds),
        goodput_of_levels_fraction(levels, mtbf_seconds=mtbf_seconds),
    )
    return [
        replace(level, interval_seconds=np.where(is_better, t, level.interval_seconds))
        for level, t in zip(levels, intervals, strict=True)
    ]


def goodput_of_levels_fraction(levels: Sequence[Level], *, mtbf_seconds: Numbers) -> Numbers:
    """Share of the wall time that is useful work, of one level or of several.

    Source: `single_level.goodput_fraction`, `multilevel.multilevel_goodput_fraction`.

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


def interval_warnings(interval: Interval, write: Write | None) -> Iterator[str]:
    """Where the interval asked for cannot be kept, and where failures come too often."""
    effective, asked, mtbf = interval.effective_interval_seconds, interval.interval_seconds, interval.mtbf_seconds
    if write is None or effective is None:
        return
    if effective > asked:
        is_own_drain = write.stall_seconds + write.drain_seconds > (1 - _ROUNDING) * effective
        yield (
            (
                f"A save drains for {seconds_text(write.drain_seconds)}, so the next save cannot start after "
                f"{seconds_text(asked)}"
                if is_own_drain
                else "A burst buffer (tier in front) drains longer than the interval of the main storage"
            )
            + f". All figures are for one checkpoint every {seconds_text(effective)}"
        )
    if mtbf is None:
        return
    if write.seconds >= mtbf:
        yield (
            f"A checkpoint takes {seconds_text(write.seconds)} and the job fails every {seconds_text(mtbf)}: most "
            "saves are interrupted before they complete. Raise the write bandwidth"
        )
    if (interval.recovery_seconds or 0.0) >= mtbf:
        yield (
            f"Recovery takes {seconds_text(interval.recovery_seconds or 0.0)} and the job fails every "
            f"{seconds_text(mtbf)}: most recoveries are interrupted. Shorten detection, relaunch or the restore"
        )
