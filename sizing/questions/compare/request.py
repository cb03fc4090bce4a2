"""Request for a comparison: two or more scenarios by name."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, model_validator

from sizing.errors import broken_rule
from sizing.field_paths import with_fields
from sizing.scenario import REFERENCE_SCENARIO, Scenario
from sizing.strict_model import InputModel

MAX_SCENARIOS = 10
"""Max scenarios: columns of a table that can still be read."""


_SLOWER_HOURLY = with_fields(
    REFERENCE_SCENARIO,
    {"storage.profile.write_bytes_per_second": "100 GB/s", "checkpoint.interval_seconds": "1h"},
)

REFERENCE_COMPARISON: dict[str, Any] = {
    "scenarios": [
        {"name": "as published", "scenario": REFERENCE_SCENARIO},
        {"name": "slower storage, hourly", "scenario": _SLOWER_HOURLY},
    ]
}
"""The published run of 1T, and the same saved every hour to slower storage."""


class NamedScenario(InputModel):
    """A scenario and what it is called in the comparison."""

    name: Annotated[str, Field(min_length=1, max_length=60)] = Field(
        description="What the comparison calls it; no two have the same."
    )
    scenario: Scenario = Field(description="Question to answer, as for a single answer.")


class ComparisonRequest(InputModel):
    """Scenarios to set side by side; differences are of each from the first."""

    model_config = ConfigDict(json_schema_extra={"examples": [REFERENCE_COMPARISON]})

    scenarios: Annotated[tuple[NamedScenario, ...], Field(min_length=2, max_length=MAX_SCENARIOS)] = Field(
        description="Two to ten scenarios; differences are counted from the first."
    )

    @model_validator(mode="after")
    def _named_apart(self) -> Self:
        if len({named.name for named in self.scenarios}) < len(self.scenarios):
            raise broken_rule("has two scenarios of one name", "name each of them differently")
        return self
