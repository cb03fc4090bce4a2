"""A typed client of the service: one method for each thing that it does."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import httpx
from pydantic import BaseModel

from service_client.connection import Connection, path_of
from service_client.documents import (
    AuditEntry,
    CalibrationSummary,
    ReportForm,
    RunSummary,
    SavedScenario,
    ScenarioSummary,
    StorageSystem,
    StoredCalibration,
)
from sizing.cluster.node import CatalogNode
from sizing.explore.clusters.cluster_report import ClusterReport
from sizing.explore.clusters.cluster_scenario import ClusterScenario
from sizing.explore.comparisons.comparison_report import ComparisonReport
from sizing.explore.comparisons.comparison_request import ComparisonRequest
from sizing.explore.layouts.layouts_report import LayoutsReport
from sizing.explore.layouts.layouts_request import LayoutsRequest
from sizing.explore.requirements.requirements_report import RequirementsReport
from sizing.explore.scenario_simulation import ScenarioSimulation
from sizing.explore.sensitivities.sensitivity_report import SensitivityReport
from sizing.explore.sensitivities.sensitivity_request import SensitivityRequest
from sizing.explore.sweeps.sweep_report import SweepReport
from sizing.explore.sweeps.sweep_request import SweepRequest
from sizing.model.catalog import CatalogModel
from sizing.report import SizingReport
from sizing.run.failure_rates import PublishedRate
from sizing.run.simulation.simulation_report import SimulationReport
from sizing.scenario import Scenario
from sizing.storage.catalog import CatalogProfile
from sizing.storage.measurement import BenchmarkResult
from sizing.training.techniques import Technique
from sizing.validation import ValidationReport

SYSTEMS = "storage-systems"

Document = Mapping[str, Any]


class Client(Connection):
    """The service at an address. Every method raises Refused or Unavailable where there is no answer.

    Questions are given as their types or as the documents that the command line reads.
    """

    def answer(self, scenario: Scenario | Document) -> SizingReport:
        """What the checkpoints of a scenario weigh, take, cost and need."""
        return self._post(SizingReport, path_of("sizings"), _document(scenario))

    def requirements(self, scenario: Scenario | Document) -> RequirementsReport:
        """The min bandwidth and capacity, and the intervals, that meet the targets of a scenario."""
        return self._post(RequirementsReport, path_of("requirements"), _document(scenario))

    def sweep(self, request: SweepRequest | Document) -> SweepReport:
        """A row for each scenario of a sweep, and the rows that no other beats."""
        return self._post(SweepReport, path_of("sweeps"), _document(request))

    def sweep_csv(self, request: SweepRequest | Document) -> str:
        """The rows of a sweep as CSV."""
        return self._send("POST", path_of("sweeps"), json=_document(request), headers={"accept": "text/csv"}).text

    def comparison(self, request: ComparisonRequest | Document) -> ComparisonReport:
        """Which inputs of scenarios differ, which figures follow, and which input made which difference."""
        return self._post(ComparisonReport, path_of("comparisons"), _document(request))

    def sensitivity(self, request: SensitivityRequest | Document) -> SensitivityReport:
        """Which given inputs of a scenario move its headline figure, the largest swing first."""
        return self._post(SensitivityReport, path_of("sensitivities"), _document(request))

    def layouts(self, request: LayoutsRequest | Document) -> LayoutsReport:
        """The layouts of a model that fit a number of GPUs, the best first."""
        return self._post(LayoutsReport, path_of("layouts"), _document(request))

    def cluster(self, scenario: ClusterScenario | Document) -> ClusterReport:
        """What many jobs on one storage system do to each other."""
        return self._post(ClusterReport, path_of("clusters"), _document(scenario))

    def simulation(self, question: ScenarioSimulation | Document) -> SimulationReport:
        """The goodput that random failures leave a scenario's run, beside the formula's."""
        return self._post(SimulationReport, path_of("simulations"), _document(question))

    def models(self) -> list[CatalogModel]:
        """The models, with their sources."""
        return self._get(list[CatalogModel], path_of("models"))

    def model(self, name: str) -> CatalogModel:
        """One of them."""
        return self._get(CatalogModel, path_of("models", name))

    def nodes(self) -> list[CatalogNode]:
        """The node types, with their sources."""
        return self._get(list[CatalogNode], path_of("nodes"))

    def node(self, name: str) -> CatalogNode:
        """One of them."""
        return self._get(CatalogNode, path_of("nodes", name))

    def storage_profiles(self) -> list[CatalogProfile]:
        """The published storage systems, with their sources."""
        return self._get(list[CatalogProfile], path_of("storage-profiles"))

    def storage_profile(self, name: str) -> CatalogProfile:
        """One of them."""
        return self._get(CatalogProfile, path_of("storage-profiles", name))

    def failure_rates(self) -> list[PublishedRate]:
        """The published failure rates, with their sources."""
        return self._get(list[PublishedRate], path_of("failure-rates"))

    def failure_rate(self, name: str) -> PublishedRate:
        """One of them."""
        return self._get(PublishedRate, path_of("failure-rates", name))

    def techniques(self) -> list[Technique]:
        """The training techniques, with their sources."""
        return self._get(list[Technique], path_of("techniques"))

    def validation(self) -> ValidationReport:
        """The calculation beside everything published that it can be held against."""
        return self._get(ValidationReport, path_of("validation"))

    def add_storage_system(self, name: str, description: str = "") -> StorageSystem:
        """Add a storage system, or find the same."""
        return self._post(StorageSystem, path_of(SYSTEMS), {"name": name, "description": description})

    def storage_systems(self) -> Iterator[StorageSystem]:
        """Every storage system, by name."""
        return self._items(StorageSystem, path_of(SYSTEMS))

    def storage_system(self, name: str) -> StorageSystem:
        """One of them."""
        return self._get(StorageSystem, path_of(SYSTEMS, name))

    def delete_storage_system(self, name: str) -> None:
        """Delete a storage system that has no runs."""
        self._send("DELETE", path_of(SYSTEMS, name))

    def publish(self, system: str, result: BenchmarkResult | bytes) -> bool:
        """Publish a result document for a storage system: True where it is new, False where it was there already."""
        document = result if isinstance(result, bytes) else result.model_dump_json().encode()
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        response = self._send(
            "POST", path_of(SYSTEMS, system, "runs"), content=gzip.compress(document), headers=headers
        )
        return response.status_code == httpx.codes.CREATED

    def runs(self, system: str, **wanted: str | int) -> Iterator[RunSummary]:
        """The runs of a storage system, the newest first; `wanted` as the route has it, such as engine="direct"."""
        return self._items(RunSummary, path_of(SYSTEMS, system, "runs"), **wanted)

    def result(self, system: str, run_id: str) -> BenchmarkResult:
        """The result document of a run."""
        return self._get(BenchmarkResult, path_of(SYSTEMS, system, "runs", run_id))

    def calibrate(
        self, system: str, run_ids: Sequence[str] | None = None, *, engine: str | None = None
    ) -> StoredCalibration:
        """Fit a profile to runs of a storage system, or to all of them, and keep it."""
        body = {"run_ids": None if run_ids is None else list(run_ids), "engine": engine}
        return self._post(StoredCalibration, path_of(SYSTEMS, system, "calibrations"), body)

    def calibrations(self, system: str) -> Iterator[CalibrationSummary]:
        """The calibrations of a storage system, the newest first."""
        return self._items(CalibrationSummary, path_of(SYSTEMS, system, "calibrations"))

    def calibration(self, system: str, calibration_id: UUID) -> StoredCalibration:
        """A calibration with its fit, its intervals and its warnings."""
        return self._get(StoredCalibration, path_of(SYSTEMS, system, "calibrations", calibration_id))

    def save_scenario(self, name: str, scenario: Scenario | Document) -> SavedScenario:
        """Save a scenario under a name."""
        return self._post(SavedScenario, path_of("scenarios"), {"name": name, "scenario": _document(scenario)})

    def scenarios(self) -> Iterator[ScenarioSummary]:
        """Every saved scenario, the newest first."""
        return self._items(ScenarioSummary, path_of("scenarios"))

    def scenario(self, scenario_id: UUID) -> SavedScenario:
        """A saved scenario as it was given."""
        return self._get(SavedScenario, path_of("scenarios", scenario_id))

    def report(self, scenario_id: UUID) -> SizingReport:
        """The answer of today to a saved scenario."""
        return self._get(SizingReport, path_of("scenarios", scenario_id, "report"), form="json")

    def report_file(self, scenario_id: UUID, form: ReportForm) -> bytes:
        """The same as a file to keep or to send: a page that is complete in itself, PDF, CSV or JSON."""
        return self._send("GET", path_of("scenarios", scenario_id, "report"), params={"form": form}).content

    def delete_scenario(self, scenario_id: UUID) -> None:
        """Delete a saved scenario."""
        self._send("DELETE", path_of("scenarios", scenario_id))

    def audit_log(self) -> Iterator[AuditEntry]:
        """Who changed what and when, the newest first; for a token with scope admin."""
        return self._items(AuditEntry, path_of("audit-log"))

    def metrics(self) -> str:
        """Its figures, in the format of Prometheus."""
        return self._send("GET", "/metrics").text

    def check_alive(self) -> None:
        """Return where the process answers."""
        self._send("GET", "/healthz")

    def check_ready(self) -> None:
        """Return where it can serve: the database is reachable and has the schema of its version."""
        self._send("GET", "/readyz")


def _document(question: BaseModel | Document) -> Any:
    return question.model_dump(mode="json", exclude_unset=True) if isinstance(question, BaseModel) else question
