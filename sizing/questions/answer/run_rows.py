"""What saves and failures take of the run, in rows: times, where the time goes, recovery, length of the run."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.guesses.figures import LOST
from sizing.present.guesses import NO_PREDICTION, Shown, as_it_is, is_useless, marked
from sizing.present.rows import CALIBRATION, FAILURES, MTBF, READ_RATE, STORAGE_PRESET, UNKNOWN, WRITE_RATE, Row
from sizing.present.targets import lack_of_calibrated
from sizing.report import SizingReport
from sizing.run.failure_process import Shares
from sizing.run.failures import DEFAULT_STRATEGY
from sizing.run.interval import Interval, every_text
from sizing.run.recovery import Recovery
from sizing.run.recovery_strategies import STRATEGIES
from sizing.run.restore import Restore
from sizing.run.write import Write
from sizing.training.run_length import RunLength
from sizing.units import (
    counted_text,
    decimal_bytes_text,
    percent_text,
    rate_text,
    seconds_text,
    share_of_interval_text,
)


def _interval_row(report: SizingReport, block: str) -> Iterator[Row]:
    """The row of what a calibration leaves open of a time."""
    low, high = report.prediction_intervals.get(f"{block}.seconds", (0.0, 0.0))
    if high:
        slow, fast = report.prediction_intervals[f"{block}.bytes_per_second"]
        times = f"{seconds_text(low)} to {seconds_text(high)}"
        meaning = f"90 % interval: {rate_text(slow)} to {rate_text(fast)}"
        if is_useless(report, f"{block}.seconds"):
            times, meaning = NO_PREDICTION, f"90 % interval: {times}, {rate_text(slow)} to {rate_text(fast)}"
        yield Row("", times, meaning)


def time_rows(report: SizingReport) -> Iterator[Row]:
    """Rows of the times of write, stall and restore, and of the way to the first step."""
    if report.write is None:
        yield Row("write", UNKNOWN, write_text(report))
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
        recovery = report.recovery
        waits = "wait for nodes, " if recovery and (recovery.wait_for_node_seconds or recovery.mean_groups) else ""
        meaning = marked(report, "restore.time_to_first_step_seconds", f"RTO: {waits}detection, relaunch, restore")
        yield Row("time to first step", seconds_text(restore.time_to_first_step_seconds), meaning)


def _write_rows(report: SizingReport, write: Write) -> Iterator[Row]:
    per_writer = rate_text(write.per_writer_bytes_per_second)
    per_node = rate_text(write.per_node_bytes_per_second)
    meaning = write_text(report, beside=f", {per_writer} per writer, {per_node} per writing node")
    yield Row("write", seconds_text(write.seconds), marked(report, "write.seconds", meaning))
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
    """Say for what training waits in an asynchronous save, and for how long each."""
    more = {
        "planning": write.stalled_by_planning_seconds,
        "waiting for room there": write.stalled_by_staging_seconds,
    }
    parts = [f"{seconds_text(seconds)} of {name}" for name, seconds in more.items() if seconds > 0]
    return "for the copy to host memory" + (f", with {' and '.join(parts)}" if parts else "")


def write_text(report: SizingReport, *, beside: str = "") -> str:
    """Say at which rate a save is written, what is told `beside` that, and the limit; or what to give to know it."""
    write, reduction = report.write, report.reduction
    if write is None:
        return lack_of_calibrated(report, "write") or f"give {WRITE_RATE}, {CALIBRATION} or {STORAGE_PRESET}"
    of = f"of {decimal_bytes_text(reduction.mean_bytes)} on average, " if reduction else ""
    return f"{of}at {rate_text(write.bytes_per_second)}{beside}; limit: {write.bottleneck}"


def restore_text(report: SizingReport, *, parts: str = "") -> str:
    """Say what a restore reads, in which `parts`, at which rate, and the limit; or what to give to know that."""
    restore, reduction = report.restore, report.reduction
    read = f"all ranks read {decimal_bytes_text(restore.read_bytes)}{parts}"
    if restore.seconds is None or restore.bytes_per_second is None:
        lack = lack_of_calibrated(report, "read")
        return f"{read}; {lack or f'give {READ_RATE} or {CALIBRATION}'}"
    longest = (reduction.max_restore_seconds or 0.0) if reduction else 0.0
    at_most = f"on average, at most {seconds_text(longest)}; " if longest > restore.seconds else ""
    exchange = f", with {seconds_text(restore.exchange_seconds)} of exchange" if restore.exchange_seconds else ""
    return f"{at_most}{read} at {rate_text(restore.bytes_per_second)}{exchange}; limit: {restore.bottleneck}"


def _restore_rows(report: SizingReport) -> Iterator[Row]:
    restore = report.restore
    times = ", ".join(f"{name} x{part.num_readings:g}" for name, part in restore.parts.items())
    meaning = restore_text(report, parts=f" ({times})")
    if restore.seconds is None:
        yield Row("restore", UNKNOWN, meaning)
        return
    yield Row("restore", seconds_text(restore.seconds), marked(report, "restore.seconds", meaning))
    yield from _interval_row(report, "restore")
    yield from _faster_restore(restore)


def _faster_restore(restore: Restore) -> Iterator[Row]:
    """The row of the fastest strategy to restore, where it is not the one asked for."""
    fastest = min(restore.strategies, key=lambda alternative: alternative.seconds, default=None)
    if fastest is not None and restore.seconds is not None and fastest.seconds < restore.seconds:
        parts = f"{seconds_text(fastest.read_seconds)} read, {seconds_text(fastest.exchange_seconds)} exchange"
        yield Row("fastest restore", seconds_text(fastest.seconds), f"with restore {fastest.strategy}: {parts}")


_MARKED_BY = (
    LOST,
    "shares.saving_fraction",
    "shares.redone_fraction",
    "shares.recovering_fraction",
)
"""The figure of each share, whose guesses are named beside it."""


def cost_rows(report: SizingReport) -> Iterator[Row]:
    """Overhead, and where the wall time goes, at the interval asked for and at the best."""
    overhead, interval = report.overhead, report.interval
    every = every_text(interval)
    if overhead.fraction is None:
        yield Row("overhead", UNKNOWN, f"one checkpoint every {every}")
    else:
        is_decided = all(check.is_decided for check in report.targets if check.target == "max_overhead_fraction")
        verdict = ("meets" if overhead.meets_target else "MISSES") if is_decided else "not decided by the calibration:"
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
        yield Row("goodput", UNKNOWN, f"give {FAILURES} or {MTBF}")
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
    for row, figure in zip(share_rows(report.shares, report.interval, report.recovery), _MARKED_BY, strict=True):
        shown: Shown = (lambda lost_fraction: 1.0 - lost_fraction) if figure == LOST else as_it_is
        yield row._replace(meaning=marked(report, figure, row.meaning, shown=shown))


def share_rows(shares: Shares, interval: Interval, recovery: Recovery | None) -> Iterator[Row]:
    """Where all of the wall time goes: four shares that add to 100 %."""
    is_bound = interval.leaves_out_restore
    lasting, mtbf = seconds_text(interval.recovery_seconds or 0.0), seconds_text(interval.mtbf_seconds or 0.0)
    preempted = recovery.preemptions_per_day if recovery else None
    beside = "" if preempted is None else f" and {preempted:.3g} preemptions per day"
    meanings = (
        "of the wall time is useful work (ETTR)" + ("; at most, as the restore is left out" if is_bound else ""),
        "stalled by saves that complete",
        f"work lost to failures (RPO), one failure every {mtbf}{beside}",
        f"{lasting} per failure{' or preemption' if beside else ''} until training goes on (RTO)",
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


_SURE = 1e-9
"""Above, a failure may need the storage; below is rounding."""


def never_needs_storage(recovery: Recovery | None) -> bool:
    """Return whether the recovery strategy leaves no failure, and no preemption, to the storage."""
    return recovery is not None and recovery.from_storage_fraction <= _SURE and not recovery.preemptions_per_day


def recovery_rows(recovery: Recovery | None) -> Iterator[Row]:
    """A row for what is not as with a plain restart; none for that."""
    if recovery is None:
        return
    if recovery.strategy != DEFAULT_STRATEGY:
        strategy = STRATEGIES[recovery.strategy]
        yield Row("recovery", recovery.strategy, f"{strategy.summary}; lost: {strategy.loses}")
    yield from _node_rows(recovery)
    yield from _copy_rows(recovery)
    if recovery.preemptions_per_day is not None:
        saved = "a save ends within the notice" if recovery.saved_in_notice_fraction else "no save within the notice"
        yield Row("preemptions", f"{recovery.preemptions_per_day:.3g} per day", f"beside failures; {saved}")
    if recovery.data_skip_seconds:
        yield Row("skipped data", seconds_text(recovery.data_skip_seconds), "of each resume, after the restore")


def _node_rows(recovery: Recovery) -> Iterator[Row]:
    """Rows of spares, and of the wait where there is none."""
    runs_out, wait = recovery.spares_run_out_fraction, recovery.wait_for_node_seconds
    if recovery.num_spare_nodes:
        nodes, gpus = counted_text(recovery.num_spare_nodes, "node"), counted_text(recovery.num_spare_gpus, "GPU")
        yield Row("spares", nodes, f"{gpus} idle, which count as lost GPU time")
    if runs_out is not None and wait is not None:
        left = f"{percent_text(runs_out)} of the failures of nodes find no spare"
        found = left if recovery.num_spare_nodes else "no spares: every failure of a node waits"
        yield Row("wait for a node", seconds_text(wait), f"mean over all failures of nodes; {found}")
    if recovery.available_fraction < 1:
        yield Row("nodes there", percent_text(recovery.available_fraction), "of the time of all nodes; the rest waits")


def _copy_rows(recovery: Recovery) -> Iterator[Row]:
    """Rows of what peers send, and of how many groups train."""
    storage = recovery.from_storage_fraction
    needed = f"{percent_text(storage)} of the failures need the storage" if storage > _SURE else "storage seldom needed"
    if recovery.peer_seconds is not None and recovery.peer_bytes_per_node is not None:
        sent = decimal_bytes_text(recovery.peer_bytes_per_node)
        meaning = f"{sent} to a replaced node from {recovery.num_copies} copies; {needed}"
        yield Row("state from peers", seconds_text(recovery.peer_seconds), meaning)
    if recovery.mean_groups is not None and recovery.throughput_fraction is not None:
        kept = recovery.mean_batch_fraction == 1
        batch = "the global batch stays" if kept else "the global batch shrinks with them"
        meaning = f"of {recovery.num_copies} train on average; {batch}; {needed}"
        yield Row("groups", f"{recovery.mean_groups:.2f}", meaning)


def run_length_rows(found: RunLength | None) -> Iterator[Row]:
    """Rows of how many steps and checkpoints the whole run has."""
    if found is None:
        return
    fewest = "" if found.min_steps is None else f"; no batch size needs fewer than {found.min_steps:,}"
    yield Row("steps", f"{found.num_steps:,}", f"of {found.batch_tokens:,} tokens{fewest}")
    if found.wall_seconds is not None and found.interval_steps is not None:
        saves = counted_text(found.num_checkpoints or 0, "checkpoint")
        every = f"{saves}, one every {found.interval_steps:,.0f} steps"
        yield Row("whole run", seconds_text(found.wall_seconds), every)
