"""Question: how scenarios compare, how it is asked and shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sizing.errors import InvalidInput
from sizing.questions.compare.answer import answer_comparison
from sizing.questions.compare.charts import comparison_chart
from sizing.questions.compare.report import ComparisonReport
from sizing.questions.compare.request import REFERENCE_COMPARISON, ComparisonRequest
from sizing.questions.compare.words import comparison_summary
from sizing.questions.question import Question, RequestFiles, RestRoute


def _join_files(files: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """Name scenarios by their files, or take the one file that holds them. Raises InvalidInput for a single one."""
    if len(files) > 1:
        return {"scenarios": [{"name": name, "scenario": document} for name, document in files]}
    name, document = files[0]
    if "scenarios" not in document:
        remedy = "give a second scenario, or a file with a list of `scenarios`"
        raise InvalidInput.of("compare", "needs two scenarios or more", value=name, remedy=remedy)
    return document


QUESTION = Question[ComparisonRequest, ComparisonReport](
    title="Comparison of checkpoint storage",
    request=ComparisonRequest,
    report=ComparisonReport,
    example=REFERENCE_COMPARISON,
    route=RestRoute(
        path="comparisons",
        name="create_comparison",
        summary="Compare scenarios",
        description="Which inputs of two to ten scenarios differ, which figures follow, and which input made which "
        "difference.",
        example="Slower storage, hourly",
    ),
    answer=lambda request, _: answer_comparison(request),
    summary=comparison_summary,
    charts=lambda report: [comparison_chart(report)],
    command_line=RequestFiles("scenarios", "Scenarios, JSON or YAML; or one file with `scenarios`", join=_join_files),
    chart=comparison_chart,
    may_name_calibrations=("scenarios.*.scenario.storage.calibration",),
)
