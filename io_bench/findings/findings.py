"""From samples to measurements: one definition of every figure in the result."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from io_bench.engines import IoReport
from io_bench.findings.cache_proof import cache_policy, is_direct, resident_pages
from io_bench.findings.client_limit import cpu_fraction, limited_by, thread_fraction
from io_bench.findings.equivalents import equivalent_commands
from io_bench.repetition.repetition import Sample
from io_bench.repetition.repetitions import Samples
from io_bench.repetition.spread import drift_fraction, median_interval, percentile, straggler_ratio, stragglers
from io_bench.repetition.stopwatch import Timing
from io_bench.target.target import Target
from sizing.storage.measurement import Measurement, Operation, median_bytes_per_second


def measurements_of(samples: Samples, *, cpus_of_node: Mapping[str, int], target: Target) -> list[Measurement]:
    """The write and the restore measurement of verified samples, one entry per repetition each."""
    operations: tuple[Operation, ...] = ("write", "restore")
    return [_measurement(samples, operation, cpus_of_node=cpus_of_node, target=target) for operation in operations]


def notices_of(samples: Sequence[Sample]) -> list[str]:
    """What the engine had to say of any rank in any repetition, each once."""
    reports = [report for sample in samples for report in (*sample.write_reports, *sample.restore_reports)]
    return list(dict.fromkeys(notice for report in reports for notice in report.notices))


def _measurement(
    samples: Samples, operation: Operation, *, cpus_of_node: Mapping[str, int], target: Target
) -> Measurement:
    plan, kept = samples.plan, samples.kept
    timings = [_timing(sample, operation) for sample in kept]
    reports = [_reports(sample, operation) for sample in kept]
    rank_bytes, rank_seconds = kept[-1].rank_bytes, [list(timing.rank_seconds) for timing in timings]
    seconds, flat = [timing.seconds for timing in timings], [s for ranks in rank_seconds for s in ranks]
    total_bytes = sum(rank_bytes)
    low, high = median_interval(seconds)
    rate = median_bytes_per_second(total_bytes, seconds)
    busy_cpus = cpu_fraction(timings, plan.writers, cpus_of_node)
    # Object stores are talked to from one thread, which is as fast as one CPU.
    busy_fraction = thread_fraction(timings) if plan.transfer else busy_cpus
    wait_fraction = _median_of_slowest(reports, "generator_wait_fraction")
    snapshot = samples.snapshot if operation == "write" else None
    null_sink = sum(plan.payload_bytes) / samples.null_sink.seconds if operation == "write" else None
    engine_plan, transfer = plan.engine_plans[0], plan.transfer
    bytes_per_rank = round(statistics.fmean(rank_bytes))
    return Measurement(
        engine=plan.configuration.engine,
        operation=operation,
        num_nodes=plan.writers.num_nodes,
        num_ranks=len(rank_bytes),
        bytes_per_rank=bytes_per_rank,
        total_bytes=total_bytes,
        seconds=seconds,
        bytes_per_second=rate,
        first_done_seconds=[min(ranks) for ranks in rank_seconds],
        rank_seconds=rank_seconds,
        cache_policy=target.cache_policy or cache_policy(samples, operation),
        verified=True,
        payload_bytes_per_rank=plan.configuration.bytes_per_rank,
        num_files=sum(len(plan.files) for plan in plan.engine_plans),
        block_bytes=transfer.part_bytes if transfer else engine_plan.block_bytes,
        threads_per_rank=transfer.num_parallel if transfer else engine_plan.num_threads,
        rank_bytes=list(rank_bytes),
        warm_up_seconds=_timing(samples.warm_up, operation).seconds,
        start_spread_seconds=[timing.start_spread_seconds for timing in timings],
        phase_seconds=_phase_seconds(reports),
        stall_seconds=_median_of_slowest(reports, "stall_seconds"),
        drain_seconds=_median_of_slowest(reports, "drain_seconds"),
        rate_interval_bytes_per_second=(total_bytes / high, total_bytes / low),
        drift_fraction=drift_fraction(seconds),
        p50_rank_seconds=percentile(flat, 50),
        p95_rank_seconds=percentile(flat, 95),
        straggler_ratio=straggler_ratio(rank_seconds),
        stragglers=[plan.writers.title(index) for index in stragglers(rank_seconds)],
        limited_by=limited_by(rate, null_sink=null_sink, generator_wait=wait_fraction, client_cpu=busy_fraction),
        null_sink_bytes_per_second=null_sink,
        snapshot_seconds=snapshot.seconds if snapshot else None,
        generator_wait_fraction=wait_fraction,
        client_cpu_fraction=busy_cpus,
        resident_pages=resident_pages(kept, operation),
        counted_bytes=_counted_bytes(timings),
        equivalent_commands=None
        if transfer
        else equivalent_commands(
            operation,
            directory=target.title,
            num_ranks=-(-len(rank_bytes) // plan.writers.num_nodes),
            bytes_per_rank=bytes_per_rank,
            block_bytes=engine_plan.block_bytes,
            threads_per_rank=engine_plan.num_threads,
            is_direct=is_direct(reports),
        ),
    )


def _timing(sample: Sample, operation: Operation) -> Timing:
    return sample.write if operation == "write" else sample.restore


def _reports(sample: Sample, operation: Operation) -> tuple[IoReport, ...]:
    return sample.write_reports if operation == "write" else sample.restore_reports


def _median_of_slowest(reports: Sequence[Sequence[IoReport]], field: str) -> float | None:
    """Of each repetition the largest value of any rank, and the median of those; None where no rank has one."""
    of_repetition = [[getattr(report, field) for report in ranks] for ranks in reports]
    largest = [max(values) for ranks in of_repetition if (values := [value for value in ranks if value is not None])]
    return statistics.median(largest) if largest else None


def _phase_seconds(reports: Sequence[Sequence[IoReport]]) -> dict[str, float]:
    names = dict.fromkeys(name for ranks in reports for report in ranks for name in report.phase_seconds)
    return {
        name: statistics.median(max(report.phase_seconds.get(name, 0.0) for report in ranks) for ranks in reports)
        for name in names
    }


def _counted_bytes(timings: Sequence[Timing]) -> dict[str, int]:
    """Of each counter the sum over ranks and nodes, the median over the repetitions."""
    names = sorted({name for timing in timings for counted in timing.counted_bytes for name in counted})
    return {
        name: round(
            statistics.median(sum(counted.get(name, 0) for counted in timing.counted_bytes) for timing in timings)
        )
        for name in names
    }
