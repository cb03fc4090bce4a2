"""What `ckpt-size require` prints of a RequirementsReport."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sizing.explore.requirements.asked import INTERVAL
from sizing.explore.requirements.capacity import CapacityNeed
from sizing.explore.requirements.free_interval import AtFreeInterval
from sizing.explore.requirements.requirements_report import Requirement, RequirementsReport
from sizing.units import bytes_text, percent_text, rate_text, seconds_text

_NAMES = {
    "write_bytes_per_second": "write, file system",
    "node_write_bytes_per_second": "write, each node",
    "read_bytes_per_second": "read, file system",
    "node_read_bytes_per_second": "read, each node",
    "device_to_host_bytes_per_second": "copy, each GPU to host",
    "interval_seconds": "interval",
}


def requirements_text(report: RequirementsReport) -> RenderableType:
    """A row for each question, those that decide marked, and below it what else to buy."""
    return Group(
        _questions(report),
        *(Text(line) for line in _conclusions(report)),
        *(Text(f"warning: {warning}", style="yellow") for warning in report.warnings),
    )


def _questions(report: RequirementsReport) -> Table:
    table = Table(title="What the targets ask for", title_justify="left", title_style="bold cyan", box=box.SIMPLE_HEAD)
    for column in ("of", "", "needed", "given", "", "for"):
        table.add_column(column, justify="right" if column in ("needed", "given") else "left")
    for requirement in report.requirements:
        table.add_row(*_cells(requirement), style="bold" if requirement.binds else "")
    return table


def _cells(requirement: Requirement) -> Iterator[str]:
    yield _NAMES[requirement.field.rsplit(".", 1)[1]]
    yield "at least" if requirement.sense == "least" else "at most"
    yield requirement.status if requirement.value is None else _figure(requirement, requirement.value)
    yield "no limit" if requirement.given is None else _figure(requirement, requirement.given)
    yield "decides" if requirement.binds else ""
    yield requirement.reason


def _figure(requirement: Requirement, value: float) -> str:
    return seconds_text(value) if requirement.field == INTERVAL else rate_text(value)


def _conclusions(report: RequirementsReport) -> Iterator[str]:
    yield _capacity(report.capacity)
    if report.at_free_interval is not None:
        yield _free_interval(report.at_free_interval)


def _capacity(need: CapacityNeed) -> str:
    sizes = f"Capacity, at least {bytes_text(need.capacity_bytes)} for what is kept and the checkpoint being written"
    if need.raw_bytes > need.capacity_bytes:
        sizes += f", on a file system of {bytes_text(need.usable_bytes)} and drives of {bytes_text(need.raw_bytes)}"
    return f"{sizes}. Most of it is {need.reason}."


def _free_interval(found: AtFreeInterval) -> str:
    return (
        f"If the interval may change: {rate_text(found.write_bytes_per_second)} of writing meets the targets on stall, "
        f"overhead and goodput at one checkpoint every {seconds_text(found.interval_seconds)} (stall "
        f"{seconds_text(found.stall_seconds)}, overhead {percent_text(found.overhead_fraction)}, goodput "
        f"{percent_text(found.goodput_fraction)})."
    )
