"""The question of a comparison: two or more scenarios by name."""

from __future__ import annotations

import copy
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sizing.errors import broken_rule, explain
from sizing.scenario import REFERENCE_SCENARIO, Scenario

MAX_SCENARIOS = 10
"""Columns of a table that can still be read."""


def _other_reference() -> dict[str, Any]:
    other = copy.deepcopy(REFERENCE_SCENARIO)
    other["storage"]["profile"]["write_bytes_per_second"] = "100 GB/s"
    other["checkpoint"]["interval_seconds"] = "1h"
    return other


REFERENCE_COMPARISON: dict[str, Any] = {
    "scenarios": [
        {"name": "as published", "scenario": REFERENCE_SCENARIO},
        {"name": "slower storage, hourly", "scenario": _other_reference()},
    ]
}
"""The published run of 1T, and the same saved every hour to slower storage."""


class NamedScenario(BaseModel):
    """A scenario and what it is called in the comparison."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=60)] = Field(
        description="What the comparison calls it; no two have the same."
    )
    scenario: Scenario = Field(description="Question to answer, as for a single answer.")


class ComparisonRequest(BaseModel):
    """Scenarios to set side by side; differences are of each from the first."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": [REFERENCE_COMPARISON]})

    scenarios: Annotated[tuple[NamedScenario, ...], Field(min_length=2, max_length=MAX_SCENARIOS)] = Field(
        description="Two to ten scenarios; differences are counted from the first."
    )

    @model_validator(mode="after")
    def _named_apart(self) -> Self:
        if len({named.name for named in self.scenarios}) < len(self.scenarios):
            raise broken_rule("has two scenarios of one name", "name each of them differently")
        return self


def comparison_request_from(document: object) -> ComparisonRequest:
    """The ComparisonRequest that a parsed JSON or YAML document describes.

    Raises InvalidInput with one problem for each field that breaks a rule.
    """
    try:
        return ComparisonRequest.model_validate(document)
    except ValidationError as error:
        raise explain(error, ComparisonRequest) from None
