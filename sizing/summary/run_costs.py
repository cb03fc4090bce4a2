"""What saving and failures cost the run."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.report import SizingReport
from sizing.run.goodput.interval import Interval
from sizing.run.goodput.shares import Shares
from sizing.summary.guesses import marked
from sizing.summary.rows import UNKNOWN, Row
from sizing.units import percent_text, seconds_text, share_of_interval_text

_MARKED_BY = (
    "interval.lost_at_interval_fraction",
    "shares.saving_fraction",
    "shares.redone_fraction",
    "shares.recovering_fraction",
)
"""Of each share, the figure whose guesses are named beside it."""


def cost_rows(report: SizingReport) -> Iterator[Row]:
    """Overhead, and where the wall time goes, at the interval asked for and at the best."""
    overhead, interval = report.overhead, report.interval
    every = seconds_text(interval.effective_interval_seconds or interval.interval_seconds)
    if overhead.fraction is None:
        yield Row("overhead", UNKNOWN, f"one checkpoint every {every}")
    else:
        verdict = "meets" if overhead.meets_target else "MISSES"
        target = percent_text(overhead.max_overhead_fraction)
        yield Row(
            "overhead",
            share_of_interval_text(overhead.fraction),
            marked(
                report,
                "overhead.fraction",
                f"stalled by saves, one checkpoint every {every}; {verdict} max {target}",
            ),
        )
    if interval.mtbf_seconds is None:
        yield Row("goodput", UNKNOWN, "pass --failures-per-node-day or --mtbf")
    elif report.shares.useful_fraction is None:
        yield Row("goodput", UNKNOWN, "a checkpoint takes longer than the interval: training never advances")
    else:
        yield from _marked_share_rows(report)
    if interval.goodput_at_optimum_fraction is not None and interval.optimal_period_seconds is not None:
        yield Row(
            "best goodput",
            percent_text(interval.goodput_at_optimum_fraction),
            _best_text(report),
        )


def _marked_share_rows(report: SizingReport) -> Iterator[Row]:
    """The shares, marked where they rest on a guess; goodput where lost time, the rest of it, does."""
    for row, figure in zip(share_rows(report.shares, report.interval), _MARKED_BY, strict=True):
        yield row._replace(meaning=marked(report, figure, row.meaning))


def share_rows(shares: Shares, interval: Interval) -> Iterator[Row]:
    """Where all of the wall time goes: four shares that add to 100 %."""
    is_bound = interval.leaves_out_restore
    recovery, mtbf = seconds_text(interval.recovery_seconds or 0.0), seconds_text(interval.mtbf_seconds or 0.0)
    meanings = (
        "of the wall time is useful work (ETTR)" + ("; at most, as the restore is left out" if is_bound else ""),
        "stalled by saves that complete",
        f"work lost to failures (RPO), one failure every {mtbf}",
        f"{recovery} per failure until training goes on (RTO)",
    )
    for (label, fraction), meaning in zip(shares.by_name.items(), meanings, strict=True):
        yield Row(label, percent_text(fraction), meaning)


def _best_text(report: SizingReport) -> str:
    if report.tiers:
        return "with each tier at its best interval"
    interval = report.interval
    period, compute = interval.optimal_period_seconds or 0.0, interval.optimal_seconds or 0.0
    every = f"one checkpoint every {seconds_text(period)} ({seconds_text(compute)} of compute between saves)"
    return marked(report, "interval.optimal_period_seconds", every)
