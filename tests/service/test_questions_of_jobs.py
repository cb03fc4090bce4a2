"""The question of a job as the database has it: JSON that is the same request again, and nothing that could be run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.testclient import TestClient

from service.answers.calibrated import with_calibrations
from service.answers.heavy import GivenScenario, HeavyKind, heavy_kind, request_json
from service.app import ROUTERS, create_app
from service.database import jobs
from service.database.jobs import NewJob
from service.settings import Settings
from service_client.terms import ReportForm
from sizing.checkpoint_files.sent import REFERENCE_FILE
from sizing.importers.request import REFERENCE_IMPORT
from sizing.offer_tables import REFERENCE_OFFER_TABLE
from sizing.questions.registry import QUESTIONS, SWEEP
from sizing.scenario import REFERENCE_SCENARIO
from sizing.schema_versions import SCHEMA_VERSION
from sizing.storage.calibration import calibrate
from tests.service.test_calibrations import RUNS
from tests.service.test_jobs import ONE, in_state

PATHS = sorted(
    route.path.removeprefix("/v1/")
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute) and 202 in route.responses
)
"""Of every route whose questions become jobs."""
OTHERS: dict[str, Any] = {
    "sizings": {"scenario": REFERENCE_SCENARIO, "document": REFERENCE_SCENARIO},
    "imports": REFERENCE_IMPORT,
    "inspections": REFERENCE_FILE,
    "offer-tables": REFERENCE_OFFER_TABLE,
}
EXAMPLES = OTHERS | {
    entry.question.route.path: entry.question.example
    for entry in QUESTIONS.values()
    if entry.question.route.path not in OTHERS
}


def same(one: Any, other: Any) -> bool:
    """Whether two requests are the same, in what was left out, too."""
    if isinstance(one, BaseModel):
        is_alike = type(one) is type(other) and one.model_fields_set == other.model_fields_set
        return is_alike and all(same(getattr(one, name), getattr(other, name)) for name in type(one).model_fields)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other and type(one) is type(other))


def parsed(kind: HeavyKind, text: str) -> BaseModel:
    return kind.request.model_validate_json(text)


def test_every_route_whose_questions_become_jobs_is_of_a_kind() -> None:
    assert sorted(EXAMPLES) == PATHS
    assert len(PATHS) > 15


@pytest.mark.parametrize("path", sorted(EXAMPLES))
def test_a_request_is_the_same_again(path: str) -> None:
    kind = heavy_kind(path)
    request = kind.request.model_validate(EXAMPLES[path])
    assert same(parsed(kind, request_json(request)), request)


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_a_scenario_of_each_schema_version_is_the_same_again(version: int) -> None:
    kind = heavy_kind("sizings")
    document = {**REFERENCE_SCENARIO, "schema_version": version}
    request = GivenScenario.model_validate({"scenario": document, "document": document})
    assert same(parsed(kind, request_json(request)), request)


def test_calibrations_are_in_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    calibration = calibrate(RUNS)
    monkeypatch.setattr("service.answers.calibrated.calibration_of_id", lambda _, __, **___: calibration)
    scenario = {"model": {"preset": "gpt2"}, "storage": {"calibration": "01a1fda6"}}
    question = SWEEP.question
    request = question.parse_request({"scenario": scenario | {"parallelism": {"data": [1, 2]}}})
    calibrated = with_calibrations(None, request, question.may_name_calibrations)  # type: ignore[arg-type]  # of a database
    text = request_json(calibrated)
    assert "01a1fda6" not in text
    assert same(parsed(heavy_kind("sweeps"), text), calibrated)


@pytest.mark.parametrize("path", sorted(OTHERS))
def test_it_has_the_same_answer(path: str) -> None:
    kind = heavy_kind(path)
    request = kind.request.model_validate(EXAMPLES[path])
    form: ReportForm = "json" if path != "sizings" else "presentation"
    assert kind.answer_json(form, request_json(request)) == kind.answer(form, request)


@pytest.mark.parametrize(
    ("new", "sentence"),
    [
        (NewJob("rituals", "json", "{}"), "the job must be of a kind that this version knows, got 'rituals'"),
        (NewJob("sweeps", "json", '{"scenario": {}, "chalk": 1}'), "chalk"),
        (NewJob("sweeps", "json", "cposix\nsystem\n(S'touch pickled'\ntR."), "JSON"),
    ],
)
def test_what_is_no_question_of_this_version_fails_with_a_sentence(new: NewJob, sentence: str, tmp_path: Path) -> None:
    app = create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db"))
    database = app.state.database
    job_id = jobs.add_job(database, new, ONE.id, max_seconds=60).id
    assert jobs.give_back(database, ONE.id) == 1
    with TestClient(app) as client:
        failed = in_state(client, f"/v1/jobs/{job_id}", "failed")
        assert failed["code"] == "invalid-input"
        assert sentence in failed["detail"]
