"""What targets need in words: a row for each question, the strictest ones marked, and what else to buy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sizing.explore.requirements.capacity import CapacityNeed
from sizing.explore.requirements.free_interval import AtFreeInterval
from sizing.explore.requirements.requirements_report import Requirement, RequirementsReport, Status
from sizing.run.requirements.asked import INTERVAL, READ_RATE, WRITE_RATE
from sizing.run.requirements.remedies import rates_text
from sizing.summary.rows import Grid, Summary
from sizing.summary.targets import met_together, target_names
from sizing.units import bytes_text, min_rate_text, percent_text, rate_text, seconds_text

_NAMES = {
    "write_bytes_per_second": "write bandwidth, file system",
    "node_write_bytes_per_second": "write bandwidth, per node",
    "read_bytes_per_second": "read bandwidth, file system",
    "node_read_bytes_per_second": "read bandwidth, per node",
    "node_buffered_write_bytes_per_second": "write bandwidth, page cache of a node",
    "node_buffered_read_bytes_per_second": "read bandwidth, page cache of a node",
    "writer_write_bytes_per_second": "write bandwidth, per writer",
    "writer_read_bytes_per_second": "read bandwidth, per reader",
    "writer_buffered_write_bytes_per_second": "write bandwidth, per writer through its page cache",
    "writer_buffered_read_bytes_per_second": "read bandwidth, per reader through its page cache",
    "device_to_host_bytes_per_second": "GPU-to-host bandwidth, per GPU",
    "interval_seconds": "interval",
}


_STATUS: dict[Status, str] = {"any": "any value", "none": "not possible", "solved": "solved"}
_WORTH_SAYING = 0.99
"""Of a rate: what saves less than 1 % of it is within what any figure here is sure of."""


def requirements_summary(report: RequirementsReport) -> Summary:
    """A row for each question, the strictest ones marked, and below it what else to buy."""
    strictest = frozenset(place for place, found in enumerate(report.requirements) if found.binds)
    not_given = _not_given(report)
    return Summary(
        headline="What the targets need",
        verdict=_verdict(report, not_given),
        misses=not report.met_as_given and not not_given,
        grids=(
            Grid(
                "Each input and target",
                ("input", "", "needed", "given", "", "target"),
                tuple(tuple(_cells(found)) for found in report.requirements),
                strictest,
            ),
        ),
        remarks=tuple(_conclusions(report)),
        warnings=tuple(report.warnings),
    )


def _verdict(report: RequirementsReport, not_given: Sequence[str]) -> str:
    if not_given:
        return f"Not known to meet all targets: not given {', '.join(not_given)}."
    return "Meets all targets as given." if report.met_as_given else "Does not meet all targets as given."


def _not_given(report: RequirementsReport) -> list[str]:
    """The inputs of which a target needs a value and the scenario gives none, where what it gives misses nothing."""
    given = {row.field for row in report.requirements if row.given is not None}
    if any(not row.met_as_given and given.issuperset(row.together_with) for row in report.requirements):
        return []
    needed = (row.field for row in report.requirements if row.given is None and row.value is not None)
    return [_NAMES[field.rsplit(".", 1)[1]] for field in dict.fromkeys(needed)]


def _cells(requirement: Requirement) -> Iterator[str]:
    yield _NAMES[requirement.field.rsplit(".", 1)[1]]
    yield requirement.sense
    yield _STATUS[requirement.status] if requirement.value is None else _needed(requirement, requirement.value)
    yield "-" if requirement.given is None else _figure(requirement, requirement.given)
    yield "strictest" if requirement.binds else ""
    yield requirement.reason


def _needed(requirement: Requirement, value: float) -> str:
    return seconds_text(value) if requirement.field == INTERVAL else min_rate_text(value)


def _figure(requirement: Requirement, value: float) -> str:
    return seconds_text(value) if requirement.field == INTERVAL else rate_text(value)


def _conclusions(report: RequirementsReport) -> Iterator[str]:
    needed = report.needed
    rates = {WRITE_RATE: needed.write_bytes_per_second, READ_RATE: needed.read_bytes_per_second}
    together = {field: rate for field, rate in rates.items() if rate is not None} | needed.together_with
    beyond = target_names(report.targets_beyond_storage)
    if together:
        yield f"Buy together: {rates_text(together)}, which {met_together(report.targets_beyond_storage)}."
    if beyond:
        yield f"No storage meets at any interval: {beyond}. The rows above say why."
    yield _capacity(report.capacity)
    free = report.at_free_interval
    if free is not None and _is_cheaper(free, together):
        yield _free_interval(free, report.targets_beyond_storage)


def _capacity(need: CapacityNeed) -> str:
    sizes = f"Min capacity {bytes_text(need.capacity_bytes)}: the kept checkpoints and the one being written"
    if need.raw_bytes > need.capacity_bytes:
        sizes += f". File system {bytes_text(need.usable_bytes)}, drives {bytes_text(need.raw_bytes)}"
    return f"{sizes}. Largest part: {need.reason}."


def _rates(found: AtFreeInterval) -> dict[str, float]:
    return {WRITE_RATE: found.write_bytes_per_second, **found.together_with}


def _is_cheaper(found: AtFreeInterval, together: Mapping[str, float]) -> bool:
    """Whether a rate is below the one to buy together by 1 % or more."""
    return any(rate < _WORTH_SAYING * together[path] for path, rate in _rates(found).items() if path in together)


def _free_interval(found: AtFreeInterval, beyond: Sequence[str]) -> str:
    return (
        f"If the interval may change: {rates_text(_rates(found))} with one checkpoint every "
        f"{seconds_text(found.interval_seconds)}, which {met_together(beyond)} (stall "
        f"{seconds_text(found.stall_seconds)}, overhead {percent_text(found.overhead_fraction)}, goodput "
        f"{percent_text(found.goodput_fraction)})."
    )
