"""What saving and failures cost the run."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.report import SizingReport
from sizing.summary.rows import UNKNOWN, Row
from sizing.units import percent_text, seconds_text


def cost_rows(report: SizingReport) -> Iterator[Row]:
    """Overhead, lost work and goodput, at the interval asked for and at the best."""
    overhead, interval = report.overhead, report.interval
    every = seconds_text(interval.effective_interval_seconds or interval.interval_seconds)
    if overhead.fraction is None:
        yield Row("overhead", UNKNOWN, f"at one checkpoint every {every}")
    else:
        verdict = "meets" if overhead.meets_target else "MISSES"
        target = percent_text(overhead.max_overhead_fraction)
        yield Row(
            "overhead",
            percent_text(overhead.fraction),
            f"of the time at one checkpoint every {every}; {verdict} {target}",
        )
    if interval.mtbf_seconds is None:
        yield Row("lost to failures", UNKNOWN, "give --failures-per-node-day or --mtbf")
    elif overhead.rework_fraction is None:
        yield Row("lost to failures", UNKNOWN, "a checkpoint takes longer than the interval: training never advances")
    else:
        yield Row(
            "lost to failures",
            percent_text(overhead.rework_fraction),
            f"work done again and {seconds_text(interval.recovery_seconds or 0.0)} of recovery, "
            f"one failure every {seconds_text(interval.mtbf_seconds)}",
        )
    if interval.goodput_at_interval_fraction is not None:
        yield Row(
            "goodput",
            percent_text(interval.goodput_at_interval_fraction),
            f"at one checkpoint every {every}",
        )
    if interval.goodput_at_optimum_fraction is not None and interval.optimal_period_seconds is not None:
        yield Row(
            "best goodput",
            percent_text(interval.goodput_at_optimum_fraction),
            _best_text(report),
        )


def _best_text(report: SizingReport) -> str:
    if report.tiers:
        return "with each tier saved to at its best interval"
    interval = report.interval
    period, compute = interval.optimal_period_seconds or 0.0, interval.optimal_seconds or 0.0
    return f"at one checkpoint every {seconds_text(period)} ({seconds_text(compute)} of compute between saves)"
