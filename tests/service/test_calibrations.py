"""Calibrations: fitted to published runs, kept with their origin, and taken by any question that names them."""

from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from service.database import open_database
from service.database.calibrations import FitRequest, select_runs
from service.database.tables import CalibrationRunRow, RunRow
from service_client.client import Client
from service_client.documents import StoredCalibration
from sizing import __version__
from sizing.errors import InvalidInput
from sizing.present.calibrations import calibration_chart
from sizing.questions.cluster.request import REFERENCE_CLUSTER
from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.schema_versions import SCHEMA_VERSION
from sizing.storage.calibration import calibrate
from sizing.storage.measurement import BenchmarkResult
from tests.service.conftest import SQLITE_FIRST, bearer, created_token, result_document
from tests.sizing.storage.calibration.simulation import FULL_SCAN, result
from tests.sizing.storage.calibration.test_agreement import slowed

DATABASES = SQLITE_FIRST
RUNS = [
    result(FULL_SCAN[:20], run_id="20261120T120000Z-abc"),
    result(FULL_SCAN[20:], run_id="20261121T120000Z-abc", seed=1),
]
SYSTEM = "/v1/storage-systems/calibrated/calibrations"


@pytest.fixture(scope="session")
def stored(server: str, token: str) -> StoredCalibration:
    with Client(server, token=token) as service:
        service.add_storage_system("calibrated")
        for run in RUNS:
            service.publish("calibrated", run)
        return service.calibrate("calibrated")


def scenario(calibration: object) -> dict[str, Any]:
    return {"model": {"preset": "llama-3.1-8b"}, "parallelism": {"data": 8}, "storage": {"calibration": calibration}}


def test_a_calibration_is_the_librarys_and_says_where_it_comes_from(server: str, stored: StoredCalibration) -> None:
    assert stored.calibration == calibrate(list(reversed(RUNS)))
    assert stored.profile == stored.calibration.profile
    uses = (stored.calibration.inside, stored.calibration.beyond)
    assert (stored.inside_grade, stored.beyond_grade) == tuple(use.grade for use in uses if use is not None)
    assert sorted(stored.run_ids) == [run.run_id for run in RUNS]
    assert stored.code_version == __version__
    with Client(server) as service:
        assert service.calibration("calibrated", stored.id) == stored
        assert [found.id for found in service.calibrations("calibrated")] == [stored.id]


def test_the_runs_of_a_calibration_are_kept_with_it(database_url: str, stored: StoredCalibration) -> None:
    database = open_database(database_url)
    with database.reading() as session:
        query = session.query(RunRow.run_id).join(CalibrationRunRow, CalibrationRunRow.run_id == RunRow.id)
        kept = [run_id for (run_id,) in query.filter(CalibrationRunRow.calibration_id == stored.id)]
    database.close()
    assert sorted(kept) == sorted(stored.run_ids)


def test_a_scenario_takes_a_calibration_by_its_id(client: httpx.Client, stored: StoredCalibration) -> None:
    document = stored.calibration.model_dump(mode="json")
    expected = answer(scenario_from(scenario(document))).model_dump(mode="json")
    assert client.post("/v1/sizings", json=scenario(str(stored.id))).json() == expected
    words = {"accept": "application/vnd.checkpoint-sizing.presentation+json"}
    assert client.post("/v1/sizings", json=scenario(str(stored.id)), headers=words).status_code == 200


def test_a_trend_and_a_calibration_are_told_in_words(client: httpx.Client, stored: StoredCalibration) -> None:
    words = {"accept": "application/vnd.checkpoint-sizing.presentation+json"}
    told = client.get(f"{SYSTEM}/{stored.id}", headers=words).json()
    assert told["title"].startswith(f"Grade {stored.calibration.grade_text}: engine direct, 2 runs")
    assert told["charts"] == [calibration_chart(stored.calibration)]
    trend = client.get("/v1/storage-systems/calibrated/trend", headers=words).json()
    assert trend["verdict"] == "Too few like runs to judge a rate yet."
    (listed,) = [each for each in client.get("/v1/storage-systems").json()["items"] if each["name"] == "calibrated"]
    assert (listed["num_runs"], listed["latest_calibration"]["engine"]) == (2, "direct")
    assert client.get("/v1/storage-systems/calibrated/trend", headers={"accept": "text/html"}).status_code == 406


def test_every_question_takes_a_calibration_by_its_id(client: httpx.Client, stored: StoredCalibration) -> None:
    asked = scenario(str(stored.id))
    sweep = {"scenario": asked | {"storage": {"calibration": [str(stored.id)]}, "parallelism": {"data": [8, 16]}}}
    named = [
        {"name": name, "scenario": asked | {"parallelism": {"data": data}}} for name, data in (("a", 8), ("b", 16))
    ]
    cluster = REFERENCE_CLUSTER | {"storage": asked["storage"], "horizon_seconds": "1d"}
    questions = {
        "requirements": asked,
        "sweeps": sweep,
        "comparisons": {"scenarios": named},
        "clusters": cluster,
        "layouts": {"scenario": asked | {"parallelism": {}, "cluster": {"num_gpus": 8}}},
        "decisions": {
            "currency": "EUR",
            "horizon_seconds": "1y",
            "workloads": [{"name": "a", "scenario": {name: asked[name] for name in asked if name != "storage"}}],
            "offers": [{"name": "measured", "storage": asked["storage"]}],
        },
        "rematerializations": {"scenario": asked | {"training": {"sequence_length": 1024, "micro_batch_size": 1}}},
        "stages": {
            "scenario": asked
            | {
                "training": {"sequence_length": 1024, "micro_batch_size": 1, "global_batch_size": 8},
                "parallelism": {"tensor": 8, "pipeline": 2},
                "cluster": {"nodes": "1 x dgx-a100, 1 x dgx-h100"},
            }
        },
        "simulations": {"scenario": asked | {"reliability": {"failures_per_node_day": 0.0065}}},
    }
    for path, question in questions.items():
        answered = client.post(f"/v1/{path}", json=question)
        assert answered.status_code == 200, (path, answered.text)


def test_a_sweep_reads_each_calibration_once_and_no_more_than_it_can_hold(
    client: httpx.Client, stored: StoredCalibration
) -> None:
    twice = client.post("/v1/sweeps", json={"scenario": scenario([str(stored.id)] * 2)})
    assert twice.status_code == 200, twice.text
    assert len(twice.json()["rows"]) == 2
    many = [str(uuid4()) for _ in range(20_000)]
    refused = client.post("/v1/sweeps", json={"scenario": scenario(many)})
    assert refused.status_code == 422
    assert "storage.calibration must be at most 100 calibrations, got 20000" in refused.json()["detail"]


def test_a_saved_scenario_keeps_the_id_and_its_report_has_the_figures(
    client: httpx.Client, token: str, stored: StoredCalibration
) -> None:
    body: dict[str, Any] = {"name": "calibrated", "scenario": scenario(str(stored.id))}
    link = client.post("/v1/scenarios", json=body, headers=bearer(token)).headers["location"]
    assert client.get(link).json()["scenario"] == body["scenario"] | {"schema_version": SCHEMA_VERSION}
    expected = client.post("/v1/sizings", json=body["scenario"]).json()
    assert client.get(f"{link}/report").json() == expected


def test_a_calibration_may_rest_on_chosen_runs(server: str, token: str, stored: StoredCalibration) -> None:
    assert stored
    with Client(server, token=token) as service:
        service.add_storage_system("calibrated-apart")
        whole = result(run_id="20261122T120000Z-abc")
        service.publish("calibrated-apart", whole)
        service.publish("calibrated-apart", result(run_id="20261123T120000Z-abc", seed=2))
        chosen = service.calibrate("calibrated-apart", [whole.run_id])
    assert chosen.run_ids == [whole.run_id]
    assert chosen.calibration == calibrate([whole])


def test_runs_of_one_token_do_not_outvote_those_of_another_and_the_calibration_says_so(
    server: str, token: str, database_url: str
) -> None:
    good, bad = (created_token(database_url, f"{name}-of-disputed", scope="publish") for name in ("good", "bad"))
    with Client(server, token=token) as service:
        service.add_storage_system("disputed")
    with Client(server, token=good) as service:
        for number in range(2):
            service.publish("disputed", result(FULL_SCAN, run_id=f"disputed-good-{number}", seed=number, outliers=0))
    with Client(server, token=bad) as service:
        for number in range(3):
            run = result(FULL_SCAN, run_id=f"disputed-bad-{number}", seed=number, outliers=0)
            service.publish("disputed", slowed(run, 0.1))
    with Client(server, token=token) as service:
        found = service.calibrate("disputed")
    assert sorted(found.run_ids) == ["disputed-good-0", "disputed-good-1"]
    assert sorted(left.run_id for left in found.left_out) == [f"disputed-bad-{number}" for number in range(3)]
    assert found.calibration.warnings[0].startswith("3 of the runs that bad-of-disputed published contradict others")


def test_nobody_fills_the_window_of_a_calibration_alone(
    server: str, token: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.database.calibrations.MAX_MEASUREMENTS", 4)
    flood = created_token(database_url, "flood-of-windowed", scope="publish")
    with Client(server, token=token) as service:
        service.add_storage_system("flooded")
        for number in range(2):
            service.publish("flooded", BenchmarkResult.model_validate(result_document(f"flooded-own-{number}")))
    with Client(server, token=flood) as service:
        for number in range(6):
            service.publish("flooded", BenchmarkResult.model_validate(result_document(f"flooded-{number}")))
    database = open_database(database_url)
    chosen = select_runs(database, "flooded", FitRequest())
    latest = select_runs(database, "flooded", FitRequest(latest=3))
    six = FitRequest(run_ids=[f"flooded-{number}" for number in range(6)])
    named = select_runs(database, "flooded", six)
    monkeypatch.setattr("service.database.calibrations.MAX_NAMED_MEASUREMENTS", 5)
    with pytest.raises(InvalidInput, match=r"at most 5 measurements and 256\.0 MiB .*, got '6 measurements"):
        select_runs(database, "flooded", six)
    database.close()
    assert [run.run_id for run in chosen.rows] == ["flooded-5", "flooded-4", "flooded-own-1", "flooded-own-0"]
    assert set(chosen.left_out) == {f"flooded-{number}" for number in range(4)}
    assert [run.run_id for run in latest.rows] == ["flooded-5", "flooded-4", "flooded-3"]
    assert len(named.rows) == 6


@pytest.mark.parametrize("named", ["x", "01a1fda6-c9fb-7539-b154-418eb9e9d223", "'; DROP TABLE runs; --"])
def test_an_id_of_nothing_is_refused(client: httpx.Client, named: str) -> None:
    for path, question in (("sizings", scenario(named)), ("sweeps", {"scenario": scenario(named)})):
        refused = client.post(f"/v1/{path}", json=question)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid-input")
        assert "storage.calibration must be the id of a stored calibration" in refused.json()["detail"]
    assert client.get(f"{SYSTEM}/{named}").status_code == 404


def test_a_calibration_belongs_to_its_storage_system(
    client: httpx.Client, token: str, stored: StoredCalibration
) -> None:
    client.post("/v1/storage-systems", json={"name": "uncalibrated"}, headers=bearer(token))
    assert isinstance(stored.id, UUID)
    assert client.get(f"/v1/storage-systems/uncalibrated/calibrations/{stored.id}").status_code == 404


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({"run_ids": ["nothing"]}, 404, "run_ids must be ids of runs of calibrated, got 'nothing'"),
        ({"run_ids": []}, 422, "run_ids must have at least 1 entries, got []"),
        ({"latest": True}, 422, "latest must be a whole number, got true"),
        ({"run_ids": ["20261120T120000Z-abc"], "engine": "none"}, 422, "measurements must have at least"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(
    client: httpx.Client,
    token: str,
    stored: StoredCalibration,
    body: dict[str, Any],
    status: int,
    sentence: str,
) -> None:
    assert stored
    refused = client.post(SYSTEM, json=body, headers=bearer(token))
    assert refused.status_code == status
    assert sentence in refused.json()["detail"]
