"""What one benchmark result says of a storage system: a calibration, or where it holds too little, a profile."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from sizing.errors import InvalidInput
from sizing.storage.calibration import Calibration, calibrate, fit_data
from sizing.storage.measurement import BenchmarkResult, Measurement
from sizing.storage.profile import MeasuredOn, StorageProfile
from sizing.storage.rates import Direction, Rates
from sizing.units import rate_text

NOTABLE_SPREAD_FRACTION = 0.1
"""Distance of an interval's end from its rate, from which on a profile says so: as figures are marked from there on."""


def storage_of(result: BenchmarkResult) -> Calibration | StorageProfile:
    """Calibrate a result where each direction that was measured has configurations enough, else make a profile of it.

    Measurements of a shape of their own do not count: a hot file that many read, or a save that waits for a deletion,
    has a rate that a plain one does not have.
    Raises InvalidInput where no write is left, or where measurements contradict each other.
    """
    writes, reads = _plain_data(result)
    counts = [data.num_configurations for data in (writes, reads) if data.rows]
    if writes.rows and min(counts) >= fit_data.MIN_CONFIGURATIONS:
        plain = [found for found in result.measurements if found.shape is None or not found.verified]
        found = calibrate([result.model_copy(update={"measurements": plain})])
        made = f"made of run {result.run_id} alone: grade {found.grade_text}"
        return found.model_copy(update={"warnings": (made, *found.warnings)})
    return profile_of(result)


def profile_of(result: BenchmarkResult) -> StorageProfile:
    """The rates of a result that holds too few configurations for a fit: what each resource was seen to give.

    The file system gives what the largest configuration got, a node and a writer what one of them got at most in any:
    no measured layout is predicted faster than it was, beside noise, and layouts beyond get no more than the largest.
    They are lower bounds, as few configurations cannot tell which resource was the limit. The measurements are those
    that a calibration would use.

    Raises InvalidInput where no write is left, or where measurements contradict each other.
    """
    writes, reads = _plain_data(result)
    if not writes.rows:
        reasons = "; ".join(writes.left_out)
        raise InvalidInput.of(
            "measurements",
            f"must hold a verified, steady write with nothing beside it{f' ({reasons})' if reasons else ''}",
            value=", ".join(sorted({found.operation for found in result.measurements})),
            remedy="run ckpt-bench run again and look at its warnings",
        )
    largest = {data.direction: _largest(data) for data in (writes, reads) if data.rows}
    write = largest["write"]
    layouts = {(row.measurement.num_nodes, row.measurement.num_ranks) for row in writes.rows}
    measured = MeasuredOn(
        run_id=result.run_id,
        engine=write.engine,
        num_nodes=write.num_nodes,
        num_ranks=write.num_ranks,
        smaller=tuple(sorted(layouts - {(write.num_nodes, write.num_ranks)})),
        limited_by_client=tuple(direction for direction, found in largest.items() if found.limited_by == "client"),
        warnings=(
            *filter(None, [fit_data.corruption_sentence([result])]),
            *result.warnings_by_kind,
            *(f"left out: {note}" for data in (writes, reads) for note in data.left_out),
            *(warning for direction, found in largest.items() for warning in spread_warnings(direction, found)),
        ),
    )
    rates = _rates(writes).document("write") | _rates(reads).document("read")
    return StorageProfile.model_validate({**rates, "measured": measured})


def _plain_data(result: BenchmarkResult) -> tuple[fit_data.FitData, fit_data.FitData]:
    """The measurements of writes, and of restores by the same engine, that a calibration would use."""
    plain = result.model_copy(update={"measurements": [each for each in result.measurements if each.shape is None]})
    writes = fit_data.select_fit_data([plain], "write")
    return writes, fit_data.select_fit_data([plain], "read", engine=writes.engine if writes.rows else None)


def _size(found: Measurement) -> tuple[int, int, int]:
    return found.num_nodes, found.num_ranks, found.bytes_per_rank


def _largest(data: fit_data.FitData) -> Measurement:
    """The measurement with most nodes, then ranks, then bytes; of several the one of median rate."""
    largest = max(_size(row.measurement) for row in data.rows)
    alike = [row.measurement for row in data.rows if _size(row.measurement) == largest]
    median = statistics.median_low(found.headline_bytes_per_second for found in alike)
    return next(found for found in alike if found.headline_bytes_per_second == median)


def _rates(data: fit_data.FitData) -> Rates:
    """The rates that resources were seen to give: of a node where nodes differ, of a writer where ranks per node do."""
    if not data.rows:
        return Rates()
    seen = [(m.headline_bytes_per_second, m.num_nodes, m.num_ranks) for m in (row.measurement for row in data.rows)]
    has_nodes = len({num_nodes for _, num_nodes, _ in seen}) > 1
    has_writers = len({num_ranks / num_nodes for _, num_nodes, num_ranks in seen}) > 1
    return Rates(
        file_system_bytes_per_second=_largest(data).headline_bytes_per_second,
        node_bytes_per_second=max(rate / num_nodes for rate, num_nodes, _ in seen) if has_nodes else None,
        writer_bytes_per_second=max(rate / num_ranks for rate, _, num_ranks in seen) if has_writers else None,
    )


def spread_warnings(direction: Direction, found: Measurement) -> Iterator[str]:
    """Say where the rate is not the median of the repetitions, and where they say little of it."""
    rate = found.headline_bytes_per_second
    if rate < found.bytes_per_second:
        yield (
            f"the {direction} bandwidth is the {rate_text(rate)} that went on after the rate fell, not the median of "
            f"the repetitions, {rate_text(found.bytes_per_second)}"
        )
        return
    if len(found.seconds) == 1:
        yield f"the {direction} bandwidth is that of one repetition, which says nothing of its spread"
    elif found.rate_interval_bytes_per_second is not None:
        low, high = found.rate_interval_bytes_per_second
        if max(rate / low, high / rate) > 1 + NOTABLE_SPREAD_FRACTION:
            yield (
                f"the {direction} bandwidth of {rate_text(rate)} may be {rate_text(low)} to {rate_text(high)} by the "
                f"spread of {len(found.seconds)} repetitions (95 % interval)"
            )
