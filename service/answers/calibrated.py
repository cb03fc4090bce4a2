"""Scenarios that name a stored calibration: the name is replaced by what it stands for, before anything is answered."""

from __future__ import annotations

from typing import Any, TypeVar

from service.database import Database
from service.database.calibrations import calibration_of_id
from sizing.errors import InvalidInput
from sizing.explore.clusters.cluster_scenario import ClusterScenario
from sizing.explore.comparisons.comparison_request import ComparisonRequest
from sizing.explore.decisions.decision_request import DecisionRequest
from sizing.explore.layouts.layouts_request import LayoutsRequest
from sizing.explore.manifests.manifest_request import ManifestRequest
from sizing.explore.rematerializations.rematerialization_request import RematerializationRequest
from sizing.explore.scenario_simulation import ScenarioSimulation
from sizing.explore.sensitivities.sensitivity_request import SensitivityRequest
from sizing.explore.stages.stages_request import StagesRequest
from sizing.explore.techniques.techniques_report import TechniquesRequest
from sizing.scenario import Scenario
from sizing.storage.storage import Storage

MAX_CALIBRATIONS = 100
"""Of one sweep."""

_Question = TypeVar(
    "_Question",
    ScenarioSimulation,
    LayoutsRequest,
    ManifestRequest,
    RematerializationRequest,
    SensitivityRequest,
    StagesRequest,
    TechniquesRequest,
)


def with_calibration(database: Database, scenario: Scenario) -> Scenario:
    """The scenario with its calibration in place of an id. Raises InvalidInput where there is none of that id."""
    storage = _with_calibration(database, scenario.storage)
    return scenario if storage is scenario.storage else scenario.model_copy(update={"storage": storage})


def comparison_with_calibrations(database: Database, request: ComparisonRequest) -> ComparisonRequest:
    """The same of each scenario of a comparison."""
    scenarios = tuple(
        named.model_copy(update={"scenario": with_calibration(database, named.scenario)}) for named in request.scenarios
    )
    return request.model_copy(update={"scenarios": scenarios})


def decision_with_calibrations(database: Database, request: DecisionRequest) -> DecisionRequest:
    """The same of each offer of a decision."""
    offers = tuple(
        offer.model_copy(update={"storage": _with_calibration(database, offer.storage)}) for offer in request.offers
    )
    return request.model_copy(update={"offers": offers})


def cluster_with_calibration(database: Database, scenario: ClusterScenario) -> ClusterScenario:
    """The same of a cluster's scenario."""
    storage = _with_calibration(database, scenario.storage)
    return scenario if storage is scenario.storage else scenario.model_copy(update={"storage": storage})


def question_with_calibration(database: Database, question: _Question) -> _Question:
    """The same of a question that holds one scenario."""
    return question.model_copy(update={"scenario": with_calibration(database, question.scenario)})


def document_with_calibrations(database: Database, document: dict[str, Any]) -> dict[str, Any]:
    """The same of a document in which the calibration may be a list of ids, as in a sweep.

    Raises InvalidInput also for more than MAX_CALIBRATIONS of them, each of which may be large.
    """
    storage = document.get("storage")
    named = storage.get("calibration") if isinstance(storage, dict) else None
    if isinstance(named, str):
        found: Any = _as_document(database, named)
    elif isinstance(named, list):
        found = _as_documents(database, named)
    else:
        return document
    return {**document, "storage": {**document["storage"], "calibration": found}}


def _with_calibration(database: Database, storage: Storage | None) -> Storage | None:
    if storage is None or not isinstance(storage.calibration, str):
        return storage
    return storage.model_copy(update={"calibration": calibration_of_id(database, storage.calibration)})


def _as_documents(database: Database, named: list[Any]) -> list[Any]:
    ids = {each for each in named if isinstance(each, str)}
    if len(ids) > MAX_CALIBRATIONS:
        raise InvalidInput.of(
            "storage.calibration",
            f"must be at most {MAX_CALIBRATIONS} calibrations",
            value=len(ids),
            remedy="send fewer calibrations in one request",
        )
    documents = {each: _as_document(database, each) for each in ids}
    return [documents[each] if isinstance(each, str) else each for each in named]


def _as_document(database: Database, calibration_id: str) -> dict[str, Any]:
    return calibration_of_id(database, calibration_id).model_dump(mode="json")
