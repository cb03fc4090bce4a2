"""From a ClusterScenario to a ClusterReport."""

from __future__ import annotations

from collections.abc import Sequence

from sizing.errors import InvalidInput
from sizing.explore.clusters.bandwidth_to_buy import read_bytes_per_second_for_recovery, write_bytes_per_second_for_p99
from sizing.explore.clusters.cluster_report import ClusterReport, Concurrency, JobFigures, RequiredBandwidth
from sizing.explore.clusters.cluster_scenario import ClusterScenario, cluster_scenario_from
from sizing.explore.clusters.elastic import Elastic, Traffic, elastic
from sizing.explore.clusters.flows import file_system_use, restores, writes
from sizing.explore.clusters.job_simulation import Progress, simulate, unseen
from sizing.explore.clusters.load import JobLoad, SharedStorage, job_loads, shared_storage
from sizing.explore.clusters.observed import Observed
from sizing.explore.clusters.overlap import Windows, collision_fraction, concurrent_quantile, mean_concurrent
from sizing.explore.clusters.statistics import busiest_day, stalls_of
from sizing.explore.clusters.storms import storms
from sizing.explore.clusters.warnings import cluster_warnings
from sizing.units import seconds_text

MOST_EVENTS = 2_000_000


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
    shared = elastic(
        [Traffic(f.num_jobs, f.mean_bytes_per_second, f.max_bytes_per_second) for f in writes(loads)],
        bytes_per_second=write_rate,
    )
    windows = _windows(loads, write_rate)
    reads = restores(loads)
    report = ClusterReport(
        num_jobs=sum(load.group.count for load in loads),
        num_nodes=sum(load.group.count * load.report.layout.num_nodes for load in loads),
        num_gpus=sum(load.group.count * load.report.layout.num_gpus for load in loads),
        jobs=[
            _job_figures(
                kind, load, found.groups[kind], storage=storage, horizon_seconds=horizon, shared=shared, windows=windows
            )
            for kind, load in enumerate(loads)
        ],
        write=file_system_use(writes(loads), found.write, horizon_seconds=horizon),
        read=file_system_use(reads, found.read, horizon_seconds=horizon) if found.read else None,
        concurrency=_concurrency(windows, shared),
        storms=(
            []
            if read_rate is None
            else storms(loads, read_bytes_per_second=read_rate, nodes_per_rack=scenario.nodes_per_rack)
        ),
        required=_required(loads, scenario, progress=lambda done: progress(share + (1 - share) * done)),
        capacity_bytes=sum(load.group.count * load.report.capacity.capacity_bytes for load in loads),
        written_bytes_per_day=sum(load.group.count * load.report.capacity.written_bytes_per_day for load in loads),
        horizon_seconds=horizon,
        num_checkpoints=sum(observed.num_written for observed in found.groups),
        busiest_day=busiest_day(found.write, found.read, horizon_seconds=horizon),
        warnings=[],
    )
    progress(1.0)
    return report.model_copy(update={"warnings": list(cluster_warnings(report, loads))})


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
    if per_second * horizon_seconds > MOST_EVENTS:
        raise InvalidInput.of(
            "horizon_seconds",
            f"must give at most {MOST_EVENTS:,} checkpoints and failures",
            value=horizon_seconds,
            remedy=f"give at most {seconds_text(MOST_EVENTS / per_second)}",
        )


def _windows(loads: Sequence[JobLoad], write_rate: float) -> list[Windows]:
    return [Windows(load.group.count, load.write.transfer_seconds(write_rate), load.interval_seconds) for load in loads]


def _concurrency(windows: Sequence[Windows], shared: Elastic | None) -> Concurrency:
    return Concurrency(
        mean=mean_concurrent(windows),
        p99=concurrent_quantile(windows, 0.99),
        limited_fraction=shared.limited_fraction if shared else None,
    )


def _job_figures(
    kind: int,
    load: JobLoad,
    observed: Observed,
    *,
    storage: SharedStorage,
    horizon_seconds: float,
    shared: Elastic | None,
    windows: Sequence[Windows],
) -> JobFigures:
    rate = storage.write_bytes_per_second
    layout, report, count = load.report.layout, load.report, load.group.count
    return JobFigures(
        name=load.group.name,
        count=count,
        num_gpus=layout.num_gpus,
        num_nodes=layout.num_nodes,
        checkpoint_bytes=report.checkpoint.written_bytes,
        interval_seconds=load.interval_seconds,
        stall_alone_seconds=load.stall_alone_seconds(rate),
        bytes_per_second_alone=load.write.rate_alone(rate),
        collision_fraction=collision_fraction(windows, kind),
        mean_stall_seconds=_mean_stall_seconds(load, shared.stretch[kind], rate) if shared else None,
        goodput_alone_fraction=report.interval.goodput_at_interval_fraction,
        simulated_stalls=stalls_of(observed, horizon_seconds=horizon_seconds),
        simulated_collision_fraction=(
            observed.num_met_another / observed.num_written if observed.num_written else None
        ),
        simulated_goodput_fraction=observed.useful_seconds / (count * horizon_seconds),
        num_failures=observed.num_failures,
        capacity_bytes=count * report.capacity.capacity_bytes,
    )


def _mean_stall_seconds(load: JobLoad, stretch: float, rate: float) -> float | None:
    """The mean time to write; of asynchronous saving the snapshot alone, if the drain ends in the interval."""
    writing = load.write.lead_seconds + stretch * load.write.transfer_seconds(rate)
    if load.snapshot_seconds is None:
        return writing
    return load.snapshot_seconds if load.snapshot_seconds + writing <= load.interval_seconds else None


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
