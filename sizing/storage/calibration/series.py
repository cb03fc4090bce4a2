"""From result documents to the measurements that can be fitted together: what is used, what is left out and why."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from sizing.errors import InvalidInput
from sizing.storage.calibration.roofline import Array
from sizing.storage.measurement import BenchmarkResult, Measurement, Operation
from sizing.storage.terms import Demand, Direction
from sizing.units import decimal_bytes_text

LEAST_CONFIGURATIONS = 3
CONTRADICTION_RATIO = 2.0

_OPERATIONS: dict[Direction, Operation] = {"write": "write", "read": "restore"}
_PLANNING_ENGINES = ("dcp", "async-dcp")

Setting = tuple[str, int | None, str]
Configuration = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Row:
    """A measurement, and the run that it is from."""

    run_id: str
    measurement: Measurement

    @property
    def setting(self) -> Setting:
        """What all measurements of a fit share: engine, block size, and whether I/O is direct."""
        found = self.measurement
        io = "direct" if found.cache_policy == "o-direct" else "buffered"
        return (found.engine, found.block_bytes, io)

    @property
    def configuration(self) -> Configuration:
        """What a fit explains the time by: nodes, ranks, bytes of a rank, files."""
        found = self.measurement
        return (found.num_nodes, found.num_ranks, found.bytes_per_rank, self.num_files)

    @property
    def num_files(self) -> int:
        """Files of the checkpoint; one per rank where the agent did not count them."""
        return self.measurement.num_files or self.measurement.num_ranks

    @property
    def seconds(self) -> float:
        """Median over the repetitions."""
        return statistics.median(self.measurement.seconds)


@dataclass(frozen=True, slots=True)
class Series:
    """The rows of one direction that are fitted together, and what was left out of them."""

    direction: Direction
    rows: tuple[Row, ...]
    left_out: tuple[str, ...]

    @property
    def engine(self) -> str:
        """The engine of all rows."""
        return self.rows[0].measurement.engine

    @property
    def num_configurations(self) -> int:
        """Distinct configurations."""
        return len({row.configuration for row in self.rows})

    @property
    def demand(self) -> Demand:
        """What the rows asked of the storage, as arrays."""
        found = [row.measurement for row in self.rows]
        plans = [m.num_ranks if m.engine in _PLANNING_ENGINES else 0 for m in found]
        return Demand(
            total_bytes=_array([m.total_bytes for m in found]),
            num_streams=_array([m.num_ranks for m in found]),
            num_nodes=_array([m.num_nodes for m in found]),
            num_files=_array([row.num_files for row in self.rows]),
            num_planned_ranks=_array(plans),
        )

    @property
    def log_seconds(self) -> Array:
        """Logarithm of the median time of each row."""
        return np.log([row.seconds for row in self.rows])

    @property
    def repetition_noise(self) -> float:
        """Standard error of a row's median, from the spread of its repetitions: the median over the rows.

        1.253 is the ratio for medians of normal samples; rows of fewer than three repetitions say nothing.
        """
        errors = [
            1.253 * float(np.std(np.log(row.measurement.seconds), ddof=1)) / len(row.measurement.seconds) ** 0.5
            for row in self.rows
            if len(row.measurement.seconds) >= 3
        ]
        return statistics.median(errors) if errors else 0.0


def series_of(results: Sequence[BenchmarkResult], direction: Direction, *, engine: str | None = None) -> Series:
    """The measurements of a direction that can be fitted together: those of the setting with most configurations.

    Args: `engine`, where another than that with most configurations is wanted.
    Raises InvalidInput where rows of one configuration contradict each other.
    """
    rows = [
        Row(result.run_id, measurement)
        for result in results
        for measurement in result.measurements
        if measurement.operation == _OPERATIONS[direction]
    ]
    left_out = Counter(reason for row in rows for reason in _reasons_against(row, engine))
    usable = [row for row in rows if not any(_reasons_against(row, engine))]
    by_setting: dict[Setting, list[Row]] = {}
    for row in usable:
        by_setting.setdefault(row.setting, []).append(row)
    chosen = max(by_setting.values(), key=lambda rows: (len({r.configuration for r in rows}), len(rows)), default=[])
    for setting, others in by_setting.items():
        if others is not chosen:
            left_out[f"have other settings ({_setting_text(setting)})"] += len(others)
    fastest = list(_with_fastest_threads(chosen))
    if len(fastest) < len(chosen):
        left_out["had another number of threads and were slower"] += len(chosen) - len(fastest)
    chosen = fastest
    _refuse_contradictions(chosen, direction)
    noun = "write" if direction == "write" else "restore"
    return Series(
        direction, tuple(chosen), tuple(f"{count} {noun} measurement(s) {reason}" for reason, count in left_out.items())
    )


def dates_of(results: Sequence[BenchmarkResult]) -> list[date]:
    """The dates of runs that have one."""
    return [result.started_at.date() for result in results if result.started_at is not None]


def configuration_text(configuration: Configuration) -> str:
    """A configuration in words.

    >>> configuration_text((2, 16, 10**9, 16))
    '2 node(s) x 8 rank(s), 1.000 GB each'
    """
    nodes, ranks, size, _ = configuration
    return f"{nodes} node(s) x {ranks / nodes:g} rank(s), {decimal_bytes_text(size)} each"


def _reasons_against(row: Row, engine: str | None) -> Iterator[str]:
    """Why a row says nothing of the storage's limits."""
    found = row.measurement
    if not found.verified:
        yield f"failed verification (run {row.run_id})"
    elif found.cache_policy == "cached":
        yield "may have come from the page cache"
    elif found.limited_by == "generator":
        yield "waited for the bytes that they were to write"
    elif engine is not None and found.engine != engine:
        yield f"are of engine {found.engine}"


def _with_fastest_threads(rows: Sequence[Row]) -> Iterator[Row]:
    """Of the rows of each configuration those with the number of threads that was fastest.

    Engines use fewer threads for small files, so that configurations may differ in it.
    """
    by_configuration: dict[Configuration, list[Row]] = {}
    for row in rows:
        by_configuration.setdefault(row.configuration, []).append(row)
    best = {
        configuration: min(same, key=lambda row: row.seconds).measurement.threads_per_rank
        for configuration, same in by_configuration.items()
    }
    return (row for row in rows if row.measurement.threads_per_rank == best[row.configuration])


def _refuse_contradictions(rows: Sequence[Row], direction: Direction) -> None:
    by_configuration: dict[Configuration, list[Row]] = {}
    for row in rows:
        by_configuration.setdefault(row.configuration, []).append(row)
    for configuration, same in by_configuration.items():
        slow, fast = max(same, key=lambda row: row.seconds), min(same, key=lambda row: row.seconds)
        if slow.seconds > CONTRADICTION_RATIO * fast.seconds:
            raise InvalidInput.of(
                "measurements",
                f"contradict each other: the {direction} of {configuration_text(configuration)} took "
                f"{fast.seconds:.3g} s in run {fast.run_id} and {slow.seconds:.3g} s in run {slow.run_id}",
                value=None,
                remedy="leave out the run that is not of this storage as it is now, or measure again",
            )


def _setting_text(setting: Setting) -> str:
    engine, block_bytes, io = setting
    blocks = [f"blocks of {block_bytes} B"] if block_bytes else []
    return ", ".join([engine, *blocks, f"{io} I/O"])


def _array(values: Sequence[float]) -> Array:
    return np.array(values, dtype=np.float64)
