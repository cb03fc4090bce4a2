"""A scan for people: a row per configuration, the best of them, and what there is to say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table
from rich.text import Text

from sizing.charts.scan import series_name
from sizing.storage.measurement import BenchmarkResult, Measurement, Operation
from sizing.units import binary_bytes_text, percent_text, rate_text, seconds_text

_OPERATIONS: tuple[Operation, ...] = ("write", "restore")
_LEFT = ("engine", "limit")
_LOADS = ("nodes", "per rank", "block", "threads", "stripes", "stripe")

Pair = dict[Operation, Measurement]
"""Write and restore of one configuration."""

_Row = dict[str, Text]


def scan_table(result: BenchmarkResult) -> Table:
    """Rates of all ranks together, the best of each column in bold; in brackets what came from memory.

    What is the same in all rows stands in the title, and columns that would be empty are left out.
    """
    best = [best_of(result.measurements, operation) for operation in _OPERATIONS]
    rows = [dict(_cells(pair, best)) for pair in sorted(_pairs(result.measurements), key=_order)]
    common = [name for name in _LOADS if len({row[name].plain for row in rows}) == 1]
    names = _differing(rows, common)
    table = Table(title=_title(result, rows[0], common), caption=_caption(result, names))
    for name in names:
        table.add_column(name, justify="left" if name in _LEFT else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(row[name] for name in names))
    return table


def _differing(rows: Sequence[_Row], common: Sequence[str]) -> list[str]:
    """The columns that are not the same in all rows and not empty."""
    return [name for name in rows[0] if name not in common and any(row[name] for row in rows)]


def _title(result: BenchmarkResult, row: _Row, common: Sequence[str]) -> str:
    same = [f"{name} {row[name]}" for name in common if row[name]]
    return ", ".join([f"Scan {result.run_id}", *same])


def _caption(result: BenchmarkResult, names: Sequence[str]) -> str:
    """What the columns mean."""
    tax = "; tax: bandwidth lost against direct, in the write" if "tax" in names else ""
    memory = "" if all(each.is_of_storage for each in result.measurements) else "; in brackets: from the page cache"
    tail = "; p99.9: of the requests of the write" if "p99.9" in names else ""
    return f"medians{tail}; limit: what limited the write{tax}{memory}"


def scan_sentences(result: BenchmarkResult) -> list[str]:
    """Where writing and restoring were fastest, and whether more ranks may be faster."""
    return [sentence for operation in _OPERATIONS for sentence in _said(result.measurements, operation)]


def grouped(warnings: Iterable[str]) -> list[str]:
    """Each kind of warning once: those that differ in figures and in the configuration before the colon alone.

    >>> grouped(["a, 1 node: It took 2 s.", "b, 2 nodes: It took 3 s.", "Look."])
    ['a, 1 node: It took 2 s. (And 1 similar.)', 'Look.']
    """
    kinds: dict[str, list[str]] = {}
    for warning in warnings:
        kinds.setdefault(re.sub(r"^[^:]*: |\d[\d.,]*( [kMGT]?i?B)?", "", warning), []).append(warning)
    return [f"{first} (And {len(more)} similar.)" if more else first for first, *more in kinds.values()]


def best_of(measurements: Sequence[Measurement], operation: Operation) -> Measurement | None:
    """The fastest that came from storage."""
    of_storage = [m for m in measurements if m.operation == operation and m.is_of_storage]
    return max(of_storage, key=lambda m: m.headline_bytes_per_second, default=None)


def _pairs(measurements: Sequence[Measurement]) -> Iterator[Pair]:
    """Write and restore of each configuration, which stand next to each other."""
    pair: Pair = {}
    for measurement in measurements:
        if pair and measurement.operation == "write":
            yield pair
            pair = {}
        pair[measurement.operation] = measurement
    yield pair


def _order(pair: Pair) -> tuple[object, ...]:
    first = next(iter(pair.values()))
    engine, *sizes = _line(first)
    return engine, *(size or 0 for size in sizes), first.num_nodes, first.num_ranks


def _cells(pair: Pair, best: Sequence[Measurement | None]) -> Iterator[tuple[str, Text]]:
    yield from _setting_cells(next(iter(pair.values())))
    for operation in _OPERATIONS:
        measurement = pair.get(operation)
        is_best = measurement is not None and measurement in best
        yield operation, Text(_rate(measurement), style="bold" if is_best else "")
    yield from _limit_cells(pair.get("write"))


def _setting_cells(measurement: Measurement) -> Iterator[tuple[str, Text]]:
    """How both operations of a configuration were set."""
    block_bytes = measurement.block_bytes
    yield "engine", Text(measurement.engine)
    yield "nodes", Text(str(measurement.num_nodes))
    yield "ranks", Text(str(measurement.num_ranks))
    yield "per rank", Text(binary_bytes_text(measurement.payload_bytes_per_rank or measurement.bytes_per_rank))
    yield "block", Text("" if block_bytes is None else binary_bytes_text(block_bytes))
    yield "threads", Text(str(measurement.threads_per_rank or ""))
    yield "stripes", Text(str(measurement.stripe_count or ""))
    yield "stripe", Text("" if measurement.stripe_bytes is None else binary_bytes_text(measurement.stripe_bytes))


def _limit_cells(write: Measurement | None) -> Iterator[tuple[str, Text]]:
    """What the write was limited by, and what its engine costs."""
    tax = write.software_tax_fraction if write else None
    latency = write.request_latency if write else None
    yield "p99.9", Text(seconds_text(latency.p999_seconds) if latency else "")
    yield "limit", Text((write.limited_by or "") if write else "")
    yield "tax", Text("" if tax is None else percent_text(tax))


def _rate(measurement: Measurement | None) -> str:
    if measurement is None:
        return ""
    rate = rate_text(measurement.headline_bytes_per_second)
    return rate if measurement.is_of_storage else f"({rate})"


def _said(measurements: Sequence[Measurement], operation: Operation) -> Iterator[str]:
    best = best_of(measurements, operation)
    if best is None:
        return
    yield (
        f"The fastest {operation} was {rate_text(best.headline_bytes_per_second)}: {series_name(best, measurements)}, "
        f"{_count(best.num_ranks, 'rank')} on {_count(best.num_nodes, 'node')}."
    )
    alike = [m.num_ranks for m in measurements if m.operation == operation and _line(m) == _line(best)]
    if best.num_ranks == max(alike) > min(alike):
        yield f"This was the max number of ranks of any {operation}: more ranks or nodes may be faster."


def _line(measurement: Measurement) -> tuple[str | int | None, ...]:
    """What a measurement has in common with those that differ from it in ranks and nodes."""
    return (
        measurement.engine,
        measurement.payload_bytes_per_rank,
        measurement.block_bytes,
        measurement.threads_per_rank,
        measurement.stripe_count,
        measurement.stripe_bytes,
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
