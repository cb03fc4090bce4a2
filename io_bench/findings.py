"""From samples to measurements: one definition of every figure in the result."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from io_bench.campaign.repetition import Sample
from io_bench.campaign.repetitions import Samples
from io_bench.engines import IoReport
from io_bench.equivalents import equivalent_commands
from io_bench.spread import drift_fraction, median_interval, percentile, straggler_ratio, stragglers
from io_bench.stopwatch import Timing
from io_bench.target import Target
from io_bench.writers import Writers
from sizing.storage.measurement import CachePolicy, LimitedBy, Measurement, Operation, median_bytes_per_second

GENERATOR_BOUND_FRACTION = 0.05
CLIENT_BOUND_CPU_FRACTION = 0.9
STORAGE_BOUND_RATIO = 2.0
"""The client without storage is this much faster where storage takes more of the time than the client does."""


def measurements_of(samples: Samples, *, cpus_of_node: Mapping[str, int], target: Target) -> list[Measurement]:
    """The write and the restore measurement of verified samples, one entry per repetition each."""
    policies: dict[Operation, CachePolicy] = {
        "write": target.cache_policy or _write_cache_policy(samples.kept),
        "restore": target.cache_policy or _restore_cache_policy(samples),
    }
    return [
        _measurement(samples, operation, policy, cpus_of_node=cpus_of_node, target=target)
        for operation, policy in policies.items()
    ]


def notices_of(samples: Sequence[Sample]) -> list[str]:
    """What the engine had to say of any rank in any repetition, each once."""
    reports = [report for sample in samples for report in (*sample.write_reports, *sample.restore_reports)]
    return list(dict.fromkeys(notice for report in reports for notice in report.notices))


def _measurement(
    samples: Samples, operation: Operation, policy: CachePolicy, *, cpus_of_node: Mapping[str, int], target: Target
) -> Measurement:
    plan, kept = samples.plan, samples.kept
    timings = [_timing(sample, operation) for sample in kept]
    reports = [_reports(sample, operation) for sample in kept]
    rank_bytes, rank_seconds = kept[-1].rank_bytes, [list(timing.rank_seconds) for timing in timings]
    seconds, flat = [timing.seconds for timing in timings], [s for ranks in rank_seconds for s in ranks]
    total_bytes = sum(rank_bytes)
    low, high = median_interval(seconds)
    rate = median_bytes_per_second(total_bytes, seconds)
    cpu_fraction = _cpu_fraction(timings, plan.writers, cpus_of_node)
    # Object stores are talked to from one thread, which is as fast as one CPU.
    busy_fraction = _thread_fraction(timings) if plan.transfer else cpu_fraction
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
        cache_policy=policy,
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
        client_cpu_fraction=cpu_fraction,
        resident_pages=_resident_pages(kept, operation),
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
            is_direct=_is_direct(reports),
        ),
    )


def limited_by(
    bytes_per_second: float, *, null_sink: float | None, generator_wait: float | None, client_cpu: float
) -> LimitedBy | None:
    """What limited a rate, as far as it shows; None for a restore by a client that was not busy.

    The generator where writers waited for more than 5 % of their time; the client where, writing to nowhere, it is
    not twice as fast, or where its CPUs are over 90 % busy; else the storage. At a ratio of two, a client that copies
    and writes by turns spends half of its time on either.

    >>> limited_by(1e9, null_sink=3e9, generator_wait=0.01, client_cpu=0.5)
    'storage'
    >>> limited_by(1e9, null_sink=1.5e9, generator_wait=None, client_cpu=0.5)
    'client'
    """
    if generator_wait is not None and generator_wait > GENERATOR_BOUND_FRACTION:
        return "generator"
    if null_sink is not None and null_sink < STORAGE_BOUND_RATIO * bytes_per_second:
        return "client"
    if client_cpu > CLIENT_BOUND_CPU_FRACTION:
        return "client"
    return None if null_sink is None else "storage"


def _timing(sample: Sample, operation: Operation) -> Timing:
    return sample.write if operation == "write" else sample.restore


def _reports(sample: Sample, operation: Operation) -> tuple[IoReport, ...]:
    return sample.write_reports if operation == "write" else sample.restore_reports


def _resident_pages(samples: Sequence[Sample], operation: Operation) -> int | None:
    """Most of any repetition; None of a buffered write, which leaves its pages in memory by design."""
    if operation == "restore":
        return max(sum(sample.resident_pages) for sample in samples)
    if not any(report.is_direct for sample in samples for report in sample.write_reports):
        return None
    return max(sum(sample.written_pages) for sample in samples)


def _write_cache_policy(samples: Sequence[Sample]) -> CachePolicy:
    """Direct is what left no page in memory: some file systems take O_DIRECT and go through the page cache."""
    is_direct = _is_direct([sample.write_reports for sample in samples])
    left_pages = any(pages for sample in samples for pages in sample.written_pages)
    return "o-direct" if is_direct and not left_pages else "buffered-fsync"


def _restore_cache_policy(samples: Samples) -> CachePolicy:
    if any(pages for sample in samples.kept for pages in sample.resident_pages):
        return "cached"
    if samples.plan.restores_from_other_node:
        return "other-node"
    is_direct = _is_direct([sample.restore_reports for sample in samples.kept])
    return "o-direct" if is_direct else "fadvise-dontneed"


def _is_direct(reports: Sequence[Sequence[IoReport]]) -> bool:
    """Whether every rank in every repetition asked to bypass the page cache, and was allowed to."""
    return all(report.is_direct for ranks in reports for report in ranks)


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


def _cpu_fraction(timings: Sequence[Timing], writers: Writers, cpus_of_node: Mapping[str, int]) -> float:
    """CPU time of a node's writers over the time of its CPUs: the busiest node, the median over the repetitions."""

    def busiest(timing: Timing) -> float:
        cpu_seconds = dict.fromkeys(writers.nodes, 0.0)
        for node, seconds in zip(writers.nodes, timing.cpu_seconds, strict=True):
            cpu_seconds[node] += seconds
        return max(seconds / (timing.seconds * cpus_of_node[node]) for node, seconds in cpu_seconds.items())

    return min(1.0, statistics.median(map(busiest, timings)))


def _thread_fraction(timings: Sequence[Timing]) -> float:
    """CPU time of the busiest writer over the time of one CPU, the median over the repetitions."""
    return min(1.0, statistics.median(max(timing.cpu_seconds) / timing.seconds for timing in timings))


def _counted_bytes(timings: Sequence[Timing]) -> dict[str, int]:
    """Of each counter the sum over ranks and nodes, the median over the repetitions."""
    names = sorted({name for timing in timings for counted in timing.counted_bytes for name in counted})
    return {
        name: round(
            statistics.median(sum(counted.get(name, 0) for counted in timing.counted_bytes) for timing in timings)
        )
        for name in names
    }
