"""The `interval` block of the report: what is left of the time at the interval asked for, and at the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from pydantic import Field

from sizing.run.figures import Figures
from sizing.run.goodput.course import Course
from sizing.run.goodput.levels import (
    Level,
    first_order_level_intervals,
    level_mtbf_seconds,
    whole_multiples,
)
from sizing.run.goodput.multilevel import goodput_of_levels_fraction
from sizing.run.goodput.single_level import (
    availability_period_seconds,
    daly_first_order_seconds,
    daly_seconds,
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
        "exact",
        description="How the best interval was found: exact for a single tier, first-order with several. With peers, "
        "shrinking and preemptions that is of the interruptions that need a save.",
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
    leaves_out_restore: bool = Field(
        False,
        description="Whether recovery leaves out the restore, as neither a read rate nor "
        "reliability.restart_seconds is given: goodput is then at most, and the loss at least, what stands here.",
    )

    @property
    def at_least(self) -> str:
        """What stands before a loss that leaves out the restore."""
        return "at least " if self.leaves_out_restore else ""


def interval_of(
    levels: Sequence[Level],
    *,
    best: Sequence[Level],
    mtbf_seconds: Numbers | None,
    course: Course | None,
    best_course: Course | None,
    interval_seconds: Numbers,
    effective_interval_seconds: Numbers | None,
    leaves_out_restore: bool = False,
) -> Interval:
    """Goodput at the interval asked for and at the optimum, `best_levels`, each by its course; unknown without one.

    The last level is the main storage. Draining makes every interval of a single level lose the same, so the best one
    is that of the stall alone, if the drain ends in it.
    """
    if course is None or best_course is None:
        return Interval.of(interval_seconds=interval_seconds, effective_interval_seconds=effective_interval_seconds)
    main = levels[-1]
    mtbf_of_main = level_mtbf_seconds(main, mtbf_seconds=course.rollback_mtbf_seconds)
    at_interval = course.goodput_fraction
    period = best[-1].interval_seconds
    return Interval.of(
        method="exact" if len(levels) == 1 else "first-order",
        interval_seconds=interval_seconds,
        effective_interval_seconds=effective_interval_seconds,
        mtbf_seconds=mtbf_seconds,
        recovery_seconds=course.recovery_seconds,
        optimal_seconds=period - main.stall_seconds,
        optimal_period_seconds=period,
        young_seconds=young_seconds(main.stall_seconds, mtbf_seconds=mtbf_of_main),
        daly_first_order_seconds=daly_first_order_seconds(main.stall_seconds, mtbf_seconds=mtbf_of_main),
        daly_seconds=daly_seconds(main.stall_seconds, mtbf_seconds=mtbf_of_main),
        availability_period_seconds=availability_period_seconds(
            main.stall_seconds, mtbf_seconds=mtbf_of_main, recovery_seconds=main.recovery_seconds
        ),
        goodput_at_interval_fraction=at_interval,
        goodput_at_optimum_fraction=best_course.goodput_fraction,
        lost_at_interval_fraction=1 - at_interval,
        leaves_out_restore=leaves_out_restore,
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


def interval_warnings(interval: Interval, write: Write | None, *, wait_seconds: float) -> Iterator[str]:
    """Where the interval asked for cannot be kept, and where failures come too often.

    Of a recovery `wait_seconds` pass without nodes, in which nothing strikes.
    """
    effective, asked, mtbf = interval.effective_interval_seconds, interval.interval_seconds, interval.mtbf_seconds
    if write is None or effective is None:
        return
    if effective > asked:
        is_own_drain = write.stall_seconds + write.drain_seconds > (1 - _ROUNDING) * effective
        yield (
            (
                f"A save drains for {seconds_text(write.drain_seconds)}, so saves cannot start every "
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
    recovering = (interval.recovery_seconds or 0.0) - wait_seconds
    if recovering >= mtbf:
        yield (
            f"Recovery takes {seconds_text(recovering)} and the job fails every "
            f"{seconds_text(mtbf)}: most recoveries are interrupted. Shorten detection, relaunch or the restore"
        )
