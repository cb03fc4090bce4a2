"""The report in words: what terminal, page and document show of it, in the order in which people ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sizing.layout.layout import RankFile
from sizing.report import SizingReport
from sizing.run.costs import Cost
from sizing.run.restore import Restore
from sizing.run.retention import Capacity
from sizing.run.tier import ARCHIVE
from sizing.run.tiers import TierRow
from sizing.storage.limits import Limit
from sizing.training import GpuMemory
from sizing.units import bytes_text, decimal_bytes_text, percent_text, rate_text, seconds_text

UNKNOWN = "unknown"


class Row(NamedTuple):
    """One figure: what it is of, the figure, what it means."""

    label: str
    figure: str
    meaning: str


class Section(NamedTuple):
    """Figures that answer one question."""

    title: str
    rows: tuple[Row, ...]


class Grid(NamedTuple):
    """A table of text with a heading for each column."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def headline(report: SizingReport) -> str:
    """What is trained, on what."""
    layout = report.layout
    return (
        f"{report.model.name}: {report.model.num_parameters:,} parameters on {layout.num_gpus:,} GPUs "
        f"({layout.num_nodes:,} x {layout.node})"
    )


def key_figures(report: SizingReport) -> list[Row]:
    """The few figures that a decision is made on; those that are not known are left out."""
    return list(_key_figures(report))


def sections(report: SizingReport) -> list[Section]:
    """The figures, the answer first."""
    return [
        checkpoint_section(report),
        Section("Time", tuple(_time_rows(report))),
        Section("Cost to the run", tuple(_cost_rows(report))),
        Section("To buy", tuple(_required_rows(report))),
        Section("Memory of the fullest GPU", tuple(_memory_rows(report.training))),
    ]


def checkpoint_section(report: SizingReport) -> Section:
    """How big a checkpoint is, and who writes it."""
    return Section("Checkpoint", tuple(_checkpoint_rows(report)))


def grids(report: SizingReport) -> list[Grid]:
    """The tables that the figures rest on."""
    made = [_tiers(report.tiers)] if report.tiers else []
    made.append(rank_classes(report))
    if report.write is not None:
        made.append(_limits("What limits the write", report.write.limits))
    if report.restore.limits:
        made.append(_limits("What limits the restore", report.restore.limits))
    return made


def rank_classes(report: SizingReport) -> Grid:
    """Who writes which files: one row for all ranks that write the same."""
    return Grid(
        "Who writes what",
        ("stages", "ranks", "copies", "writers", "layers", "bytes each", "file"),
        tuple(
            (
                rank_class.stages,
                rank_class.ranks,
                rank_class.copies,
                f"{rank_class.num_ranks:,}",
                str(rank_class.num_layers),
                bytes_text(rank_class.bytes_per_rank),
                ", ".join(_file_text(file) for file in rank_class.files),
            )
            for rank_class in report.layout.rank_classes
        ),
    )


def _tiers(rows: Iterable[TierRow]) -> Grid:
    return Grid(
        "Tiers",
        ("tier", "every", "best", "stall", "drain", "restore", "recovers", "a failure undoes", "brings", "holds", "of"),
        tuple(
            (
                row.kind,
                seconds_text(row.effective_interval_seconds),
                "" if row.optimal_interval_seconds is None else seconds_text(row.optimal_interval_seconds),
                seconds_text(row.stall_seconds) if row.stall_seconds else "-",
                seconds_text(row.drain_seconds) if row.drain_seconds else "-",
                UNKNOWN if row.restore_seconds is None else seconds_text(row.restore_seconds),
                "" if row.used_fraction is None else percent_text(row.used_fraction),
                "" if row.kind == ARCHIVE else seconds_text(row.rework_seconds),
                rate_text(row.mean_bytes_per_second),
                _held_text(row),
                "" if row.capacity_bytes is None else decimal_bytes_text(row.capacity_bytes),
            )
            for row in rows
        ),
    )


def _held_text(row: TierRow) -> str:
    if row.node_bytes is None:
        return decimal_bytes_text(row.stored_bytes)
    return f"{decimal_bytes_text(row.node_bytes)} a node"


def assumed(report: SizingReport) -> str:
    """What was assumed, as one line."""
    return "assumed: " + "; ".join(assumption.sentence for assumption in report.assumptions)


def came_from(report: SizingReport) -> str:
    """Where the figures come from, as one line."""
    return "figures: " + "; ".join(found.sentence for found in report.provenance)


def _interval_row(report: SizingReport, block: str) -> Iterator[Row]:
    """What the calibration leaves open of a time."""
    low, high = report.prediction_intervals.get(f"{block}.seconds", (0.0, 0.0))
    if high:
        slow, fast = report.prediction_intervals[f"{block}.bytes_per_second"]
        meaning = f"holds 9 of 10 measurements: {rate_text(slow)} to {rate_text(fast)}"
        yield Row("", f"{seconds_text(low)} to {seconds_text(high)}", meaning)


def _key_figures(report: SizingReport) -> Iterator[Row]:
    write, interval, overhead = report.write, report.interval, report.overhead
    size = report.checkpoint
    yield Row("One checkpoint", decimal_bytes_text(size.written_bytes), f"{size.num_files:,} files, {size.format}")
    if write is not None:
        yield Row("Written in", seconds_text(write.seconds), f"at {rate_text(write.bytes_per_second)}")
    if report.restore.seconds is not None:
        read = decimal_bytes_text(report.restore.read_bytes)
        yield Row("Restored in", seconds_text(report.restore.seconds), f"{read} read by all ranks together")
    if overhead.fraction is not None and interval.lost_at_interval_fraction is not None:
        every = f"with a checkpoint every {seconds_text(interval.interval_seconds)}"
        yield Row("The run loses", percent_text(interval.lost_at_interval_fraction), every)
    if interval.goodput_at_optimum_fraction is not None and interval.optimal_period_seconds is not None:
        at_best = f"where it would lose {percent_text(1 - interval.goodput_at_optimum_fraction)}"
        yield Row("Best saved every", seconds_text(interval.optimal_period_seconds), at_best)
    if report.required.write_bytes_per_second is not None:
        yield Row("Buy, to write", rate_text(report.required.write_bytes_per_second), f"for {_target_text(report)}")
    capacity = report.capacity
    kept = f"for {capacity.num_checkpoints} checkpoints, the one being written included"
    yield Row("Buy, to hold", decimal_bytes_text(capacity.capacity_bytes), kept)


def _checkpoint_rows(report: SizingReport) -> Iterator[Row]:
    size, layout = report.checkpoint, report.layout
    parts = ", ".join(f"{name} {part.dtype}" for name, part in size.parts.items())
    yield Row("logical", bytes_text(size.logical_bytes), f"{size.bytes_per_parameter:g} B per parameter: {parts}")
    if size.replicated_bytes:
        copied = ", ".join(f"{r.tensors} x{r.copies}" for r in size.replicated[:3])
        more = len(size.replicated) - 3
        tail = f" and {more} more" if more > 0 else ""
        yield Row("replicated", bytes_text(size.replicated_bytes), copied + tail)
    yield Row("total", bytes_text(size.total_bytes), f"{size.num_files:,} files, {size.format}")
    beside = {"container headers": size.container_bytes} | size.small_state_bytes
    yield Row(
        "beside it",
        bytes_text(sum(beside.values())),
        f"{percent_text(sum(beside.values()) / size.total_bytes)} of the total: {', '.join(beside)}",
    )
    if size.observed_bytes is not None:
        yield Row(
            "observed",
            bytes_text(size.observed_bytes),
            f"{size.observed_over_logical:.3f} x logical; times and rates use it",
        )
    yield Row(
        "written by",
        f"{layout.num_writers:,} of {layout.num_gpus:,} GPUs",
        f"on {layout.num_writing_nodes:,} of {layout.num_nodes:,} nodes; largest rank "
        f"{decimal_bytes_text(layout.max_rank_bytes)}, mean {decimal_bytes_text(layout.mean_rank_bytes)}",
    )


def _time_rows(report: SizingReport) -> Iterator[Row]:
    write, restore = report.write, report.restore
    if write is None:
        yield Row("write", UNKNOWN, "give --write-bandwidth or --storage")
    else:
        per_writer = rate_text(write.per_writer_bytes_per_second)
        per_node = rate_text(write.per_node_bytes_per_second)
        yield Row(
            "write",
            seconds_text(write.seconds),
            f"{rate_text(write.bytes_per_second)}, {per_writer} per writer, {per_node} per writing node; "
            f"limit: {write.bottleneck}",
        )
        yield from _interval_row(report, "write")
        if write.drain_seconds:
            yield Row(
                "stall",
                seconds_text(write.stall_seconds),
                f"for the copy to host memory; the rest drains in {seconds_text(write.drain_seconds)}",
            )
    times = ", ".join(f"{name} x{part.num_readings:g}" for name, part in restore.parts.items())
    reading = f"{bytes_text(restore.read_bytes)}: {times}"
    if restore.seconds is None:
        yield Row("restore", UNKNOWN, f"reads {reading}; give --read-bandwidth or --storage")
    else:
        exchange = f" and {seconds_text(restore.exchange_seconds)} of passing on" if restore.exchange_seconds else ""
        yield Row("restore", seconds_text(restore.seconds), f"reads {reading}{exchange}; limit: {restore.bottleneck}")
        yield from _interval_row(report, "restore")
        yield from _faster_restore(restore)
    if restore.bytes_per_second_for_write_time is not None:
        yield Row(
            "",
            rate_text(restore.bytes_per_second_for_write_time),
            "would restore as fast as it was written",
        )
    if restore.time_to_first_step_seconds is not None and restore.time_to_first_step_seconds != restore.seconds:
        meaning = "from a failure: detection, relaunch, restore"
        yield Row("time to first step", seconds_text(restore.time_to_first_step_seconds), meaning)


def _faster_restore(restore: Restore) -> Iterator[Row]:
    """The fastest strategy, where it is not the one asked for."""
    fastest = min(restore.strategies, key=lambda alternative: alternative.seconds, default=None)
    if fastest is not None and restore.seconds is not None and fastest.seconds < restore.seconds:
        passing_on = (
            f"{seconds_text(fastest.read_seconds)} to read and {seconds_text(fastest.exchange_seconds)} to pass on"
        )
        yield Row("", seconds_text(fastest.seconds), f"by {fastest.strategy}: {passing_on}")


def _cost_rows(report: SizingReport) -> Iterator[Row]:
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


def _required_rows(report: SizingReport) -> Iterator[Row]:
    required, capacity = report.required, report.capacity
    if required.write_bytes_per_second is not None and required.write_per_node_bytes_per_second is not None:
        per_node = rate_text(required.write_per_node_bytes_per_second)
        yield Row(
            "write, at least",
            rate_text(required.write_bytes_per_second),
            f"for {_target_text(report)}; {per_node} per writing node",
        )
    if required.device_to_host_bytes_per_second is not None:
        copy = rate_text(required.device_to_host_bytes_per_second)
        yield Row("GPU to host, at least", copy, "of one GPU, for the stall that the targets allow")
    if required.restore_bytes_per_second is not None:
        yield Row("restore, at least", rate_text(required.restore_bytes_per_second), "for recovery_seconds")
    yield Row("capacity, at least", bytes_text(capacity.capacity_bytes), _capacity_text(capacity))
    if capacity.raw_bytes != capacity.capacity_bytes:
        usable = f"of drives, for {bytes_text(capacity.usable_bytes)} usable"
        yield Row("", bytes_text(capacity.raw_bytes), usable)
    if report.cost is not None:
        total = report.cost.total
        yield Row("cost", UNKNOWN if total is None else f"{total:,.2f}", _cost_text(report.cost))


def _cost_text(cost: Cost) -> str:
    parts = {"capacity": cost.capacity, "write bandwidth": cost.bandwidth, "lost GPU time": cost.lost_gpu_time}
    known = ", ".join(f"{name} {amount:,.2f}" for name, amount in parts.items() if amount is not None)
    return f"in the currency of costs: {known or 'none of what is priced is known'}"


def _target_text(report: SizingReport) -> str:
    every = seconds_text(report.interval.interval_seconds)
    match report.required.write_target:
        case "max_overhead_fraction":
            return f"{percent_text(report.overhead.max_overhead_fraction)} at one checkpoint every {every}"
        case "max_stall_seconds":
            return f"a stall of {seconds_text(report.required.write_seconds)}"
        case "interval_seconds":
            return f"a checkpoint that has drained before the next, {every} later"


def _capacity_text(capacity: Capacity) -> str:
    kept = f"{capacity.num_checkpoints} checkpoints: those kept and the one being written"
    if not capacity.growth_bytes_per_day:
        return kept
    weights, growth = decimal_bytes_text(capacity.kept_weights_bytes), decimal_bytes_text(capacity.growth_bytes_per_day)
    return f"{kept}; {weights} of kept weights, which grow by {growth} a day"


def _memory_rows(memory: GpuMemory) -> Iterator[Row]:
    yield Row("state", decimal_bytes_text(memory.gpu_state_bytes), "weights, gradients and optimizer")
    if memory.activation_bytes is not None and memory.total_bytes is not None:
        kept = f"of {memory.in_flight_microbatches:g} microbatches in flight; recomputation {memory.recomputation}"
        yield Row("activations", decimal_bytes_text(memory.activation_bytes), kept)
        yield Row("together", decimal_bytes_text(memory.total_bytes), f"on stage {memory.fullest_stage}")
    if memory.gpu_memory_bytes is not None:
        verdict = "runs" if memory.runs else "CANNOT RUN"
        beside = "" if memory.total_bytes is not None else "; without activations: give --micro-batch"
        yield Row("of", decimal_bytes_text(memory.gpu_memory_bytes), verdict + beside)
    if memory.bubble_fraction is not None:
        idle = f"of a step the pipeline idles, with {memory.num_microbatches:,} microbatches"
        yield Row("bubble", percent_text(memory.bubble_fraction), idle)


def _limits(title: str, limits: Iterable[Limit]) -> Grid:
    return Grid(
        title,
        ("resource", "takes", "allows", "slack", ""),
        tuple(
            (
                limit.resource,
                seconds_text(limit.seconds),
                "" if limit.bytes_per_second is None else rate_text(limit.bytes_per_second),
                "adds up" if limit.slack_fraction is None else percent_text(limit.slack_fraction),
                "binds" if limit.binds else "",
            )
            for limit in limits
        ),
    )


def _file_text(file: RankFile) -> str:
    return file.name if file.count == 1 else f"{file.count} x {file.name}"
