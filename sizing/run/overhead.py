"""What saving costs the run: stall per period, and beside it the work that failures undo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import Field

from sizing.run.demands import Demands
from sizing.run.failures import Reliability
from sizing.run.figures import Figures
from sizing.run.interval import (
    daly_seconds,
    goodput_fraction,
    lost_to_failures_fraction,
    optimal_seconds,
    young_seconds,
)
from sizing.run.targets import Targets
from sizing.run.write import Write
from sizing.storage.transfer import Numbers
from sizing.units import percent_text, seconds_text

NOTABLE_GOODPUT_LOSS = 0.01


class Overhead(Figures):
    """The `overhead` block of the report. Overhead alone hides the rework, so they stand together.

    `rework_fraction` is the share of the wall time lost to failures: work done again, detection, restart.
    """

    fraction: float | None
    max_overhead_fraction: float
    meets_target: bool | None
    rework_fraction: float | None


class Interval(Figures):
    """The `interval` block of the report.

    `optimal_seconds`, `young_seconds` and `daly_seconds` are compute time between two saves;
    `optimal_period_seconds` runs from start to start, as `checkpoint.interval_seconds` does.
    """

    method: Literal["exact"] = "exact"
    interval_seconds: float
    mtbf_seconds: float | None = None
    optimal_seconds: float | None = None
    optimal_period_seconds: float | None = None
    young_seconds: float | None = None
    daly_seconds: float | None = None
    goodput_at_interval_fraction: float | None = None
    goodput_at_optimum_fraction: float | None = None
    lost_at_interval_fraction: float | None = Field(None, description="1 - goodput: stall and rework")


def overhead_fraction(stall_seconds: Numbers, *, interval_seconds: Numbers) -> Numbers:
    """Share of the time in which training stands still to save: stall / period.

    Args: `interval_seconds` from the start of one save to the start of the next.
    Source: VAST Data 2024, "A Checkpoint on Checkpoints in LLMs".

    >>> round(float(overhead_fraction(50.55, interval_seconds=14400)), 5)
    0.00351
    """
    return np.divide(stall_seconds, interval_seconds)


def overhead_of(write: Write | None, interval: Interval, targets: Targets) -> Overhead:
    """The overhead at the interval asked for, against its target, and the rework beside it."""
    limit = targets.max_overhead_fraction
    if write is None:
        return Overhead.of(fraction=None, max_overhead_fraction=limit, meets_target=None, rework_fraction=None)
    period, stall = interval.interval_seconds, write.stall_seconds
    fraction = overhead_fraction(stall, interval_seconds=period)
    return Overhead.of(
        fraction=fraction,
        max_overhead_fraction=limit,
        meets_target=fraction <= limit,
        rework_fraction=_rework(interval.goodput_at_interval_fraction, period=period, stall=stall),
    )


def interval_of(
    write: Write | None, reliability: Reliability | None, *, interval_seconds: float, demands: Demands
) -> Interval:
    """Goodput at the interval asked for and at the optimum; unknown without write time or failures."""
    if write is None or reliability is None:
        return Interval.of(interval_seconds=interval_seconds)
    mtbf = reliability.job_mtbf_seconds(num_nodes=demands.num_nodes, num_gpus=demands.num_gpus)
    stall = write.stall_seconds
    recovery = reliability.detection_seconds + reliability.restart_seconds
    optimum = optimal_seconds(stall, mtbf_seconds=mtbf)

    def goodput(compute_seconds: Numbers) -> Numbers:
        return goodput_fraction(compute_seconds, stall_seconds=stall, mtbf_seconds=mtbf, recovery_seconds=recovery)

    at_interval = goodput(np.maximum(0.0, interval_seconds - stall))
    return Interval.of(
        interval_seconds=interval_seconds,
        mtbf_seconds=mtbf,
        optimal_seconds=optimum,
        optimal_period_seconds=optimum + stall,
        young_seconds=young_seconds(stall, mtbf_seconds=mtbf),
        daly_seconds=daly_seconds(stall, mtbf_seconds=mtbf),
        goodput_at_interval_fraction=at_interval,
        goodput_at_optimum_fraction=goodput(optimum),
        lost_at_interval_fraction=1 - at_interval,
    )


def overhead_warnings(
    overhead: Overhead, interval: Interval, *, reliability: Reliability | None, restore_seconds: float | None
) -> Iterator[str]:
    """What a reader must know before believing a small overhead."""
    if overhead.fraction is None:
        return
    if overhead.fraction >= 1:
        yield "a checkpoint takes longer than the interval: training never advances; lengthen the interval"
    elif overhead.meets_target is False:
        yield (
            f"the overhead of {percent_text(overhead.fraction)} misses the target of "
            f"{percent_text(overhead.max_overhead_fraction)}"
        )
    if reliability is None:
        yield "without reliability the work lost to failures is unknown, and the overhead alone misleads"
        return
    if "restart_seconds" not in reliability.model_fields_set and restore_seconds is not None:
        yield (
            f"the lost work counts no restart: reading alone takes {seconds_text(restore_seconds)}; "
            "give reliability.restart_seconds"
        )
    if overhead.fraction >= 1:
        return
    at_interval, best = interval.goodput_at_interval_fraction, interval.goodput_at_optimum_fraction
    if at_interval is not None and best is not None and best - at_interval > NOTABLE_GOODPUT_LOSS:
        yield (
            f"at this interval the run loses {percent_text(1 - at_interval)} of its time "
            f"({percent_text(overhead.rework_fraction or 0)} to failures); a checkpoint every "
            f"{seconds_text(interval.optimal_period_seconds or 0)} would lose {percent_text(1 - best)}"
        )


def _rework(goodput: Numbers | None, *, period: Numbers, stall: Numbers) -> Numbers | None:
    if goodput is None:
        return None
    compute = np.where(np.greater(period, stall), np.subtract(period, stall), np.nan)
    return lost_to_failures_fraction(goodput, compute_seconds=compute, stall_seconds=stall)
