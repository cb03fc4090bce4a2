"""The `interval` block of the report: what is left of the time at the interval asked for, and at the best."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import Field

from sizing.run.demands import Demands
from sizing.run.failures import Reliability
from sizing.run.figures import Figures
from sizing.run.interval import (
    availability_period_seconds,
    daly_first_order_seconds,
    daly_seconds,
    goodput_fraction,
    optimal_seconds,
    young_seconds,
)
from sizing.run.restore import Restore
from sizing.run.write import Write
from sizing.storage.transfer import Numbers
from sizing.units import seconds_text


class Interval(Figures):
    """The `interval` block of the report.

    `interval_seconds` is asked for; `effective_interval_seconds` is longer where an asynchronous save has not drained
    by then. `optimal_seconds`, `young_seconds` and the `daly_` ones are compute time between two saves; periods run
    from start to start, as `checkpoint.interval_seconds` does.
    """

    method: Literal["exact"] = "exact"
    interval_seconds: float
    effective_interval_seconds: float | None = None
    mtbf_seconds: float | None = None
    recovery_seconds: float | None = Field(None, description="from a failure until training goes on")
    optimal_seconds: float | None = None
    optimal_period_seconds: float | None = None
    young_seconds: float | None = None
    daly_first_order_seconds: float | None = None
    daly_seconds: float | None = None
    availability_period_seconds: float | None = None
    goodput_at_interval_fraction: float | None = None
    goodput_at_optimum_fraction: float | None = None
    lost_at_interval_fraction: float | None = Field(None, description="1 - goodput: stall and rework")


def effective_interval_seconds(interval_seconds: Numbers, *, stall_seconds: Numbers, drain_seconds: Numbers) -> Numbers:
    """Period from start to start in effect: a save starts once the one before has drained, max(T, d + D) where D > 0.

    Source: PyTorch 2.13, torch.distributed.checkpoint.async_save, whose caller waits for the save before.

    >>> float(effective_interval_seconds(60.0, stall_seconds=2.0, drain_seconds=98.0))
    100.0
    """
    drained = np.where(np.greater(drain_seconds, 0), np.add(stall_seconds, drain_seconds), 0.0)
    return np.maximum(interval_seconds, drained)


def interval_of(
    write: Write | None,
    restore: Restore,
    reliability: Reliability | None,
    *,
    interval_seconds: Numbers,
    demands: Demands,
) -> Interval:
    """Goodput at the interval asked for and at the optimum; unknown without write time or failures.

    Draining makes every interval lose the same, so the best one is that of the stall alone, if the drain ends in it.
    """
    if write is None:
        return Interval.of(interval_seconds=interval_seconds)
    stall, drain = write.stall_seconds, write.drain_seconds
    period = effective_interval_seconds(interval_seconds, stall_seconds=stall, drain_seconds=drain)
    if reliability is None:
        return Interval.of(interval_seconds=interval_seconds, effective_interval_seconds=period)
    mtbf = reliability.job_mtbf_seconds(num_nodes=demands.num_nodes, num_gpus=demands.num_gpus)
    recovery = reliability.recovery_seconds(0.0 if restore.seconds is None else restore.seconds)
    optimum = np.maximum(optimal_seconds(stall, mtbf_seconds=mtbf), drain)

    def goodput(compute_seconds: Numbers) -> Numbers:
        return goodput_fraction(
            compute_seconds,
            stall_seconds=stall,
            mtbf_seconds=mtbf,
            recovery_seconds=recovery,
            drain_seconds=drain,
        )

    at_interval = goodput(np.maximum(0.0, period - stall))
    return Interval.of(
        interval_seconds=interval_seconds,
        effective_interval_seconds=period,
        mtbf_seconds=mtbf,
        recovery_seconds=recovery,
        optimal_seconds=optimum,
        optimal_period_seconds=optimum + stall,
        young_seconds=young_seconds(stall, mtbf_seconds=mtbf),
        daly_first_order_seconds=daly_first_order_seconds(stall, mtbf_seconds=mtbf),
        daly_seconds=daly_seconds(stall, mtbf_seconds=mtbf),
        availability_period_seconds=availability_period_seconds(stall, mtbf_seconds=mtbf, recovery_seconds=recovery),
        goodput_at_interval_fraction=at_interval,
        goodput_at_optimum_fraction=goodput(optimum),
        lost_at_interval_fraction=1 - at_interval,
    )


def interval_warnings(interval: Interval, write: Write | None) -> Iterator[str]:
    """Where the interval asked for, or the failures, make what is asked for impossible."""
    effective, asked, mtbf = interval.effective_interval_seconds, interval.interval_seconds, interval.mtbf_seconds
    if write is None or effective is None:
        return
    if effective > asked:
        yield (
            f"a save drains for {seconds_text(write.drain_seconds)}, so the next one cannot start after "
            f"{seconds_text(asked)}: the figures are for one checkpoint every {seconds_text(effective)}"
        )
    if mtbf is None:
        return
    if write.seconds >= mtbf:
        yield (
            f"a checkpoint takes {seconds_text(write.seconds)} and the job fails every {seconds_text(mtbf)}: most "
            "saves are broken off before they count; the storage is too slow for so many nodes"
        )
    if (interval.recovery_seconds or 0.0) >= mtbf:
        yield (
            f"recovery takes {seconds_text(interval.recovery_seconds or 0.0)} and the job fails every "
            f"{seconds_text(mtbf)}: most recoveries are broken off"
        )
