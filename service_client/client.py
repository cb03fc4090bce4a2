"""A typed client of the service: one method for each thing that it does."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

import httpx
from pydantic import BaseModel, TypeAdapter

from service_client.documents import (
    CalibrationSummary,
    Page,
    RunSummary,
    SavedScenario,
    ScenarioSummary,
    StorageSystem,
    StoredCalibration,
)
from service_client.errors import Unavailable, raise_for
from sizing.explore.clusters.report import ClusterReport
from sizing.explore.clusters.scenario import ClusterScenario
from sizing.explore.comparisons.report import ComparisonReport
from sizing.explore.comparisons.request import ComparisonRequest
from sizing.explore.requirements.report import RequirementsReport
from sizing.explore.sweeps.report import SweepReport
from sizing.model.catalog import CatalogModel
from sizing.report import SizingReport
from sizing.scenario import Scenario
from sizing.storage.measurement import BenchmarkResult

SECONDS_TO_ANSWER = 60.0

_Item = TypeVar("_Item")


class Client:
    """The service at an address. Every method raises Refused or Unavailable where there is no answer.

    Args: `token`, for what stores, or everything where the service requires a login. `transport`, what carries the
    requests instead of the network.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        seconds_to_answer: float = SECONDS_TO_ANSWER,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=seconds_to_answer, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def answer(self, scenario: Scenario | Mapping[str, Any]) -> SizingReport:
        """What the checkpoints of a scenario weigh, take, cost and need."""
        return self._read(SizingReport, self._send("POST", "/v1/sizings", json=_document(scenario)))

    def models(self) -> list[CatalogModel]:
        """The model catalog."""
        return self._read(list[CatalogModel], self._send("GET", "/v1/models"))

    def add_storage_system(self, name: str, description: str = "") -> StorageSystem:
        """Add a storage system, or find the same."""
        body = {"name": name, "description": description}
        return self._read(StorageSystem, self._send("POST", "/v1/storage-systems", json=body))

    def storage_systems(self) -> Iterator[StorageSystem]:
        """Every storage system, by name."""
        return self._items(StorageSystem, "/v1/storage-systems")

    def publish(self, system: str, result: BenchmarkResult | bytes) -> bool:
        """Publish a result document for a storage system: True where it is new, False where it was there already."""
        document = result if isinstance(result, bytes) else result.model_dump_json().encode()
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        response = self._send("POST", _runs(system), content=gzip.compress(document), headers=headers)
        return response.status_code == httpx.codes.CREATED

    def runs(self, system: str, **wanted: str | int) -> Iterator[RunSummary]:
        """The runs of a storage system, the newest first; `wanted` as the route has it, such as engine="direct"."""
        return self._items(RunSummary, _runs(system), **wanted)

    def result(self, system: str, run_id: str) -> BenchmarkResult:
        """The result document of a run."""
        return self._read(BenchmarkResult, self._send("GET", f"{_runs(system)}/{run_id}"))

    def calibrate(self, system: str, run_ids: Sequence[str] | None = None) -> StoredCalibration:
        """Fit a profile to runs of a storage system, or to all of them, and keep it."""
        body = {"run_ids": None if run_ids is None else list(run_ids)}
        return self._read(StoredCalibration, self._send("POST", _calibrations(system), json=body))

    def calibrations(self, system: str) -> Iterator[CalibrationSummary]:
        """The calibrations of a storage system, the newest first."""
        return self._items(CalibrationSummary, _calibrations(system))

    def calibration(self, system: str, calibration_id: UUID) -> StoredCalibration:
        """A calibration with its fit, its intervals and its warnings."""
        return self._read(StoredCalibration, self._send("GET", f"{_calibrations(system)}/{calibration_id}"))

    def sweep(self, request: Mapping[str, Any]) -> SweepReport:
        """A row for each scenario of a sweep, and the rows that no other beats."""
        return self._read(SweepReport, self._send("POST", "/v1/sweeps", json=request))

    def requirements(self, scenario: Scenario | Mapping[str, Any]) -> RequirementsReport:
        """The least bandwidth and capacity, and the intervals, that meet the targets of a scenario."""
        return self._read(RequirementsReport, self._send("POST", "/v1/requirements", json=_document(scenario)))

    def comparison(self, request: ComparisonRequest | Mapping[str, Any]) -> ComparisonReport:
        """Which inputs of scenarios differ, which figures follow, and which input made which difference."""
        return self._read(ComparisonReport, self._send("POST", "/v1/comparisons", json=_document(request)))

    def cluster(self, scenario: ClusterScenario | Mapping[str, Any]) -> ClusterReport:
        """What many jobs on one storage system do to each other."""
        return self._read(ClusterReport, self._send("POST", "/v1/clusters", json=_document(scenario)))

    def save_scenario(self, name: str, scenario: Scenario | Mapping[str, Any]) -> SavedScenario:
        """Save a scenario under a name."""
        body = {"name": name, "scenario": _document(scenario)}
        return self._read(SavedScenario, self._send("POST", "/v1/scenarios", json=body))

    def scenarios(self) -> Iterator[ScenarioSummary]:
        """Every saved scenario, the newest first."""
        return self._items(ScenarioSummary, "/v1/scenarios")

    def report(self, scenario_id: UUID) -> SizingReport:
        """The answer of today to a saved scenario."""
        return self._read(SizingReport, self._send("GET", f"/v1/scenarios/{scenario_id}/report"))

    def _items(self, kind: type[_Item], path: str, **wanted: str | int) -> Iterator[_Item]:
        """Every item of a list, page by page."""
        page = self._read(Page[kind], self._send("GET", path, params=wanted))  # type: ignore[valid-type]
        yield from page.items
        while page.next is not None:
            page = self._read(Page[kind], self._send("GET", path, params=wanted | {"cursor": page.next}))  # type: ignore[valid-type]
            yield from page.items

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **request)
        except httpx.TransportError as error:
            raise Unavailable(f"{self._http.base_url} cannot be reached ({error or type(error).__name__})") from None
        raise_for(response)
        return response

    def _read(self, kind: type[_Item], response: httpx.Response) -> _Item:
        """The answer as its type; a later version of the service may say more than this one knows."""
        return TypeAdapter(kind).validate_json(response.content, extra="ignore")


def _runs(system: str) -> str:
    return f"/v1/storage-systems/{system}/runs"


def _calibrations(system: str) -> str:
    return f"/v1/storage-systems/{system}/calibrations"


def _document(scenario: BaseModel | Mapping[str, Any]) -> Any:
    return scenario.model_dump(mode="json", exclude_unset=True) if isinstance(scenario, BaseModel) else scenario
