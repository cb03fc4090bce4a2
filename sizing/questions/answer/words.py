"""The report in words: what terminal, page and document show of it, in the order in which people ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeGuard

from pydantic import BaseModel

from sizing.layout.degrees import degree_text
from sizing.present.figure_names import figure_name
from sizing.present.purchase import required_rows
from sizing.present.rows import Grid, Section
from sizing.present.size import checkpoint_section
from sizing.present.targets import target_rows
from sizing.provenance import CHOSEN, LAYOUT, Assumption
from sizing.questions.answer.run_rows import cost_rows, recovery_rows, run_length_rows, time_rows
from sizing.questions.answer.state_rows import (
    beside_rows,
    compression_rows,
    host_memory_rows,
    memory_rows,
    offload_rows,
)
from sizing.report import SizingReport
from sizing.scenario import Scenario
from sizing.storage.calibration import Calibration
from sizing.units import counted_text, figure_text


def sections(report: SizingReport) -> list[Section]:
    """The sections of a report, the verdict on the targets first."""
    made = [
        Section("Targets", tuple(target_rows(report.targets))),
        checkpoint_section(report),
        Section("Time", tuple(time_rows(report))),
        Section(
            "Cost to the run",
            (*cost_rows(report), *recovery_rows(report.recovery), *run_length_rows(report.run_length)),
        ),
        Section("Less than everything, and beside it", tuple(beside_rows(report))),
        Section("To buy", tuple(required_rows(report))),
        Section(
            "Memory of the fullest GPU",
            (
                *memory_rows(report),
                *offload_rows(report.offload),
                *compression_rows(report.gradient_compression),
            ),
        ),
        Section("Host memory of a save", tuple(host_memory_rows(report.host_memory))),
    ]
    return [section for section in made if section.rows]


def assumed(report: SizingReport) -> str:
    """The assumptions of a report, as one line."""
    return "assumed: " + "; ".join(assumption.sentence for assumption in report.assumptions)


def came_from(report: SizingReport) -> str:
    """The origins of the figures of a report, as one line."""
    return "figures: " + "; ".join(found.sentence for found in report.provenance)


def inputs(scenario: Scenario, assumptions: Sequence[Assumption] = ()) -> Grid:
    """Every input that the scenario gives, defaults left out; what was chosen, as the `assumptions` say, is marked.

    Where degrees were chosen, those of 1 are left out: the scenario has all of them, and 1 is the default of each.
    """
    layout = next((str(each.value) for each in assumptions if each.field == LAYOUT), None)
    chosen = [] if layout is None else layout.split(", ")
    rows = []
    for path, value in _list_given(scenario, ""):
        block, _, name = path.rpartition(".")
        is_degree = block == LAYOUT and layout is not None
        if not (is_degree and value == 1):
            mark = f" ({CHOSEN})" if is_degree and degree_text(name, value) in chosen else ""
            rows.append((figure_name(path), figure_text(path, value) + mark))
    return Grid("What was asked", ("input", "value"), tuple(rows))


def each_assumed(scenario: Scenario, assumptions: Iterable[Assumption]) -> Iterator[Assumption]:
    """Yield the assumptions with one for each degree of a layout that was chosen, as a form has a field for each."""
    for each in assumptions:
        if each.field != LAYOUT:
            yield each
            continue
        chosen = str(each.value).split(", ")
        for name, value in scenario.parallelism.model_dump(exclude_unset=True).items():
            if value == 1 or degree_text(name, value) in chosen:
                yield each.model_copy(update={"field": f"{LAYOUT}.{name}", "value": value})


def assumptions_made(assumptions: list[Assumption], spelling: Callable[[str], str] = figure_name) -> Grid:
    """Every value that the answer rests on and that nobody gave; `spelling` writes the fields."""
    rows = tuple((spelling(found.field), figure_text(found.field, found.value), found.reason) for found in assumptions)
    return Grid("What was assumed", ("input", "value", "why"), rows)


def _list_given(value: object, path: str) -> Iterator[tuple[str, object]]:
    """List the dotted path and the value of each field that was given."""
    parts = list(_list_parts(value))
    for name, part in parts:
        yield from _list_given(part, f"{path}{name}".removeprefix("."))
    if not parts and value is not None and not _is_block(value):
        yield path, _simplify(value)


def _list_parts(value: object) -> Iterator[tuple[str, object]]:
    """List what a block or a list of blocks is made of; a calibration is one thing."""
    if _is_block(value):
        for name in type(value).model_fields:
            if name in value.model_fields_set:
                yield f".{name}", getattr(value, name)
    elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
        yield from ((f".{place}", each) for place, each in enumerate(value))


def _is_block(value: object) -> TypeGuard[BaseModel]:
    """Whether the fields of a value are inputs of their own."""
    return isinstance(value, BaseModel) and not isinstance(value, Calibration)


def _simplify(value: object) -> object:
    if isinstance(value, Calibration):
        return f"engine {value.engine}, {counted_text(len(value.run_ids), 'run')}, grade {value.grade_text}"
    if isinstance(value, dict):
        simple = ((name, each) for name, each in value.items() if not isinstance(each, dict | list))
        return ", ".join(f"{name.replace('_', ' ')} {each}" for name, each in simple)
    return value
