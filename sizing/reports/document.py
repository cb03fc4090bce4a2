"""What a document says, whatever it is made into: the first page, charts, tables, the question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from sizing import summary
from sizing.charts import Spec
from sizing.charts.comparisons import comparison_chart
from sizing.charts.sizing_report import report_charts
from sizing.explore.comparisons.comparison_report import ComparisonReport
from sizing.report import SizingReport
from sizing.scenario import Scenario
from sizing.summary import FirstScreen, Grid, Section
from sizing.summary.comparisons import (
    ORDER_MATTERS,
    comparison_grids,
    comparison_headline,
    comparison_misses,
    comparison_verdict,
    comparison_warnings,
)
from sizing.summary.inputs import assumptions_made, inputs


@dataclass(frozen=True, slots=True)
class Document:
    """One answer as a document."""

    kind: str
    """What sort of answer it is, as a line above the title."""
    title: str
    first_page: FirstScreen
    charts: tuple[Spec, ...]
    sections: tuple[Section, ...]
    grids: tuple[Grid, ...]
    remarks: tuple[str, ...] = ()
    question: str = ""
    """The question as a file that can be asked again."""


def sizing_document(
    scenario: Scenario, report: SizingReport, *, title: str = "", asked: Mapping[str, Any] | None = None
) -> Document:
    """The answer to a scenario, and `asked` the scenario as it was given where that is known."""
    return Document(
        kind="Checkpoint storage sizing",
        title=title or report.model.name,
        first_page=summary.first_screen(report),
        charts=tuple(report_charts(scenario, report)),
        sections=tuple(section for section in summary.sections(report) if section.rows),
        grids=(
            inputs(scenario),
            *summary.grids(report),
            assumptions_made(report.assumptions),
            summary.origins(report),
        ),
        question=_as_file(asked if asked is not None else scenario.model_dump(mode="json", exclude_unset=True)),
    )


def comparison_document(report: ComparisonReport, *, title: str = "") -> Document:
    """Scenarios side by side."""
    return Document(
        kind="Comparison of checkpoint storage",
        title=title or comparison_headline(report),
        first_page=FirstScreen(
            headline=comparison_headline(report) if title else "",
            verdict=comparison_verdict(report),
            misses=comparison_misses(report),
            remedies=(),
            figures=(),
            warnings=tuple(comparison_warnings(report)),
        ),
        charts=(comparison_chart(report),),
        sections=(),
        grids=tuple(comparison_grids(report)),
        remarks=(ORDER_MATTERS,) if report.inputs else ("The scenarios do not differ.",),
    )


def _as_file(document: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True)
    return text
