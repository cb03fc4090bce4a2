"""What `ckpt-size validate` and `GET /v1/validation` answer: the comparisons in three parts, each counted."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from sizing.validation.comparison import Comparison, Part
from sizing.validation.facts import comparisons
from sizing.validation.incidents import WITHOUT_FIGURE
from sizing.validation.run_assumptions import RunAssumption, run_assumptions
from sizing.validation.run_goodput import WITHOUT_GOODPUT

TITLES: dict[Part, str] = {
    "observation": "Published observations: somebody measured or counted it",
    "tool": "Other tools' figures: estimators, calculators, and what is known at second hand alone",
    "arithmetic": "Our own arithmetic re-done: formulas of papers, figures derived from the same inputs",
}
"""The parts in the order in which they are shown."""


class VerdictCounts(BaseModel):
    """How many comparisons have which verdict."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agrees: int = Field(description="Comparisons within their tolerance.")
    explained_misses: int = Field(description="Comparisons outside it, for a reason that stands in their note.")
    unexplained: int = Field(description="Comparisons outside it for no reason, or with a reason that is not needed.")
    no_prediction: int = Field(description="Published figures beside which too little else is published.")

    @classmethod
    def of(cls, rows: Sequence[Comparison]) -> VerdictCounts:
        """The verdicts of some comparisons, counted."""
        found = Counter(row.verdict for row in rows)
        return cls(
            agrees=found["agrees"],
            explained_misses=found["explained-miss"],
            unexplained=found["unexplained"],
            no_prediction=found["no-prediction"],
        )


class ValidationPart(BaseModel):
    """The comparisons with one kind of published figure."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    part: Part = Field(description="What kind of figures these are: only observations are the real world.")
    title: str = Field(description="The heading of these comparisons, for a reader.")
    counts: VerdictCounts = Field(description="How many of them agree, miss, or have nothing to compare.")
    comparisons: list[Comparison] = Field(description="Every one of them, those of one source together.")


class ValidationReport(BaseModel):
    """The calculation beside everything published that it can be held against."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    parts: list[ValidationPart] = Field(description="Observations, other tools' figures, and arithmetic done again.")
    run_assumptions: list[RunAssumption] = Field(
        description="What predictions of a run's goodput take where the run publishes nothing, the same for all runs."
    )

    without_figure: dict[str, str] = Field(
        description="Published runs and reports that give nothing to compare, and what they give instead."
    )

    @property
    def as_expected(self) -> bool:
        """Whether every comparison agrees, misses for a stated reason, or has no prediction for one."""
        return all(row.as_expected for part in self.parts for row in part.comparisons)


def validation_report(rows: Sequence[Comparison]) -> ValidationReport:
    """Comparisons by part, those of one source together."""
    place = {row.source: number for number, row in reversed(list(enumerate(rows)))}
    ordered = sorted(rows, key=lambda row: place[row.source])
    by_part = {part: [row for row in ordered if row.part == part] for part in TITLES}
    return ValidationReport(
        parts=[
            ValidationPart(part=part, title=TITLES[part], counts=VerdictCounts.of(found), comparisons=found)
            for part, found in by_part.items()
        ],
        run_assumptions=list(run_assumptions()),
        without_figure=WITHOUT_GOODPUT | WITHOUT_FIGURE,
    )


@functools.cache
def validation() -> ValidationReport:
    """Every comparison of this version, which is always the same: computed once, in seconds."""
    return validation_report(comparisons())
