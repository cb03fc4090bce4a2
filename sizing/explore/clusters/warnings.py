"""What a reader must know before believing the figures of a cluster."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from sizing.explore.clusters.cluster_report import ClusterReport, JobFigures, RequiredBandwidth
from sizing.explore.clusters.load import JobLoad, saved_bytes
from sizing.run.goodput.overhead import NOTABLE_GOODPUT_LOSS
from sizing.run.tier import ARCHIVE, NODE_KINDS
from sizing.units import percent_text, rate_text, seconds_text

NOTABLE_MISS = 0.1
"""Of the mean stall. A choice: formulas that are 10 % off still order storage systems rightly."""
MAX_ERRORS = 2.0
"""Half 95 % intervals of a simulated mean, beyond which a formula is not borne out."""


def cluster_warnings(report: ClusterReport, loads: Sequence[JobLoad]) -> Iterator[str]:
    """Overload, groups that never advance, targets that no rate meets, and what was left out."""
    write = report.write
    if write.utilization_fraction >= 1:
        yield (
            f"The file system is overloaded: the jobs write {rate_text(write.mean_bytes_per_second)} on average, and "
            f"its write bandwidth is {rate_text(write.bytes_per_second)}. Every checkpoint waits, and intervals grow"
        )
    is_weighted = len({load.write.weight for load in loads}) > 1
    for job, load in zip(report.jobs, loads, strict=True):
        yield from _save_warnings(job, load, write_bytes_per_second=write.bytes_per_second)
        yield from _formula_warnings(job, is_weighted=is_weighted)
        yield from _tier_warnings(load)
        yield from _failure_warnings(job, load)
    if report.read is None:
        yield "No read bandwidth given: restores take 0 s in the simulation, and restore storms are not computed"
    yield from _target_warnings(report.required, loads)


def _save_warnings(job: JobFigures, load: JobLoad, *, write_bytes_per_second: float) -> Iterator[str]:
    """Saves that never end in time, or that the simulation has none of."""
    drain = load.write.alone_seconds(write_bytes_per_second)
    if drain >= job.interval_seconds:
        yield (
            f"{job.name}: one job alone writes for {seconds_text(drain)}, longer than the interval of "
            f"{seconds_text(job.interval_seconds)}. Training {_consequence(load)}"
        )
    elif job.simulated_stalls is None:
        yield f"{job.name}: no save completed in the simulation. Its jobs fail first, or the horizon is too short"


def _failure_warnings(job: JobFigures, load: JobLoad) -> Iterator[str]:
    """Failures that are not known, and else what goodput the other jobs cost."""
    if load.mtbf_seconds is None:
        yield f"{job.name}: no reliability given, so its jobs never fail in the simulation"
    elif job.goodput_alone_fraction is not None:
        loss = job.goodput_alone_fraction - job.simulated_goodput_fraction
        if loss > NOTABLE_GOODPUT_LOSS:
            yield f"{job.name}: the other jobs lower its goodput by {percent_text(loss)}"


def _target_warnings(required: RequiredBandwidth, loads: Sequence[JobLoad]) -> Iterator[str]:
    """Targets that no rate meets."""
    if required.p99_stall_seconds is not None and required.write_bytes_per_second is None:
        slowest = max(loads, key=lambda load: load.stall_alone_seconds(math.inf))
        is_slow = slowest.stall_alone_seconds(math.inf) >= required.p99_stall_seconds
        why = f"{slowest.group.name} alone stalls longer" if is_slow else "some jobs fail before their first save"
        yield f"targets.p99_stall_seconds is not met at any bandwidth: {why}"
    if required.recovery_seconds is not None and required.read_bytes_per_second is None:
        yield (
            "targets.recovery_seconds is not met at any bandwidth: detection, restart and the jobs' own limits already "
            "take longer"
        )


def _formula_warnings(job: JobFigures, *, is_weighted: bool) -> Iterator[str]:
    """Where the simulation does not bear out the formula for the mean stall."""
    formula, found = job.mean_stall_seconds, job.simulated_stalls
    if formula is None or found is None or found.mean_error_seconds is None:
        return
    if abs(found.mean_seconds - formula) > max(NOTABLE_MISS * formula, MAX_ERRORS * found.mean_error_seconds):
        because = (
            "jobs that share equally. Here nodes share equally, and the groups write from different numbers of nodes"
            if is_weighted
            else "many jobs whose saves start at random times"
        )
        yield (
            f"{job.name}: the formula's mean stall of {seconds_text(formula)} holds for {because}. Use the simulated "
            f"{seconds_text(found.mean_seconds)}"
        )


def _tier_warnings(load: JobLoad) -> Iterator[str]:
    """What jobs share in addition to the shared storage, and what copies behind it read."""
    name, rows = load.group.name, load.report.tiers
    copied = sum(saved_bytes(load.report) / row.effective_interval_seconds for row in rows if row.kind == ARCHIVE)
    if copied:
        yield (
            f"{name}: copying to the {ARCHIVE} reads {rate_text(load.group.count * copied)} from the shared storage on "
            "average. The read figures leave this out"
        )
    own = [row.kind for row in rows if row.kind not in ("storage", *NODE_KINDS)]
    if own and load.group.count > 1:
        yield f"{name}: each job is assumed to have the whole bandwidth of its {own[0]} tier"


def _consequence(load: JobLoad) -> str:
    return "never advances" if load.snapshot_seconds is None else "waits for each drain"
