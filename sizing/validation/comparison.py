"""A prediction beside what was published, and what kind of truth that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

EXACT = 0.0
"""For what is counted: not even the last digit may differ."""

Part = Literal["observation", "tool", "arithmetic"]
"""What was published. `observation`: somebody measured or counted it in the real world. `tool`: another program
estimated it, or it is known at second hand alone. `arithmetic`: a formula of a paper, or a figure derived from inputs
that ours has too; it shows that two ways to reckon agree, not that either is right."""

Verdict = Literal["agrees", "explained-miss", "unexplained", "no-prediction"]
"""`unexplained` is a miss without a reason, and also a reason for a miss that is not there."""


class Comparison(BaseModel):
    """A prediction beside a published figure, both in the unit that the fact names."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
        """Whether it agrees, misses for a stated reason, or has no prediction for one."""
        return self.verdict != "unexplained"


@dataclass(frozen=True, slots=True)
class Source:
    """Where figures were published, and what kind of figures they are."""

    part: Part
    name: str

    def compared(
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
        """A prediction beside the published figure. `miss` explains why the two are known to differ."""
        close = agrees(predicted, published, within=within, is_lower_bound=is_lower_bound)
        return Comparison(
            part=self.part,
            source=self.name,
            fact=fact,
            predicted=predicted,
            published=published,
            is_lower_bound=is_lower_bound,
            tolerance_fraction=within,
            ratio=predicted / published if published else None,
            verdict=_verdict(close=close, is_explained=bool(miss)),
            note=miss or note,
        )

    def not_compared(self, fact: str, published: float, *, because: str) -> Comparison:
        """A published figure for which too little else is published to predict it."""
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
    """Whether a prediction is within a fraction of what was published, or not below where that is a lower bound.

    >>> agrees(1.01, 1.0, within=0.0), agrees(1.01, 1.0, within=0.02), agrees(2.0, 1.0, within=0.0, is_lower_bound=True)
    (False, True, True)
    >>> agrees(0.99, 1.0, within=0.02, is_lower_bound=True)
    False
    """
    if is_lower_bound:
        return predicted >= published
    return abs(predicted - published) <= within * abs(published)


def _verdict(*, close: bool, is_explained: bool) -> Verdict:
    if close:
        return "unexplained" if is_explained else "agrees"
    return "explained-miss" if is_explained else "unexplained"
