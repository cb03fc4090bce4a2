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
from sizing.storage.calibration.rows import (
    OPERATIONS,
    Configuration,
    Row,
    Setting,
    configuration_text,
    reasons_against,
    setting_text,
)
from sizing.storage.measurement import RAW_ENGINE, BenchmarkResult
from sizing.storage.rates import Direction
from sizing.storage.terms import Demand

MIN_CONFIGURATIONS = 3
"""A rate, a fixed time and one to check them: below, any times are explained."""
CONTRADICTION_RATIO = 2.0
"""Between two runs of one configuration. A choice, far above noise: storage that was changed between them, or was
busy."""

PLANNING_ENGINES = ("dcp", "async-dcp")


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
        plans = [m.num_ranks if m.engine in PLANNING_ENGINES else 0 for m in found]
        return Demand(
            total_bytes=_array([m.total_bytes for m in found]),
            num_streams=_array([m.num_ranks for m in found]),
            num_nodes=_array([m.num_nodes for m in found]),
            num_files=_array([row.num_files for row in self.rows]),
            num_planned_ranks=_array(plans),
            num_stripes=self._num_stripes,
        )

    @property
    def _num_stripes(self) -> Array | None:
        """Of each row; None where all have as many, so that nothing tells their limit from that of a writer."""
        counts = [row.num_stripes for row in self.rows]
        return _array(counts) if min(counts) > 0 and len(set(counts)) > 1 else None

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
    """The measurements of a direction that can be fitted together: those of the setting with the max of configurations.

    Args: `engine`, where another than that with the max of configurations is wanted.
    Raises InvalidInput where rows of one configuration contradict each other.
    """
    found = unchecked_series_of(results, direction, engine=engine)
    for slow, fast in contradictions(found.rows):
        raise InvalidInput.of(
            "measurements",
            f"contradict each other: {contradiction_text(slow, fast)}",
            value=None,
            remedy="remove the run that was measured on another state of the storage, or measure again",
        )
    return found


def unchecked_series_of(
    results: Sequence[BenchmarkResult], direction: Direction, *, engine: str | None = None
) -> Series:
    """The same, with rows that contradict each other."""
    rows = _rows_of(results, direction)
    left_out = Counter(reason for row in rows for reason in reasons_against(row, engine))
    by_setting = _by_setting([row for row in rows if not any(reasons_against(row, engine))])
    setting = max(by_setting, key=lambda setting: _worth(by_setting[setting]), default=None)
    alike = by_setting.pop(setting) if setting is not None else []
    for other, rows_of_other in by_setting.items():
        left_out[f"have other settings ({setting_text(other)})"] += len(rows_of_other)
    chosen = list(_with_fastest_threads(alike))
    if len(chosen) < len(alike):
        left_out["used another number of threads and were slower"] += len(alike) - len(chosen)
    reasons = (f"{count} {OPERATIONS[direction]} measurement(s) {reason}" for reason, count in left_out.items())
    return Series(direction, tuple(chosen), tuple(reasons))


def _rows_of(results: Sequence[BenchmarkResult], direction: Direction) -> list[Row]:
    return [
        Row(result.run_id, measurement)
        for result in results
        for measurement in result.measurements
        if measurement.operation == OPERATIONS[direction]
    ]


def _worth(rows: Sequence[Row]) -> tuple[bool, int, int, bool]:
    """By which the rows of one setting are preferred: those of the plain workload, then by configurations.

    Where engines have as many, the one counts that shows the storage and not a format.
    """
    first = rows[0].measurement
    return first.shape is None, len({row.configuration for row in rows}), len(rows), first.engine == RAW_ENGINE


def dates_of(results: Sequence[BenchmarkResult]) -> list[date]:
    """The dates of runs that have one."""
    return [result.started_at.date() for result in results if result.started_at is not None]


def _by_setting(rows: Sequence[Row]) -> dict[Setting, list[Row]]:
    """Rows that can be fitted together; those of either kind of I/O go with the larger group otherwise alike."""
    by_setting: dict[Setting, list[Row]] = {}
    for row in rows:
        by_setting.setdefault(row.setting, []).append(row)
    for setting in [setting for setting in by_setting if setting[2] == "either"]:
        engine, block_bytes, io, shape = setting
        alike = [
            rows
            for other, rows in by_setting.items()
            if (other[0], other[1], other[3]) == (engine, block_bytes, shape) and other[2] != io
        ]
        if alike:
            max(alike, key=len).extend(by_setting.pop(setting))
    return by_setting


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


def contradictions(rows: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """The slow and the fast row of each pair that cannot be the same storage in the same state."""
    by_configuration: dict[Configuration, list[Row]] = {}
    for row in rows:
        by_configuration.setdefault(row.configuration, []).append(row)
    for same in by_configuration.values():
        by_time = [(row.seconds, row) for row in sorted(same, key=lambda row: row.seconds)]
        for slow_seconds, slow in reversed(by_time):
            for fast_seconds, fast in by_time:
                if slow_seconds <= CONTRADICTION_RATIO * fast_seconds:
                    break
                yield slow, fast


def contradiction_text(slow: Row, fast: Row) -> str:
    """What two rows say of one configuration, in words."""
    return (
        f"the {slow.measurement.operation} of {configuration_text(slow.configuration)} took "
        f"{fast.seconds:.3g} s in run {fast.run_id} and {slow.seconds:.3g} s in run {slow.run_id}"
    )


def _array(values: Sequence[float]) -> Array:
    return np.array(values, dtype=np.float64)
