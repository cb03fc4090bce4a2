"""The alternatives of choices, each laid out."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from sizing.errors import InvalidInput
from sizing.guesses.fields import choices_of, field_at, with_field
from sizing.layout.formats import Mode
from sizing.ranges import PlausibleChoice, plausible_choices
from sizing.run.demands.demands import Demands
from sizing.run.demands.readings import RestoreStrategy
from sizing.scenario import Scenario, scenario_from
from sizing.sized import SizedLayout, demands_anew

MAX_KINDS_OF_RANKS = 64
"""Of a layout whose alternatives are answered: each is laid out anew, which takes 20 us for each kind of ranks beside
half a millisecond, and 20 alternatives are to take 20 ms or so."""

_AFTER_LAYOUT = {"storage", "reliability", "retention", "targets", "costs"}
_CHECKPOINT_AFTER_LAYOUT = {"interval_seconds", "restore", "observed_write_bytes_per_second", "staging_bytes"}


@dataclass(frozen=True, slots=True)
class Alternative:
    """A field at another value: how saves then wait, how state is read back, and what the layout demands."""

    field: str
    value: JsonValue
    mode: Mode
    strategy: RestoreStrategy
    demands: Demands


def alternatives_of(
    scenario: Scenario, asked: SizedLayout, others: Iterable[tuple[str, JsonValue]]
) -> Iterator[Alternative]:
    """The scenario with each field at another value, those with which it has an answer."""
    given = scenario.model_dump(exclude_unset=True, exclude=_AFTER_LAYOUT)
    document = {name: block for name, block in given.items() if name != "model"}
    as_it_stands = _of_layout(scenario)
    for field, value in others:
        try:
            if field.startswith("model."):
                changed = scenario_from(with_field(given, field, value))
            else:  # a model may be a list of thousands of tensors, which are valid already
                changed = scenario_from(with_field(document, field, value) | {"model": scenario.model})
            demands = asked.demands if _of_layout(changed) == as_it_stands else demands_anew(changed)
        except InvalidInput:
            continue
        yield Alternative(field, value, changed.checkpoint.mode, changed.checkpoint.restore, demands)


def values_of(choice: PlausibleChoice) -> tuple[JsonValue, ...]:
    """The plausible values of a choice."""
    return choice.among or tuple(choices_of(field_at(choice.field).annotation))


def choices_among(fields: Container[str]) -> list[PlausibleChoice]:
    """The choices that some fields are."""
    return [choice for name, choice in plausible_choices().items() if name in fields]


def _of_layout(scenario: Scenario) -> str:
    """What decides the layout, in effect."""
    return scenario.model_dump_json(
        exclude={**dict.fromkeys(_AFTER_LAYOUT, True), "checkpoint": _CHECKPOINT_AFTER_LAYOUT}
    )
