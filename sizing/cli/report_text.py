"""A SizingReport for people: the answer first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sizing.layout.layout import RankFile
from sizing.report import SizingReport
from sizing.storage.limits import Limit
from sizing.units import (
    bytes_text,
    decimal_bytes_text,
    percent_text,
    rate_text,
    seconds_text,
)

Row = tuple[str, str, str]
UNKNOWN = "unknown"


def report_text(report: SizingReport) -> RenderableType:
    """The whole report as tables."""
    layout = report.layout
    title = Text(
        f"{report.model.name}: {report.model.num_parameters:,} parameters on {layout.num_gpus:,} GPUs "
        f"({layout.num_nodes:,} x {layout.node})",
        style="bold",
    )
    sections = [
        _rows("Checkpoint", _checkpoint_rows(report)),
        _rows("Time", _time_rows(report)),
        _rows("Cost to the run", _cost_rows(report)),
        _rows("To buy", _required_rows(report)),
        _rank_classes(report),
    ]
    if report.write is not None:
        sections.append(_limits("What limits the write", report.write.limits))
    if report.restore.limits:
        sections.append(_limits("What limits the restore", report.restore.limits))
    return Group(title, *(line for section in sections for line in ("", section)), *_notes(report))


def manifest_text(report: SizingReport) -> RenderableType:
    """Who writes which files."""
    return Group(_rows("Checkpoint", _checkpoint_rows(report)), "", _rank_classes(report))


def _checkpoint_rows(report: SizingReport) -> Iterator[Row]:
    size, layout = report.checkpoint, report.layout
    parts = ", ".join(f"{name} {part.dtype}" for name, part in size.parts.items())
    yield "logical", bytes_text(size.logical_bytes), f"{size.bytes_per_parameter:g} B per parameter: {parts}"
    if size.replicated_bytes:
        copied = ", ".join(f"{r.tensors} x{r.copies}" for r in size.replicated[:3])
        more = len(size.replicated) - 3
        tail = f" and {more} more" if more > 0 else ""
        yield "replicated", bytes_text(size.replicated_bytes), copied + tail
    yield "total", bytes_text(size.total_bytes), f"{size.num_files:,} files, {size.format}"
    beside = {"container headers": size.container_bytes} | size.small_state_bytes
    yield (
        "beside it",
        bytes_text(sum(beside.values())),
        f"{percent_text(sum(beside.values()) / size.total_bytes)} of the total: {', '.join(beside)}",
    )
    if size.observed_bytes is not None:
        yield (
            "observed",
            bytes_text(size.observed_bytes),
            f"{size.observed_over_logical:.3f} x logical; times and rates use it",
        )
    yield (
        "written by",
        f"{layout.num_writers:,} of {layout.num_gpus:,} GPUs",
        f"on {layout.num_writing_nodes:,} of {layout.num_nodes:,} nodes; largest rank "
        f"{decimal_bytes_text(layout.max_rank_bytes)}, mean {decimal_bytes_text(layout.mean_rank_bytes)}",
    )


def _time_rows(report: SizingReport) -> Iterator[Row]:
    write, restore = report.write, report.restore
    if write is None:
        yield "write", UNKNOWN, "give --write-bandwidth or --storage"
    else:
        per_writer = rate_text(write.per_writer_bytes_per_second)
        per_node = rate_text(write.per_node_bytes_per_second)
        yield (
            "write",
            seconds_text(write.seconds),
            f"{rate_text(write.bytes_per_second)}, {per_writer} per writer, {per_node} per writing node; "
            f"limit: {write.bottleneck}",
        )
    times = ", ".join(f"{name} x{part.num_readings:g}" for name, part in restore.parts.items())
    reading = f"{bytes_text(restore.read_bytes)}: {times}"
    if restore.seconds is None:
        yield "restore", UNKNOWN, f"reads {reading}; give --read-bandwidth or --storage"
    else:
        yield "restore", seconds_text(restore.seconds), f"reads {reading}; limit: {restore.bottleneck}"
    if restore.bytes_per_second_for_write_time is not None:
        yield (
            "",
            rate_text(restore.bytes_per_second_for_write_time),
            "would restore as fast as it was written",
        )


def _cost_rows(report: SizingReport) -> Iterator[Row]:
    overhead, interval = report.overhead, report.interval
    every = seconds_text(interval.interval_seconds)
    if overhead.fraction is None:
        yield "overhead", UNKNOWN, f"at one checkpoint every {every}"
    else:
        verdict = "meets" if overhead.meets_target else "MISSES"
        target = percent_text(overhead.max_overhead_fraction)
        yield (
            "overhead",
            percent_text(overhead.fraction),
            f"of the time at one checkpoint every {every}; {verdict} {target}",
        )
    if interval.mtbf_seconds is None:
        yield "lost to failures", UNKNOWN, "give --failures-per-node-day or --mtbf"
    elif overhead.rework_fraction is None:
        yield "lost to failures", UNKNOWN, "a checkpoint takes longer than the interval: training never advances"
    else:
        yield (
            "lost to failures",
            percent_text(overhead.rework_fraction),
            f"work done again and restart, one failure every {seconds_text(interval.mtbf_seconds)}",
        )
    if interval.goodput_at_interval_fraction is not None:
        yield (
            "goodput",
            percent_text(interval.goodput_at_interval_fraction),
            f"at one checkpoint every {every}",
        )
    if interval.goodput_at_optimum_fraction is not None and interval.optimal_period_seconds is not None:
        yield (
            "best goodput",
            percent_text(interval.goodput_at_optimum_fraction),
            f"at one checkpoint every {seconds_text(interval.optimal_period_seconds)} "
            f"({seconds_text(interval.optimal_seconds or 0)} of compute between saves)",
        )


def _required_rows(report: SizingReport) -> Iterator[Row]:
    required, capacity = report.required, report.capacity
    if required.write_bytes_per_second is not None and required.write_per_node_bytes_per_second is not None:
        per_node = rate_text(required.write_per_node_bytes_per_second)
        yield (
            "write, at least",
            rate_text(required.write_bytes_per_second),
            f"for {_target_text(report)}; {per_node} per writing node",
        )
    if required.restore_bytes_per_second is not None:
        yield "restore, at least", rate_text(required.restore_bytes_per_second), "for recovery_seconds"
    yield (
        "capacity, at least",
        bytes_text(capacity.capacity_bytes),
        f"{capacity.num_checkpoints} checkpoints: those kept and the one being written",
    )


def _target_text(report: SizingReport) -> str:
    every = seconds_text(report.interval.interval_seconds)
    if report.required.write_target == "max_overhead_fraction":
        return f"{percent_text(report.overhead.max_overhead_fraction)} at one checkpoint every {every}"
    return f"a stall of {seconds_text(report.required.write_seconds)}"


def _rows(title: str, rows: Iterator[Row]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold cyan", box=None, show_header=False)
    table.add_column(style="dim", min_width=18)
    table.add_column(justify="right", min_width=24, no_wrap=True)
    table.add_column()
    for row in rows:
        table.add_row(*row)
    return table


def _rank_classes(report: SizingReport) -> Table:
    table = _table("Who writes what", "stages", "ranks", "copies", "writers", "layers", "bytes each", "file")
    for rank_class in report.layout.rank_classes:
        table.add_row(
            rank_class.stages,
            rank_class.ranks,
            rank_class.copies,
            f"{rank_class.num_ranks:,}",
            str(rank_class.num_layers),
            bytes_text(rank_class.bytes_per_rank),
            Text(", ".join(_file_text(file) for file in rank_class.files)),
        )
    return table


def _file_text(file: RankFile) -> str:
    return file.name if file.count == 1 else f"{file.count} x {file.name}"


def _limits(title: str, limits: list[Limit]) -> Table:
    table = _table(title, "resource", "takes", "allows", "slack", "")
    for limit in limits:
        table.add_row(
            limit.resource,
            seconds_text(limit.seconds),
            "" if limit.bytes_per_second is None else rate_text(limit.bytes_per_second),
            "adds up" if limit.slack_fraction is None else percent_text(limit.slack_fraction),
            "binds" if limit.binds else "",
        )
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold cyan", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column)
    return table


def _notes(report: SizingReport) -> Iterator[RenderableType]:
    for warning in report.warnings:
        yield Text(f"warning: {warning}", style="yellow")
    yield Text("assumed: " + "; ".join(a.sentence for a in report.assumptions), style="dim")
