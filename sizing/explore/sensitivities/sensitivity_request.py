"""The question of a sensitivity analysis: a scenario, and how far its inputs are varied."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sizing.errors import explain
from sizing.scenario import REFERENCE_SCENARIO, Scenario
from sizing.units import Fraction

DEFAULT_FRACTION = 0.2
"""A fifth: about as far as measured rates and published figures are off. A choice."""

REFERENCE_SENSITIVITY: dict[str, Any] = {
    "scenario": REFERENCE_SCENARIO,
    "ranges": {"checkpoint.interval_seconds": {"low": "30min", "high": "4h"}},
}
"""What moves the lost time of the published run of 1T."""


class Ends(BaseModel):
    """From where to where an input is varied."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    low: float | str = Field(description="Lower end, in any unit that the field takes.")
    high: float | str = Field(description="Upper end, in any unit that the field takes.")


class SensitivityRequest(BaseModel):
    """A scenario, and how far its inputs are varied."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": [REFERENCE_SENSITIVITY]})

    scenario: Scenario = Field(description="Scenario whose given inputs are varied, one at a time.")
    fraction: Annotated[Fraction, Field(gt=0, lt=1)] = Field(
        DEFAULT_FRACTION,
        description="By which fraction of itself a number goes down and up that has neither a range here nor a "
        f"published one. Default: {DEFAULT_FRACTION:g}.",
    )
    ranges: Annotated[dict[Annotated[str, Field(max_length=200)], Ends], Field(max_length=100)] = Field(
        default_factory=dict, description="Ranges of numbers by dotted path. Default: none, every range is a default."
    )


def sensitivity_request_from(document: object) -> SensitivityRequest:
    """The SensitivityRequest of a parsed document, which may be the scenario alone.

    Raises InvalidInput with one problem for each field that breaks a rule.
    """
    if isinstance(document, dict) and "scenario" not in document:
        document = {"scenario": document}
    try:
        return SensitivityRequest.model_validate(document)
    except ValidationError as error:
        raise explain(error, SensitivityRequest) from None
