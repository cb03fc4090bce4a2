"""What was asked, as a reader writes it: a name in words, a value with its unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeGuard

from pydantic import BaseModel

from sizing.provenance import Assumption
from sizing.scenario import Scenario
from sizing.storage.calibration import Calibration
from sizing.summary.figure_names import figure_name
from sizing.summary.rows import Grid
from sizing.units import counted_text, figure_text

_OF_FOUND = " (of the layout found)"
"""Behind degrees: nobody asked for those that were left open."""


def inputs(scenario: Scenario, assumptions: Sequence[Assumption] = ()) -> Grid:
    """Every input that the scenario gives, defaults left out; what the `assumptions` say was found is marked."""
    found = tuple(f"{each.field}." for each in assumptions if each.field in Scenario.model_fields)
    rows = tuple(
        (figure_name(path), figure_text(path, value) + (_OF_FOUND if path.startswith(found) else ""))
        for path, value in _given(scenario, "")
    )
    return Grid("What was asked", ("input", "value"), rows)


def assumptions_made(assumptions: list[Assumption]) -> Grid:
    """Every value that the answer rests on and that nobody gave."""
    rows = tuple(
        (figure_name(found.field), figure_text(found.field, found.value), found.reason) for found in assumptions
    )
    return Grid("What was assumed", ("input", "value", "why"), rows)


def _given(value: object, path: str) -> Iterator[tuple[str, object]]:
    """The dotted path and the value of each field that was given."""
    parts = list(_parts(value))
    for name, part in parts:
        yield from _given(part, f"{path}{name}".removeprefix("."))
    if not parts and value is not None and not _is_block(value):
        yield path, _plain(value)


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """What a block or a list of blocks is made of; a calibration is one thing."""
    if _is_block(value):
        for name in type(value).model_fields:
            if name in value.model_fields_set:
                yield f".{name}", getattr(value, name)
    elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
        yield from ((f" {number}", each) for number, each in enumerate(value, 1))


def _is_block(value: object) -> TypeGuard[BaseModel]:
    """Whether its fields are inputs of their own."""
    return isinstance(value, BaseModel) and not isinstance(value, Calibration)


def _plain(value: object) -> object:
    if isinstance(value, Calibration):
        return f"engine {value.engine}, {counted_text(len(value.run_ids), 'run')}, grade {value.grade}"
    if isinstance(value, dict):
        simple = ((name, each) for name, each in value.items() if not isinstance(each, dict | list))
        return ", ".join(f"{name.replace('_', ' ')} {each}" for name, each in simple)
    return value
