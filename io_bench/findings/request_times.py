"""What happened inside the writes or restores: the tail of the requests, rates over time, repetitions that hung."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator

from io_bench.findings.series import Series
from io_bench.timing.latency import quantile_seconds
from io_bench.timing.request_log import Requests, SlowRequest
from io_bench.timing.timeline import aligned, widened
from sizing.storage.request_times import LateRepetition, RatesOverTime, RequestLatency, RequestPlace

LATE_RATIO = 1.5
"""Of a repetition to the median. A choice: storage that others use too varies by less, and a hang of seconds in a
write of ten is beyond it."""
MAX_RATES = 1 << 14
"""In one measurement: about 160 kB as text. With many ranks the bins are wider."""
_MIN_RATES = 2
"""Of a rank in a repetition."""


def request_latency(series: Series) -> RequestLatency | None:
    """The tail of all requests; None where nothing was seen of them, as with engines of other packages."""
    counts: Counter[int] = Counter()
    for _, _, requests in _seen(series):
        for bucket, count in requests.latency_counts:
            counts[bucket] += count
    slowest = max(_slowest(series), key=lambda place: place.seconds, default=None)
    if not counts or slowest is None:
        return None
    max_seconds = max(place.seconds for place in _slowest(series) if place.phase in ("write", "read"))
    p50, p99, p999 = (min(max_seconds, quantile_seconds(counts, fraction)) for fraction in (0.5, 0.99, 0.999))
    return RequestLatency(
        num_requests=sum(counts.values()),
        p50_seconds=p50,
        p99_seconds=p99,
        p999_seconds=p999,
        max_seconds=max_seconds,
        slowest=slowest,
        bucket_counts=sorted(counts.items()),
    )


def rates_over_time(series: Series) -> RatesOverTime | None:
    """Rates by repetition, rank and bin, in as many bins as the document has room for; None where it has none for two.

    One bin of each says no more than the time of its rank.
    """
    rows = [(requests.bin_seconds, requests.bin_bytes) for _, _, requests in _seen(series)]
    if not any(num_bytes for _, num_bytes in rows) or _MIN_RATES * len(rows) > MAX_RATES:
        return None
    bin_seconds, timelines = aligned((width, num_bytes) for width, num_bytes in rows if width)
    times = 1
    while sum(-(-len(bins) // times) for bins in timelines) > MAX_RATES:
        times *= 2
    width = bin_seconds * times
    rates = [[round(num_bytes / width) for num_bytes in widened(bins, times)] for bins in timelines]
    num_ranks = len(series.rank_bytes)
    return RatesOverTime(
        bin_seconds=width,
        rank_bytes_per_second=[rates[start : start + num_ranks] for start in range(0, len(rates), num_ranks)],
    )


def late_repetitions(series: Series) -> list[LateRepetition]:
    """Every repetition beyond 1.5 times the median, with the rank that was last and where its time went."""
    median = statistics.median(series.seconds)
    return [
        _late(series, repetition, seconds / median)
        for repetition, seconds in enumerate(series.seconds)
        if seconds > LATE_RATIO * median
    ]


def _late(series: Series, repetition: int, ratio: float) -> LateRepetition:
    rank_seconds = series.rank_seconds[repetition]
    index = rank_seconds.index(max(rank_seconds))
    lost = _lost_seconds(series, repetition, index)
    phase = max(lost, key=lambda name: lost[name], default=None)
    slow = series.reports[repetition][index].requests.slowest.get(phase or "")
    placement = series.plan.writers.group.placements[series.plan.writers.ranks[index]]
    return LateRepetition(
        repetition=repetition + 1,
        seconds=series.seconds[repetition],
        ratio=ratio,
        rank=placement.rank,
        node=placement.node,
        title=series.plan.writers.title(index),
        phase=phase,
        lost_seconds=max(0.0, lost[phase]) if phase else None,
        slowest=_place(series, repetition, index, phase, slow) if phase and slow else None,
    )


def _lost_seconds(series: Series, repetition: int, index: int) -> dict[str, float]:
    """By phase, what a rank took in a repetition beyond its own median."""
    of_rank = [ranks[index].phase_seconds for ranks in series.reports]
    return {
        name: seconds - statistics.median(phases.get(name, 0.0) for phases in of_rank)
        for name, seconds in of_rank[repetition].items()
    }


def _slowest(series: Series) -> Iterator[RequestPlace]:
    for repetition, index, requests in _seen(series):
        for phase, slow in requests.slowest.items():
            yield _place(series, repetition, index, phase, slow)


def _seen(series: Series) -> Iterator[tuple[int, int, Requests]]:
    for repetition, ranks in enumerate(series.reports):
        for index, report in enumerate(ranks):
            yield repetition, index, report.requests


def _place(series: Series, repetition: int, index: int, phase: str, slow: SlowRequest) -> RequestPlace:
    placement = series.plan.writers.group.placements[series.plan.writers.ranks[index]]
    return RequestPlace(
        repetition=repetition + 1,
        rank=placement.rank,
        node=placement.node,
        title=series.plan.writers.title(index),
        phase=phase,
        file=slow.file,
        offset_bytes=slow.offset_bytes,
        seconds=slow.seconds,
    )
