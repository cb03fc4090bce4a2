"""Software tax: the part of the raw rate that an engine's format costs."""

from __future__ import annotations

from collections.abc import Iterable

from io_bench.measure.configuration import Configuration
from sizing.storage.measurement import RAW_ENGINE, Measurement, Operation

CLIENT_BOUND_TAX_FRACTION = 0.10
"""Where the storage gives that much more to `direct`, it was not what limited a format."""

_Load = tuple[Operation, Configuration]


def with_software_tax(measured: Iterable[tuple[Configuration, Measurement]]) -> list[Measurement]:
    """Add 1 - rate / rate of `direct` under the same load: nodes, writers and bytes per rank.

    A write that seemed to be limited by the storage, or for which that could not be told, was not, where `direct` got
    more out of the same storage.
    Where `direct` ran with several block sizes or threads, its best rate counts. Left as they are where it did not run,
    and where one of the two came from memory.
    """
    rows = list(measured)
    raw: dict[_Load, float] = {}
    for configuration, measurement in rows:
        if measurement.engine == RAW_ENGINE and measurement.is_of_storage:
            load = _load(configuration, measurement)
            raw[load] = max(raw.get(load, 0.0), measurement.bytes_per_second)
    return [_add_tax(measurement, raw.get(_load(configuration, measurement))) for configuration, measurement in rows]


def software_tax_fraction(bytes_per_second: float, *, raw_bytes_per_second: float) -> float:
    """The part of the raw rate that a format loses: 1 - r / r_raw; below 0 where it is faster.

    Source: definition.

    >>> software_tax_fraction(0.8e9, raw_bytes_per_second=2e9)
    0.6
    """
    return 1 - bytes_per_second / raw_bytes_per_second


def _add_tax(measurement: Measurement, raw: float | None) -> Measurement:
    if raw is None or measurement.engine == RAW_ENGINE or not measurement.is_of_storage:
        return measurement
    tax = software_tax_fraction(measurement.bytes_per_second, raw_bytes_per_second=raw)
    is_of_client = measurement.limited_by in ("storage", "not-told-apart") and tax > CLIENT_BOUND_TAX_FRACTION
    limit = {"limited_by": "client", "limit_probabilities": None} if is_of_client else {}
    return measurement.model_copy(update={"software_tax_fraction": tax} | limit)


def _load(configuration: Configuration, measurement: Measurement) -> _Load:
    update = {"engine": RAW_ENGINE, "block_bytes": None, "threads_per_rank": None}
    return measurement.operation, configuration.model_copy(update=update)
