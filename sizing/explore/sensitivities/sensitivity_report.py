"""The answer of a sensitivity analysis, as a document."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from sizing.guesses.guess import Headline, InputSwing


class SensitivityReport(BaseModel):
    """How far each given input moves the headline, the largest swing first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    headline: Headline = Field(description="Figure that inputs are weighed by, as the scenario has it.")
    inputs: list[InputSwing] = Field(
        description="Inputs that move the headline, and those with a range of their own, the largest swing first."
    )
    warnings: list[str] = Field(description="What a reader must know before believing the swings.")
