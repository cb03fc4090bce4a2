"""One operation in all repetitions that count, and what happened inside its writes or restores.

That is the tail of the requests, rates over time, and repetitions that hung.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from io_bench.engines import EnginePlan, IoReport
from io_bench.measure.plan import MeasurementPlan
from io_bench.measure.repeating import Samples
from io_bench.measure.sample import steadiness_of
from io_bench.measure.steadiness import Steadiness
from io_bench.measure.stopwatch import OperationSample
from io_bench.ranks.process_group import Writers
from io_bench.target.request_log import Requests, SlowRequest, align, quantile_seconds, widen
from sizing.storage.measurement import Operation, median_bytes_per_second
from sizing.storage.run_events import LATE_RATIO, LateRepetition, RatesOverTime, RequestLatency, RequestPlace


@dataclass(frozen=True)
class Series:
    """The writes of all repetitions that count, or the restores, with the ranks that did them."""

    samples: Samples
    operation: Operation

    @property
    def plan(self) -> MeasurementPlan:
        """The plan of the configuration."""
        return self.samples.plan

    @property
    def is_write(self) -> bool:
        """Whether the series is of writes."""
        return self.operation == "write"

    @cached_property
    def repetitions(self) -> list[OperationSample]:
        """List the writes or the restores, one of all ranks for each repetition."""
        return [sample.of(self.operation) for sample in self.samples.kept]

    @property
    def ranks(self) -> Writers:
        """The ranks that wrote, or those that restored."""
        return self.plan.writers if self.is_write else self.plan.readers

    @property
    def engine_plans(self) -> tuple[EnginePlan, ...]:
        """List for each rank the plan of the files that it wrote or read; a later replica reads those of the first."""
        plans = self.plan.engine_plans
        return tuple(plans[index % len(plans)] for index in range(len(self.ranks.ranks)))

    @property
    def cpus_of_node(self) -> Mapping[str, float]:
        """CPUs that the ranks of each node can keep busy together."""
        return self.plan.cpus_of_node if self.ranks is self.plan.writers else self.plan.cpus_of_reading_node

    @property
    def reports(self) -> list[list[IoReport]]:
        """Reports of the engine, by repetition and rank."""
        return [[rank.report for rank in each.ranks] for each in self.repetitions]

    @property
    def rank_bytes(self) -> tuple[int, ...]:
        """Bytes that each rank wrote or read in one repetition."""
        return self.repetitions[-1].rank_bytes

    @property
    def seconds(self) -> list[float]:
        """Seconds of each repetition, to the end of the slowest rank."""
        return [each.seconds for each in self.repetitions]

    @property
    def rank_seconds(self) -> list[list[float]]:
        """Seconds by repetition and rank."""
        return [[rank.seconds for rank in each.ranks] for each in self.repetitions]

    @property
    def bytes_per_second(self) -> float:
        """Bytes of all ranks over the median time."""
        return median_bytes_per_second(sum(self.rank_bytes), self.seconds)

    @property
    def is_direct(self) -> bool:
        """Whether every rank that moved bytes bypassed the page cache in every repetition, as it had asked."""
        return all(rank.report.is_direct for each in self.repetitions for rank in each.ranks if rank.num_bytes)

    @cached_property
    def steadiness(self) -> Steadiness:
        """Changes of the rate over all that was moved, the warm-up included."""
        return steadiness_of([self.samples.warm_up, *self.samples.kept], self.operation)


MAX_RATES = 1 << 14
"""Max rates in one measurement: about 160 kB as text. With many ranks the bins are wider."""
_MIN_RATES = 2
"""Min rates of a rank in a repetition."""


def request_latency(series: Series) -> RequestLatency | None:
    """Quantiles of all request times; None where no request was seen, as with engines of other packages."""
    counts: Counter[int] = Counter()
    for _, _, requests in _requests_of_ranks(series):
        for bucket, count in requests.latency_counts:
            counts[bucket] += count
    slowest = max(_slowest_requests(series), key=lambda place: place.seconds, default=None)
    if not counts or slowest is None:
        return None
    max_seconds = max(place.seconds for place in _slowest_requests(series) if place.phase in ("write", "read"))
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
    """Compute rates by repetition, rank and bin, at most MAX_RATES in all; None where that is less than two for a rank.

    One bin of each says no more than the time of its rank.
    """
    rows = [(requests.bin_seconds, requests.bin_bytes) for _, _, requests in _requests_of_ranks(series)]
    if not any(num_bytes for _, num_bytes in rows) or _MIN_RATES * len(rows) > MAX_RATES:
        return None
    bin_seconds, timelines = align((width, num_bytes) for width, num_bytes in rows if width)
    times = 1
    while sum(-(-len(bins) // times) for bins in timelines) > MAX_RATES:
        times *= 2
    width = bin_seconds * times
    rates = [[round(num_bytes / width) for num_bytes in widen(bins, times)] for bins in timelines]
    num_ranks = len(series.rank_bytes)
    return RatesOverTime(
        bin_seconds=width,
        rank_bytes_per_second=[rates[start : start + num_ranks] for start in range(0, len(rates), num_ranks)],
    )


def late_repetitions(series: Series) -> list[LateRepetition]:
    """List repetitions beyond 1.5 times the median, with the rank that was last and where its time went."""
    median = statistics.median(series.seconds)
    return [
        _describe_late(series, repetition, seconds / median)
        for repetition, seconds in enumerate(series.seconds)
        if seconds > LATE_RATIO * median
    ]


def _describe_late(series: Series, repetition: int, ratio: float) -> LateRepetition:
    rank_seconds = series.rank_seconds[repetition]
    index = rank_seconds.index(max(rank_seconds))
    lost = _lost_seconds(series, repetition, index)
    phase = max(lost, key=lambda name: lost[name], default=None)
    slow = series.reports[repetition][index].requests.slowest.get(phase or "")
    placement = series.ranks.group.placements[series.ranks.ranks[index]]
    return LateRepetition(
        repetition=repetition + 1,
        seconds=series.seconds[repetition],
        ratio=ratio,
        rank=placement.rank,
        node=placement.node,
        title=series.ranks.title(index),
        phase=phase,
        lost_seconds=max(0.0, lost[phase]) if phase else None,
        slowest=_place(series, repetition, index, phase, slow) if phase and slow else None,
    )


def _lost_seconds(series: Series, repetition: int, index: int) -> dict[str, float]:
    """Seconds by phase that a rank took in a repetition beyond its own median."""
    of_rank = [ranks[index].phase_seconds for ranks in series.reports]
    return {
        name: seconds - statistics.median(phases.get(name, 0.0) for phases in of_rank)
        for name, seconds in of_rank[repetition].items()
    }


def _slowest_requests(series: Series) -> Iterator[RequestPlace]:
    """Yield the slowest request of each phase, rank and repetition."""
    for repetition, index, requests in _requests_of_ranks(series):
        for phase, slow in requests.slowest.items():
            yield _place(series, repetition, index, phase, slow)


def _requests_of_ranks(series: Series) -> Iterator[tuple[int, int, Requests]]:
    """Yield the requests of each rank in each repetition, with the number of the repetition and the rank's index."""
    for repetition, ranks in enumerate(series.reports):
        for index, report in enumerate(ranks):
            yield repetition, index, report.requests


def _place(series: Series, repetition: int, index: int, phase: str, slow: SlowRequest) -> RequestPlace:
    placement = series.ranks.group.placements[series.ranks.ranks[index]]
    return RequestPlace(
        repetition=repetition + 1,
        rank=placement.rank,
        node=placement.node,
        title=series.ranks.title(index),
        phase=phase,
        file=slow.file,
        offset_bytes=slow.offset_bytes,
        seconds=slow.seconds,
    )
