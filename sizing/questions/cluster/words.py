"""Many jobs on one storage system, in words: jobs, file system, restore storms, what to buy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sizing.present.rows import UNKNOWN, Grid, Row, Summary
from sizing.questions.cluster.report import ClusterReport, FileSystemUse, JobFigures
from sizing.units import bytes_text, decimal_bytes_text, percent_text, rate_text, seconds_text

_ROUNDING = 1e-9
"""Relative error of a mean that is only how its sum was rounded: all that it counts was equal."""


def cluster_summary(report: ClusterReport) -> Summary:
    """Put into words the jobs, the file system, restore storms and what to buy."""
    to_buy = Grid("To buy", (), tuple(_list_purchases(report)))
    return Summary(
        headline=f"{report.num_jobs:,} jobs on {report.num_nodes:,} nodes ({report.num_gpus:,} GPUs): "
        f"{report.num_checkpoints:,} checkpoints simulated in {seconds_text(report.horizon_seconds)}",
        verdict=cluster_verdict(report.targets_met),
        misses=bool(report.targets_met) and not report.meets_targets,
        grids=(
            _jobs_grid(report),
            _file_system_grid(report),
            *([_storms_grid(report)] if report.storms else []),
            *([job_targets_grid(report)] if any(job.targets for job in report.jobs) else []),
            to_buy,
        ),
        warnings=tuple(report.warnings),
    )


def cluster_verdict(targets_met: Sequence[bool | None]) -> str:
    """Say whether all targets are met, one is missed or unknown, or none was given."""
    if not targets_met:
        return "No target given."
    if False in targets_met:
        return "Misses a target."
    return "Not known to meet every target." if None in targets_met else "Meets the targets."


def job_targets_grid(report: ClusterReport) -> Grid:
    """List the targets that the jobs' own scenarios state, with what the jobs get among the others."""
    rows = []
    for job in report.jobs:
        for target in job.targets:
            text = percent_text if target.target.endswith("_fraction") else seconds_text
            found = UNKNOWN if target.found is None else text(target.found)
            verdict = {True: "met", False: "missed", None: UNKNOWN}[target.met]
            rows.append((job.name, target.target, text(target.wanted), found, verdict))
    return Grid("Targets of the jobs", ("jobs", "target", "wanted", "among the others", ""), tuple(rows))


def _jobs_grid(report: ClusterReport) -> Grid:
    return Grid(
        "Stall of a save, by group of jobs",
        (
            *("jobs", "count", "interval", "alone", "mean, formula", "saves", "mean, simulated", "p50", "p99", "max"),
            *("collisions, formula", "simulated"),
            *("goodput alone, formula", "alone, simulated", "goodput among others, simulated"),
        ),
        tuple((job.name, f"{job.count:,}", *_job_cells(job)) for job in report.jobs),
        is_figures=True,
    )


def _job_cells(job: JobFigures) -> Iterator[str]:
    """Write how long a group of jobs stalls, and the shares of its saves and of its time."""
    stalls = job.simulated_stalls
    yield seconds_text(job.interval_seconds)
    yield seconds_text(job.stall_alone_seconds)
    yield UNKNOWN if job.mean_stall_seconds is None else seconds_text(job.mean_stall_seconds)
    if stalls is None:
        yield from ["0", "no save completed", "", "", ""]
    else:
        error = stalls.mean_error_seconds or 0.0
        yield f"{stalls.num_stalls:,}"
        half = f" ± {seconds_text(error)}" if error > _ROUNDING * stalls.mean_seconds else ""
        yield seconds_text(stalls.mean_seconds) + half
        yield from map(seconds_text, (stalls.p50_seconds, stalls.p99_seconds, stalls.max_seconds))
    of_saves = (job.collision_fraction, job.simulated_collision_fraction)
    for share in (*of_saves, job.goodput_alone_fraction, job.simulated_goodput_alone_fraction):
        yield UNKNOWN if share is None else percent_text(share)
    of_goodput = job.simulated_goodput_error_fraction
    yield percent_text(job.simulated_goodput_fraction) + (
        "" if of_goodput is None else f" ± {percent_text(of_goodput)}"
    )


def _file_system_grid(report: ClusterReport) -> Grid:
    uses = (("write", report.write), ("read", report.read))
    return Grid(
        "File system",
        ("", "bandwidth", "mean demand", "used", "mean, simulated", "p99", "peak", "at the limit", "all jobs at once"),
        tuple((name, *_use_cells(use)) for name, use in uses if use is not None),
    )


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


def _storms_grid(report: ClusterReport) -> Grid:
    return Grid(
        "Restore storms",
        ("failure", "jobs", "GPUs", "read", "first job back", "last job back", "alone", "GPU-hours idle"),
        tuple(
            (
                "worst rack" if storm.failure == "rack" else "power of all nodes",
                f"{storm.num_jobs:,}",
                f"{storm.num_gpus:,}",
                bytes_text(storm.read_bytes),
                seconds_text(storm.first_back_seconds),
                seconds_text(storm.last_back_seconds),
                seconds_text(storm.last_back_alone_seconds),
                f"{storm.gpu_hours:,.0f}",
            )
            for storm in report.storms
        ),
    )


def _list_purchases(report: ClusterReport) -> Iterator[Row]:
    required, together = report.required, report.concurrency
    if required.p99_stall_seconds is not None:
        stall = seconds_text(required.p99_stall_seconds)
        used = required.write_utilization_fraction
        share = "" if used is None else f"; the mean demand is {percent_text(used)} of it"
        yield Row("min write bandwidth", _rate(required.write_bytes_per_second), f"for a p99 stall of {stall}{share}")
    if required.recovery_seconds is not None:
        recovery = seconds_text(required.recovery_seconds)
        yield Row(
            "min read bandwidth",
            _rate(required.read_bytes_per_second),
            f"for recovery (RTO) of all jobs in {recovery} after a power failure",
        )
    drives = f"; {decimal_bytes_text(report.raw_bytes)} of drives with redundancy"
    yield Row(
        "min capacity",
        bytes_text(report.usable_bytes),
        "usable, by the retention of each job" + (drives if report.raw_bytes > report.usable_bytes else ""),
    )
    if report.uncounted_bytes_per_day:
        growth = bytes_text(report.uncounted_bytes_per_day)
        yield Row("further capacity a day", growth, "of kept weights, which the min capacity leaves out")
    yield Row("written per day", bytes_text(report.written_bytes_per_day), "")
    p99 = "" if together.p99 is None else f"; p99 {together.p99} jobs"
    yield Row("concurrent writers", f"{together.mean:.2f} jobs", f"mean{p99}")


def _rate(bytes_per_second: float | None) -> str:
    return "not possible" if bytes_per_second is None else rate_text(bytes_per_second)
