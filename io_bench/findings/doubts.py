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
"""A choice: caches of drives and controllers hold a few seconds of writes, and starting takes a tenth of one."""
DRIFT_FRACTION = 0.10
"""Of the later repetitions' time over the earlier ones'. A choice, twice the width at which a run counts as settled."""
DISAGREEMENT_FRACTION = 0.10
"""Between bytes written and bytes that the kernel counted. A choice: file systems add journals and padding of a few
percent, while doubled or missing writes differ by far more."""
START_SPREAD_FRACTION = 0.05
"""Of the time measured. A choice: ranks that start so much apart make the rate that much too low at most."""
_COUNTERS = {
    "process": "/proc/self/io of the ranks",
    "disk": "/proc/diskstats of the target's device",
}


def warnings_about(measurement: Measurement, *, stopped_by: str = "", file_system: str = "") -> list[str]:
    """What may be wrong with it: caches, length, starts, drift, spread, the client, stragglers, other counters.

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
            f"Direct writes left {measurement.resident_pages:,} pages in the page cache: the file system accepted "
            "O_DIRECT but did not bypass the page cache. Check whether the target is in memory (tmpfs)."
        )
    if measurement.cache_policy == "cached":
        yield (
            "The restore read from the page cache: the kernel did not drop all pages, so the bandwidth is not that "
            "of the storage. Check whether the target is in memory (tmpfs) or another process holds its files open."
        )


def _about_node_caches(measurement: Measurement, file_system: str) -> Iterator[str]:
    keeper = cache_on_the_node(file_system, is_direct=measurement.cache_policy == "o-direct")
    if measurement.operation == "restore" and measurement.cache_policy in ("fadvise-dontneed", "o-direct") and keeper:
        yield (
            f"The restore read nothing from the page cache, but the target is {file_system}, {keeper}: the bandwidth "
            "may not be that of the storage. Run on two nodes or more, so that each restores what another wrote, or "
            "increase --bytes-per-rank beyond the size of that cache."
        )


def cache_on_the_node(file_system: str, *, is_direct: bool) -> str:
    """What may cache written data on a node, besides the page cache; empty where nothing is known to.

    Clients in user space have memory of their own, and may not heed O_DIRECT. GPFS has its page pool, which O_DIRECT
    bypasses. Source: IBM Storage Scale documentation, "Considerations for the use of direct I/O (O_DIRECT)".

    >>> cache_on_the_node("gpfs", is_direct=False)
    'whose page pool on each node caches written data'
    >>> cache_on_the_node("gpfs", is_direct=True), cache_on_the_node("fuseblk", is_direct=True)[:12]
    ('', 'whose daemon')
    """
    if file_system.startswith("fuse"):
        return "whose daemon on each node may have its own cache"
    if file_system == "gpfs" and not is_direct:
        return "whose page pool on each node caches written data"
    return ""


def _about_starts(measurement: Measurement) -> Iterator[str]:
    spread = statistics.median(measurement.start_spread_seconds or [0.0])
    fraction = spread / statistics.median(measurement.seconds)
    if fraction <= START_SPREAD_FRACTION:
        return
    apart = (
        f"The ranks started the {measurement.operation} {seconds_text(spread)} apart, {percent_text(fraction)} of its "
        "time"
    )
    if measurement.num_nodes > 1:
        yield (
            f"{apart}, by the clocks of their nodes. Each rank is timed from its own start, so the bandwidth may be "
            "too high by this fraction. Increase --bytes-per-rank, synchronise the clocks (NTP, chrony), and leave "
            "some CPUs idle."
        )
    else:
        yield (
            f"{apart}, and the time includes this: the node was too busy to start them together. Give each rank its "
            "own CPUs (srun --cpus-per-task), or increase --bytes-per-rank."
        )


def _about_length(measurement: Measurement) -> Iterator[str]:
    median = statistics.median(measurement.seconds)
    if median < SHORT_SECONDS:
        yield (
            f"The {measurement.operation} took {seconds_text(median)}, less than {seconds_text(SHORT_SECONDS)}: "
            f"caches and start-up affect it. Multiply --bytes-per-rank by {math.ceil(SHORT_SECONDS / median)}."
        )


def _about_drift(measurement: Measurement) -> Iterator[str]:
    drift = measurement.drift_fraction or 0.0
    if abs(drift) > DRIFT_FRACTION:
        change = "more" if drift > 0 else "less"
        yield (
            f"The later repetitions of the {measurement.operation} took {percent_text(abs(drift))} {change} time than "
            "the earlier ones: the storage was not in a steady state. Increase --repetitions."
        )


def _about_spread(measurement: Measurement, stopped_by: str) -> Iterator[str]:
    interval, rate = measurement.rate_interval_bytes_per_second, measurement.bytes_per_second
    if not stopped_by or interval is None:
        return
    width = max(interval[1] - rate, rate - interval[0]) / rate
    if width > SETTLED_FRACTION or len(measurement.seconds) == 1:
        is_single = len(measurement.seconds) == 1
        spread = "comes from one repetition" if is_single else f"is accurate to {percent_text(width)} only"
        yield f"{stopped_by} ended the repetitions: the bandwidth of the {measurement.operation} {spread}."


def _about_client(measurement: Measurement) -> Iterator[str]:
    if measurement.limited_by == "generator":
        waited = percent_text(measurement.generator_wait_fraction or 0.0)
        yield f"Writers waited {waited} of their time for the payload generator: the bandwidth is the generator's."
    if measurement.limited_by == "client":
        yield f"{_what_of_the_client(measurement)}, and the storage may be faster."


def _what_of_the_client(measurement: Measurement) -> str:
    null_sink, operation = measurement.null_sink_bytes_per_second, measurement.operation
    if null_sink is not None and null_sink < STORAGE_BOUND_RATIO * measurement.bytes_per_second:
        remedy = "use another engine, more ranks or nodes"
        return (
            f"With writes discarded, this client reaches {rate_text(null_sink)}: it limits the {operation} ({remedy})"
        )
    if measurement.cache_policy == "object-store":
        return (
            f"A rank uses one thread for the object store, and used nearly a whole CPU in the {operation}: the client "
            "may be the limit (start more ranks per node)"
        )
    busy = percent_text(measurement.client_cpu_fraction or 0.0)
    return f"The CPUs of a node were {busy} busy in the {operation}: the client may be the limit"


def _about_stragglers(measurement: Measurement) -> Iterator[str]:
    if measurement.stragglers:
        yield (
            f"Stragglers in the {measurement.operation}: {' and '.join(measurement.stragglers)}. The slowest rank took "
            f"{measurement.straggler_ratio or 1:.2f} times as long as the median rank. Check its node and its path to "
            "the storage."
        )


def _about_counters(measurement: Measurement) -> Iterator[str]:
    """A counter of 0 says that the system does not count this kind of input and output."""
    for counter, title in _COUNTERS.items():
        counted = (measurement.counted_bytes or {}).get(counter)
        if counted and abs(counted / measurement.total_bytes - 1) > DISAGREEMENT_FRACTION:
            yield (
                f"The {measurement.operation} moved {bytes_text(measurement.total_bytes)}, but {title} counted "
                f"{bytes_text(counted)}. Causes may be caches, compression or other processes on the node."
            )
