"""The heavy questions as functions from question to answer, for the processes of `service.compute.pool`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ValidationError

from service.answers.progress import tell
from service.reports import since
from service.reports.asked import Asked
from service.reports.forms import FORMS, Answer, made
from service.reports.spreadsheet import table_text
from service_client.terms import ReportForm
from sizing.charts import rendering
from sizing.checkpoint_files.sent import SentFile, contents_of_sent
from sizing.cli.flags import fields_of
from sizing.explore.clusters.cluster_answer import cluster_report
from sizing.explore.clusters.cluster_scenario import ClusterScenario
from sizing.explore.comparisons.comparison import comparison_of
from sizing.explore.comparisons.comparison_request import ComparisonRequest
from sizing.explore.decisions.decision import decision_of
from sizing.explore.decisions.decision_request import DecisionRequest, Workload
from sizing.explore.layouts.best import laid_out_scenario
from sizing.explore.layouts.layouts_request import LayoutsRequest
from sizing.explore.layouts.ranking import layouts_of
from sizing.explore.manifests.manifest_report import every_file, manifest_report
from sizing.explore.manifests.manifest_request import ManifestRequest
from sizing.explore.rematerializations.rematerialization import rematerialization_of
from sizing.explore.rematerializations.rematerialization_request import RematerializationRequest
from sizing.explore.requirements.solver import requirements_of
from sizing.explore.scenario_simulation import ScenarioSimulation, simulated
from sizing.explore.sensitivities.sensitivity import sensitivity_of
from sizing.explore.sensitivities.sensitivity_request import SensitivityRequest
from sizing.explore.stages.stages import stages_of
from sizing.explore.stages.stages_request import StagesRequest
from sizing.explore.sweeps.sweep import sweep
from sizing.explore.techniques.techniques_report import TechniquesRequest, techniques_of
from sizing.layout.manifest import ManifestRow
from sizing.report import SizingReport, answer
from sizing.reports.document import (
    Document,
    cluster_document,
    comparison_document,
    decision_document,
    inspection_document,
    layouts_document,
    manifest_document,
    rematerialization_document,
    requirements_document,
    sensitivity_document,
    simulation_document,
    sizing_document,
    stages_document,
    sweep_document,
    techniques_document,
)
from sizing.reports.sliders import sliders
from sizing.scenario import Scenario
from sizing.storage.calibration import Calibration, agreeing, calibrate
from sizing.storage.measurement import BenchmarkResult
from sizing.summary.inspected import inspected_flags

_EXPLORATIONS: dict[type[BaseModel], tuple[Callable[[Any], BaseModel], Callable[[Any], Document]]] = {
    Scenario: (requirements_of, requirements_document),
    ComparisonRequest: (comparison_of, comparison_document),
    DecisionRequest: (decision_of, decision_document),
    SensitivityRequest: (sensitivity_of, sensitivity_document),
    TechniquesRequest: (techniques_of, techniques_document),
    ClusterScenario: (functools.partial(cluster_report, progress=tell), cluster_document),
    LayoutsRequest: (functools.partial(layouts_of, progress=tell), layouts_document),
    RematerializationRequest: (rematerialization_of, rematerialization_document),
    StagesRequest: (stages_of, stages_document),
    ScenarioSimulation: (functools.partial(simulated, progress=tell), simulation_document),
}
"""By the kind of question: what answers it, and what puts the report in words for a page."""


def exploration_in(form: ReportForm, question: BaseModel) -> bytes:
    """The report that answers a question of this kind, in one of its forms."""
    answered, worded = _EXPLORATIONS[type(question)]
    report = answered(question)
    return made(form, Answer(report, lambda: _with_sliders(worded(report), question)))


def _with_sliders(document: Document, question: BaseModel) -> Document:
    """The document with inputs to drag, where the question is about one scenario."""
    match question:
        case (
            (Scenario() as scenario)
            | TechniquesRequest(scenario=scenario)
            | LayoutsRequest(scenario=scenario)
            | ScenarioSimulation(scenario=scenario)
            | DecisionRequest(workloads=(Workload(scenario=scenario),))
        ):
            return dataclasses.replace(document, sliders=sliders(scenario))
        case _:
            return document


def sweep_in(form: ReportForm, document: dict[str, Any]) -> bytes:
    """The SweepReport of a SweepRequest document, in one of its forms; as CSV its rows alone."""
    report = sweep(document, progress=tell)
    if form == "csv":
        return table_text(report.columns, report.rows, line_end="\n").encode()
    return made(form, Answer(report, lambda: sweep_document(report)))


def manifest_in(form: ReportForm, request: ManifestRequest) -> bytes:
    """The files of a scenario's checkpoint, in one of the forms; as CSV every one of them."""
    found = laid_out_scenario(request.scenario)
    report = answer(found.scenario, assumed=found.assumed, nothing_fits=found.nothing_fits)
    if form == "csv":
        return table_text(ManifestRow._fields, every_file(found.scenario, report), line_end="\n").encode()
    listed = manifest_report(request, found.scenario, report)
    return made(form, Answer(listed, lambda: manifest_document(report, listed)))


def inspection_in(form: ReportForm, file: SentFile) -> bytes:
    """What a file tells of the checkpoint that it belongs to, in one of the forms."""
    contents = contents_of_sent(file)
    told = fields_of(inspected_flags(contents))
    worded = functools.partial(inspection_document, contents, name=file.name)
    return made(form, Answer(contents, lambda: dataclasses.replace(worded(), told_fields=told)))


def sizing_in(form: ReportForm, asked: Asked, scenario: Scenario) -> bytes:
    """The answer of today to a scenario, in one of its forms."""
    found = laid_out_scenario(scenario)
    report = answer(found.scenario, assumed=found.assumed, nothing_fits=found.nothing_fits)
    return sizing_report_in(form, asked, found.scenario, report)


def sizing_report_in(form: ReportForm, asked: Asked, scenario: Scenario, report: SizingReport) -> bytes:
    """The report that answers a scenario, in one of its forms."""
    worded = functools.partial(sizing_document, scenario, report, title=asked.name, asked=asked.document)
    origin = since.origin(asked, report.model_dump(mode="json")) if asked.saved_at and FORMS[form].has_charts else ""
    return made(form, Answer(report, worded, origin))


class Fitted(BaseModel):
    """A calibration, and why runs are left out of it, by their ids."""

    calibration: Calibration
    left_out: dict[str, str]


def fitted_json(documents: dict[str, str], engine: str | None, *, named: bool) -> bytes:
    """What result documents give, by the ids of their runs, the newest first.

    What this version cannot read is left out, and unless the runs were `named` by who asks, what contradicts others.
    """
    left_out: dict[str, str] = {}
    results = []
    for run_id, document in documents.items():
        try:
            results.append(BenchmarkResult.model_validate_json(document))
        except ValidationError:
            left_out[run_id] = "cannot be read by this version"
    if not named:
        results, contradicting = agreeing(results, engine=engine)
        left_out |= {run_id: f"contradicts others: {text}" for run_id, text in contradicting.items()}
    return Fitted(calibration=calibrate(results, engine=engine), left_out=left_out).model_dump_json().encode()


def vega_script() -> bytes:
    """The libraries that draw charts in a browser. Raises NotInstalled without the extra `charts`."""
    return rendering.script().encode()
