"""A typed client of the service: one method for each thing that it does."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from sizing.frameworks.registry import CatalogFramework
from sizing.importers import ImportReport, ImportRequest
from sizing.layout.formats.registry import CatalogFormat
from sizing.model.catalog import CatalogModel
from sizing.offer_tables import OfferTable, OfferTableRequest
from sizing.questions import registry
from sizing.questions.question import ReportT, RequestT
from sizing.questions.registry import QuestionEntry
from sizing.report import SizingReport
from sizing.run.failure_rates import PublishedRate
from sizing.scenario import Scenario
from sizing.storage.catalog import CatalogProfile
from sizing.storage.measurement import BenchmarkResult
from sizing.training.techniques import Technique
from sizing.validation import ValidationReport

SYSTEMS = "storage-systems"

_SEEN_BEFORE = '"seen-before"'
"""The ETag of no present state."""

Document = Mapping[str, Any]


def _document(question: BaseModel | Document) -> Any:
    return question.model_dump(mode="json", exclude_unset=True) if isinstance(question, BaseModel) else question


def _asking(entry: QuestionEntry[RequestT, ReportT]) -> Callable[[Client, RequestT | Document], ReportT]:
    """Make a client method that asks a question under a name of its own."""

    def method(self: Client, request: RequestT | Document) -> ReportT:
        return self.ask(entry, request)

    method.__doc__ = entry.help
    return method


def _asking_csv(entry: QuestionEntry[RequestT, ReportT]) -> Callable[[Client, RequestT | Document], str]:
    """Prepare a request for an answer as CSV."""

    def method(self: Client, request: RequestT | Document) -> str:
        return self.ask_csv(entry, request)

    method.__doc__ = f"{entry.help} As CSV."
    return method


class Client(Connection):
    """Client of the service at an address. Every method raises Refused or Unavailable where there is no answer.

    Questions are given as their types or as the documents that the command line reads. One that the service makes a job
    of, as it takes long, is waited for.
    """

    def ask(self, entry: QuestionEntry[RequestT, ReportT], request: RequestT | Document) -> ReportT:
        """Ask a question of the registry."""
        question = entry.question
        return self._post(question.report, path_of(question.route.path), _document(request))

    def ask_csv(self, entry: QuestionEntry[RequestT, ReportT], request: RequestT | Document) -> str:
        """Ask a question that can answer so for its table as CSV."""
        return self._ask_and_wait(path_of(entry.question.route.path), _document(request), accept="text/csv").text

    answer = _asking(registry.ANSWER)
    requirements = _asking(registry.REQUIRE)
    sweep = _asking(registry.SWEEP)
    sweep_csv = _asking_csv(registry.SWEEP)
    comparison = _asking(registry.COMPARE)
    decision = _asking(registry.DECIDE)
    sensitivity = _asking(registry.SENSITIVITY)
    technique_effects = _asking(registry.TECHNIQUES)
    layouts = _asking(registry.LAYOUTS)
    rematerialization = _asking(registry.REMATERIALIZE)
    stages = _asking(registry.STAGES)
    cluster = _asking(registry.CLUSTER)
    simulation = _asking(registry.SIMULATE)
    manifest = _asking(registry.MANIFEST)
    manifest_csv = _asking_csv(registry.MANIFEST)

    def inspection(self, file: SentFile | Document) -> CheckpointContents:
        """Describe an existing checkpoint by its index or a header."""
        return self._post(CheckpointContents, path_of("inspections"), _document(file))

    def import_config_files(self, request: ImportRequest | Document) -> ImportReport:
        """Read config files of a training as a scenario."""
        return self._post(ImportReport, path_of("imports"), _document(request))

    def offer_table(self, request: OfferTableRequest | Document) -> OfferTable:
        """Read or write offers as a table of a spreadsheet."""
        return self._post(OfferTable, path_of("offer-tables"), _document(request))

    def schema(self, name: str) -> dict[str, Any]:
        """Return the JSON Schema of a kind of question, scenario, decision or cluster, with an example."""
        return self._get(dict[str, Any], path_of("schemas", name))

    def models(self) -> list[CatalogModel]:
        """List the models, with their sources."""
        return self._get(list[CatalogModel], path_of("models"))

    def model(self, name: str) -> CatalogModel:
        """Return a model by its name."""
        return self._get(CatalogModel, path_of("models", name))

    def nodes(self) -> list[CatalogNode]:
        """List the node types, with their sources."""
        return self._get(list[CatalogNode], path_of("nodes"))

    def node(self, name: str) -> CatalogNode:
        """Return a node type by its name."""
        return self._get(CatalogNode, path_of("nodes", name))

    def storage_profiles(self) -> list[CatalogProfile]:
        """List the published storage systems, with their sources."""
        return self._get(list[CatalogProfile], path_of("storage-profiles"))

    def storage_profile(self, name: str) -> CatalogProfile:
        """Return a published storage system by its name."""
        return self._get(CatalogProfile, path_of("storage-profiles", name))

    def failure_rates(self) -> list[PublishedRate]:
        """List the published failure rates, with their sources."""
        return self._get(list[PublishedRate], path_of("failure-rates"))

    def failure_rate(self, name: str) -> PublishedRate:
        """Return a published failure rate by its name."""
        return self._get(PublishedRate, path_of("failure-rates", name))

    def formats(self) -> list[CatalogFormat]:
        """List the checkpoint formats, with their sources."""
        return self._get(list[CatalogFormat], path_of("formats"))

    def frameworks(self) -> list[CatalogFramework]:
        """List the training frameworks, with their sources."""
        return self._get(list[CatalogFramework], path_of("frameworks"))

    def techniques(self) -> list[Technique]:
        """List the training techniques, with their sources."""
        return self._get(list[Technique], path_of("techniques"))

    def validation(self) -> ValidationReport:
        """Return the comparisons of the calculation with everything published that it can be checked against."""
        return self._get(ValidationReport, path_of("validation"))

    def add_storage_system(self, name: str, description: str = "") -> StorageSystem:
        """Add a storage system, or find the same one."""
        return self._post(StorageSystem, path_of(SYSTEMS), {"name": name, "description": description})

    def storage_systems(self) -> Iterator[StorageSystemSummary]:
        """Yield every storage system, by name, with the number of its runs and its latest calibration."""
        return self._items(StorageSystemSummary, path_of(SYSTEMS))

    def storage_system(self, name: str) -> StorageSystem:
        """Return a storage system by its name."""
        return self._get(StorageSystem, path_of(SYSTEMS, name))

    def change_storage_system(self, seen: StorageSystem, **changes: object) -> StorageSystem:
        """Change description, owners or retention of a storage system, unless it has changed since it was `seen`."""
        path = path_of(SYSTEMS, seen.name)
        found = self._send("GET", path)
        present = read(StorageSystem, found)
        etag = found.headers["etag"] if present == seen else _SEEN_BEFORE
        return read(StorageSystem, self._send("PATCH", path, json=changes, headers={"if-match": etag}))

    def delete_storage_system(self, name: str) -> None:
        """Delete a storage system that has no runs."""
        self._send("DELETE", path_of(SYSTEMS, name))

    def trend(self, system: str, **query: str) -> list[RateTrend]:
        """Return the rates of each series of like runs; `query` as the route takes it, such as engine="direct"."""
        return self._get(list[RateTrend], path_of(SYSTEMS, system, "trend"), **query)

    def alarms(self, system: str) -> list[ChangedRate]:
        """List the latest loss of each series that is at a loss now."""
        return self._get(list[ChangedRate], path_of(SYSTEMS, system, "alarms"))

    def withdraw_run(self, system: str, run_id: str, reason: str) -> RunSummary:
        """Leave a run out of calibrations and trends."""
        path = path_of(SYSTEMS, system, "runs", run_id, "withdrawal")
        return read(RunSummary, self._send("PUT", path, json={"reason": reason}))

    def reinstate_run(self, system: str, run_id: str) -> None:
        """Let a withdrawn run count again."""
        self._send("DELETE", path_of(SYSTEMS, system, "runs", run_id, "withdrawal"))

    def publish(self, system: str, result: BenchmarkResult | bytes) -> bool:
        """Publish a result document for a storage system: True where it is new, False where it was there already."""
        document = result if isinstance(result, bytes) else result.model_dump_json().encode()
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        response = self._send(
            "POST", path_of(SYSTEMS, system, "runs"), content=gzip.compress(document), headers=headers
        )
        return response.status_code == httpx.codes.CREATED

    def runs(self, system: str, **query: str | int) -> Iterator[RunSummary]:
        """Yield the runs of a storage system, the newest first; `query` as the route takes it: engine="direct"."""
        return self._items(RunSummary, path_of(SYSTEMS, system, "runs"), **query)

    def result(self, system: str, run_id: str) -> BenchmarkResult:
        """Return the result document of a run."""
        return self._get(BenchmarkResult, path_of(SYSTEMS, system, "runs", run_id))

    def calibrate(
        self, system: str, run_ids: Sequence[str] | None = None, *, engine: str | None = None, **window: str | int
    ) -> StoredCalibration:
        """Fit a profile to runs of a storage system, or to those of a window, such as latest=10, and keep it."""
        body = {"run_ids": None if run_ids is None else list(run_ids), "engine": engine, **window}
        return self._post(StoredCalibration, path_of(SYSTEMS, system, "calibrations"), body)

    def calibrations(self, system: str) -> Iterator[CalibrationSummary]:
        """Yield the calibrations of a storage system, the newest first."""
        return self._items(CalibrationSummary, path_of(SYSTEMS, system, "calibrations"))

    def calibration(self, system: str, calibration_id: UUID) -> StoredCalibration:
        """Return a calibration with its fit, its intervals and its warnings."""
        return self._get(StoredCalibration, path_of(SYSTEMS, system, "calibrations", calibration_id))

    def save_scenario(self, name: str, scenario: Scenario | Document, *, key: str | None = None) -> SavedScenario:
        """Save a scenario under a name; once, however often it is sent with the same idempotency key."""
        body = {"name": name, "scenario": _document(scenario)}
        headers = {} if key is None else {"idempotency-key": key}
        return read(SavedScenario, self._send("POST", path_of("scenarios"), json=body, headers=headers))

    def scenarios(self) -> Iterator[ListedScenario]:
        """Yield every saved scenario, the newest first, with the figures that it had when it was saved."""
        return self._items(ListedScenario, path_of("scenarios"))

    def scenario(self, scenario_id: UUID) -> SavedScenario:
        """Return a saved scenario as it was given."""
        return self._get(SavedScenario, path_of("scenarios", scenario_id))

    def report(self, scenario_id: UUID) -> SizingReport:
        """Return today's answer to a saved scenario."""
        return self._get(SizingReport, path_of("scenarios", scenario_id, "report"), form="json")

    def changes(self, scenario_id: UUID) -> ScenarioChanges:
        """Return what changed in the answer to a saved scenario since it was saved."""
        return self._get(ScenarioChanges, path_of("scenarios", scenario_id, "changes"))

    def report_file(self, scenario_id: UUID, form: ReportForm) -> bytes:
        """Get the report as a file to keep or to send: a page that is complete in itself, PDF, CSV or JSON."""
        return self._send("GET", path_of("scenarios", scenario_id, "report"), params={"form": form}).content

    def delete_scenario(self, scenario_id: UUID) -> None:
        """Delete a saved scenario."""
        self._send("DELETE", path_of("scenarios", scenario_id))

    def share_scenario(self, scenario_id: UUID, *, valid_seconds: float | str | None = None) -> NewSharingLink:
        """Create a link that reads a saved scenario without a token, for a time such as "30d", or until withdrawn."""
        return self._post(NewSharingLink, path_of("scenarios", scenario_id, "links"), {"valid_seconds": valid_seconds})

    def sharing_links(self, scenario_id: UUID) -> list[SharingLink]:
        """List the sharing links of a saved scenario, the newest first."""
        return self._get(list[SharingLink], path_of("scenarios", scenario_id, "links"))

    def withdraw_sharing_link(self, scenario_id: UUID, link_id: UUID) -> None:
        """Withdraw a sharing link."""
        self._send("DELETE", path_of("scenarios", scenario_id, "links", link_id))

    def shared_scenario(self, key: str) -> SavedScenario:
        """Return the scenario that the key of a sharing link reads."""
        return read(SavedScenario, self._send("GET", path_of("shared"), headers=_bearer(key)))

    def shared_report_file(self, key: str, form: ReportForm) -> bytes:
        """Return today's report of the scenario that the key of a sharing link reads, as a file."""
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
        """Return the state of a job."""
        return self._get(Job, path_of("jobs", job_id))

    def jobs(self) -> Iterator[Job]:
        """Yield the jobs that this client's token has asked for, the newest first."""
        return self._items(Job, path_of("jobs"))

    def wait_for_job(self, job_id: UUID) -> Job:
        """Wait until a job has ended, however it did, at the rate of requests that the service asks for."""
        return self._wait_for_job(path_of("jobs", job_id))

    def job_result(self, job_id: UUID) -> bytes:
        """Return the result of a job that is done, as it was asked for, such as JSON of a SweepReport."""
        return self._send("GET", path_of("jobs", job_id, "result")).content

    def cancel_job(self, job_id: UUID) -> None:
        """Cancel a job, or delete one that has ended, with its result."""
        self._send("DELETE", path_of("jobs", job_id))

    def whoami(self) -> TokenHolder:
        """Return the holder of this client's token, and what it allows."""
        return self._get(TokenHolder, path_of("whoami"))

    def audit_log(self, **query: str) -> Iterator[AuditEntry]:
        """Yield who changed what and when, the newest first; `query` as the route takes it. Needs the scope admin."""
        return self._items(AuditEntry, path_of("audit-log"), **query)

    def metrics(self) -> str:
        """Get the figures of the service in the format of Prometheus."""
        return self._send("GET", "/metrics").text

    def check_alive(self) -> None:
        """Return where the process answers."""
        self._send("GET", "/healthz")

    def check_ready(self) -> None:
        """Return where it can serve: the database is reachable and has a schema that its version works on."""
        self._send("GET", "/readyz")


def _bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}
