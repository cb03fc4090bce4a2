"""What saving costs the run: stall per period, and the work that failures undo."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pydantic import Field

from sizing.run.failures import Reliability
from sizing.run.figures import Figures
from sizing.run.goodput.interval import Interval
from sizing.run.goodput.single_level import lost_to_failures_fraction
from sizing.run.restore.restore import Restore
from sizing.run.targets import Targets
from sizing.storage.transfer import Numbers
from sizing.units import percent_text, seconds_text

NOTABLE_GOODPUT_LOSS = 0.01
"""Of the run. A choice: one percent of a large run costs more than it takes to change the interval, less is within the
error of failure rates."""


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


def overhead_fraction(stall_seconds: Numbers, *, interval_seconds: Numbers) -> Numbers:
    """Share of the time in which training stands still to save: stall / period.

    Args: `interval_seconds` from the start of one save to the start of the next.
    Source: VAST Data 2024, "A Checkpoint on Checkpoints in LLMs".

    >>> round(float(overhead_fraction(50.55, interval_seconds=14400)), 5)
    0.00351
    """
    return np.divide(stall_seconds, interval_seconds)


def overhead_of(stalled: Numbers | None, interval: Interval, targets: Targets) -> Overhead:
    """The share of the time that saves stall, None where not known, against its target; and the rework."""
    limit = targets.max_overhead_fraction
    if stalled is None:
        return Overhead.of(fraction=None, max_overhead_fraction=limit, meets_target=None, rework_fraction=None)
    return Overhead.of(
        fraction=stalled,
        max_overhead_fraction=limit,
        meets_target=stalled <= limit,
        rework_fraction=_rework(interval.goodput_at_interval_fraction, stalled),
    )


def overhead_warnings(
    overhead: Overhead, interval: Interval, *, reliability: Reliability | None, restore: Restore
) -> Iterator[str]:
    """What a reader must know before believing a small overhead."""
    if overhead.fraction is None:
        return
    if overhead.fraction >= 1:
        yield "A checkpoint takes longer than the interval: training never advances. Raise the interval"
    if reliability is None:
        yield "No failure rate given: lost work and goodput not computed. Pass --failures-per-node-day or --mtbf"
        return
    yield from _recovery_warnings(reliability, restore)
    if overhead.fraction < 1:
        yield from _interval_warnings(overhead, interval)


def _interval_warnings(overhead: Overhead, interval: Interval) -> Iterator[str]:
    """Where another interval would lose notably less."""
    at_interval, best = interval.goodput_at_interval_fraction, interval.goodput_at_optimum_fraction
    before = interval.at_least
    if at_interval is None or best is None or best - at_interval <= NOTABLE_GOODPUT_LOSS:
        return
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


def _recovery_warnings(reliability: Reliability, restore: Restore) -> Iterator[str]:
    restart, reading = reliability.restart_seconds, restore.seconds
    if restart is not None and reading is not None and restart < reading:
        yield (
            f"reliability.restart_seconds {restart:g} is shorter than the restore, which reads for "
            f"{seconds_text(reading)}. Remove it and give reliability.relaunch_seconds"
        )
    if restart is None and reading is None:
        yield "No read bandwidth given: recovery leaves out the restore. Give it or reliability.restart_seconds"


def _rework(goodput: Numbers | None, stalled: Numbers) -> Numbers | None:
    if goodput is None:
        return None
    compute = np.where(np.less(stalled, 1), 1.0 - stalled, np.nan)
    return lost_to_failures_fraction(goodput, compute_seconds=compute, stall_seconds=stalled)
