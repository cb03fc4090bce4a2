"""The few figures that a decision is made on."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.report import SizingReport
from sizing.summary.purchase import target_text
from sizing.summary.rows import Row
from sizing.summary.targets import target_rows
from sizing.units import decimal_bytes_text, percent_text, rate_text, seconds_text


def key_figures(report: SizingReport) -> list[Row]:
    """The few figures that a decision is made on; those that are not known are left out."""
    return list(_key_figures(report))


def _key_figures(report: SizingReport) -> Iterator[Row]:
    write, interval, overhead = report.write, report.interval, report.overhead
    size = report.checkpoint
    for missed in target_rows([check for check in report.targets if check.met is False]):
        yield missed._replace(label=f"Missed: {missed.label}")
    yield Row("One checkpoint", decimal_bytes_text(size.written_bytes), f"{size.num_files:,} files, {size.format}")
    if write is not None:
        yield Row("Write time", seconds_text(write.seconds), f"at {rate_text(write.bytes_per_second)}")
    if report.restore.seconds is not None:
        read = decimal_bytes_text(report.restore.read_bytes)
        yield Row("Restore time", seconds_text(report.restore.seconds), f"{read} read by all ranks")
    if overhead.fraction is not None and interval.lost_at_interval_fraction is not None:
        every = f"with one checkpoint every {seconds_text(interval.interval_seconds)}"
        yield Row("Lost time", percent_text(interval.lost_at_interval_fraction), every)
    if interval.goodput_at_optimum_fraction is not None and interval.optimal_period_seconds is not None:
        at_best = f"with {percent_text(1 - interval.goodput_at_optimum_fraction)} lost time"
        yield Row("Best interval", seconds_text(interval.optimal_period_seconds), at_best)
    if report.required.write_bytes_per_second is not None:
        yield Row(
            "Min write bandwidth", rate_text(report.required.write_bytes_per_second), f"for {target_text(report)}"
        )
    capacity = report.capacity
    kept = f"for {capacity.num_checkpoints} checkpoints, the one being written included"
    yield Row("Min capacity", decimal_bytes_text(capacity.capacity_bytes), kept)
