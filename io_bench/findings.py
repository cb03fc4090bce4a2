"""From samples to measurements, and what there is to say about them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from io_bench.campaign.repetition import Sample
from io_bench.stopwatch import Timing
from sizing.storage.measurement import CachePolicy, Measurement, Operation, median_bytes_per_second
from sizing.units import percent_text, seconds_text

SHORT_SECONDS = 5.0
DRIFT_FRACTION = 0.10
_LEAST_REPETITIONS_FOR_DRIFT = 4


def measurements_of(
    samples: Sequence[Sample], *, engine: str, num_nodes: int, cache_policy: CachePolicy | None = None
) -> list[Measurement]:
    """The write and the restore measurement of verified samples, one entry per repetition each.

    Args: `cache_policy` of the target; None where it follows from what the samples saw.
    """
    rank_bytes = samples[-1].rank_bytes

    def measurement(operation: Operation, timings: list[Timing], policy: CachePolicy) -> Measurement:
        seconds = [max(timing.rank_seconds) for timing in timings]
        return Measurement(
            engine=engine,
            operation=operation,
            num_nodes=num_nodes,
            num_ranks=len(rank_bytes),
            bytes_per_rank=round(statistics.fmean(rank_bytes)),
            total_bytes=sum(rank_bytes),
            seconds=seconds,
            bytes_per_second=median_bytes_per_second(sum(rank_bytes), seconds),
            first_done_seconds=[min(timing.rank_seconds) for timing in timings],
            rank_seconds=[list(timing.rank_seconds) for timing in timings],
            cache_policy=policy,
            verified=True,
        )

    return [
        measurement("write", [sample.write for sample in samples], cache_policy or _write_cache_policy(samples)),
        measurement("restore", [sample.restore for sample in samples], cache_policy or _restore_cache_policy(samples)),
    ]


def notices_of(samples: Sequence[Sample]) -> list[str]:
    """What the engine had to say of any rank in any repetition, each once."""
    reports = [report for sample in samples for report in (*sample.write_reports, *sample.restore_reports)]
    return list(dict.fromkeys(notice for report in reports for notice in report.notices))


def _write_cache_policy(samples: Sequence[Sample]) -> CachePolicy:
    is_direct = all(report.is_direct for sample in samples for report in sample.write_reports)
    return "o-direct" if is_direct else "buffered-fsync"


def _restore_cache_policy(samples: Sequence[Sample]) -> CachePolicy:
    if any(pages for sample in samples for pages in sample.resident_pages):
        return "cached"
    is_direct = all(report.is_direct for sample in samples for report in sample.restore_reports)
    return "o-direct" if is_direct else "fadvise-dontneed"


def warnings_about(measurement: Measurement) -> list[str]:
    """Reasons to doubt a measurement: it is short, it drifts, or it came from memory."""
    return [
        warning
        for warning in (_about_cache(measurement), _about_length(measurement), _about_drift(measurement))
        if warning
    ]


def drift_fraction(seconds: Sequence[float]) -> float:
    """By how much the later half took longer than the earlier half, as a fraction of the earlier.

    Medians of the halves; the middle one of an odd number counts in neither. 0 for fewer than four.

    >>> drift_fraction([1.0, 1.0, 9.0, 1.5, 1.5]), drift_fraction([1.0, 2.0])
    (0.5, 0.0)
    """
    if len(seconds) < _LEAST_REPETITIONS_FOR_DRIFT:
        return 0.0
    half = len(seconds) // 2
    return statistics.median(seconds[-half:]) / statistics.median(seconds[:half]) - 1


def _about_cache(measurement: Measurement) -> str:
    if measurement.cache_policy != "cached":
        return ""
    return (
        "The restore read pages that stayed in memory although the kernel was asked to drop them: its rate "
        "is not one of storage. Is the target in memory (tmpfs), or does another process hold its files?"
    )


def _about_length(measurement: Measurement) -> str:
    median = statistics.median(measurement.seconds)
    if median >= SHORT_SECONDS:
        return ""
    return (
        f"The {measurement.operation} took {seconds_text(median)}, less than {seconds_text(SHORT_SECONDS)}: "
        f"caches and start-up weigh in it. Give {math.ceil(SHORT_SECONDS / median)} times --bytes-per-rank."
    )


def _about_drift(measurement: Measurement) -> str:
    drift = drift_fraction(measurement.seconds)
    if abs(drift) <= DRIFT_FRACTION:
        return ""
    change = "longer" if drift > 0 else "less"
    return (
        f"The later repetitions of the {measurement.operation} took {percent_text(abs(drift))} {change} than "
        "the earlier: the storage was not in a steady state. Repeat with more --repetitions."
    )
