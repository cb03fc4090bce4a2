"""What a document says, whatever it is made into: the first page, charts, tables, the question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from sizing import summary
from sizing.charts import Spec
from sizing.charts.clusters import cluster_chart
from sizing.charts.comparisons import comparison_chart
from sizing.charts.layouts import layouts_chart
from sizing.charts.sensitivities import sensitivity_chart
from sizing.charts.sizing_report import report_charts
from sizing.charts.sweeps import sweep_chart
from sizing.explore.clusters.cluster_report import ClusterReport
from sizing.explore.comparisons.comparison_report import ComparisonReport
from sizing.explore.layouts.layouts_report import LayoutsReport
from sizing.explore.requirements.requirements_report import RequirementsReport
from sizing.explore.sensitivities.sensitivity_report import SensitivityReport
from sizing.explore.sweeps.sweep_report import SweepReport
from sizing.report import SizingReport
from sizing.run.simulation.simulation_report import SimulationReport
from sizing.scenario import Scenario
from sizing.summary import FirstScreen, Grid, Section
from sizing.summary.clusters import cluster_summary
from sizing.summary.comparisons import comparison_summary
from sizing.summary.inputs import assumptions_made, inputs
from sizing.summary.layouts import layouts_summary
from sizing.summary.requirements import requirements_summary
from sizing.summary.rows import Summary
from sizing.summary.sensitivities import sensitivity_summary
from sizing.summary.simulation import simulation_summary
from sizing.summary.sweeps import sweep_summary

_MAX_LINES = 150
"""Two pages; a longer question holds a calibration or a config.json, which is a file of its own."""


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
    """The question as a file that can be asked again; empty where it is too long to read."""


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


def comparison_document(report: ComparisonReport) -> Document:
    """Scenarios side by side."""
    return _document("Comparison of checkpoint storage", comparison_summary(report), comparison_chart(report))


def requirements_document(report: RequirementsReport) -> Document:
    """What the targets need."""
    return _document("Requirements of checkpoint storage", requirements_summary(report))


def layouts_document(report: LayoutsReport) -> Document:
    """The layouts that fit a number of GPUs."""
    charts = [layouts_chart(report)] if report.layouts else []
    return _document("Parallel layouts", layouts_summary(report), *charts)


def cluster_document(report: ClusterReport) -> Document:
    """Many jobs on one storage system."""
    return _document("Checkpoint storage of a cluster", cluster_summary(report), cluster_chart(report))


def simulation_document(report: SimulationReport) -> Document:
    """A run with random failures, many times."""
    return _document("Simulation of a run", simulation_summary(report))


def sensitivity_document(report: SensitivityReport) -> Document:
    """Which given inputs move the answer most."""
    charts = [sensitivity_chart(report)] if report.inputs else []
    return _document("Sensitivity of the answer", sensitivity_summary(report), *charts)


def sweep_document(report: SweepReport) -> Document:
    """Every combination of the inputs that vary; two objectives are drawn against each other."""
    charts = [sweep_chart(report)] if len(report.objectives) > 1 else []
    return _document("Sweep of checkpoint storage", sweep_summary(report), *charts)


def _document(kind: str, told: Summary, *charts: Spec) -> Document:
    first = FirstScreen(
        headline="",
        verdict=told.verdict,
        misses=told.misses,
        remedies=(),
        figures=(),
        warnings=told.warnings,
    )
    return Document(kind, told.headline, first, charts, (), told.grids, told.remarks)


def _as_file(document: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True)
    return text if text.count("\n") <= _MAX_LINES else ""
