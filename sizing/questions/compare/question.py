"""Question: how scenarios compare, how it is asked and shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
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
    paths = [PurePath(path) for path, _ in files]
    if len(files) > 1:
        documents = (document for _, document in files)
        return {
            "scenarios": [
                {"name": name, "scenario": document}
                for name, document in zip(tell_apart(paths), documents, strict=True)
            ]
        }
    ((_, document),) = files
    if "scenarios" not in document:
        remedy = "give a second scenario, or a file with a list of `scenarios`"
        raise InvalidInput.of("compare", "needs two scenarios or more", value=paths[0].name, remedy=remedy)
    return document


def tell_apart(paths: Sequence[PurePath]) -> list[str]:
    """Name files by their names without ending, and by as many of their folders as tell all of them apart.

    Raises InvalidInput where one is there twice.

    >>> tell_apart([PurePath("today.yaml"), PurePath("faster.yaml")])
    ['today', 'faster']
    >>> tell_apart([PurePath("old/run.yaml"), PurePath("new/run.yaml")])
    ['old/run', 'new/run']
    """
    for num_parts in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.with_suffix("").parts[-num_parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    twice = next(path for path in paths if paths.count(path) > 1)
    raise InvalidInput.of(
        "compare", "takes each file once", value=str(twice), remedy="remove one, or give another file"
    )


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
