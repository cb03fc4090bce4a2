"""What a technique is to a scenario: fields that it sets, or a reason why it does not apply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import JsonValue

from sizing.errors import InvalidInput
from sizing.scenario import Scenario, scenario_from
from sizing.schema_versions import with_values

Fields = dict[str, JsonValue]
"""Values by dotted path in the scenario; null takes a field back to its default."""

Asks = Callable[[Scenario], Fields | str]
"""The fields that a technique sets in a scenario, or why it does not apply there."""


class Change(NamedTuple):
    """The fields that a technique changed, and the scenario with them."""

    fields: Fields
    scenario: Scenario


@dataclass(frozen=True, slots=True)
class ScenarioTechnique:
    """A technique of the catalog, by its name there."""

    name: str
    asks: Asks

    def applied(self, scenario: Scenario) -> Change | str:
        """The scenario with the technique, or a sentence that says why there is none."""
        asked = self.asks(scenario)
        if isinstance(asked, str):
            return asked
        document = scenario.model_dump(mode="json", exclude_unset=True)
        changed = {path: value for path, value in asked.items() if _value_at(scenario, path) != value}
        if not changed:
            return "The scenario has it already"
        try:
            return Change(changed, scenario_from(with_values(document, changed)))
        except InvalidInput as error:
            return str(error)


def always(**fields: JsonValue) -> Asks:
    """The same fields of `training` in every scenario."""
    return lambda _: {f"training.{name}": value for name, value in fields.items()}


def never(reason: str) -> Asks:
    """What no scenario can ask for, and why."""
    return lambda _: reason


def with_degree(name: str, asks: Asks) -> Asks:
    """What needs a degree of parallelism above 1."""

    def asked(scenario: Scenario) -> Fields | str:
        if getattr(scenario.parallelism, name) > 1:
            return asks(scenario)
        return f"It needs parallelism.{name} above 1"

    return asked


def _value_at(scenario: Scenario, path: str) -> Any:
    """What a scenario has in a field; None where a block of it is not given."""
    found: Any = scenario.model_dump(mode="json")
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
