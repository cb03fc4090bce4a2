"""Whether runs were made under the same conditions: versions, kernel, mount; and how old they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from sizing.storage.calibration.series import dates_of
from sizing.storage.measurement import BenchmarkResult
from sizing.version import __version__

MAX_DAYS_APART = 30
"""A choice: storage that others use fills, and is updated, within a month."""

_STRIPES = (
    ("stripe_count", "stripe count"),
    ("stripe_size", "stripe size"),
    ("pool", "storage pool"),
    ("layout", "file layout"),
)
_OWN_VERSION = "version of checkpoint-sizing"


def doubts_about(results: Sequence[BenchmarkResult]) -> Iterator[str]:
    """What differs between runs that are fitted together, and runs of another version of this project."""
    conditions = [(result.run_id, _conditions(result.environment)) for result in results]
    yield from _mixed(conditions)
    versions = {found[_OWN_VERSION] for _, found in conditions if _OWN_VERSION in found}
    if stale := versions - {__version__}:
        yield f"stale runs: measured by version {', '.join(sorted(stale))}, this is {__version__}"
    dates = dates_of(results)
    if dates and (max(dates) - min(dates)).days > MAX_DAYS_APART:
        yield f"stale runs: the oldest is of {min(dates)}, the latest of {max(dates)}"


def _mixed(conditions: Sequence[tuple[str, Mapping[str, str]]]) -> Iterator[str]:
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
        found |= _joined(name.replace("_", " "), [node.get(name) for node in nodes])
    mounts = [_object(node.get("mount")) for node in nodes]
    for name, label in (("type", "file system"), ("device", "mounted device"), ("options", "mount options"), *_STRIPES):
        found |= _joined(label, [mount.get(name) for mount in mounts])
    return found


def _joined(name: str, values: Sequence[JsonValue]) -> dict[str, str]:
    texts = sorted({str(value) for value in values if value is not None})
    return {name: " and ".join(texts)} if texts else {}


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}
