"""What limited the rate of a series, and what it is judged by."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from io_bench.findings.client_limit import (
    busy_thread_fractions,
    cpu_fractions,
    link_fractions,
    rank_cpu_seconds,
    run_delay_fractions,
    thread_fractions,
    throttled_fractions,
)
from io_bench.findings.series import Series
from io_bench.findings.verdict import Use, limit_probabilities, limited_by


def limits(series: Series) -> dict[str, Any]:
    """The verdict, its probabilities, and the evidence as medians over the repetitions."""
    timings, samples = series.timings, series.samples
    null_sink_seconds = samples.null_sink.seconds if series.is_write else None
    probabilities = limit_probabilities(_uses(series, null_sink_seconds))
    return {
        "limited_by": limited_by(probabilities),
        "limit_probabilities": probabilities,
        "null_sink_bytes_per_second": sum(series.rank_bytes) / null_sink_seconds if null_sink_seconds else None,
        "generator_wait_fraction": _median(_generator_waits(series)),
        "client_cpu_fraction": _median(cpu_fractions(timings, series.plan)),
        "busy_thread_fraction": _median(busy_thread_fractions(timings)),
        "run_delay_fraction": _median(run_delay_fractions(timings)),
        "throttled_fraction": _median(throttled_fractions(timings)),
        "link_fraction": _median(link_fractions(timings)),
        "rank_cpu_seconds": rank_cpu_seconds(timings),
    }


def _uses(series: Series, null_sink_seconds: float | None) -> list[Use]:
    """Of each repetition."""
    timings = series.timings
    # Object stores are talked to from one thread, which is as fast as one CPU.
    cpus = thread_fractions(timings) if series.plan.transfer else cpu_fractions(timings, series.plan)
    unknown: list[None] = [None] * len(timings)
    without_storage = [null_sink_seconds / timing.seconds if null_sink_seconds else None for timing in timings]
    columns = (
        cpus,
        busy_thread_fractions(timings) or unknown,
        without_storage,
        _generator_waits(series) or unknown,
        link_fractions(timings) or unknown,
        throttled_fractions(timings) or unknown,
    )
    return [Use(*row) for row in zip(*columns, strict=True)]


def _generator_waits(series: Series) -> list[float] | None:
    """Of each repetition the rank that waited most; None for engines without a generator."""
    waits = [[report.generator_wait_fraction for report in ranks] for ranks in series.reports]
    known = [max(waited) for ranks in waits if (waited := [each for each in ranks if each is not None])]
    return known if len(known) == len(waits) else None


def _median(values: Sequence[float] | None) -> float | None:
    return statistics.median(values) if values else None
