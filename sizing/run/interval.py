"""The `interval` and `overhead` blocks of the report: what saving costs at the interval asked for, and at the best."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from pydantic import Field

from sizing.run.failure_process import FailureProcess
from sizing.run.failures import Reliability
from sizing.run.figures import Figures
from sizing.run.goodput import goodput_of_levels_fraction, lost_to_failures_fraction
from sizing.run.levels import (
    Level,
    availability_period_seconds,
    best_compute_seconds,
    daly_first_order_seconds,
    daly_seconds,
    first_order_level_intervals,
    level_mtbf_seconds,
    stall_with_repeats_seconds,
    whole_multiples,
    young_seconds,
)
from sizing.run.restore import Restore
from sizing.run.targets import Targets
from sizing.run.write import Write
from sizing.storage.transfer import Numbers
from sizing.units import SECONDS_PER_DAY, percent_text, seconds_text

_ROUNDING = 1e-9
"""Relative rounding of an interval that was made of a stall and a drain, and is compared with their sum."""
NOTABLE_GOODPUT_LOSS = 0.01
"""Share of the run. A choice: one percent of a large run costs more than to change the interval, less is within the
error of failure rates."""
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
    leaves_out_restart: bool = Field(
        False,
        description="Whether recovery leaves out relaunch and restore, as reliability.restart_seconds is 0: goodput is "
        "then at most, and the loss at least, what stands here.",
    )

    @property
    def at_least(self) -> str:
        """The words `at least` before a loss that leaves out the restore; empty before any other."""
        return "at least " if self.leaves_out_restore or self.leaves_out_restart else ""


def every_text(interval: Interval) -> str:
    """How often the main storage is saved to; where that is less often than asked for, also why.

    >>> every_text(Interval(interval_seconds=60.0, effective_interval_seconds=90.0))
    '90.00 s (not 60.00 s, as the one before must have drained)'
    """
    asked, effective = interval.interval_seconds, interval.effective_interval_seconds
    if effective is None or effective <= (1 + _ROUNDING) * asked:
        return seconds_text(asked)
    return f"{seconds_text(effective)} (not {seconds_text(asked)}, as the one before must have drained)"


def interval_of(
    levels: Sequence[Level],
    *,
    best: Sequence[Level],
    mtbf_seconds: Numbers | None,
    process: FailureProcess | None,
    best_process: FailureProcess | None,
    interval_seconds: Numbers,
    effective_interval_seconds: Numbers | None,
    leaves_out_restore: bool = False,
) -> Interval:
    """Goodput at the interval asked for, and at the best one; unknown without a failure process.

    `best` are the levels `with_best_intervals`, and `best_process` their failures.

    The last level is the main storage. Draining makes every interval of a single level lose the same, so the best one
    is that of the stall alone, if the drain ends in it.
    """
    if process is None or best_process is None:
        return Interval.of(interval_seconds=interval_seconds, effective_interval_seconds=effective_interval_seconds)
    main = levels[-1]
    mtbf_of_main = level_mtbf_seconds(main, mtbf_seconds=process.rollback_mtbf_seconds)
    at_interval = process.goodput_fraction
    best_interval_seconds = best[-1].interval_seconds
    return Interval.of(
        method="exact" if len(levels) == 1 else "first-order",
        interval_seconds=interval_seconds,
        effective_interval_seconds=effective_interval_seconds,
        mtbf_seconds=mtbf_seconds,
        recovery_seconds=process.recovery_seconds,
        optimal_seconds=best_interval_seconds - main.stall_seconds,
        optimal_period_seconds=best_interval_seconds,
        young_seconds=young_seconds(main.stall_seconds, mtbf_seconds=mtbf_of_main),
        daly_first_order_seconds=daly_first_order_seconds(main.stall_seconds, mtbf_seconds=mtbf_of_main),
        daly_seconds=daly_seconds(main.stall_seconds, mtbf_seconds=mtbf_of_main),
        availability_period_seconds=availability_period_seconds(
            main.stall_seconds, mtbf_seconds=mtbf_of_main, recovery_seconds=main.recovery_seconds
        ),
        goodput_at_interval_fraction=at_interval,
        goodput_at_optimum_fraction=best_process.goodput_fraction,
        lost_at_interval_fraction=1 - at_interval,
        leaves_out_restore=leaves_out_restore,
    )


def with_best_intervals(
    levels: Sequence[Level],
    *,
    mtbf_seconds: Numbers,
    others_per_second: Numbers = 0.0,
    goodput: Callable[[Sequence[Level]], Numbers] | None = None,
) -> list[Level]:
    """The levels at the intervals with the min loss: exact for one; for more to first order, or as asked if better.

    `mtbf_seconds` is between failures that need a save. One level alone stalls for longer where others, so many per
    second, strike during its saves: each begins the save again.
    `goodput` judges that by the whole run, with what preemptions and the recovery strategy make of the levels. Default:
    by failures alone.
    """
    if goodput is None:
        goodput = functools.partial(goodput_of_levels_fraction, mtbf_seconds=mtbf_seconds)
    if len(levels) == 1:
        (main,) = levels
        stall = stall_with_repeats_seconds(main.stall_seconds, broken_off_per_second=others_per_second)
        compute = np.maximum(best_compute_seconds(stall, mtbf_seconds=mtbf_seconds), main.max_drain_seconds)
        return [replace(main, interval_seconds=compute + main.stall_seconds)]
    intervals = whole_multiples(first_order_level_intervals(levels, mtbf_seconds=mtbf_seconds), levels)
    spaced = [replace(level, interval_seconds=t) for level, t in zip(levels, intervals, strict=True)]
    is_better = np.greater_equal(goodput(spaced), goodput(levels))
    return [
        replace(level, interval_seconds=np.where(is_better, t, level.interval_seconds))
        for level, t in zip(levels, intervals, strict=True)
    ]


class Overhead(Figures):
    """The `overhead` block of the report. Overhead alone hides the rework, so they stand together."""

    fraction: float | None = Field(
        description="Fraction of the time for which saves stall training: stall / interval, summed over tiers. "
        "Null without a write rate."
    )
    max_overhead_fraction: float = Field(description="Max fraction of the time that targets allow for stalls.")
    meets_target: bool | None = Field(description="Whether the overhead is within that max. Null without a write rate.")
    rework_fraction: float | None = Field(
        description="Fraction of the time lost to failures: work done again, detection and restart. "
        "Null without reliability or a write rate, and where saves take the whole interval."
    )


def overhead_of(stalled: Numbers | None, interval: Interval, targets: Targets) -> Overhead:
    """The share of the time that saves stall, None where not known, against its target; and the rework."""
    limit, goodput = targets.max_overhead_fraction, interval.goodput_at_interval_fraction
    if stalled is None:
        return Overhead.of(fraction=None, max_overhead_fraction=limit, meets_target=None, rework_fraction=None)
    rework: Numbers | None = None
    if goodput is not None:
        compute = np.where(np.less(stalled, 1), 1.0 - stalled, np.nan)
        rework = lost_to_failures_fraction(goodput, compute_seconds=compute, stall_seconds=stalled)
    return Overhead.of(
        fraction=stalled, max_overhead_fraction=limit, meets_target=stalled <= limit, rework_fraction=rework
    )


def interval_warnings(
    interval: Interval,
    write: Write | None,
    *,
    wait_seconds: float,
    preemptions_per_day: float,
    max_write_seconds: float | None = None,
) -> Iterator[str]:
    """Where the interval asked for cannot be kept, and where failures and preemptions come too often.

    Of a recovery `wait_seconds` pass without nodes, in which nothing strikes. `max_write_seconds` are those of the
    largest save, where saves differ.
    """
    effective, given, mtbf = interval.effective_interval_seconds, interval.interval_seconds, interval.mtbf_seconds
    if write is None or effective is None:
        return
    if effective > given:
        seconds = write.stall_seconds + write.drain_seconds
        which, longest = "A save", max(seconds, max_write_seconds or 0.0)
        if longest > seconds:
            which = "The largest save"
        yield (
            (
                f"{which} drains for {seconds_text(longest - write.stall_seconds)}, so saves cannot start every "
                f"{seconds_text(given)}"
                if longest > (1 - _ROUNDING) * effective
                else "A burst buffer (tier in front) drains longer than the interval of the main storage"
            )
            + f". All figures are for one checkpoint every {seconds_text(effective)}"
        )
    if mtbf is None:
        return
    often = f"the job fails every {seconds_text(mtbf)}"
    if preemptions_per_day:
        mtbf = 1.0 / (1.0 / mtbf + preemptions_per_day / SECONDS_PER_DAY)
        often = f"the job fails or is preempted every {seconds_text(mtbf)}"
    if write.seconds >= mtbf:
        yield (
            f"A checkpoint takes {seconds_text(write.seconds)} and {often}: most "
            "saves are interrupted before they complete. Raise the write bandwidth"
        )
    recovering = (interval.recovery_seconds or 0.0) - wait_seconds
    if recovering >= mtbf:
        yield (
            f"Recovery takes {seconds_text(recovering)} and {often}: "
            f"most recoveries are interrupted. Shorten detection, relaunch or the restore"
        )


def overhead_warnings(
    overhead: Overhead, interval: Interval, *, reliability: Reliability | None, restore: Restore
) -> Iterator[str]:
    """What a reader must know before believing a small overhead, and where another interval loses notably less."""
    if overhead.fraction is None:
        return
    if overhead.fraction >= 1:
        yield "A checkpoint takes longer than the interval: training never advances. Raise the interval"
    if reliability is None:
        yield (
            "No failure rate given: lost work and goodput not computed. Pass reliability.failures_per_node_day or "
            "reliability.mtbf_seconds"
        )
        return
    restart, reading = reliability.restart_seconds, restore.seconds
    if restart == 0:
        left_out = "restore" if reading is None else f"a restore of {seconds_text(reading)}"
        yield (
            f"reliability.restart_seconds 0 leaves relaunch and {left_out} out of lost time and goodput. Remove it to "
            "count them"
        )
    elif restart is not None and reading is not None and restart < reading:
        yield (
            f"reliability.restart_seconds {restart:g} is shorter than the restore, which reads for "
            f"{seconds_text(reading)} and counts instead. Remove it and give reliability.relaunch_seconds"
        )
    if restart is None and reading is None:
        yield "No read bandwidth given: recovery leaves out the restore. Give it or reliability.restart_seconds"
    at_interval, best = interval.goodput_at_interval_fraction, interval.goodput_at_optimum_fraction
    if overhead.fraction >= 1 or at_interval is None or best is None or best - at_interval <= NOTABLE_GOODPUT_LOSS:
        return
    before = interval.at_least
    better = (
        f"A checkpoint every {seconds_text(interval.optimal_period_seconds or 0)}"
        if interval.method == "exact"
        else "Each tier at its best interval"
    )
    yield (
        f"At this interval the run loses {before}{percent_text(1 - at_interval)} of its time "
        f"({percent_text(overhead.rework_fraction or 0)} to failures). {better} would lose {before}"
        f"{percent_text(1 - best)}"
    )
