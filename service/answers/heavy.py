"""The heavy questions as functions from question to answer, for the processes of `service.compute.pool`."""

from __future__ import annotations

import csv
import io
from typing import Any

from service.reports.forms import FORMS
from service.reports.saved import Saved
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
from sizing.report import answer
from sizing.scenario import Scenario
from sizing.storage.calibration import calibrate
from sizing.storage.measurement import BenchmarkResult


def requirements_json(scenario: Scenario) -> bytes:
    """The RequirementsReport of a scenario."""
    return requirements_of(scenario).model_dump_json().encode()


def comparison_json(request: ComparisonRequest) -> bytes:
    """The ComparisonReport of scenarios side by side."""
    return comparison_of(request).model_dump_json().encode()


def sensitivity_json(request: SensitivityRequest) -> bytes:
    """The SensitivityReport of a scenario's given inputs."""
    return sensitivity_of(request).model_dump_json().encode()


def cluster_json(scenario: ClusterScenario) -> bytes:
    """The ClusterReport of many jobs."""
    return cluster_report(scenario).model_dump_json().encode()


def layouts_json(request: LayoutsRequest) -> bytes:
    """The LayoutsReport of a scenario's model on its GPUs."""
    return layouts_of(request).model_dump_json().encode()


def simulation_json(question: ScenarioSimulation) -> bytes:
    """The SimulationReport of a scenario's run."""
    return simulated(question).model_dump_json().encode()


def sweep_json(document: dict[str, Any]) -> bytes:
    """The SweepReport of a SweepRequest document."""
    return sweep(document).model_dump_json().encode()


def sweep_csv(document: dict[str, Any]) -> bytes:
    """Its rows alone."""
    report = sweep(document)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(report.columns)
    writer.writerows(report.rows)
    return text.getvalue().encode()


def saved_report(form: ReportForm, saved: Saved, scenario: Scenario) -> bytes:
    """The answer of today to a saved scenario, in one of its forms."""
    made = FORMS[form].make(saved, scenario, answer(scenario))
    return made.encode() if isinstance(made, str) else made


def calibration_json(documents: list[str], engine: str | None) -> bytes:
    """The Calibration that result documents give."""
    results = [BenchmarkResult.model_validate_json(document) for document in documents]
    return calibrate(results, engine=engine).model_dump_json().encode()
