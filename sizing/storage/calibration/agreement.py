"""What of many runs speaks of the same storage in the same state: contradictions, conditions that differ, old runs."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from sizing.storage.calibration.fit_data import (
    OPERATIONS,
    Configuration,
    FitData,
    RunMeasurement,
    contradiction_text,
    contradictions,
    dates_of,
    select_unchecked,
)
from sizing.storage.measurement import BenchmarkResult
from sizing.units import percent_text
from sizing.version import __version__

FOREIGN_FRACTION = 0.5
"""Fraction of a run's measurements that contradict others, from which on the whole run is left out. A choice: storage
has outliers in a few configurations, and other storage differs in most."""

_Pairs = list[tuple[RunMeasurement, RunMeasurement]]

MAX_DAYS_APART = 30
"""A choice: storage that others use fills, and is updated, within a month."""

_MIN_SHARED = 3
"""Configurations that two runs must share to be held against each other."""
_MIN_DIFFERENCE = 0.02
"""Smallest difference between runs that is named, of log seconds: no decision depends on a smaller one."""
_NOTABLE_DEVIATIONS = 2.0
"""Standard deviations of the difference of two times, from which on the median of several is no chance."""

_STRIPES = (
    ("stripe_count", "stripe count"),
    ("stripe_size", "stripe size"),
    ("pool", "storage pool"),
    ("layout", "file layout"),
)

_STORE = re.compile(r"(?:[A-Za-z]\w*\+\w+://[^/,]+/|[A-Za-z]\w*://)[^/,]+")
"""A bucket with its scheme, and with its host where the scheme names a protocol: s3://bucket, s3+https://host/bucket."""

_OWN_VERSION = "version of checkpoint-sizing"


@dataclass(frozen=True, slots=True)
class Publisher:
    """Who published a run: one voice, however many runs it has."""

    name: str
    is_owner: bool
    """Whether it answers for the storage system."""
    since: datetime
    """When it was admitted."""


def select_agreeing(
    results: Sequence[BenchmarkResult], *, engine: str | None = None, sources: Mapping[str, Publisher] | None = None
) -> tuple[list[BenchmarkResult], dict[str, str]]:
    """The runs without what contradicts others, and for each run of which something is left out, by its id, why.

    First the runs of each source alone: the measurement that contradicts the most others goes first; of two that
    contradict only each other, that of the older run. Then the sources: what the most sources contradict goes first;
    of two sources, what is of none of the owners; else what is of the one that was admitted later. A run of which at
    least half would go is left out as a whole.
    Args: `results`, the newest first; `engine` as of `calibrate`; `sources` by run id. Default: all of one source.
    """
    sources, reasons = sources or {}, dict[str, str]()
    alone = list[BenchmarkResult]()
    for source in dict.fromkeys(sources.get(result.run_id) for result in results):
        own, said = _agreeing([result for result in results if sources.get(result.run_id) == source], engine, {})
        alone, reasons = [*alone, *own], reasons | said
    age = {result.run_id: position for position, result in enumerate(results)}
    together, said = _agreeing(sorted(alone, key=lambda result: age[result.run_id]), engine, sources)
    return together, said | reasons


def _agreeing(
    results: Sequence[BenchmarkResult], engine: str | None, sources: Mapping[str, Publisher]
) -> tuple[list[BenchmarkResult], dict[str, str]]:
    kept, reasons = list(results), dict[str, str]()
    while found := _contradictions(kept, engine):
        age = {result.run_id: position for position, result in enumerate(kept)}
        rows, said = _worst(found, age, sources)
        kept, reasons = _without(rows, kept), said | reasons
    return kept, reasons


def _contradictions(results: Sequence[BenchmarkResult], engine: str | None) -> _Pairs:
    """The slow and the fast rows, of writes and of restores."""
    writes = select_unchecked(results, "write", engine=engine)
    reads = select_unchecked(results, "read", engine=writes.engine if writes.rows else engine)
    return [pair for series in (writes, reads) for pair in contradictions(series.rows)]


def _worst(
    pairs: _Pairs, age: dict[str, int], sources: Mapping[str, Publisher]
) -> tuple[list[RunMeasurement], dict[str, str]]:
    """The rows without which no pair is left, and of each of their runs what one of them says."""
    rows = {id(row.measurement): row for pair in pairs for row in pair}
    against: dict[int, set[int]] = {key: set() for key in rows}
    for slow, fast in pairs:
        against[id(slow.measurement)].add(id(fast.measurement))
        against[id(fast.measurement)].add(id(slow.measurement))

    def doubt(key: int) -> tuple[object, ...]:
        """Order of rows to leave out: the row with the max goes first."""
        run_id, others = rows[key].run_id, against[key]
        by_rows = (len(others), age[run_id])
        source = sources.get(run_id)
        if source is None:
            return by_rows
        voices = {sources.get(rows[other].run_id) for other in others} - {source}
        return len(voices), not source.is_owner, source.since, *by_rows

    left_out, reasons = list[RunMeasurement](), dict[str, str]()
    while against:
        worst = max(against, key=doubt)
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


def _without(rows: Iterable[RunMeasurement], results: Sequence[BenchmarkResult]) -> list[BenchmarkResult]:
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


def find_odd_run(data: FitData) -> Iterator[str]:
    """A sentence on the run that is slower than the others, or faster, in every configuration that both measured.

    At most one: where one run is odd, the others are so against it. Of two, the slower one. The median difference is
    at least twice what the noise of repetitions leaves between two times.
    """
    seconds: dict[Configuration, dict[str, list[float]]] = {}
    for row in data.rows:
        seconds.setdefault(row.configuration, {}).setdefault(row.run_id, []).append(row.seconds)
    differences: dict[str, list[float]] = {}
    for of_runs in seconds.values():
        medians = {run_id: statistics.median(times) for run_id, times in of_runs.items()}
        for run_id, own in medians.items():
            if others := [each for other, each in medians.items() if other != run_id]:
                differences.setdefault(run_id, []).append(math.log(own / statistics.median(others)))
    noise = max(_MIN_DIFFERENCE, _NOTABLE_DEVIATIONS * math.sqrt(2) * data.repetition_noise)
    found = {
        run_id: statistics.median(logs)
        for run_id, logs in differences.items()
        if len(logs) >= _MIN_SHARED and len({each > 0 for each in logs}) == 1 and abs(statistics.median(logs)) > noise
    }
    if found:
        odd = max(found, key=lambda run_id: (round(abs(found[run_id]), 9), found[run_id]))
        way, fraction = ("longer", math.expm1(found[odd])) if found[odd] > 0 else ("less", -math.expm1(found[odd]))
        yield (
            f"run {odd} took {percent_text(fraction)} {way} than the others in all {len(differences[odd])} "
            f"{OPERATIONS[data.direction]} configurations that both measured: others used the storage meanwhile, or it "
            "was in another state"
        )


def find_doubts(results: Sequence[BenchmarkResult]) -> Iterator[str]:
    """What differs between runs that are fitted together, and runs of another version of this project."""
    conditions = [(result.run_id, _conditions(result.environment)) for result in results]
    yield from _mixture_warnings(conditions)
    versions = {found[_OWN_VERSION] for _, found in conditions if _OWN_VERSION in found}
    if stale := versions - {__version__}:
        yield f"stale runs: measured by version {', '.join(sorted(stale))}, this is {__version__}"
    dates = dates_of(results)
    if dates and (max(dates) - min(dates)).days > MAX_DAYS_APART:
        yield f"stale runs: the oldest is of {min(dates)}, the latest of {max(dates)}"


def _mixture_warnings(conditions: Sequence[tuple[str, Mapping[str, str]]]) -> Iterator[str]:
    """Every condition in which runs differ, with a run for each of its values."""
    for name in dict.fromkeys(name for _, found in conditions for name in found):
        values: dict[str, str] = {}
        for run_id, found in conditions:
            values.setdefault(found.get(name, "not recorded"), run_id)
        if len(values) > 1:
            yield f"mixed runs: {name} is " + ", ".join(f"{value} (run {run})" for value, run in values.items())


def _conditions(environment: Mapping[str, JsonValue]) -> dict[str, str]:
    """The conditions of a run that change what storage gives, by name."""
    found = {f"version of {name}": str(value) for name, value in _object(environment.get("versions")).items()}
    nodes = [_object(node) for node in _object(environment.get("nodes")).values()]
    for name in ("kernel", "cpu_model"):
        found |= _join_values(name.replace("_", " "), [node.get(name) for node in nodes])
    found |= _join_values("object store", _STORE.findall(str(environment.get("target"))))
    mounts = [_object(node.get("mount")) for node in nodes]
    for name, label in (("type", "file system"), ("device", "mounted device"), ("options", "mount options"), *_STRIPES):
        found |= _join_values(label, [mount.get(name) for mount in mounts])
    return found


def _join_values(name: str, values: Sequence[JsonValue]) -> dict[str, str]:
    texts = sorted({str(value) for value in values if value is not None})
    return {name: " and ".join(texts)} if texts else {}


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}
