"""The heavy questions as functions from question to answer, for the processes of `service.compute.pool`."""

from __future__ import annotations

import csv
import io
from typing import Any

from service.reports.asked import Asked
from service.reports.forms import Answer, made
from service_client.documents import ReportForm
from sizing.explore.clusters.cluster_answer import cluster_report
from sizing.explore.clusters.cluster_scenario import ClusterScenario
from sizing.explore.comparisons.comparison import comparison_of
from sizing.explore.comparisons.comparison_request import ComparisonRequest
from sizing.explore.layouts.layouts_request import LayoutsRequest
from sizing.explore.layouts.ranking import layouts_of
from sizing.explore.requirements.solver import requirements_of
from sizing.explore.scenario_simulation import ScenarioSimulation, simulated
from sizing.explore.sensitivities.sensitivity import sensitivity_of
from sizing.explore.sensitivities.sensitivity_request import SensitivityRequest
from sizing.explore.sweeps.sweep import sweep
from sizing.explore.sweeps.sweep_report import SweepReport
from sizing.report import answer
from sizing.reports.document import (
    cluster_document,
    comparison_document,
    layouts_document,
    requirements_document,
    simulation_document,
    sizing_document,
    sweep_document,
)
from sizing.scenario import Scenario
from sizing.storage.calibration import calibrate
from sizing.storage.measurement import BenchmarkResult


def requirements_in(form: ReportForm, scenario: Scenario) -> bytes:
    """The RequirementsReport of a scenario, in one of its forms."""
    report = requirements_of(scenario)
    return made(form, Answer(report, lambda: requirements_document(report)))


def comparison_in(form: ReportForm, request: ComparisonRequest) -> bytes:
    """The ComparisonReport of scenarios side by side, in one of its forms."""
    report = comparison_of(request)
    return made(form, Answer(report, lambda: comparison_document(report)))


def sensitivity_json(request: SensitivityRequest) -> bytes:
    """The SensitivityReport of a scenario's given inputs."""
    return sensitivity_of(request).model_dump_json().encode()


def cluster_in(form: ReportForm, scenario: ClusterScenario) -> bytes:
    """The ClusterReport of many jobs, in one of its forms."""
    report = cluster_report(scenario)
    return made(form, Answer(report, lambda: cluster_document(report)))


def layouts_in(form: ReportForm, request: LayoutsRequest) -> bytes:
    """The LayoutsReport of a scenario's model on its GPUs, in one of its forms."""
    report = layouts_of(request)
    return made(form, Answer(report, lambda: layouts_document(report)))


def simulation_in(form: ReportForm, question: ScenarioSimulation) -> bytes:
    """The SimulationReport of a scenario's run, in one of its forms."""
    report = simulated(question)
    return made(form, Answer(report, lambda: simulation_document(report)))


def sweep_in(form: ReportForm, document: dict[str, Any]) -> bytes:
    """The SweepReport of a SweepRequest document, in one of its forms; as CSV its rows alone."""
    report = sweep(document)
    if form == "csv":
        return _rows_csv(report)
    return made(form, Answer(report, lambda: sweep_document(report)))


def sizing_in(form: ReportForm, asked: Asked, scenario: Scenario) -> bytes:
    """The answer of today to a scenario, in one of its forms."""
    report = answer(scenario)
    return made(
        form,
        Answer(report, lambda: sizing_document(scenario, report, title=asked.name, asked=asked.document), asked.origin),
    )


def calibration_json(documents: list[str], engine: str | None) -> bytes:
    """The Calibration that result documents give."""
    results = [BenchmarkResult.model_validate_json(document) for document in documents]
    return calibrate(results, engine=engine).model_dump_json().encode()


def _rows_csv(report: SweepReport) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(report.columns)
    writer.writerows(report.rows)
    return text.getvalue().encode()
