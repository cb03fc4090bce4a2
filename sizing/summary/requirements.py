"""What targets need in words: a row for each question, the strictest ones marked, and what else to buy."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.explore.requirements.capacity import CapacityNeed
from sizing.explore.requirements.free_interval import AtFreeInterval
from sizing.explore.requirements.requirements_report import Requirement, RequirementsReport, Status
from sizing.run.requirements.asked import INTERVAL, READ_RATE, WRITE_RATE
from sizing.run.requirements.remedies import rates_text
from sizing.summary.rows import Grid, Summary
from sizing.units import bytes_text, percent_text, rate_text, seconds_text

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


def requirements_summary(report: RequirementsReport) -> Summary:
    """A row for each question, the strictest ones marked, and below it what else to buy."""
    strictest = frozenset(place for place, found in enumerate(report.requirements) if found.binds)
    met = "Meets all targets as given." if report.met_as_given else "Does not meet all targets as given."
    return Summary(
        headline="What the targets need",
        verdict=met,
        misses=not report.met_as_given,
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


def _cells(requirement: Requirement) -> Iterator[str]:
    yield _NAMES[requirement.field.rsplit(".", 1)[1]]
    yield requirement.sense
    yield _STATUS[requirement.status] if requirement.value is None else _figure(requirement, requirement.value)
    yield "-" if requirement.given is None else _figure(requirement, requirement.given)
    yield "strictest" if requirement.binds else ""
    yield requirement.reason


def _figure(requirement: Requirement, value: float) -> str:
    return seconds_text(value) if requirement.field == INTERVAL else rate_text(value)


def _conclusions(report: RequirementsReport) -> Iterator[str]:
    needed = report.needed
    rates = {WRITE_RATE: needed.write_bytes_per_second, READ_RATE: needed.read_bytes_per_second}
    together = {field: rate for field, rate in rates.items() if rate is not None} | needed.together_with
    if together:
        yield f"Buy together: {rates_text(together)}, which meets all targets."
    yield _capacity(report.capacity)
    if report.at_free_interval is not None:
        yield _free_interval(report.at_free_interval)


def _capacity(need: CapacityNeed) -> str:
    sizes = f"Min capacity {bytes_text(need.capacity_bytes)}: the kept checkpoints and the one being written"
    if need.raw_bytes > need.capacity_bytes:
        sizes += f". File system {bytes_text(need.usable_bytes)}, drives {bytes_text(need.raw_bytes)}"
    return f"{sizes}. Largest part: {need.reason}."


def _rates(found: AtFreeInterval) -> dict[str, float]:
    return {WRITE_RATE: found.write_bytes_per_second, **found.together_with}


def _free_interval(found: AtFreeInterval) -> str:
    return (
        f"If the interval may change: {rates_text(_rates(found))} for the targets on "
        f"stall, overhead and goodput, with one checkpoint every {seconds_text(found.interval_seconds)} (stall "
        f"{seconds_text(found.stall_seconds)}, overhead {percent_text(found.overhead_fraction)}, goodput "
        f"{percent_text(found.goodput_fraction)})."
    )
