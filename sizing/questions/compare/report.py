"""Report of a comparison, as a document: inputs that differ, figures that follow, and the way from one to the other."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from sizing.guesses.guess import Guess, Headline
from sizing.run.targets import TargetCheck
from sizing.strict_model import StrictModel


class InputDifference(StrictModel):
    """A field that is not the same in all scenarios."""

    field: str = Field(description="Dotted path in the scenario.")
    values: list[Any] = Field(
        description="Value in effect in each scenario, defaults included, in their order. "
        "Null when the field does not apply."
    )
    assumed: list[bool] = Field(
        default_factory=list,
        description="Whether nobody stated the value of each scenario, so that it is an assumption, in their order.",
    )


class FigureRow(StrictModel):
    """A figure of each scenario, beside the first one's."""

    figure: str = Field(description="Dotted path in the report.")
    values: list[Any] = Field(description="Figure of each scenario, in their order. Null when unknown.")
    ratios: list[float | None] = Field(
        description="Each value over the first scenario's. Null when one of them is no number or the first is 0."
    )
    differs: bool = Field(description="Whether they differ by more than rounding.")


class StepChange(StrictModel):
    """Figure before and after a step of an explanation."""

    figure: str = Field(description="Dotted path in the report.")
    before: Any = Field(description="Value without the inputs of this step.")
    after: Any = Field(description="Value of the figure once these inputs are changed.")


class Step(StrictModel):
    """Inputs that were changed together, because one without the others has no answer, and what followed."""

    inputs: list[str] = Field(
        description="Dotted paths in the scenario that change together, as one without the others has no answer."
    )
    changes: list[StepChange] = Field(description="Figures that follow.")


class Explanation(StrictModel):
    """The way from the first scenario to another, one input after the other, so that the changes add up."""

    name: str = Field(description="Scenario that the steps lead to, from the first one.")
    steps: list[Step] = Field(description="One input after the other; their changes add up to the whole difference.")


class ComparisonReport(StrictModel):
    """Scenarios side by side. Changes depend on the order of the steps where inputs work together."""

    names: list[str] = Field(description="Scenarios in the order of the question; the first is the reference.")
    inputs: list[InputDifference] = Field(description="Scenario fields that differ.")
    assumed: list[InputDifference] = Field(
        default_factory=list,
        description="Values that differ in fields that a scenario leaves open, where an assumption takes their place.",
    )
    figures: list[FigureRow] = Field(
        description="Figures of the reports, one row each, with their ratios to the reference."
    )
    explanations: list[Explanation] = Field(
        description="Which input made which difference, for each scenario but the first."
    )
    targets: list[list[TargetCheck]] = Field(
        default_factory=list, description="Targets of each scenario with what was found, in their order."
    )
    cannot_run: list[str | None] = Field(
        default_factory=list,
        description="Why the layout of each scenario cannot run, in their order. Null when it fits its GPUs.",
    )
    headlines: list[Headline] = Field(
        default_factory=list, description="Figure of each scenario that its guesses are weighed by, in their order."
    )
    guesses: list[list[Guess]] = Field(
        default_factory=list,
        description="Assumptions that move the headline of each scenario, the largest swing first, in their order.",
    )
    warnings: list[list[str]] = Field(description="Warnings of each scenario's own report, in their order.")
