"""What `ckpt-size cluster` prints of a ClusterReport."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sizing.explore.clusters.cluster_report import ClusterReport, FileSystemUse, JobFigures
from sizing.units import bytes_text, percent_text, rate_text, seconds_text

_UNKNOWN = "unknown"


def cluster_text(report: ClusterReport) -> RenderableType:
    """Jobs, file system, restore storms, what to buy."""
    title = (
        f"{report.num_jobs:,} jobs on {report.num_nodes:,} nodes ({report.num_gpus:,} GPUs): "
        f"{report.num_checkpoints:,} checkpoints simulated in {seconds_text(report.horizon_seconds)}"
    )
    tables = [_jobs(report), _file_system(report), *([_storms(report)] if report.storms else []), _to_buy(report)]
    return Group(
        Text(title, style="bold"),
        *(line for table in tables for line in ("", table)),
        *(Text(f"warning: {warning}", style="yellow") for warning in report.warnings),
    )


def _jobs(report: ClusterReport) -> Table:
    table = _table(
        "Stall of a save, by group of jobs",
        *("jobs", "count", "interval", "alone", "mean, formula", "mean, simulated", "p50", "p99", "max"),
        *("collisions, formula", "simulated", "goodput alone", "simulated"),
    )
    for job in report.jobs:
        table.add_row(job.name, f"{job.count:,}", *_stall_cells(job), *_share_cells(job))
    return table


def _stall_cells(job: JobFigures) -> Iterator[str]:
    stalls = job.simulated_stalls
    yield seconds_text(job.interval_seconds)
    yield seconds_text(job.stall_alone_seconds)
    yield _UNKNOWN if job.mean_stall_seconds is None else seconds_text(job.mean_stall_seconds)
    if stalls is None:
        yield from ["no save completed", "", "", ""]
        return
    error = f" ± {seconds_text(stalls.mean_error_seconds)}" if stalls.mean_error_seconds is not None else ""
    yield seconds_text(stalls.mean_seconds) + error
    for seconds in (stalls.p50_seconds, stalls.p99_seconds, stalls.max_seconds):
        yield seconds_text(seconds)


def _share_cells(job: JobFigures) -> Iterator[str]:
    shares = (job.collision_fraction, job.simulated_collision_fraction, job.goodput_alone_fraction)
    for share in (*shares, job.simulated_goodput_fraction):
        yield _UNKNOWN if share is None else percent_text(share)


def _file_system(report: ClusterReport) -> Table:
    table = _table(
        "File system",
        *("", "bandwidth", "mean demand", "used", "mean, simulated", "p99", "peak", "at the limit", "all jobs at once"),
    )
    for name, use in (("write", report.write), ("read", report.read)):
        if use is not None:
            table.add_row(name, *_use_cells(use))
    return table


def _use_cells(use: FileSystemUse) -> Iterator[str]:
    yield rate_text(use.bytes_per_second)
    yield rate_text(use.mean_bytes_per_second)
    yield percent_text(use.utilization_fraction)
    simulated = use.simulated
    for rate in (simulated.mean_bytes_per_second, simulated.p99_bytes_per_second, simulated.peak_bytes_per_second):
        yield rate_text(rate)
    yield f"{percent_text(simulated.limited_fraction)} of the time"
    together = use.all_at_once_bytes_per_second
    yield "no limit" if together is None else rate_text(together)


def _storms(report: ClusterReport) -> Table:
    table = _table(
        "Restore storms",
        "failure",
        "jobs",
        "GPUs",
        "read",
        "first job back",
        "last job back",
        "alone",
        "GPU-hours idle",
    )
    for storm in report.storms:
        table.add_row(
            "worst rack" if storm.failure == "rack" else "power of all nodes",
            f"{storm.num_jobs:,}",
            f"{storm.num_gpus:,}",
            bytes_text(storm.read_bytes),
            seconds_text(storm.first_back_seconds),
            seconds_text(storm.last_back_seconds),
            seconds_text(storm.last_back_alone_seconds),
            f"{storm.gpu_hours:,.0f}",
        )
    return table


def _to_buy(report: ClusterReport) -> Table:
    table = Table(title="To buy", title_justify="left", title_style="bold cyan", box=None, show_header=False)
    for justify in ("left", "right", "left"):
        table.add_column(justify=justify)
    required, together = report.required, report.concurrency
    if required.p99_stall_seconds is not None:
        stall = seconds_text(required.p99_stall_seconds)
        table.add_row("min write bandwidth", _rate(required.write_bytes_per_second), f"for a p99 stall of {stall}")
    if required.recovery_seconds is not None:
        recovery = seconds_text(required.recovery_seconds)
        table.add_row(
            "min read bandwidth",
            _rate(required.read_bytes_per_second),
            f"for recovery (RTO) of all jobs in {recovery} after a power failure",
        )
    table.add_row("min capacity", bytes_text(report.capacity_bytes), "by the retention of each job")
    table.add_row("written per day", bytes_text(report.written_bytes_per_day), "")
    table.add_row("concurrent writers", f"{together.mean:.2f} jobs", f"mean; p99 {together.p99} jobs")
    return table


def _rate(bytes_per_second: float | None) -> str:
    return "not possible" if bytes_per_second is None else rate_text(bytes_per_second)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold cyan", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column)
    return table
