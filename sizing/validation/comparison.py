"""Comparison of a prediction with a published figure, and what kind of truth that figure is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from sizing.strict_model import StrictModel

EXACT = 0.0
"""Tolerance for what is counted: not even the last digit may differ."""

Part = Literal["observation", "tool", "arithmetic"]
"""What was published. `observation`: somebody measured or counted it in the real world. `tool`: another program
estimated it, or it is known at second hand alone. `arithmetic`: a formula of a paper, or a figure derived from inputs
that ours has too; it shows that two ways to reckon agree, not that either is right."""

Verdict = Literal["agrees", "explained-miss", "unexplained", "no-prediction"]
"""`unexplained` is a miss without a reason, and also a reason for a miss that is not there."""


class Comparison(StrictModel):
    """A prediction beside a published figure, both in the unit that the fact names."""

    part: Part = Field(description="What kind of figure was published: an observation is the only real truth.")
    source: str = Field(description="Where the published figure was read.")
    fact: str = Field(description="What both figures say, with their unit where it is no plain number.")
    predicted: int | float | None = Field(
        description="The figure that the calculation gives; null where too little is published."
    )
    published: int | float = Field(description="The figure that the source gives.")
    is_lower_bound: bool = Field(description="Whether the source says only that the true value is at least that.")
    tolerance_fraction: float = Field(
        description="Fraction of the published figure by which the predicted one may differ; 0 asks for equality."
    )
    ratio: float | None = Field(
        description="The predicted figure over the published one; null where either is missing."
    )
    verdict: Verdict = Field(
        description="Whether both agree, miss for a known reason or for none, or cannot be compared."
    )
    note: str = Field(
        description="Why it misses, why there is no prediction, or what to know beside; empty if nothing."
    )

    @property
    def as_expected(self) -> bool:
        """Whether the comparison agrees, misses for a stated reason, or has a stated reason for no prediction."""
        return self.verdict != "unexplained"


@dataclass(frozen=True, slots=True)
class Source:
    """Source of published figures, and their kind."""

    part: Part
    name: str

    def compare(
        self,
        fact: str,
        predicted: float,
        published: float,
        *,
        within: float,
        miss: str = "",
        note: str = "",
        is_lower_bound: bool = False,
    ) -> Comparison:
        """Compare a prediction with the published figure. `miss` explains why the two are known to differ."""
        if agrees(predicted, published, within=within, is_lower_bound=is_lower_bound):
            verdict: Verdict = "unexplained" if miss else "agrees"
        else:
            verdict = "explained-miss" if miss else "unexplained"
        return Comparison(
            part=self.part,
            source=self.name,
            fact=fact,
            predicted=predicted,
            published=published,
            is_lower_bound=is_lower_bound,
            tolerance_fraction=within,
            ratio=predicted / published if published else None,
            verdict=verdict,
            note=miss or note,
        )

    def list_unpredicted(self, fact: str, published: float, *, because: str) -> Comparison:
        """List a published figure without a prediction, for which too little else is published."""
        return Comparison(
            part=self.part,
            source=self.name,
            fact=fact,
            predicted=None,
            published=published,
            is_lower_bound=False,
            tolerance_fraction=EXACT,
            ratio=None,
            verdict="no-prediction",
            note=because,
        )


def agrees(predicted: float, published: float, *, within: float, is_lower_bound: bool = False) -> bool:
    """Tell whether a prediction is within a fraction of the published figure, or not below a lower bound.

    >>> agrees(1.01, 1.0, within=0.0), agrees(1.01, 1.0, within=0.02), agrees(2.0, 1.0, within=0.0, is_lower_bound=True)
    (False, True, True)
    >>> agrees(0.99, 1.0, within=0.02, is_lower_bound=True)
    False
    """
    if is_lower_bound:
        return predicted >= published
    return abs(predicted - published) <= within * abs(published)
