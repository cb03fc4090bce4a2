"""A result document for people: one table, and what it says in words."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from rich.table import Table

from io_bench.findings.software_tax import RAW_ENGINE
from sizing.storage.measurement import BenchmarkResult, CachePolicy, Measurement
from sizing.units import bytes_text, percent_text, rate_text, seconds_text

_COLUMNS = ("operation", "first done", "last done", "min", "max", "bandwidth")
_CACHE_MEANINGS: dict[CachePolicy, str] = {
    "buffered-fsync": "The write ends when fsync of files and directory has returned.",
    "o-direct": "The page cache was bypassed.",
    "other-node": "Each rank read what another node wrote; caches of disks and servers may have served part of it.",
    "fadvise-dontneed": "The page cache held none of it; caches of disks and servers may have served part of it.",
    "drop-caches": "The page cache was dropped before; caches of disks and servers may have served part of it.",
    "object-store": "The write ends when the store has acknowledged complete objects; the client has no cache.",
    "cached": "At least part came from the page cache: this is not the bandwidth of the storage.",
}
_VERBS = {"write": ("wrote", "to"), "restore": ("restored", "from")}


def result_table(result: BenchmarkResult) -> Table:
    """One row per measurement. Times are seconds from the common start to the end of a rank.

    `first done` and `last done` are medians over the repetitions, of the fastest and the slowest rank;
    `min` and `max` are of the slowest.
    """
    table = Table(
        title=f"{result.run_id}: {result.measurements[0].engine}",
        caption="first done, last done: medians of the fastest and the slowest rank; min, max: of the slowest",
    )
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name == "operation" else "right", no_wrap=True)
    for measurement in result.measurements:
        table.add_row(*_cells(measurement))
    return table


def sentences(result: BenchmarkResult) -> list[str]:
    """What the measurements say, in plain words."""
    return [sentence for measurement in result.measurements for sentence in _said(measurement)]


def _cells(measurement: Measurement) -> tuple[str, ...]:
    return (
        measurement.operation,
        seconds_text(statistics.median(measurement.first_done_seconds)),
        seconds_text(statistics.median(measurement.seconds)),
        seconds_text(min(measurement.seconds)),
        seconds_text(max(measurement.seconds)),
        rate_text(measurement.bytes_per_second),
    )


def _said(measurement: Measurement) -> Iterator[str]:
    verb, preposition = _VERBS[measurement.operation]
    first, last = statistics.median(measurement.first_done_seconds), statistics.median(measurement.seconds)
    rate = f"{rate_text(measurement.bytes_per_second)}{_interval(measurement)}"
    yield (
        f"{_count(measurement.num_ranks, 'rank')} on {_count(measurement.num_nodes, 'node')} {verb} "
        f"{bytes_text(measurement.total_bytes)} {preposition} the target in {seconds_text(last)}, the median "
        f"of {_count(len(measurement.seconds), 'repetition')}: {rate}, "
        f"{rate_text(measurement.bytes_per_second / measurement.num_ranks)} per rank. "
        f"{_CACHE_MEANINGS[measurement.cache_policy]} ({measurement.cache_policy})"
    )
    if measurement.stall_seconds is not None and measurement.drain_seconds is not None:
        yield (
            f"Training stalls for {seconds_text(measurement.stall_seconds)} of this time, while the state is copied. "
            f"The drain takes {seconds_text(measurement.drain_seconds)} more; the save is complete only after it."
        )
    if measurement.limited_by == "storage" and measurement.null_sink_bytes_per_second:
        storage = "The storage" if measurement.engine == RAW_ENGINE else f"The storage as {measurement.engine} uses it"
        yield (
            f"{storage} was the limit, not this client: with writes discarded, the client reaches "
            f"{rate_text(measurement.null_sink_bytes_per_second)}."
        )
    if measurement.num_ranks > 1:
        waited = 1 - first / last
        yield f"The fastest rank finished {percent_text(waited)} before the slowest; the job waits for the slowest."


def _interval(measurement: Measurement) -> str:
    interval = measurement.rate_interval_bytes_per_second
    if interval is None or len(measurement.seconds) == 1:
        return ""
    return f" (95 % interval {rate_text(interval[0])} to {rate_text(interval[1])})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
