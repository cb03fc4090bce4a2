"""Reasons to doubt a measurement, in plain words."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from io_bench.findings.client_limit import STORAGE_BOUND_RATIO
from io_bench.repetition.repeating import SETTLED_FRACTION
from sizing.storage.measurement import Measurement
from sizing.units import bytes_text, percent_text, rate_text, seconds_text

SHORT_SECONDS = 5.0
DRIFT_FRACTION = 0.10
DISAGREEMENT_FRACTION = 0.10
START_SPREAD_FRACTION = 0.05
_COUNTERS = {
    "process": "/proc/self/io of the ranks",
    "disk": "/proc/diskstats of the target's device",
}


def warnings_about(measurement: Measurement, *, stopped_by: str = "", file_system: str = "") -> list[str]:
    """What may be wrong with it: memory, length, starts, drift, spread, the client, late ranks, other counters.

    Args: `file_system`, the type of the target's mount, where it has one.
    """
    return [
        *_about_cache(measurement),
        *_about_node_caches(measurement, file_system),
        *_about_length(measurement),
        *_about_starts(measurement),
        *_about_drift(measurement),
        *_about_spread(measurement, stopped_by),
        *_about_client(measurement),
        *_about_stragglers(measurement),
        *_about_counters(measurement),
    ]


def _about_cache(measurement: Measurement) -> Iterator[str]:
    if measurement.operation == "write" and measurement.resident_pages:
        yield (
            f"Direct writes left {measurement.resident_pages:,} pages in memory: the file system took O_DIRECT and "
            "went through the page cache all the same. Is the target in memory (tmpfs)?"
        )
    if measurement.cache_policy == "cached":
        yield (
            "The restore read pages that stayed in memory although the kernel was asked to drop them: its rate "
            "is not one of storage. Is the target in memory (tmpfs), or does another process hold its files?"
        )


def _about_node_caches(measurement: Measurement, file_system: str) -> Iterator[str]:
    keeper = cache_on_the_node(file_system, is_direct=measurement.cache_policy == "o-direct")
    if measurement.operation == "restore" and measurement.cache_policy in ("fadvise-dontneed", "o-direct") and keeper:
        yield (
            f"The restore read none of the kernel's pages, but the target is {file_system}, {keeper}: its rate may "
            "not be one of storage. Restore on other nodes (give two or more), or give each rank more bytes than are "
            "kept there."
        )


def cache_on_the_node(file_system: str, *, is_direct: bool) -> str:
    """What may keep what a node has written, beside the kernel's page cache; empty where nothing is known to.

    Clients in user space have memory of their own, and may not heed O_DIRECT. GPFS has its page pool, which O_DIRECT
    bypasses. Source: IBM Storage Scale documentation, "Considerations for the use of direct I/O (O_DIRECT)".

    >>> cache_on_the_node("gpfs", is_direct=False)
    'whose page pool on each node keeps what was written'
    >>> cache_on_the_node("gpfs", is_direct=True), cache_on_the_node("fuseblk", is_direct=True)[:12]
    ('', 'whose daemon')
    """
    if file_system.startswith("fuse"):
        return "whose daemon on each node may keep a cache of its own"
    if file_system == "gpfs" and not is_direct:
        return "whose page pool on each node keeps what was written"
    return ""


def _about_starts(measurement: Measurement) -> Iterator[str]:
    spread = statistics.median(measurement.start_spread_seconds or [0.0])
    fraction = spread / statistics.median(measurement.seconds)
    if fraction <= START_SPREAD_FRACTION:
        return
    apart = f"The ranks began the {measurement.operation} {seconds_text(spread)} apart, {percent_text(fraction)} of it"
    if measurement.num_nodes > 1:
        yield (
            f"{apart}, by the clocks of their nodes, and each counts from its own start: the rate may be that much too "
            "high. Give more --bytes-per-rank. Are the clocks synchronised (NTP, chrony), and are CPUs to spare?"
        )
    else:
        yield (
            f"{apart}, which counts in its time: the node was too busy to start them together. Give each rank its CPUs "
            "(srun --cpus-per-task), or more --bytes-per-rank."
        )


def _about_length(measurement: Measurement) -> Iterator[str]:
    median = statistics.median(measurement.seconds)
    if median < SHORT_SECONDS:
        yield (
            f"The {measurement.operation} took {seconds_text(median)}, less than {seconds_text(SHORT_SECONDS)}: "
            f"caches and start-up weigh in it. Give {math.ceil(SHORT_SECONDS / median)} times --bytes-per-rank."
        )


def _about_drift(measurement: Measurement) -> Iterator[str]:
    drift = measurement.drift_fraction or 0.0
    if abs(drift) > DRIFT_FRACTION:
        change = "longer" if drift > 0 else "less"
        yield (
            f"The later repetitions of the {measurement.operation} took {percent_text(abs(drift))} {change} than "
            "the earlier: the storage was not in a steady state. Repeat with more --repetitions."
        )


def _about_spread(measurement: Measurement, stopped_by: str) -> Iterator[str]:
    interval, rate = measurement.rate_interval_bytes_per_second, measurement.bytes_per_second
    if not stopped_by or interval is None:
        return
    width = max(interval[1] - rate, rate - interval[0]) / rate
    if width > SETTLED_FRACTION or len(measurement.seconds) == 1:
        spread = "rests on one repetition" if len(measurement.seconds) == 1 else f"is known to {percent_text(width)}"
        yield f"{stopped_by} ended the repetitions: the rate of the {measurement.operation} {spread}."


def _about_client(measurement: Measurement) -> Iterator[str]:
    if measurement.limited_by == "generator":
        waited = percent_text(measurement.generator_wait_fraction or 0.0)
        yield f"Writers waited {waited} of their time for bytes to write: the rate is that of the generator."
    if measurement.limited_by == "client":
        yield f"{_what_of_the_client(measurement)}, and the storage may be faster."


def _what_of_the_client(measurement: Measurement) -> str:
    null_sink, operation = measurement.null_sink_bytes_per_second, measurement.operation
    if null_sink is not None and null_sink < STORAGE_BOUND_RATIO * measurement.bytes_per_second:
        remedy = "use another engine, more ranks or nodes"
        return f"Writing to nowhere, this client reaches {rate_text(null_sink)}: it limits the {operation} ({remedy})"
    if measurement.cache_policy == "object-store":
        return (
            f"A rank, which talks to the store from one thread, took nearly a whole CPU in the {operation}: the client "
            "may be the limit (start more ranks per node)"
        )
    busy = percent_text(measurement.client_cpu_fraction or 0.0)
    return f"The CPUs of a node were {busy} busy in the {operation}: the client may be the limit"


def _about_stragglers(measurement: Measurement) -> Iterator[str]:
    if measurement.stragglers:
        yield (
            f"In the {measurement.operation} {' and '.join(measurement.stragglers)} came late: the slowest rank took "
            f"{measurement.straggler_ratio or 1:.2f} times as long as the median rank. Look at its node and its path."
        )


def _about_counters(measurement: Measurement) -> Iterator[str]:
    """A counter of 0 says that the system does not count this kind of input and output."""
    for counter, title in _COUNTERS.items():
        counted = (measurement.counted_bytes or {}).get(counter)
        if counted and abs(counted / measurement.total_bytes - 1) > DISAGREEMENT_FRACTION:
            yield (
                f"The {measurement.operation} moved {bytes_text(measurement.total_bytes)}, but {title} counted "
                f"{bytes_text(counted)}: caches, compression or others on the node take part."
            )
