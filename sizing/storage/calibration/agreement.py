"""What of many runs speaks of the same storage in the same state: one foreign or old run must not block the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from sizing.storage.calibration.rows import Row
from sizing.storage.calibration.series import contradiction_text, contradictions, unchecked_series_of
from sizing.storage.measurement import BenchmarkResult

FOREIGN_FRACTION = 0.5
"""Of a run's measurements that contradict others: from there on it is all left out. A choice: storage has outliers in
a few configurations, and other storage differs in most."""

_Pairs = list[tuple[Row, Row]]


def agreeing(
    results: Sequence[BenchmarkResult], *, engine: str | None = None
) -> tuple[list[BenchmarkResult], dict[str, str]]:
    """The runs without what contradicts others, and for each run of which something is left out, by its id, why.

    The measurement that contradicts the most others goes first; of two that contradict only each other, that of the
    older run. A run of which at least half would go is left out as a whole.
    Args: `results`, the newest first; `engine` as of `calibrate`.
    """
    kept, reasons = list(results), dict[str, str]()
    while found := _contradictions(kept, engine):
        age = {result.run_id: position for position, result in enumerate(kept)}
        rows, said = _worst(found, age)
        kept, reasons = _without(rows, kept), said | reasons
    return kept, reasons


def _contradictions(results: Sequence[BenchmarkResult], engine: str | None) -> _Pairs:
    """The slow and the fast rows, of writes and of restores."""
    writes = unchecked_series_of(results, "write", engine=engine)
    reads = unchecked_series_of(results, "read", engine=writes.engine if writes.rows else engine)
    return [pair for series in (writes, reads) for pair in contradictions(series.rows)]


def _worst(pairs: _Pairs, age: dict[str, int]) -> tuple[list[Row], dict[str, str]]:
    """The rows without which no pair is left, and of each of their runs what one of them says."""
    rows = {id(row.measurement): row for pair in pairs for row in pair}
    against: dict[int, set[int]] = {key: set() for key in rows}
    for slow, fast in pairs:
        against[id(slow.measurement)].add(id(fast.measurement))
        against[id(fast.measurement)].add(id(slow.measurement))
    left_out, reasons = list[Row](), dict[str, str]()
    while against:
        worst = max(against, key=lambda key: (len(against[key]), age[rows[key].run_id]))
        other = rows[next(iter(against[worst]))]
        fast, slow = sorted((rows[worst], other), key=lambda row: row.seconds)
        reasons.setdefault(rows[worst].run_id, contradiction_text(slow, fast))
        left_out.append(rows[worst])
        _take_out(worst, against)
    return left_out, reasons


def _take_out(key: int, against: dict[int, set[int]]) -> None:
    """Take out a row, and the rows that contradict nothing any more."""
    for other in against.pop(key):
        against[other].discard(key)
        if not against[other]:
            del against[other]


def _without(rows: Iterable[Row], results: Sequence[BenchmarkResult]) -> list[BenchmarkResult]:
    """The runs without some measurements, and without runs that lose most of theirs."""
    rows = list(rows)
    gone = {id(row.measurement) for row in rows}
    lost = Counter(row.run_id for row in rows)
    foreign = {
        result.run_id for result in results if lost[result.run_id] >= FOREIGN_FRACTION * len(result.measurements)
    }
    return [
        result.model_copy(update={"measurements": [found for found in result.measurements if id(found) not in gone]})
        if lost[result.run_id]
        else result
        for result in results
        if result.run_id not in foreign
    ]
