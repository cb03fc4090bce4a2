"""Request for a sensitivity analysis and its report: a scenario, and how far its inputs are varied."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from sizing.guesses.guess import Headline, InputSwing
from sizing.scenario import REFERENCE_SCENARIO, Scenario
from sizing.strict_model import InputModel, StrictModel
from sizing.units import Fraction, OrText

DEFAULT_FRACTION = 0.2
"""A fifth: about as far as measured rates and published figures are off. A choice."""

REFERENCE_SENSITIVITY: dict[str, Any] = {
    "scenario": REFERENCE_SCENARIO,
    "ranges": {"checkpoint.interval_seconds": {"low": "30min", "high": "4h"}},
}
"""What moves the lost time of the published run of 1T."""


class Ends(InputModel):
    """From where to where an input is varied."""

    low: float | str = Field(description="Lower end, in any unit that the field takes.")
    high: float | str = Field(description="Upper end, in any unit that the field takes.")


class SensitivityRequest(InputModel):
    """A scenario, and how far its inputs are varied."""

    model_config = ConfigDict(json_schema_extra={"examples": [REFERENCE_SENSITIVITY]})

    scenario: Scenario = Field(description="Scenario whose given inputs are varied, one at a time.")
    fraction: OrText[Annotated[Fraction, Field(gt=0, lt=1)]] = Field(
        DEFAULT_FRACTION,
        description="By which fraction of itself a number goes down and up that has neither a range here nor a "
        f"published one. Default: {DEFAULT_FRACTION:g}.",
    )
    ranges: Annotated[dict[Annotated[str, Field(max_length=200)], Ends], Field(max_length=100)] = Field(
        default_factory=dict, description="Ranges of numbers by dotted path. Default: none, every range is a default."
    )


class SensitivityReport(StrictModel):
    """How far each given input moves the headline, the largest swing first."""

    headline: Headline = Field(description="Figure that inputs are weighed by, as the scenario has it.")
    inputs: list[InputSwing] = Field(
        description="Inputs that move the headline, and those with a range of their own, the largest swing first."
    )
    warnings: list[str] = Field(description="What a reader must know before believing the swings.")
