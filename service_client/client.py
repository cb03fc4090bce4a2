"""A typed client of the service: one method for each thing that it does."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import httpx
from pydantic import BaseModel

from service_client.connection import Connection, path_of, read
from service_client.documents import (
    AuditEntry,
    CalibrationSummary,
    ChangedRate,
    Job,
    ListedScenario,
    NewSharingLink,
    RateTrend,
    RunSummary,
    SavedScenario,
    ScenarioChanges,
    SharingLink,
    StorageSystem,
    StorageSystemSummary,
    StoredCalibration,
    TokenHolder,
)
from service_client.errors import Unavailable
from service_client.terms import ReportForm
from sizing.checkpoint_files.contents import CheckpointContents
from sizing.checkpoint_files.sent import SentFile
from sizing.cluster.node import CatalogNode
from sizing.explore.clusters.cluster_report import ClusterReport
from sizing.explore.clusters.cluster_scenario import ClusterScenario
from sizing.explore.comparisons.comparison_report import ComparisonReport
from sizing.explore.comparisons.comparison_request import ComparisonRequest
from sizing.explore.decisions.decision_report import DecisionReport
from sizing.explore.decisions.decision_request import DecisionRequest
from sizing.explore.layouts.layouts_report import LayoutsReport
from sizing.explore.layouts.layouts_request import LayoutsRequest
from sizing.explore.manifests.manifest_report import ManifestReport
from sizing.explore.manifests.manifest_request import ManifestRequest
from sizing.explore.rematerializations.rematerialization_report import RematerializationReport
from sizing.explore.rematerializations.rematerialization_request import RematerializationRequest
from sizing.explore.requirements.requirements_report import RequirementsReport
from sizing.explore.scenario_simulation import ScenarioSimulation
from sizing.explore.sensitivities.sensitivity_report import SensitivityReport
from sizing.explore.sensitivities.sensitivity_request import SensitivityRequest
from sizing.explore.stages.stages_report import StagesReport
from sizing.explore.stages.stages_request import StagesRequest
from sizing.explore.sweeps.sweep_report import SweepReport
from sizing.explore.sweeps.sweep_request import SweepRequest
from sizing.explore.techniques.techniques_report import TechniquesReport, TechniquesRequest
from sizing.layout.formats.catalog import CatalogFormat
from sizing.model.catalog import CatalogModel
from sizing.report import SizingReport
from sizing.run.failure_rates import PublishedRate
from sizing.run.simulation.simulation_report import SimulationReport
from sizing.scenario import Scenario
from sizing.storage.catalog import CatalogProfile
from sizing.storage.measurement import BenchmarkResult
from sizing.training.techniques.catalog import Technique
from sizing.validation import ValidationReport

SYSTEMS = "storage-systems"

_SEEN_BEFORE = '"seen-before"'
"""The ETag of no present state."""

Document = Mapping[str, Any]


class Client(Connection):
    """The service at an address. Every method raises Refused or Unavailable where there is no answer.

    Questions are given as their types or as the documents that the command line reads. One that the service makes a job
    of, as it takes long, is waited for.
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
        return self._asked(path_of("sweeps"), _document(request), accept="text/csv").text

    def comparison(self, request: ComparisonRequest | Document) -> ComparisonReport:
        """Which inputs of scenarios differ, which figures follow, and which input made which difference."""
        return self._post(ComparisonReport, path_of("comparisons"), _document(request))

    def decision(self, request: DecisionRequest | Document) -> DecisionReport:
        """Which offers are enough for some workloads, and which costs least with the GPU time that it loses."""
        return self._post(DecisionReport, path_of("decisions"), _document(request))

    def sensitivity(self, request: SensitivityRequest | Document) -> SensitivityReport:
        """Which given inputs of a scenario move its headline figure, the largest swing first."""
        return self._post(SensitivityReport, path_of("sensitivities"), _document(request))

    def technique_effects(self, request: TechniquesRequest | Document) -> TechniquesReport:
        """What each technique of the catalog would change in a scenario, or why it does not apply."""
        return self._post(TechniquesReport, path_of("techniques"), _document(request))

    def layouts(self, request: LayoutsRequest | Document) -> LayoutsReport:
        """The layouts of a model that fit a number of GPUs, the best first."""
        return self._post(LayoutsReport, path_of("layouts"), _document(request))

    def rematerialization(self, request: RematerializationRequest | Document) -> RematerializationReport:
        """Which layers to compute again so that a batch fits the GPUs, and what that costs."""
        return self._post(RematerializationReport, path_of("rematerializations"), _document(request))

    def stages(self, request: StagesRequest | Document) -> StagesReport:
        """Which layers to put on which kind of node, and which nodes write how much then."""
        return self._post(StagesReport, path_of("stages"), _document(request))

    def cluster(self, scenario: ClusterScenario | Document) -> ClusterReport:
        """What many jobs on one storage system do to each other."""
        return self._post(ClusterReport, path_of("clusters"), _document(scenario))

    def simulation(self, question: ScenarioSimulation | Document) -> SimulationReport:
        """The goodput that random failures leave a scenario's run, beside the formula's."""
        return self._post(SimulationReport, path_of("simulations"), _document(question))

    def manifest(self, request: ManifestRequest | Document) -> ManifestReport:
        """The files of a scenario's checkpoint, by class of ranks and one by one."""
        return self._post(ManifestReport, path_of("manifests"), _document(request))

    def manifest_csv(self, request: ManifestRequest | Document) -> str:
        """Every file of a scenario's checkpoint as CSV."""
        return self._asked(path_of("manifests"), _document(request), accept="text/csv").text

    def inspection(self, file: SentFile | Document) -> CheckpointContents:
        """What an index or a header tells of an existing checkpoint."""
        return self._post(CheckpointContents, path_of("inspections"), _document(file))

    def schema(self, name: str) -> dict[str, Any]:
        """The JSON Schema of a kind of question, scenario, decision or cluster, with an example."""
        return self._get(dict[str, Any], path_of("schemas", name))

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

    def formats(self) -> list[CatalogFormat]:
        """The checkpoint formats, with their sources."""
        return self._get(list[CatalogFormat], path_of("formats"))

    def techniques(self) -> list[Technique]:
        """The training techniques, with their sources."""
        return self._get(list[Technique], path_of("techniques"))

    def validation(self) -> ValidationReport:
        """The calculation beside everything published that it can be held against."""
        return self._get(ValidationReport, path_of("validation"))

    def add_storage_system(self, name: str, description: str = "") -> StorageSystem:
        """Add a storage system, or find the same."""
        return self._post(StorageSystem, path_of(SYSTEMS), {"name": name, "description": description})

    def storage_systems(self) -> Iterator[StorageSystemSummary]:
        """Every storage system, by name, with the number of its runs and its latest calibration."""
        return self._items(StorageSystemSummary, path_of(SYSTEMS))

    def storage_system(self, name: str) -> StorageSystem:
        """One of them."""
        return self._get(StorageSystem, path_of(SYSTEMS, name))

    def change_storage_system(self, seen: StorageSystem, **changes: object) -> StorageSystem:
        """Change description, owners or retention of a storage system, unless it is not any more as it was `seen`."""
        path = path_of(SYSTEMS, seen.name)
        found = self._send("GET", path)
        present = read(StorageSystem, found)
        etag = found.headers["etag"] if present == seen else _SEEN_BEFORE
        return read(StorageSystem, self._send("PATCH", path, json=changes, headers={"if-match": etag}))

    def delete_storage_system(self, name: str) -> None:
        """Delete a storage system that has no runs."""
        self._send("DELETE", path_of(SYSTEMS, name))

    def trend(self, system: str, **wanted: str) -> list[RateTrend]:
        """The rates of each series of like runs; `wanted` as the route has it, such as engine="direct"."""
        return self._get(list[RateTrend], path_of(SYSTEMS, system, "trend"), **wanted)

    def alarms(self, system: str) -> list[ChangedRate]:
        """The latest loss of each series that is at a loss now."""
        return self._get(list[ChangedRate], path_of(SYSTEMS, system, "alarms"))

    def withdraw_run(self, system: str, run_id: str, reason: str) -> RunSummary:
        """Leave a run out of calibrations and trends."""
        path = path_of(SYSTEMS, system, "runs", run_id, "withdrawal")
        return read(RunSummary, self._send("PUT", path, json={"reason": reason}))

    def reinstate_run(self, system: str, run_id: str) -> None:
        """Let a withdrawn run speak again."""
        self._send("DELETE", path_of(SYSTEMS, system, "runs", run_id, "withdrawal"))

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
        self, system: str, run_ids: Sequence[str] | None = None, *, engine: str | None = None, **window: str | int
    ) -> StoredCalibration:
        """Fit a profile to runs of a storage system, or to those of a window, such as latest=10, and keep it."""
        body = {"run_ids": None if run_ids is None else list(run_ids), "engine": engine, **window}
        return self._post(StoredCalibration, path_of(SYSTEMS, system, "calibrations"), body)

    def calibrations(self, system: str) -> Iterator[CalibrationSummary]:
        """The calibrations of a storage system, the newest first."""
        return self._items(CalibrationSummary, path_of(SYSTEMS, system, "calibrations"))

    def calibration(self, system: str, calibration_id: UUID) -> StoredCalibration:
        """A calibration with its fit, its intervals and its warnings."""
        return self._get(StoredCalibration, path_of(SYSTEMS, system, "calibrations", calibration_id))

    def save_scenario(self, name: str, scenario: Scenario | Document, *, key: str | None = None) -> SavedScenario:
        """Save a scenario under a name; once, however often it is sent with the same idempotency key."""
        body = {"name": name, "scenario": _document(scenario)}
        headers = {} if key is None else {"idempotency-key": key}
        return read(SavedScenario, self._send("POST", path_of("scenarios"), json=body, headers=headers))

    def scenarios(self) -> Iterator[ListedScenario]:
        """Every saved scenario, the newest first, with the figures that it had when it was saved."""
        return self._items(ListedScenario, path_of("scenarios"))

    def scenario(self, scenario_id: UUID) -> SavedScenario:
        """A saved scenario as it was given."""
        return self._get(SavedScenario, path_of("scenarios", scenario_id))

    def report(self, scenario_id: UUID) -> SizingReport:
        """The answer of today to a saved scenario."""
        return self._get(SizingReport, path_of("scenarios", scenario_id, "report"), form="json")

    def changes(self, scenario_id: UUID) -> ScenarioChanges:
        """What changed in the answer to a saved scenario since it was saved."""
        return self._get(ScenarioChanges, path_of("scenarios", scenario_id, "changes"))

    def report_file(self, scenario_id: UUID, form: ReportForm) -> bytes:
        """The same as a file to keep or to send: a page that is complete in itself, PDF, CSV or JSON."""
        return self._send("GET", path_of("scenarios", scenario_id, "report"), params={"form": form}).content

    def delete_scenario(self, scenario_id: UUID) -> None:
        """Delete a saved scenario."""
        self._send("DELETE", path_of("scenarios", scenario_id))

    def share_scenario(self, scenario_id: UUID, *, valid_seconds: float | str | None = None) -> NewSharingLink:
        """Make a link that reads a saved scenario without a token, for a time such as "30d", or until withdrawn."""
        return self._post(NewSharingLink, path_of("scenarios", scenario_id, "links"), {"valid_seconds": valid_seconds})

    def sharing_links(self, scenario_id: UUID) -> list[SharingLink]:
        """The sharing links of a saved scenario, the newest first."""
        return self._get(list[SharingLink], path_of("scenarios", scenario_id, "links"))

    def withdraw_sharing_link(self, scenario_id: UUID, link_id: UUID) -> None:
        """Make a sharing link worthless from now on."""
        self._send("DELETE", path_of("scenarios", scenario_id, "links", link_id))

    def shared_scenario(self, key: str) -> SavedScenario:
        """The scenario that the key of a sharing link reads."""
        return read(SavedScenario, self._send("GET", path_of("shared"), headers=_bearer(key)))

    def shared_report_file(self, key: str, form: ReportForm) -> bytes:
        """The report of today of the scenario that the key of a sharing link reads, as a file."""
        path = path_of("shared", "report")
        return self._send("GET", path, params={"form": form}, headers=_bearer(key)).content

    def start_job(self, kind: str, question: BaseModel | Document, *, accept: str = "application/json") -> Job:
        """Ask a question, such as one for "sweeps", to be answered later; `accept`, the media type of the result."""
        headers = {"prefer": "respond-async", "accept": accept}
        response = self._send("POST", path_of(kind), json=_document(question), headers=headers)
        if response.status_code != httpx.codes.ACCEPTED:
            raise Unavailable(f"{response.url.host} answers no {kind} as jobs", status=response.status_code)
        return self.job(UUID(response.headers["location"].rpartition("/")[2]))

    def job(self, job_id: UUID) -> Job:
        """The state of a job."""
        return self._get(Job, path_of("jobs", job_id))

    def jobs(self) -> Iterator[Job]:
        """The jobs that were asked for with the token of this client, the newest first."""
        return self._items(Job, path_of("jobs"))

    def wait_for_job(self, job_id: UUID) -> Job:
        """A job that has ended, however it did; asked for as often as the service wants to be."""
        return self._ended_job(path_of("jobs", job_id))

    def job_result(self, job_id: UUID) -> bytes:
        """The result of a job that is done, as it was asked for; such as JSON of a SweepReport."""
        return self._send("GET", path_of("jobs", job_id, "result")).content

    def cancel_job(self, job_id: UUID) -> None:
        """Cancel a job, or delete one that has ended, with its result."""
        self._send("DELETE", path_of("jobs", job_id))

    def whoami(self) -> TokenHolder:
        """Whose token this client has, and what it allows."""
        return self._get(TokenHolder, path_of("whoami"))

    def audit_log(self, **wanted: str) -> Iterator[AuditEntry]:
        """Who changed what and when, the newest first; `wanted` as the route has it. For a token with scope admin."""
        return self._items(AuditEntry, path_of("audit-log"), **wanted)

    def metrics(self) -> str:
        """Its figures, in the format of Prometheus."""
        return self._send("GET", "/metrics").text

    def check_alive(self) -> None:
        """Return where the process answers."""
        self._send("GET", "/healthz")

    def check_ready(self) -> None:
        """Return where it can serve: the database is reachable and has a schema that its version works on."""
        self._send("GET", "/readyz")


def _document(question: BaseModel | Document) -> Any:
    return question.model_dump(mode="json", exclude_unset=True) if isinstance(question, BaseModel) else question


def _bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}
