"""The answer of a comparison, as a document."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class InputDifference(BaseModel):
    """A field that is not the same in all scenarios: its value in effect in each, defaults included."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    field: str
    values: list[Any]


class FigureRow(BaseModel):
    """A figure of each scenario, None where it is not known, and its ratio to that of the first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    figure: str
    values: list[Any]
    ratios: list[float | None]
    differs: bool


class Change(BaseModel):
    """What a step did to a figure."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    figure: str
    before: Any
    after: Any


class Step(BaseModel):
    """Inputs that were changed together, because one without the others has no answer, and what followed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    inputs: list[str]
    changes: list[Change]


class Explanation(BaseModel):
    """The way from the first scenario to another, one input after the other, so that the changes add up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    steps: list[Step]


class ComparisonReport(BaseModel):
    """Scenarios side by side. Changes depend on the order of the steps where inputs work together."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    names: list[str]
    inputs: list[InputDifference]
    figures: list[FigureRow]
    explanations: list[Explanation] = Field(description="one for each scenario but the first")
    warnings: list[list[str]] = Field(description="of each scenario's own report")
