"""From a ClusterScenario to a ClusterReport."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sizing.errors import InvalidInput
from sizing.explore.clusters.bandwidth_to_buy import read_bytes_per_second_for_recovery, write_bytes_per_second_for_p99
from sizing.explore.clusters.cluster_report import ClusterReport, RequiredBandwidth
from sizing.explore.clusters.cluster_scenario import ClusterScenario, cluster_scenario_from
from sizing.explore.clusters.flows import file_system_use, restores, writes
from sizing.explore.clusters.job_figures import figures_of_jobs, formulas_of
from sizing.explore.clusters.job_simulation import Progress, simulate, unseen
from sizing.explore.clusters.load import JobLoad, job_loads, shared_storage
from sizing.explore.clusters.statistics import busiest_day
from sizing.explore.clusters.storms import Storm, storms
from sizing.explore.clusters.warnings import cluster_warnings
from sizing.report import SizingReport
from sizing.units import seconds_text

MAX_EVENTS = 2_000_000
"""Half a minute of one core, at 16 us each: what a service gives a question (`compute_seconds`)."""

_Number = TypeVar("_Number", int, float)


def answer_cluster(document: object, *, progress: Progress = unseen) -> ClusterReport:
    """The ClusterReport of a parsed ClusterScenario document; `progress` is told the fraction that is done.

    Raises InvalidInput where the document breaks a rule, or asks for more than 2,000,000 checkpoints and failures.
    """
    return cluster_report(cluster_scenario_from(document), progress=progress)


def cluster_report(scenario: ClusterScenario, *, progress: Progress = unseen) -> ClusterReport:
    """The same of a ClusterScenario."""
    storage, horizon = shared_storage(scenario), scenario.horizon_seconds
    write_rate, read_rate = storage.write_bytes_per_second, storage.read_bytes_per_second
    loads = job_loads(scenario)
    _require_simulable(loads, horizon)
    share = 0.5 if scenario.targets.p99_stall_seconds is not None else 1.0
    found = simulate(
        loads,
        write_bytes_per_second=write_rate,
        read_bytes_per_second=read_rate,
        horizon_seconds=horizon,
        seed=scenario.seed,
        progress=lambda done: progress(share * done),
    )
    formulas = formulas_of(loads, write_bytes_per_second=write_rate)
    report = ClusterReport(
        num_jobs=_of_all(loads, lambda _: 1),
        num_nodes=_of_all(loads, lambda job: job.layout.num_nodes),
        num_gpus=_of_all(loads, lambda job: job.layout.num_gpus),
        jobs=figures_of_jobs(loads, found, formulas, horizon_seconds=horizon),
        write=file_system_use(writes(loads), found.write, horizon_seconds=horizon),
        read=file_system_use(restores(loads), found.read, horizon_seconds=horizon) if found.read else None,
        concurrency=formulas.concurrency,
        storms=_storms(loads, scenario, read_bytes_per_second=read_rate),
        required=_required(loads, scenario, progress=lambda done: progress(share + (1 - share) * done)),
        capacity_bytes=_of_all(loads, lambda job: job.capacity.capacity_bytes),
        written_bytes_per_day=_of_all(loads, lambda job: job.capacity.written_bytes_per_day),
        horizon_seconds=horizon,
        num_checkpoints=sum(observed.num_written for observed in found.groups),
        busiest_day=busiest_day(found.write, found.read, horizon_seconds=horizon),
        warnings=[],
    )
    progress(1.0)
    return report.model_copy(update={"warnings": list(cluster_warnings(report, loads))})


def _of_all(loads: Sequence[JobLoad], figure: Callable[[SizingReport], _Number]) -> _Number:
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
        load.group.count * (1 / load.interval_seconds + (1 / load.mtbf_seconds if load.mtbf_seconds else 0.0))
        for load in loads
    )
    if per_second * horizon_seconds > MAX_EVENTS:
        raise InvalidInput.of(
            "horizon_seconds",
            f"must give at most {MAX_EVENTS:,} checkpoints and failures",
            value=horizon_seconds,
            remedy=f"give at most {seconds_text(MAX_EVENTS / per_second)}",
        )


def _storms(loads: Sequence[JobLoad], scenario: ClusterScenario, *, read_bytes_per_second: float | None) -> list[Storm]:
    if read_bytes_per_second is None:
        return []
    return storms(loads, read_bytes_per_second=read_bytes_per_second, nodes_per_rack=scenario.nodes_per_rack)


def _required(loads: Sequence[JobLoad], scenario: ClusterScenario, *, progress: Progress) -> RequiredBandwidth:
    stall, recovery = scenario.targets.p99_stall_seconds, scenario.targets.recovery_seconds
    reads = recovery is not None and all(load.restore for load in loads)
    return RequiredBandwidth(
        p99_stall_seconds=stall,
        write_bytes_per_second=(
            write_bytes_per_second_for_p99(
                loads,
                p99_stall_seconds=stall,
                horizon_seconds=scenario.horizon_seconds,
                seed=scenario.seed,
                progress=progress,
            )
            if stall is not None
            else None
        ),
        recovery_seconds=recovery,
        read_bytes_per_second=(
            read_bytes_per_second_for_recovery(loads, recovery_seconds=recovery)
            if recovery is not None and reads
            else None
        ),
    )
