"""From samples to measurements: one definition of every figure in the result."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

from io_bench.engines import IoReport
from io_bench.findings.cache_proof import cache_policy, is_direct, resident_pages
from io_bench.findings.equivalents import equivalent_commands
from io_bench.findings.limits import limits
from io_bench.findings.request_times import late_repetitions, rates_over_time, request_latency
from io_bench.findings.series import Series
from io_bench.repetition.repeating import Samples
from io_bench.repetition.sample import Sample
from io_bench.repetition.spread import drift_fraction, median_interval, percentile, straggler_ratio, stragglers
from io_bench.repetition.stopwatch import Timing
from io_bench.target.spread.spread_target import SpreadTarget
from io_bench.target.target import Target
from sizing.storage.measurement import Measurement
from sizing.storage.request_times import RateChange

_SHOWN_DIGITS = 6
"""Of the seconds of each rank, of which there are many: clocks of nodes agree less well than to a microsecond."""


def measurements_of(samples: Samples, target: Target) -> list[Measurement]:
    """The write and the restore measurement of verified samples, one entry per repetition each."""
    return [_measurement(Series(samples, operation), target) for operation in ("write", "restore")]


def notices_of(samples: Sequence[Sample]) -> list[str]:
    """What the engine had to say of any rank in any repetition, each once."""
    reports = [report for sample in samples for report in (*sample.write_reports, *sample.restore_reports)]
    return list(dict.fromkeys(notice for report in reports for notice in report.notices))


def _measurement(series: Series, target: Target) -> Measurement:
    samples, rank_seconds = series.samples, series.rank_seconds
    return Measurement(
        **_load(series),
        seconds=series.seconds,
        bytes_per_second=series.bytes_per_second,
        first_done_seconds=[min(ranks) for ranks in rank_seconds],
        rank_seconds=[[round(each, _SHOWN_DIGITS) for each in ranks] for ranks in rank_seconds],
        cache_policy=target.cache_policy or cache_policy(samples, series.operation),
        verified=not any(sample.corruption for sample in samples.kept),
        warm_up_seconds=series.timing_of(samples.warm_up).seconds,
        start_spread_seconds=[timing.start_spread_seconds for timing in series.timings],
        clock_error_seconds=max(timing.clock_error_seconds for timing in series.timings),
        phase_seconds=_phase_seconds(series.reports),
        snapshot_seconds=samples.snapshot.seconds if samples.snapshot and series.is_write else None,
        stall_seconds=_median_of_slowest(series.reports, "stall_seconds"),
        drain_seconds=_median_of_slowest(series.reports, "drain_seconds"),
        **_spread(series),
        request_latency=request_latency(series),
        late_repetitions=late_repetitions(series),
        **_steadiness(series),
        rates_over_time=rates_over_time(series),
        **limits(series),
        resident_pages=resident_pages(samples.kept, series.operation),
        counted_bytes=_counted_bytes(series.timings),
        equivalent_commands=None if _has_no_equivalent(series, target) else _equivalent_commands(series, target),
    )


def _has_no_equivalent(series: Series, target: Target) -> bool:
    """Of an object store, or where ranks are spread over directories by their number."""
    return series.plan.transfer is not None or isinstance(target, SpreadTarget)


def _load(series: Series) -> dict[str, Any]:
    """What was moved, by whom and how."""
    plan, rank_bytes = series.plan, series.rank_bytes
    engine_plan, transfer = plan.engine_plans[0], plan.transfer
    return {
        "engine": plan.configuration.engine,
        "operation": series.operation,
        "num_nodes": plan.writers.num_nodes,
        "num_ranks": len(rank_bytes),
        "bytes_per_rank": round(statistics.fmean(rank_bytes)),
        "total_bytes": sum(rank_bytes),
        "rank_bytes": list(rank_bytes),
        "payload_bytes_per_rank": plan.configuration.bytes_per_rank,
        "num_files": sum(len(plan.files) for plan in plan.engine_plans),
        "block_bytes": transfer.part_bytes if transfer else engine_plan.block_bytes,
        "threads_per_rank": transfer.num_parallel if transfer else engine_plan.num_threads,
    }


def _spread(series: Series) -> dict[str, Any]:
    """How far repetitions and ranks lie apart."""
    seconds, rank_seconds, total_bytes = series.seconds, series.rank_seconds, sum(series.rank_bytes)
    of_all = [each for ranks in rank_seconds for each in ranks]
    low, high = median_interval(seconds)
    return {
        "rate_interval_bytes_per_second": (total_bytes / high, total_bytes / low),
        "drift_fraction": drift_fraction(seconds),
        "p50_rank_seconds": percentile(of_all, 50),
        "p95_rank_seconds": percentile(of_all, 95),
        "straggler_ratio": straggler_ratio(rank_seconds),
        "stragglers": [series.plan.writers.title(index) for index in stragglers(rank_seconds)],
    }


def _steadiness(series: Series) -> dict[str, Any]:
    """Whether the rate went on, and which."""
    found = series.steadiness
    return {
        "rate_changes": [RateChange(**dataclasses.asdict(change)) for change in found.changes],
        "sustained_bytes_per_second": found.sustained_bytes_per_second,
        "is_steady": found.is_steady,
    }


def _equivalent_commands(series: Series, target: Target) -> dict[str, str]:
    """Of one node, with the mean of the ranks' bytes."""
    plan, rank_bytes = series.plan, series.rank_bytes
    return equivalent_commands(
        series.operation,
        directory=target.title,
        num_ranks=-(-len(rank_bytes) // plan.writers.num_nodes),
        bytes_per_rank=round(statistics.fmean(rank_bytes)),
        block_bytes=plan.engine_plans[0].block_bytes,
        threads_per_rank=plan.engine_plans[0].num_threads,
        is_direct=is_direct(series.reports),
    )


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
