"""Report of `ckpt-size validate` and `GET /v1/validation`: the comparisons in three parts, each counted."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from pydantic import Field

from sizing.strict_model import StrictModel
from sizing.validation.checkpoint_sizes import framework_checkpoints, mlperf, mt_nlg, published_checkpoints
from sizing.validation.comparison import Comparison, Part
from sizing.validation.gpu_memory_facts import gpu_memory_facts
from sizing.validation.incidents import incidents
from sizing.validation.intervals import intervals
from sizing.validation.measured_memory import measured_memory
from sizing.validation.optimizer_states import optimizer_states
from sizing.validation.parameter_counts import megatron_table, parameter_counts
from sizing.validation.publication_times import publication_times
from sizing.validation.published_throughputs import published_throughputs
from sizing.validation.reference_runs import gpt3_writers, reference_limits, reference_run
from sizing.validation.run_assumptions import RunAssumption, run_assumptions
from sizing.validation.run_goodput import WITHOUT_GOODPUT, run_goodput
from sizing.validation.shipped_defaults import shipped_defaults
from sizing.validation.step_errors import held_out_errors
from sizing.validation.step_times import step_times
from sizing.validation.storage_times import storage_times
from sizing.validation.unpredicted_incidents import WITHOUT_FIGURE, unpredicted_incidents

TITLES: dict[Part, str] = {
    "observation": "Published observations: somebody measured or counted it",
    "tool": "Other tools' figures: estimators, calculators, and what is known at second hand alone",
    "arithmetic": "Our own arithmetic re-done: formulas of papers, figures derived from the same inputs",
}
"""The parts in the order in which they are shown."""


class VerdictCounts(StrictModel):
    """How many comparisons have which verdict."""

    agrees: int = Field(description="Comparisons within their tolerance.")
    explained_misses: int = Field(description="Comparisons outside it, for a reason that stands in their note.")
    unexplained: int = Field(description="Comparisons outside it for no reason, or with a reason that is not needed.")
    no_prediction: int = Field(description="Published figures beside which too little else is published.")

    @classmethod
    def of(cls, rows: Sequence[Comparison]) -> VerdictCounts:
        """Count the verdicts of some comparisons."""
        counts = Counter(row.verdict for row in rows)
        return cls(
            agrees=counts["agrees"],
            explained_misses=counts["explained-miss"],
            unexplained=counts["unexplained"],
            no_prediction=counts["no-prediction"],
        )


class ValidationPart(StrictModel):
    """The comparisons with one kind of published figure."""

    part: Part = Field(description="What kind of figures these are: only observations are the real world.")
    title: str = Field(description="The heading of these comparisons, for a reader.")
    counts: VerdictCounts = Field(description="How many of them agree, miss, or have nothing to compare.")
    comparisons: list[Comparison] = Field(description="Every one of them, those of one source together.")


class ValidationReport(StrictModel):
    """Comparisons of the calculation with everything published that it can be checked against."""

    parts: list[ValidationPart] = Field(description="Observations, other tools' figures, and arithmetic done again.")
    run_assumptions: list[RunAssumption] = Field(
        description="What predictions of a run's goodput take where the run publishes nothing, the same for all runs."
    )

    without_figure: dict[str, str] = Field(
        description="Published runs and reports that give nothing to compare, and what they give instead."
    )

    @property
    def as_expected(self) -> bool:
        """Whether every comparison agrees, misses for a stated reason, or has a stated reason for no prediction."""
        return all(row.as_expected for part in self.parts for row in part.comparisons)


def validation_report(rows: Sequence[Comparison]) -> ValidationReport:
    """Group comparisons by part, those of one source together."""
    place = {row.source: number for number, row in reversed(list(enumerate(rows)))}
    ordered = sorted(rows, key=lambda row: place[row.source])
    by_part = {part: [row for row in ordered if row.part == part] for part in TITLES}
    return ValidationReport(
        parts=[
            ValidationPart(part=part, title=TITLES[part], counts=VerdictCounts.of(of_part), comparisons=of_part)
            for part, of_part in by_part.items()
        ],
        run_assumptions=list(run_assumptions()),
        without_figure=WITHOUT_GOODPUT | WITHOUT_FIGURE,
    )


@functools.cache
def validation() -> ValidationReport:
    """Return every comparison of this version. The result is always the same: it is computed once, in seconds."""
    return validation_report([comparison for compare_source in _COMPARISONS for comparison in compare_source()])


_COMPARISONS: tuple[Callable[[], Iterator[Comparison]], ...] = (
    parameter_counts,
    megatron_table,
    reference_run,
    reference_limits,
    gpt3_writers,
    published_checkpoints,
    framework_checkpoints,
    optimizer_states,
    gpu_memory_facts,
    measured_memory,
    step_times,
    published_throughputs,
    held_out_errors,
    shipped_defaults,
    mlperf,
    mt_nlg,
    storage_times,
    publication_times,
    incidents,
    unpredicted_incidents,
    run_goodput,
    intervals,
)
"""Functions that compare predictions with the figures of `published/`, in the order in which they are shown."""
