"""A scan for people: its progress while it runs, and its table and charts at the end."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sizing.present.scan import series_name
from sizing.storage.measurement import BenchmarkResult, Measurement, Operation
from sizing.units import binary_bytes_text, counted_text, percent_text, rate_text, seconds_text


class ScanProgress:
    """The view of a scan, which hears of every step and draws itself.

    `weights` are bytes, one per configuration to come, each moved in `num_steps` writes and restores. The time left
    is that of the bytes left at the pace so far.
    """

    def __init__(
        self, weights: Sequence[int], *, num_steps: int, num_done: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._weights, self._num_steps, self._num_done = weights, num_steps, num_done
        self._clock, self._started = clock, clock()
        self._number, self._steps_done = -1, 0
        self._title, self._doing, self._rate = "", "preparing", ""
        self._best: dict[Operation, tuple[float, str]] = {}

    def begin_configuration(self, title: str) -> None:
        """Show that the next configuration begins."""
        self._number, self._steps_done, self._title = self._number + 1, 0, title

    def begin(self, doing: str) -> None:
        """Show what runs now."""
        self._doing = doing

    def end(self, bytes_per_second: float) -> None:
        """Count one step, at this rate over all ranks."""
        self._steps_done, self._rate = self._steps_done + 1, rate_text(bytes_per_second)

    def end_configuration(self, measurements: Sequence[Measurement]) -> str:
        """Report a configuration in a line, and keep the best in view."""
        self._steps_done = self._num_steps
        for measurement in measurements:
            best, _ = self._best.get(measurement.operation, (0.0, ""))
            if measurement.is_of_storage and measurement.headline_bytes_per_second > best:
                self._best[measurement.operation] = (measurement.headline_bytes_per_second, self._title)
        rates = ", ".join(
            f"{each.operation} {rate_text(each.headline_bytes_per_second)}"
            f"{'' if each.is_of_storage else ' from the page cache'}"
            for each in measurements
        )
        return f"{self._count}  {self._title}: {rates}{self._time_left}"

    def __rich__(self) -> RenderableType:
        """A bar, and under it what runs and what was best."""
        bar = Table.grid(padding=(0, 1))
        elapsed = seconds_text(self._clock() - self._started)
        bar.add_row(
            f"Scan {self._count}", ProgressBar(1.0, self._fraction, width=40), f"{elapsed} so far{self._time_left}"
        )
        lines = [f"  {self._title or 'preparing'}: {self._doing} {self._rate}".rstrip()]
        lines += [f"  best {operation} {rate_text(rate)}: {title}" for operation, (rate, title) in self._best.items()]
        return Group(bar, *lines)

    @property
    def _count(self) -> str:
        return f"{self._num_done + self._number + 1}/{self._num_done + len(self._weights)}"

    @property
    def _fraction(self) -> float:
        """Bytes that are done, as a fraction of all; repetitions beyond the plan count no more."""
        if not self._weights:
            return 1.0
        if self._number < 0:
            return 0.0
        part = min(1.0, self._steps_done / self._num_steps)
        num_bytes = sum(self._weights[: self._number]) + part * self._weights[self._number]
        return num_bytes / sum(self._weights)

    @property
    def _time_left(self) -> str:
        fraction = self._fraction
        if not 0 < fraction < 1:
            return ""
        return f", {seconds_text((self._clock() - self._started) * (1 - fraction) / fraction)} left"


_OPERATIONS: tuple[Operation, ...] = ("write", "restore")
_LEFT = ("engine", "limit")
_LOADS = ("nodes", "per rank", "block", "threads", "stripes", "stripe")

Pair = dict[Operation, Measurement]
"""Write and restore of one configuration."""


def scan_table(result: BenchmarkResult) -> Table:
    """Table of rates of all ranks together, the best of each column in bold; in brackets what came from memory.

    What is the same in all rows stands in the title, and columns that would be empty are left out.
    """
    best = [best_of(result.measurements, operation) for operation in _OPERATIONS]
    rows = [dict(_cells(pair, best)) for pair in sorted(_pairs(result.measurements), key=_sort_key)]
    common = [name for name in _LOADS if len({row[name].plain for row in rows}) == 1]
    names = [name for name in rows[0] if name not in common and any(row[name] for row in rows)]
    shared = [f"{name} {rows[0][name]}" for name in common if rows[0][name]]
    tail = "; p99.9: of the requests of the write" if "p99.9" in names else ""
    tax = "; tax: bandwidth lost against direct, in the write" if "tax" in names else ""
    memory = "" if all(each.is_of_storage for each in result.measurements) else "; in brackets: from the page cache"
    table = Table(
        title=", ".join([f"Scan {result.run_id}", *shared]),
        caption=f"medians{tail}; limit: what limited the write{tax}{memory}",
    )
    for name in names:
        table.add_column(name, justify="left" if name in _LEFT else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(row[name] for name in names))
    return table


def scan_sentences(result: BenchmarkResult) -> list[str]:
    """Sentences that report where writing and restoring were fastest, and whether more ranks may be faster."""
    return [sentence for operation in _OPERATIONS for sentence in _report_fastest(result.measurements, operation)]


def group_warnings(warnings: Iterable[str]) -> list[str]:
    """Group warnings: those that differ in figures and in the configuration before the colon alone stand once.

    >>> group_warnings(["a, 1 node: It took 2 s.", "b, 2 nodes: It took 3 s.", "Look."])
    ['a, 1 node: It took 2 s. (And 1 similar.)', 'Look.']
    """
    kinds: dict[str, list[str]] = {}
    for warning in warnings:
        kinds.setdefault(re.sub(r"^[^:]*: |\d[\d.,]*( [kMGT]?i?B)?", "", warning), []).append(warning)
    return [f"{first} (And {len(more)} similar.)" if more else first for first, *more in kinds.values()]


def best_of(measurements: Sequence[Measurement], operation: Operation) -> Measurement | None:
    """The fastest measurement that came from storage."""
    of_storage = [m for m in measurements if m.operation == operation and m.is_of_storage]
    return max(of_storage, key=lambda m: m.headline_bytes_per_second, default=None)


def _pairs(measurements: Sequence[Measurement]) -> Iterator[Pair]:
    """Pair write and restore of each configuration, which stand next to each other."""
    pair: Pair = {}
    for measurement in measurements:
        if pair and measurement.operation == "write":
            yield pair
            pair = {}
        pair[measurement.operation] = measurement
    yield pair


def _sort_key(pair: Pair) -> tuple[object, ...]:
    first = next(iter(pair.values()))
    engine, *sizes = _series_key(first)
    return engine, *(size or 0 for size in sizes), first.num_nodes, first.num_ranks


def _cells(pair: Pair, best: Sequence[Measurement | None]) -> Iterator[tuple[str, Text]]:
    """Yield the cells of a configuration: its settings, its rates, then the write's limit and its engine's cost."""
    first, write = next(iter(pair.values())), pair.get("write")
    yield "engine", Text(first.engine)
    yield "nodes", Text(str(first.num_nodes))
    yield "ranks", Text(str(first.num_ranks))
    yield "per rank", Text(binary_bytes_text(first.payload_bytes_per_rank or first.bytes_per_rank))
    yield "block", Text("" if first.block_bytes is None else binary_bytes_text(first.block_bytes))
    yield "threads", Text(str(first.threads_per_rank or ""))
    yield "stripes", Text(str(first.stripe_count or ""))
    yield "stripe", Text("" if first.stripe_bytes is None else binary_bytes_text(first.stripe_bytes))
    for operation in _OPERATIONS:
        measurement = pair.get(operation)
        is_best = measurement is not None and measurement in best
        yield operation, Text(_rate(measurement), style="bold" if is_best else "")
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


def _report_fastest(measurements: Sequence[Measurement], operation: Operation) -> Iterator[str]:
    best = best_of(measurements, operation)
    if best is None:
        return
    yield (
        f"The fastest {operation} was {rate_text(best.headline_bytes_per_second)}: {series_name(best, measurements)}, "
        f"{counted_text(best.num_ranks, 'rank')} on {counted_text(best.num_nodes, 'node')}."
    )
    alike = [m.num_ranks for m in measurements if m.operation == operation and _series_key(m) == _series_key(best)]
    if best.num_ranks == max(alike) > min(alike):
        yield f"This was the max number of ranks of any {operation}: more ranks or nodes may be faster."


def _series_key(measurement: Measurement) -> tuple[str | int | None, ...]:
    """Name what a measurement has in common with those that differ from it in ranks and nodes."""
    return (
        measurement.engine,
        measurement.payload_bytes_per_rank,
        measurement.block_bytes,
        measurement.threads_per_rank,
        measurement.stripe_count,
        measurement.stripe_bytes,
    )
