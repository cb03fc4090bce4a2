"""What a document says, whatever it is made into: the first page, charts, tables, the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from sizing import summary
from sizing.charts import Spec
from sizing.charts.calibration import calibration_chart
from sizing.charts.clusters import cluster_chart
from sizing.charts.comparisons import comparison_chart
from sizing.charts.decisions import decision_charts
from sizing.charts.layouts import layouts_chart
from sizing.charts.rates_over_time import rates_chart
from sizing.charts.sensitivities import sensitivity_chart
from sizing.charts.simulation import simulation_chart
from sizing.charts.sizing_report import report_charts
from sizing.charts.stages import stages_chart
from sizing.charts.sweeps import sweep_chart
from sizing.checkpoint_files.contents import CheckpointContents
from sizing.explore.clusters.cluster_report import ClusterReport
from sizing.explore.comparisons.comparison_report import ComparisonReport
from sizing.explore.decisions.decision_report import DecisionReport
from sizing.explore.layouts.layouts_report import LayoutsReport
from sizing.explore.manifests.manifest_report import ManifestReport
from sizing.explore.rematerializations.rematerialization_report import RematerializationReport
from sizing.explore.requirements.requirements_report import RequirementsReport
from sizing.explore.sensitivities.sensitivity_report import SensitivityReport
from sizing.explore.stages.stages_report import StagesReport
from sizing.explore.sweeps.sweep_report import SweepReport
from sizing.explore.techniques.techniques_report import TechniquesReport
from sizing.report import SizingReport
from sizing.reports.gpu_grid import GpuGrid, gpu_grid
from sizing.reports.sliders import Slider, sliders
from sizing.run.simulation.simulation_report import SimulationReport
from sizing.scenario import Scenario
from sizing.storage.calibration import Calibration
from sizing.storage.rate_changes import RatedSeries
from sizing.summary import FirstScreen, Grid, Section
from sizing.summary.calibrations import calibration_summary
from sizing.summary.catalogs import catalog_summary
from sizing.summary.clusters import cluster_summary
from sizing.summary.comparisons import comparison_summary
from sizing.summary.decisions import decision_summary
from sizing.summary.inputs import assumptions_made, inputs
from sizing.summary.inspections import files_section, inspection_summary
from sizing.summary.layouts import layouts_summary
from sizing.summary.manifests import manifest_summary
from sizing.summary.rates_over_time import rates_summary
from sizing.summary.rematerializations import rematerialization_summary
from sizing.summary.requirements import requirements_summary
from sizing.summary.rows import Summary
from sizing.summary.sensitivities import sensitivity_summary
from sizing.summary.simulation import simulation_summary
from sizing.summary.size import checkpoint_section
from sizing.summary.stages import stages_summary
from sizing.summary.sweeps import sweep_summary
from sizing.summary.techniques import techniques_summary

_MAX_LINES = 150
"""Two pages; a longer question holds a calibration or a config.json, which is a file of its own."""

MAX_RATE_CHARTS = 8
"""Of series that are lost: more nobody looks through; the table has all of them."""
_WHOLE_CHARTS = 2
"""Of series where none is lost: those with the most runs, such as a write and its restore."""


@dataclass(frozen=True, slots=True)
class Document:
    """One answer as a document."""

    kind: str
    """What sort of answer it is, as a line above the title."""
    title: str
    first_page: FirstScreen
    charts: tuple[Spec, ...]
    sections: tuple[Section, ...]
    """The first of them, what the verdict rests on, stands before the charts."""
    grids: tuple[Grid, ...]
    remarks: tuple[str, ...] = ()
    question: str = ""
    """The question as a file that can be asked again; empty where it is too long to read."""
    gpus: GpuGrid | None = None
    """Which GPUs write, for those who can draw it."""
    sliders: tuple[Slider, ...] = ()
    """Inputs to drag, for those who can ask again at once."""
    told_fields: Mapping[str, str] = field(default_factory=dict)
    """Fields of a scenario that the answer tells, by dotted path, for those who can go on to ask with them."""


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
            inputs(scenario, report.assumptions),
            *summary.grids(report),
            assumptions_made(report.assumptions),
            summary.origins(report),
        ),
        question=_as_file(asked if asked is not None else scenario.model_dump(mode="json", exclude_unset=True)),
        gpus=gpu_grid(scenario, report),
        sliders=sliders(scenario),
    )


def comparison_document(report: ComparisonReport) -> Document:
    """Scenarios side by side."""
    return _document("Comparison of checkpoint storage", comparison_summary(report), comparison_chart(report))


def decision_document(report: DecisionReport) -> Document:
    """Offers side by side, the best first."""
    return _document("What storage to buy", decision_summary(report), *decision_charts(report))


def requirements_document(report: RequirementsReport) -> Document:
    """What the targets need."""
    return _document("Requirements of checkpoint storage", requirements_summary(report))


def layouts_document(report: LayoutsReport) -> Document:
    """The layouts that fit a number of GPUs."""
    charts = [layouts_chart(report)] if report.layouts else []
    return _document("Parallel layouts", layouts_summary(report), *charts)


def rematerialization_document(report: RematerializationReport) -> Document:
    """Which layers to compute again so that a batch fits."""
    return _document("Layers to compute again", rematerialization_summary(report))


def stages_document(report: StagesReport) -> Document:
    """Pipeline stages on nodes of several kinds."""
    return _document("Stages on unlike nodes", stages_summary(report), stages_chart(report))


def cluster_document(report: ClusterReport) -> Document:
    """Many jobs on one storage system."""
    return _document("Checkpoint storage of a cluster", cluster_summary(report), cluster_chart(report))


def manifest_document(report: SizingReport, listed: ManifestReport) -> Document:
    """The files of a checkpoint, as `ckpt-size manifest` tells them."""
    told = manifest_summary(report, listed)
    return _document("Files of a checkpoint", told, sections=(checkpoint_section(report),))


def inspection_document(contents: CheckpointContents, *, name: str) -> Document:
    """What an existing checkpoint holds, as `ckpt-size inspect` tells it."""
    told = inspection_summary(contents, name=name)
    return _document("An existing checkpoint", told, sections=(files_section(contents),))


def simulation_document(report: SimulationReport) -> Document:
    """A run with random failures, many times."""
    return _document("Simulation of a run", simulation_summary(report), simulation_chart(report))


def sensitivity_document(report: SensitivityReport) -> Document:
    """Which given inputs move the answer most."""
    charts = [sensitivity_chart(report)] if report.inputs else []
    return _document("Sensitivity of the answer", sensitivity_summary(report), *charts)


def techniques_document(report: TechniquesReport) -> Document:
    """What each technique would change."""
    return _document("Training techniques", techniques_summary(report))


def sweep_document(report: SweepReport) -> Document:
    """Every combination of the inputs that vary; two objectives are drawn against each other."""
    charts = [sweep_chart(report)] if len(report.objectives) > 1 else []
    return _document("Sweep of checkpoint storage", sweep_summary(report), *charts)


def calibration_document(calibration: Calibration) -> Document:
    """What benchmark runs say of a storage system: points, fit and band."""
    return _document("Calibration", calibration_summary(calibration), calibration_chart(calibration))


def catalog_document(verb: str) -> Document:
    """A whole catalog, as the verb of `ckpt-size` lists it."""
    return _document("Catalog", catalog_summary(verb))


def rates_document(system: str, every: Sequence[RatedSeries]) -> Document:
    """The rates of a storage system over time: those that are lost are drawn, or else those with the most runs."""
    ordered = sorted(every, key=lambda series: (series.latest_loss is None, -len(series.rates)))
    num_lost = sum(series.latest_loss is not None for series in ordered)
    shown = ordered[: min(num_lost, MAX_RATE_CHARTS) or _WHOLE_CHARTS]
    charts = [rates_chart(series) for series in shown if len(series.rates) > 1]  # one point is no trend
    return _document("Rates over time", rates_summary(system, ordered, num_charts=len(charts)), *charts)


def _document(kind: str, told: Summary, *charts: Spec, sections: tuple[Section, ...] = ()) -> Document:
    first = FirstScreen(
        headline="",
        verdict=told.verdict,
        misses=told.misses,
        remedies=(),
        figures=(),
        warnings=told.warnings,
    )
    return Document(kind, told.headline, first, charts, sections, told.grids, told.remarks)


def _as_file(document: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True)
    return text if text.count("\n") <= _MAX_LINES else ""
