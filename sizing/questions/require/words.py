"""Requirements in words: a row for each field and target, the strictest ones marked, and what to buy together."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sizing.present.rows import Grid, Summary
from sizing.present.targets import met_together, target_names
from sizing.questions.require.report import CapacityCause, Requirement, RequirementsReport, Status
from sizing.run.remedies import exact_seconds_text, rates_text, together_text
from sizing.run.request import INTERVAL, READ_RATE, WRITE_RATE, profile_path
from sizing.storage.rates import FIGURES
from sizing.units import (
    bytes_text,
    max_seconds_text,
    min_rate_text,
    min_seconds_text,
    percent_text,
    rate_text,
    seconds_text,
)

_NAMES = {
    profile_path(name, direction): figure.direction_words(direction)
    for name, figure in FIGURES.items()
    for direction in figure.directions
    if figure.words
} | {INTERVAL: "interval"}
_STATUS: dict[Status, str] = {"any": "any value", "none": "not possible", "solved": "solved"}
_HELD: dict[CapacityCause, str] = {
    "in-flight": "the one being written",
    "keep_weights_every": "the kept weights",
    "export": "the exports",
    "publication": "the newest publication",
}
"""Parts of the capacity that are there beside the kept checkpoints."""
_WORTH_SAYING = 0.99
"""A lower rate is worth saying below this share: no figure here is sure to 1 %."""


def requirements_summary(report: RequirementsReport) -> Summary:
    """Tabulate the requirements with the strictest ones marked, and say below it what to buy together."""
    strictest = frozenset(place for place, requirement in enumerate(report.requirements) if requirement.binds)
    not_given = _list_inputs_not_given(report)
    verdict = "Meets all targets as given." if report.met_as_given else "Does not meet all targets as given."
    if not_given:
        verdict = f"Not known to meet all targets: not given {', '.join(not_given)}."
    return Summary(
        headline="What the targets need",
        verdict=verdict,
        misses=not report.met_as_given and not not_given,
        grids=(
            Grid(
                "Each input and target",
                ("input", "", "needed", "given", "", "target"),
                tuple(_write_row(requirement) for requirement in report.requirements),
                strictest,
            ),
        ),
        remarks=tuple(_write_conclusions(report)),
        warnings=tuple(report.warnings),
    )


def _list_inputs_not_given(report: RequirementsReport) -> list[str]:
    """List the inputs that a target needs and the scenario leaves out; none where an input that it gives is too low."""
    given = {row.field for row in report.requirements if row.given is not None}
    if any(not row.met_as_given and given.issuperset(row.together_with) for row in report.requirements):
        return []
    needed = (row.field for row in report.requirements if row.given is None and row.value is not None)
    return [_NAMES[field] for field in dict.fromkeys(needed)]


def _write_row(requirement: Requirement) -> tuple[str, ...]:
    is_interval = requirement.field == INTERVAL
    bound_text = min_seconds_text if requirement.sense == "min" else max_seconds_text
    needed_text, given_text = (bound_text, seconds_text) if is_interval else (min_rate_text, rate_text)
    return (
        _NAMES[requirement.field],
        requirement.sense,
        _STATUS[requirement.status] if requirement.value is None else needed_text(requirement.value),
        "-" if requirement.given is None else given_text(requirement.given),
        "strictest" if requirement.binds else "",
        requirement.reason,
    )


def _write_conclusions(report: RequirementsReport) -> Iterator[str]:
    """Say what to buy together, the min capacity, and what another interval would save."""
    needed = report.needed
    rates = {WRITE_RATE: needed.write_bytes_per_second, READ_RATE: needed.read_bytes_per_second}
    together = {field: rate for field, rate in rates.items() if rate is not None} | needed.together_with
    targets_met = met_together(report.targets_beyond_storage)
    beyond = target_names(report.targets_beyond_storage)
    given = {row.field: row.given for row in report.requirements}
    kept = {
        field: rate
        for field, rate in together.items()
        if field != INTERVAL and math.isclose(rate, given.get(field) or 0.0, rel_tol=1e-6)
    }
    bought = {field: value for field, value in together.items() if field not in kept}
    if kept and bought.keys() - {INTERVAL}:
        beside = rates_text(kept).removeprefix("min ")
        bought_text = together_text(bought)
        yield f"Buy together: {bought_text}, beside {beside} as given, which {targets_met}."
    elif together:
        yield f"Buy together: {together_text(together)}, which {targets_met}."
    if beyond:
        yield f"No storage meets at any interval: {beyond}. The rows above say why."
    capacity = report.capacity
    causes = {part.cause for part in capacity.parts}
    *held, last = ("the kept checkpoints", *(words for cause, words in _HELD.items() if cause in causes))
    held_words = f"{', '.join(held)} and {last}" if held else last
    sizes = f"Min capacity {bytes_text(capacity.usable_bytes)}: {held_words}"
    if capacity.usable_bytes > capacity.capacity_bytes:
        sizes += f"; {bytes_text(capacity.capacity_bytes)} used, the rest stays free"
    if capacity.raw_bytes > capacity.usable_bytes:
        sizes += f". Drives {bytes_text(capacity.raw_bytes)}"
    yield f"{sizes}. Largest part: {capacity.reason}."
    free = report.at_free_interval
    if free is None:
        return
    free_rates = {WRITE_RATE: free.write_bytes_per_second, **free.together_with}
    if any(rate < _WORTH_SAYING * together[path] for path, rate in free_rates.items() if path in together):
        yield (
            f"If the interval may change: {rates_text(free_rates)} with one checkpoint every "
            f"{exact_seconds_text(free.interval_seconds)}, which "
            f"{targets_met} (stall {seconds_text(free.stall_seconds)}, "
            f"overhead {percent_text(free.overhead_fraction)}, goodput {percent_text(free.goodput_fraction)})."
        )
