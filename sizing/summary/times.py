"""How long a write and a restore take."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.report import SizingReport
from sizing.run.restore.restore import Restore
from sizing.run.write import Write
from sizing.summary.guesses import marked
from sizing.summary.rows import UNKNOWN, Row
from sizing.units import bytes_text, rate_text, seconds_text


def _interval_row(report: SizingReport, block: str) -> Iterator[Row]:
    """What the calibration leaves open of a time."""
    low, high = report.prediction_intervals.get(f"{block}.seconds", (0.0, 0.0))
    if high:
        slow, fast = report.prediction_intervals[f"{block}.bytes_per_second"]
        meaning = f"90 % interval: {rate_text(slow)} to {rate_text(fast)}"
        yield Row("", f"{seconds_text(low)} to {seconds_text(high)}", meaning)


def time_rows(report: SizingReport) -> Iterator[Row]:
    """Write, stall, restore and the way to the first step."""
    if report.write is None:
        yield Row("write", UNKNOWN, "pass --write-bandwidth or --storage")
    else:
        yield from _write_rows(report, report.write)
    yield from _restore_rows(report)
    restore = report.restore
    if restore.bytes_per_second_for_write_time is not None:
        yield Row(
            "read to match write",
            rate_text(restore.bytes_per_second_for_write_time),
            "read bandwidth for a restore as fast as the write",
        )
    if restore.time_to_first_step_seconds is not None and restore.time_to_first_step_seconds != restore.seconds:
        meaning = marked(report, "restore.time_to_first_step_seconds", "RTO: detection, relaunch, restore")
        yield Row("time to first step", seconds_text(restore.time_to_first_step_seconds), meaning)


def _write_rows(report: SizingReport, write: Write) -> Iterator[Row]:
    per_writer = rate_text(write.per_writer_bytes_per_second)
    per_node = rate_text(write.per_node_bytes_per_second)
    yield Row(
        "write",
        seconds_text(write.seconds),
        marked(
            report,
            "write.seconds",
            f"{rate_text(write.bytes_per_second)}, {per_writer} per writer, {per_node} per writing node; "
            f"limit: {write.bottleneck}",
        ),
    )
    yield from _interval_row(report, "write")
    if write.drain_seconds:
        yield Row(
            "stall",
            seconds_text(write.stall_seconds),
            marked(
                report,
                "write.stall_seconds",
                f"{_stall_text(write)}; then drains for {seconds_text(write.drain_seconds)}",
            ),
        )


def _stall_text(write: Write) -> str:
    """What an asynchronous save stalls for."""
    more = {
        "planning": write.stalled_by_planning_seconds,
        "waiting for room there": write.stalled_by_staging_seconds,
    }
    parts = [f"{seconds_text(seconds)} of {name}" for name, seconds in more.items() if seconds > 0]
    return "for the copy to host memory" + (f", with {' and '.join(parts)}" if parts else "")


def _restore_rows(report: SizingReport) -> Iterator[Row]:
    restore = report.restore
    times = ", ".join(f"{name} x{part.num_readings:g}" for name, part in restore.parts.items())
    reading = f"{bytes_text(restore.read_bytes)}: {times}"
    if restore.seconds is None:
        yield Row("restore", UNKNOWN, f"reads {reading}; pass --read-bandwidth or --storage")
        return
    exchange = f" and {seconds_text(restore.exchange_seconds)} of exchange" if restore.exchange_seconds else ""
    meaning = marked(report, "restore.seconds", f"reads {reading}{exchange}; limit: {restore.bottleneck}")
    yield Row("restore", seconds_text(restore.seconds), meaning)
    yield from _interval_row(report, "restore")
    yield from _faster_restore(restore)


def _faster_restore(restore: Restore) -> Iterator[Row]:
    """The fastest strategy, where it is not the one asked for."""
    fastest = min(restore.strategies, key=lambda alternative: alternative.seconds, default=None)
    if fastest is not None and restore.seconds is not None and fastest.seconds < restore.seconds:
        parts = f"{seconds_text(fastest.read_seconds)} read, {seconds_text(fastest.exchange_seconds)} exchange"
        yield Row("fastest restore", seconds_text(fastest.seconds), f"with restore {fastest.strategy}: {parts}")
