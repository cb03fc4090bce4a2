"""A result document for people: a table, and sentences that report each measurement."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from rich.table import Table

from sizing.storage.measurement import RAW_ENGINE, BenchmarkResult, CachePolicy, Measurement
from sizing.storage.run_events import RequestLatency
from sizing.storage.workload_shape import BackgroundLosses, Resharding, SpreadTarget, WorkloadShape
from sizing.units import bytes_text, counted_text, percent_text, rate_text, seconds_text

_COLUMNS = ("operation", "first done", "last done", "min", "max", "bandwidth", "p99.9 request", "max request")
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
    """Table with a row per measurement. Times are seconds from the common start to the end of a rank.

    `first done` and `last done` are medians over the repetitions, of the fastest and the slowest rank;
    `min` and `max` are of the slowest.
    """
    table = Table(
        title=f"{result.run_id}: {result.measurements[0].engine}",
        caption="first done, last done: medians of the fastest and the slowest rank; min, max: of the slowest; "
        "p99.9, max request: of all requests of all ranks",
    )
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name == "operation" else "right", no_wrap=True)
    for measurement in result.measurements:
        latency = measurement.request_latency
        table.add_row(
            measurement.operation,
            seconds_text(statistics.median(measurement.first_done_seconds)),
            seconds_text(statistics.median(measurement.seconds)),
            seconds_text(min(measurement.seconds)),
            seconds_text(max(measurement.seconds)),
            rate_text(measurement.headline_bytes_per_second),
            seconds_text(latency.p999_seconds) if latency else "",
            seconds_text(latency.max_seconds) if latency else "",
        )
    return table


def sentences(result: BenchmarkResult) -> list[str]:
    """Sentences that report the measurements."""
    return [sentence for measurement in result.measurements for sentence in _report_measurement(measurement)]


def _report_measurement(measurement: Measurement) -> Iterator[str]:
    verb, preposition = _VERBS[measurement.operation]
    first, last = statistics.median(measurement.first_done_seconds), statistics.median(measurement.seconds)
    rate = rate_text(measurement.bytes_per_second)
    if measurement.rate_interval_bytes_per_second is not None and len(measurement.seconds) > 1:
        low, high = map(rate_text, measurement.rate_interval_bytes_per_second)
        rate += f" (95 % interval {low} to {high})"
    yield (
        f"{counted_text(measurement.num_ranks, 'rank')} on {counted_text(measurement.num_nodes, 'node')} {verb} "
        f"{bytes_text(measurement.total_bytes)} {preposition} the target in {seconds_text(last)}, the median "
        f"of {counted_text(len(measurement.seconds), 'repetition')}: {rate}, "
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
        probability = (measurement.limit_probabilities or {}).get("storage")
        yield (
            f"{storage} was the limit, not this client: with writes discarded, the client reaches "
            f"{rate_text(measurement.null_sink_bytes_per_second)}"
            f"{'' if probability is None else f' (probability {probability:.2f})'}."
        )
    yield from _report_shape(measurement)
    if measurement.request_latency:
        yield _report_requests(measurement.request_latency)
    if measurement.num_ranks > 1:
        waited = 1 - first / last
        yield f"The fastest rank finished {percent_text(waited)} before the slowest; the job waits for the slowest."


def _report_shape(measurement: Measurement) -> Iterator[str]:
    """Sentences that report a workload of its own shape."""
    shape = measurement.shape
    if shape is None:
        return
    if shape.restore is not None:
        yield _report_restore(measurement, shape)
    if shape.targets is not None:
        yield _report_targets(shape, shape.targets)
    if shape.resharding is not None:
        yield _report_resharding(measurement, shape.resharding)
    if shape.deletion_seconds is not None:
        yield _report_deletion(shape, shape.deletion_seconds)
    if shape.beside is not None:
        yield _report_background_load(measurement, shape.beside)


def _report_restore(measurement: Measurement, shape: WorkloadShape) -> str:
    """Report which ranks read, and how many bytes the others received."""
    who = f"{shape.num_replicas} replicas restored"
    if not shape.exchanged_bytes or shape.exchange_seconds is None:
        return f"{who} the same files ({shape.restore}): each was read {shape.num_replicas} times."
    num_reading = shape.num_reading_ranks or measurement.num_ranks
    return (
        f"{who} ({shape.restore}): {counted_text(num_reading, 'rank')} read each byte once, then the ranks passed on "
        f"{bytes_text(shape.exchanged_bytes)} in {seconds_text(shape.exchange_seconds)}, which the time includes."
    )


def _report_targets(shape: WorkloadShape, targets: Sequence[SpreadTarget]) -> str:
    """Report the rate of each target, and for which of them all waited."""
    rates = ", ".join(f"{each.path} {rate_text(each.bytes_per_second)}" for each in targets)
    slow = " and ".join(shape.slow_targets or [])
    waited = f" Slow: {slow}; all ranks waited for it." if slow else " None was slow."
    return f"By target: {rates}; in sum {rate_text(shape.targets_bytes_per_second or 0.0)}.{waited}"


def _report_resharding(measurement: Measurement, resharding: Resharding) -> str:
    """Report a restore by another number of ranks."""
    loss = percent_text(resharding.loss_fraction) if resharding.loss_fraction > 0 else "nothing"
    ranks = counted_text(resharding.num_restoring_ranks, "rank")
    return (
        f"{ranks} restored what {resharding.num_saving_ranks} had saved, and "
        f"read {resharding.read_ratio:.3g} x the checkpoint for that. It took "
        f"{seconds_text(statistics.median(measurement.seconds))}, and "
        f"{seconds_text(statistics.median(resharding.as_saved_seconds))} by the ranks that saved: resharding lost "
        f"{loss} of that rate."
    )


def _report_deletion(shape: WorkloadShape, seconds: float) -> str:
    when = "and the save waited for it" if shape.deletion == "in-save" else "beside the next save"
    return (
        f"{counted_text(shape.retained_checkpoints or 1, 'checkpoint')} stayed while the next was written. "
        f"Removing the oldest took {seconds_text(seconds)}, {when}."
    )


def _report_background_load(measurement: Measurement, load: BackgroundLosses) -> str:
    """Report what the background load and the saves took from each other."""
    medians = (statistics.median(rates) for rates in (load.alone_rates, load.rates))
    alone, together = (rate_text(rate) if load.unit == "bytes" else f"{rate:.4g} {load.unit}/s" for rate in medians)
    return (
        f"Beside the saves ran {load.name}: {alone} alone, {together} with a save: lost "
        f"{percent_text(load.loss_fraction)}. The save took {seconds_text(statistics.median(measurement.seconds))}, "
        f"and {seconds_text(statistics.median(load.save_alone_seconds))} alone: it lost "
        f"{percent_text(load.save_loss_fraction)} of its rate. Each is the median of the repetitions."
    )


def _report_requests(latency: RequestLatency) -> str:
    slowest = latency.slowest
    return (
        f"Half of the {latency.num_requests:,} requests took up to {seconds_text(latency.p50_seconds)}, 99 % up to "
        f"{seconds_text(latency.p99_seconds)}. The slowest step was {slowest.phase} by {slowest.title} "
        f"in repetition {slowest.repetition}: {seconds_text(slowest.seconds)}, "
        f"{slowest.where}."
    )
