"""Reasons to doubt a measurement, in plain words."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from io_bench.measure.repeating import SETTLED_FRACTION
from io_bench.measure.steadiness import DRIFT_FRACTION
from io_bench.results.limits import CLIENT_BOUND_CPU_FRACTION, STORAGE_BOUND_RATIO, THREAD_BOUND_FRACTION
from sizing.storage.measurement import SHORT_SECONDS, Measurement
from sizing.storage.run_events import LateRepetition
from sizing.units import bytes_text, percent_text, rate_text, seconds_text

DISAGREEMENT_FRACTION = 0.10
"""Max difference between bytes written and bytes that the kernel counted. A choice: file systems add journals and
padding of a few percent, while doubled or missing writes differ by far more."""
START_SPREAD_FRACTION = 0.05
"""Max spread of starts, as a fraction of the time measured. A choice: ranks that start so much apart make the rate that
much too low at most."""
SHOWN_PROBABILITY = 0.01
"""Below, a limit is out of the question."""
_COUNTERS = {
    "process": "/proc/self/io of the ranks",
    "disk": "/proc/diskstats of the target's device",
}


def warnings_about(measurement: Measurement, *, stopped_by: str = "", file_system: str = "") -> list[str]:
    """Warn of what may be wrong with a measurement.

    Args: `file_system`, the type of the target's mount, where it has one.
    """
    return [
        *_about_caches(measurement, file_system),
        *_about_length(measurement),
        *_about_starts(measurement),
        *_about_steadiness(measurement, stopped_by),
        *_about_limit(measurement),
        *_about_late_ranks(measurement),
        *_about_counters(measurement),
    ]


def _about_caches(measurement: Measurement, file_system: str) -> Iterator[str]:
    """Warn of data that page caches or caches of the node may have taken or given."""
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
    keeper = cache_on_the_node(file_system, is_direct=measurement.cache_policy == "o-direct")
    if measurement.operation == "restore" and measurement.cache_policy in ("fadvise-dontneed", "o-direct") and keeper:
        yield (
            f"The restore read nothing from the page cache, but the target is {file_system}, {keeper}: the bandwidth "
            "may not be that of the storage. Run on two nodes or more, so that each restores what another wrote, or "
            "increase --bytes-per-rank beyond the size of that cache."
        )


def cache_on_the_node(file_system: str, *, is_direct: bool) -> str:
    """Name what may cache written data on a node, besides the page cache; empty where nothing is known to.

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
    busy = "the node was" if measurement.num_nodes == 1 else "some nodes were"
    yield (
        f"The ranks started the {measurement.operation} {seconds_text(spread)} apart, {percent_text(fraction)} of its "
        f"time, and the time includes this: {busy} too busy to start them together. Give each rank its own CPUs "
        "(srun --cpus-per-task), or increase --bytes-per-rank."
    )


def _about_length(measurement: Measurement) -> Iterator[str]:
    median = statistics.median(measurement.seconds)
    if median < SHORT_SECONDS:
        yield (
            f"The {measurement.operation} took {seconds_text(median)}, less than {seconds_text(SHORT_SECONDS)}: "
            f"caches and start-up affect it. Multiply --bytes-per-rank by {math.ceil(SHORT_SECONDS / median)}."
        )


def _about_steadiness(measurement: Measurement, stopped_by: str) -> Iterator[str]:
    """Warn of rates that drift, fell, still changed at the end, or are not known well when a cap ends a run."""
    drift = measurement.drift_fraction or 0.0
    if abs(drift) > DRIFT_FRACTION:
        change = "more" if drift > 0 else "less"
        yield (
            f"The later repetitions of the {measurement.operation} took {percent_text(abs(drift))} {change} time than "
            "the earlier ones: the storage was not in a steady state. Increase --repetitions."
        )
    if (fall := measurement.fall) is not None:
        yield (
            f"After {bytes_text(fall.after_bytes)} the {measurement.operation} fell from "
            f"{rate_text(fall.before_bytes_per_second)} to {rate_text(fall.after_bytes_per_second)}, as where a cache "
            f"is full. Sustained: {rate_text(measurement.headline_bytes_per_second)}. This is the bandwidth in the "
            "table."
        )
    if measurement.is_steady is False:
        yield (
            f"The rate of the {measurement.operation} was still changing when the run ended: a longer run would find "
            "another one. Give --until-steady, or increase --bytes-per-rank."
        )
    interval, rate = measurement.rate_interval_bytes_per_second, measurement.bytes_per_second
    if not stopped_by or interval is None:
        return
    width = max(interval[1] - rate, rate - interval[0]) / rate
    if width > SETTLED_FRACTION or len(measurement.seconds) == 1:
        is_single = len(measurement.seconds) == 1
        spread = "comes from one repetition" if is_single else f"is accurate to {percent_text(width)} only"
        yield f"{stopped_by} ended the repetitions: the bandwidth of the {measurement.operation} {spread}."


def _about_limit(measurement: Measurement) -> Iterator[str]:
    if measurement.limited_by == "generator":
        waited = percent_text(measurement.generator_wait_fraction or 0.0)
        yield f"Writers waited {waited} of their time for the payload generator: the bandwidth is the generator's."
    if measurement.limited_by == "client":
        yield f"{_client_limit_text(measurement)}, and the storage may be faster."
    if measurement.limited_by == "network":
        carried = percent_text(measurement.link_fraction or 0.0)
        yield (
            f"A network adapter carried {carried} of what its link can in the {measurement.operation}: the network of "
            "the nodes is the limit, and the storage may be faster. Measure on more nodes."
        )
    if measurement.limited_by == "not-told-apart":
        yield (
            f"What limited the {measurement.operation} cannot be told: {probabilities_text(measurement)}. Increase "
            "--repetitions, or give each rank more CPUs, and compare."
        )


def probabilities_text(measurement: Measurement) -> str:
    """List what limited a rate, the most probable first; what is out of the question is left out."""
    probabilities = sorted((measurement.limit_probabilities or {}).items(), key=lambda pair: -pair[1])
    return ", ".join(
        f"the {suspect} with probability {probability:.2f}"
        for suspect, probability in probabilities
        if probability >= SHOWN_PROBABILITY
    )


def _client_limit_text(measurement: Measurement) -> str:
    null_sink, operation = measurement.null_sink_bytes_per_second, measurement.operation
    if null_sink is not None and null_sink < STORAGE_BOUND_RATIO * measurement.bytes_per_second:
        remedy = "use another engine, more ranks or nodes"
        return (
            f"With writes discarded, this client reaches {rate_text(null_sink)}: it limits the {operation} ({remedy})"
        )
    if _is_notable(measurement.throttled_fraction) and _is_notable(measurement.busy_thread_fraction):
        return (
            f"For {percent_text(measurement.throttled_fraction or 0.0)} of the {operation} a control group had used up "
            "its CPU time: the client is the limit (grant the job more CPUs)"
        )
    if _is_notable(measurement.run_delay_fraction):
        return (
            f"For {percent_text(measurement.run_delay_fraction or 0.0)} of the {operation} a thread was ready and had "
            "no CPU: the client is the limit (grant the ranks more CPUs, or end what else runs on the node)"
        )
    if measurement.cache_policy == "object-store":
        return (
            f"A rank uses one thread for the object store, and used nearly a whole CPU in the {operation}: the client "
            "may be the limit (start more ranks per node)"
        )
    if (measurement.client_cpu_fraction or 0.0) < CLIENT_BOUND_CPU_FRACTION and measurement.busy_thread_fraction:
        busy = percent_text(measurement.busy_thread_fraction)
        return (
            f"For {busy} of the {operation} the busiest thread needed a CPU: the client is the limit (use an engine "
            "with more threads, or more ranks)"
        )
    busy = percent_text(measurement.client_cpu_fraction or 0.0)
    return f"The CPUs of a node were {busy} busy in the {operation}: the client may be the limit"


def _is_notable(fraction: float | None) -> bool:
    """Whether a fraction alone makes the client the limit."""
    return (fraction or 0.0) > THREAD_BOUND_FRACTION


def _about_late_ranks(measurement: Measurement) -> Iterator[str]:
    """Warn of ranks that were late in all repetitions, and of repetitions in which one was."""
    if measurement.stragglers:
        yield (
            f"Stragglers in the {measurement.operation}: {' and '.join(measurement.stragglers)}. The slowest rank took "
            f"{measurement.straggler_ratio or 1:.2f} times as long as the median rank. Check its node and its path to "
            "the storage."
        )
    for late in measurement.late_repetitions or []:
        yield (
            f"Repetition {late.repetition} of the {measurement.operation} took {seconds_text(late.seconds)}, "
            f"{late.ratio:.1f} times the median. It waited for {late.title}"
            f"{_where_it_waited(late)}. The bandwidth is a median and does not show it."
        )


def _where_it_waited(late: LateRepetition) -> str:
    """Name the phase that lost the most time, where it lost most of it, and its slowest request."""
    if not late.lost_seconds:
        return ""
    if late.lost_seconds < late.seconds * (1 - 1 / late.ratio) / 2:
        return (
            f", which lost at most {seconds_text(late.lost_seconds)} in any phase ({late.phase}): it began late, or "
            "waited for a CPU between phases"
        )
    lost = f", which lost {seconds_text(late.lost_seconds)} in phase {late.phase}"
    if late.slowest is None:
        return lost
    return f"{lost}; its slowest request there took {seconds_text(late.slowest.seconds)}, {late.slowest.where}"


def _about_counters(measurement: Measurement) -> Iterator[str]:
    """Warn of counters that disagree; one of 0 says that the system does not count this kind of I/O."""
    for counter, title in _COUNTERS.items():
        counted = (measurement.counted_bytes or {}).get(counter)
        if counted and abs(counted / measurement.total_bytes - 1) > DISAGREEMENT_FRACTION:
            yield (
                f"The {measurement.operation} moved {bytes_text(measurement.total_bytes)}, but {title} counted "
                f"{bytes_text(counted)}. Causes may be caches, compression or other processes on the node."
            )
