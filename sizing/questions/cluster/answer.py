"""Answer about a cluster: formulas, what a simulation shows beside them, and what a reader must know."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from sizing.errors import InvalidInput
from sizing.questions.chunks import Progress, ignore_progress
from sizing.questions.cluster.bandwidth_sharing import SharedBandwidth
from sizing.questions.cluster.bandwidth_to_buy import (
    P99,
    TOLERANCE,
    read_bytes_per_second_for_recovery,
    write_bytes_per_second_for_p99,
)
from sizing.questions.cluster.contention import (
    Contention,
    Traffic,
    collision_fraction,
    compute_contention,
    list_read_traffic,
    list_write_traffic,
)
from sizing.questions.cluster.job import GroupRecord
from sizing.questions.cluster.load import (
    JobLoad,
    compute_job_loads,
    resolve_shared_storage,
    with_any_read_rate,
)
from sizing.questions.cluster.report import (
    ClusterReport,
    FileSystemUse,
    JobFigures,
    JobTarget,
    RequiredBandwidth,
    Storm,
)
from sizing.questions.cluster.request import ClusterScenario
from sizing.questions.cluster.restore_storms import find_restore_storms
from sizing.questions.cluster.simulation import (
    find_busiest_day,
    measure_goodput_error,
    measure_stalls,
    measure_use,
    simulate,
    simulate_alone,
)
from sizing.report import SizingReport
from sizing.run.checkpoint import ARCHIVE, MAIN, NODE_KINDS
from sizing.run.interval import NOTABLE_GOODPUT_LOSS
from sizing.run.targets import check_targets
from sizing.units import percent_text, rate_text, seconds_text

MAX_EVENTS = 2_000_000
"""Half a minute of one core, at 16 us each: what a service gives a question (`compute_seconds`).
Twice that with failures and several jobs, which are simulated alone too."""

_Number = TypeVar("_Number", int, float)


def answer_cluster(scenario: ClusterScenario, progress: Progress = ignore_progress) -> ClusterReport:
    """Answer a ClusterScenario; `progress` is told the fraction that is done.

    Raises InvalidInput where it asks for more than 2,000,000 checkpoints and failures.
    """
    storage, horizon = resolve_shared_storage(scenario), scenario.horizon_seconds
    write_rate, read_rate = storage.write_bytes_per_second, storage.read_bytes_per_second
    loads = compute_job_loads(scenario)
    _require_simulable(loads, horizon)
    share = 0.5 if scenario.targets.p99_stall_seconds is not None else 1.0
    with_others = _sum_over_jobs(loads, lambda _: 1) > 1 and any(load.interruptions_per_second for load in loads)
    together = share / 2 if with_others else share

    found = simulate(
        loads,
        write_bytes_per_second=write_rate,
        read_bytes_per_second=read_rate,
        horizon_seconds=horizon,
        seed=scenario.seed,
        progress=lambda done: progress(together * done),
    )
    alone = found.groups
    if with_others:
        alone = simulate_alone(
            loads,
            write_bytes_per_second=write_rate,
            read_bytes_per_second=read_rate,
            horizon_seconds=horizon,
            seed=scenario.seed,
            progress=lambda done: progress(together + (share - together) * done),
        )
    contention = compute_contention(loads, write_bytes_per_second=write_rate)
    report = ClusterReport(
        num_jobs=_sum_over_jobs(loads, lambda _: 1),
        num_nodes=_sum_over_jobs(loads, lambda job: job.layout.num_nodes),
        num_gpus=_sum_over_jobs(loads, lambda job: job.layout.num_gpus),
        jobs=[
            _report_group(kind, load, record, of_alone, contention, horizon_seconds=horizon)
            for kind, (load, record, of_alone) in enumerate(zip(loads, found.groups, alone, strict=True))
        ],
        write=_report_use(list_write_traffic(loads), found.write, horizon_seconds=horizon),
        read=_report_use(list_read_traffic(loads), found.read, horizon_seconds=horizon) if found.read else None,
        concurrency=contention.concurrency,
        storms=_find_storms(loads, scenario, read_bytes_per_second=read_rate),
        required=_require_bandwidth(
            loads,
            scenario,
            read_bytes_per_second=read_rate,
            progress=lambda done: progress(share + (1 - share) * done),
        ),
        capacity_bytes=_sum_over_jobs(loads, lambda job: job.capacity.capacity_bytes),
        usable_bytes=_sum_over_jobs(loads, lambda job: job.capacity.usable_bytes),
        raw_bytes=_sum_over_jobs(loads, lambda job: job.capacity.raw_bytes),
        uncounted_bytes_per_day=_sum_over_jobs(
            loads, lambda job: 0.0 if job.capacity.kept_weights_bytes else job.capacity.growth_bytes_per_day
        ),
        written_bytes_per_day=_sum_over_jobs(loads, lambda job: job.capacity.written_bytes_per_day),
        horizon_seconds=horizon,
        num_checkpoints=sum(record.num_written for record in found.groups),
        busiest_day=find_busiest_day(found.write, found.read, horizon_seconds=horizon),
        warnings=[],
    )
    progress(1.0)
    return report.model_copy(update={"warnings": list(_warn(report, loads))})


def _sum_over_jobs(loads: Sequence[JobLoad], figure: Callable[[SizingReport], _Number]) -> _Number:
    """The sum of a figure of one job's report, over all jobs of all groups."""
    return sum(load.group.count * figure(load.report) for load in loads)


def _require_simulable(loads: Sequence[JobLoad], horizon_seconds: float) -> None:
    max_interval = max(load.interval_seconds for load in loads)
    if horizon_seconds < max_interval:
        raise InvalidInput.of(
            "horizon_seconds",
            "must cover the max interval of the jobs",
            value=horizon_seconds,
            remedy=f"give {max_interval:g}",
        )
    per_second = sum(
        load.group.count * (load.transfers_per_save / load.interval_seconds + load.interruptions_per_second)
        for load in loads
    )
    if per_second * horizon_seconds > MAX_EVENTS:
        raise InvalidInput.of(
            "horizon_seconds",
            f"must give at most {MAX_EVENTS:,} checkpoints, steps of exports, and interruptions",
            value=horizon_seconds,
            remedy=f"give at most {seconds_text(MAX_EVENTS / per_second)}",
        )


def _find_storms(
    loads: Sequence[JobLoad], scenario: ClusterScenario, *, read_bytes_per_second: float | None
) -> list[Storm]:
    if read_bytes_per_second is None:
        return []
    return find_restore_storms(
        loads, read_bytes_per_second=read_bytes_per_second, nodes_per_rack=scenario.nodes_per_rack
    )


def _require_bandwidth(
    loads: Sequence[JobLoad], scenario: ClusterScenario, *, read_bytes_per_second: float | None, progress: Progress
) -> RequiredBandwidth:
    stall, recovery = scenario.targets.p99_stall_seconds, scenario.targets.recovery_seconds
    reading = loads
    if recovery is not None and not all(load.restore for load in loads):
        reading = compute_job_loads(with_any_read_rate(scenario))
    write_rate = None
    if stall is not None:
        write_rate = write_bytes_per_second_for_p99(
            loads,
            p99_stall_seconds=stall,
            read_bytes_per_second=read_bytes_per_second,
            horizon_seconds=scenario.horizon_seconds,
            seed=scenario.seed,
            progress=progress,
        )
    mean = sum(group.bytes_per_second for group in list_write_traffic(loads))
    return RequiredBandwidth(
        p99_stall_seconds=stall,
        write_bytes_per_second=write_rate,
        write_utilization_fraction=None if write_rate is None else mean / write_rate,
        recovery_seconds=recovery,
        read_bytes_per_second=(
            read_bytes_per_second_for_recovery(reading, recovery_seconds=recovery) if recovery is not None else None
        ),
    )


def _report_group(
    kind: int,
    load: JobLoad,
    record: GroupRecord,
    alone: GroupRecord,
    contention: Contention,
    *,
    horizon_seconds: float,
) -> JobFigures:
    """The figures of a group of jobs: by formula, and as the simulation showed them among others and alone."""
    rate = contention.write_bytes_per_second
    layout, report, count = load.report.layout, load.report, load.group.count
    job = JobFigures(
        name=load.group.name,
        count=count,
        num_gpus=layout.num_gpus,
        num_nodes=layout.num_nodes,
        checkpoint_bytes=report.checkpoint.written_bytes,
        interval_seconds=load.interval_seconds,
        stall_alone_seconds=load.stall_alone_seconds(rate),
        bytes_per_second_alone=load.write.rate_alone(rate),
        collision_fraction=(collision_fraction(contention.writes, kind) if contention.has_independent_phases else None),
        mean_stall_seconds=contention.mean_stall_seconds(load, kind),
        goodput_alone_fraction=report.interval.goodput_at_interval_fraction,
        simulated_stalls=measure_stalls(record, horizon_seconds=horizon_seconds),
        simulated_collision_fraction=record.num_met_another / record.num_written if record.num_written else None,
        simulated_goodput_fraction=record.useful_seconds / (count * horizon_seconds),
        simulated_goodput_error_fraction=(
            measure_goodput_error(record, num_jobs=count, horizon_seconds=horizon_seconds)
            if record.num_failures or record.num_preemptions
            else None
        ),
        simulated_goodput_alone_fraction=(
            alone.useful_seconds / (count * horizon_seconds) if load.interruptions_per_second else None
        ),
        num_failures=record.num_failures,
        num_preemptions=record.num_preemptions,
        capacity_bytes=count * report.capacity.capacity_bytes,
        usable_bytes=count * report.capacity.usable_bytes,
        raw_bytes=count * report.capacity.raw_bytes,
    )
    return job.model_copy(update={"targets": check_job_targets(load, job)})


def check_job_targets(load: JobLoad, job: JobFigures) -> list[JobTarget]:
    """Check the targets that a group's scenario states; the default of max_overhead_fraction is not one of them.

    A figure is that of the job alone, from its own answer, and what the simulation adds to it: to the stall the p99
    beyond that alone, to the overhead the mean stall beyond that alone over the interval. Goodput loses what the other
    jobs cost; the time of a recovery is that of the job alone. All are in seconds or fractions of the time.
    """
    stalls, alone = job.simulated_stalls, {check.target: check.found for check in load.report.targets}
    further = dict.fromkeys(alone, 0.0)
    if stalls is not None:
        further["max_stall_seconds"] = max(0.0, stalls.p99_seconds - job.stall_alone_seconds)
        longer = max(0.0, stalls.mean_seconds - job.stall_alone_seconds)
        further["max_overhead_fraction"] = longer / job.interval_seconds
    if job.simulated_goodput_alone_fraction is not None:
        cost = max(0.0, job.simulated_goodput_alone_fraction - job.simulated_goodput_fraction)
        further["min_goodput_fraction"] = -cost
    targets = load.group.scenario.targets
    among_others = {
        name: None if found is None else found + further[name]
        for name, found in alone.items()
        if name in targets.model_fields_set
    }
    bounded = ("min_goodput_fraction",) if load.report.interval.leaves_out_restore else ()
    return [
        JobTarget(target=check.target, wanted=check.wanted, found=check.found, met=check.met)
        for check in check_targets(targets, among_others, bounded=bounded)
    ]


def _report_use(traffic: Sequence[Traffic], storage: SharedBandwidth, *, horizon_seconds: float) -> FileSystemUse:
    """What traffic asks of the file system on average and at once, beside what the simulation showed of it."""
    mean = sum(group.bytes_per_second for group in traffic)
    fastest: dict[int | None, float] = {}  # a job does one after the other
    for group in traffic:
        rate = group.num_jobs * group.max_bytes_per_second
        fastest[group.group] = max(rate, fastest.get(group.group, 0.0))
    together = sum(fastest.values())
    return FileSystemUse(
        bytes_per_second=storage.bytes_per_second,
        mean_bytes_per_second=mean,
        utilization_fraction=mean / storage.bytes_per_second,
        all_at_once_bytes_per_second=together if math.isfinite(together) else None,
        simulated=measure_use(storage, horizon_seconds=horizon_seconds),
    )


NOTABLE_MISS = 0.1
"""Fraction of the mean stall by which formula and simulation may differ. A choice: formulas that are 10 % off still
order storage systems rightly."""
MAX_ERRORS = 2.0
"""Half 95 % intervals of a simulated mean, beyond which a formula is not borne out."""


def _warn(report: ClusterReport, loads: Sequence[JobLoad]) -> Iterator[str]:
    """Warn of overload, groups that never advance, targets that no rate meets, and what was left out.

    What the answer about one job of each group warns of is repeated, once for all groups for which it holds.
    """
    write = report.write
    if write.utilization_fraction >= 1:
        yield (
            f"The file system is overloaded: the jobs write {rate_text(write.mean_bytes_per_second)} on average, and "
            f"its write bandwidth is {rate_text(write.bytes_per_second)}. Every checkpoint waits, and intervals grow"
        )
    groups_with: dict[str, list[str]] = {}
    for load in loads:
        for warning in load.report.warnings:
            groups_with.setdefault(warning, []).append(load.group.name)
    for warning, names in groups_with.items():
        yield f"{', '.join(names)}, each job alone: {warning}"
    is_weighted = len({load.write.weight for load in loads}) > 1
    for job, load in zip(report.jobs, loads, strict=True):
        yield from _warn_of_saves(job, load, write_bytes_per_second=write.bytes_per_second)
        yield from _warn_of_formulas(job, is_weighted=is_weighted)
        yield from _warn_of_tiers(load)
        yield from _warn_of_failures(job, load)
    if report.read is None:
        yield "No read bandwidth given: restores take 0 s in the simulation, and restore storms are not computed"
    yield from _warn_of_targets(report.required, loads)


def _warn_of_saves(job: JobFigures, load: JobLoad, *, write_bytes_per_second: float) -> Iterator[str]:
    """Warn of saves that never end in time, or that the simulation has none of."""
    drain = load.write.alone_seconds(write_bytes_per_second)
    drain += load.stall_alone_seconds(write_bytes_per_second) - load.save_stall_seconds(write_bytes_per_second)
    if drain >= job.interval_seconds:
        yield (
            f"{job.name}: one job alone writes for {seconds_text(drain)}, longer than the interval of "
            f"{seconds_text(job.interval_seconds)}. Training "
            f"{'never advances' if load.snapshot_seconds is None else 'waits for each drain'}"
        )
    elif job.simulated_stalls is None:
        yield f"{job.name}: no save completed in the simulation. Its jobs fail first, or the horizon is too short"
    if load.report.export and load.report.export.read_seconds is None:
        yield f"{job.name}: no read bandwidth given, so what its exports read takes 0 s and is not counted"


def _warn_of_failures(job: JobFigures, load: JobLoad) -> Iterator[str]:
    """Warn where failures are not known, and else of the goodput that the other jobs cost."""
    if load.mtbf_seconds is None:
        yield f"{job.name}: no reliability given, so its jobs never fail in the simulation"
    elif job.simulated_goodput_alone_fraction is not None:
        loss = job.simulated_goodput_alone_fraction - job.simulated_goodput_fraction
        if loss > NOTABLE_GOODPUT_LOSS:
            yield f"{job.name}: the other jobs lower its goodput by {percent_text(loss)}"


def _warn_of_targets(required: RequiredBandwidth, loads: Sequence[JobLoad]) -> Iterator[str]:
    """Warn of targets that no rate meets, and of a rate that leaves no reserve."""
    if required.p99_stall_seconds is not None and required.write_bytes_per_second is None:
        slowest = max(loads, key=lambda load: load.stall_within_seconds(math.inf, fraction=P99))
        is_slow = slowest.stall_within_seconds(math.inf, fraction=P99) >= required.p99_stall_seconds
        with_export = ", with its export" if slowest.export and slowest.export.waits else ""
        alone = f"{slowest.group.name} alone stalls longer{with_export}"
        why = alone if is_slow else "some jobs fail before their first save"
        yield f"targets.p99_stall_seconds is not met at any bandwidth: {why}"
    if required.write_utilization_fraction is not None and required.write_utilization_fraction > 1 - TOLERANCE:
        yield (
            "The min write bandwidth is only the mean rate of the jobs' writes, as their stalls ask for no more. It "
            "leaves no reserve: saves that meet may take a whole interval to be written"
        )
    if required.recovery_seconds is not None and required.read_bytes_per_second is None:
        yield (
            "targets.recovery_seconds is not met at any bandwidth: detection, restart and the jobs' own limits already "
            "take longer"
        )


def _warn_of_formulas(job: JobFigures, *, is_weighted: bool) -> Iterator[str]:
    """Warn where the simulation does not bear out the formula for the mean stall."""
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


def _warn_of_tiers(load: JobLoad) -> Iterator[str]:
    """Warn of what jobs share beside the shared storage, and of what copies behind it read."""
    name, rows = load.group.name, load.report.tiers
    copied = sum(row.mean_bytes_per_second / row.replicas for row in rows if row.kind == ARCHIVE)
    if copied:
        yield (
            f"{name}: copying to the {ARCHIVE} reads {rate_text(load.group.count * copied)} from the shared storage on "
            "average. The read figures leave this out"
        )
    own = [row.kind for row in rows if row.kind not in (MAIN, *NODE_KINDS)]
    if own and load.group.count > 1:
        yield f"{name}: each job is assumed to have the whole bandwidth of its {own[0]} tier"
