"""A scenario as flat fields: what was given, what is in effect, and one scenario with fields of another."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sizing.scenario import Scenario, scenario_from


def differing_fields(scenarios: Sequence[Scenario]) -> list[str]:
    """Dotted names of the fields whose values in effect are not the same in all scenarios, in their order."""
    flat = [effective_fields(scenario) for scenario in scenarios]
    names = dict.fromkeys(name for fields in flat for name in fields)
    return [name for name in names if any(fields.get(name) != flat[0].get(name) for fields in flat[1:])]


def effective_fields(scenario: Scenario) -> dict[str, Any]:
    """Every field by its dotted name, defaults included; lists are one value."""
    return dict(_flat(scenario.model_dump(), ""))


def with_fields_of(scenario: Scenario, other: Scenario, names: Iterable[str]) -> Scenario:
    """A scenario in which some fields are as in another one: given alike, or left to their default.

    Raises InvalidInput where the fields do not go together.
    """
    document = copy.deepcopy(scenario.model_dump(exclude_unset=True))
    given = dict(_flat(other.model_dump(exclude_unset=True), ""))
    for name in names:
        _set(document, name.split("."), given, name)
    return scenario_from(document)


def _flat(block: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in block.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _set(document: dict[str, Any], path: Sequence[str], given: Mapping[str, Any], name: str) -> None:
    """Set a field as it is given, or take it out, and a block with it that is left empty."""
    first, *rest = path
    if not rest and name in given:
        document[first] = given[name]
    elif not rest:
        document.pop(first, None)
    else:
        block = document.get(first)
        document[first] = block if isinstance(block, dict) else {}
        _set(document[first], rest, given, name)
        if not document[first]:
            del document[first]
