"""The heavy questions over HTTP: answered as by the library, beside the server, within their limits."""

import csv
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from sizing.questions.cluster.request import REFERENCE_CLUSTER
from sizing.questions.compare.request import REFERENCE_COMPARISON
from sizing.questions.layouts.request import REFERENCE_SEARCH
from sizing.questions.registry import (
    CLUSTER,
    COMPARE,
    LAYOUTS,
    REMATERIALIZE,
    REQUIRE,
    SENSITIVITY,
    SIMULATE,
    STAGES,
    SWEEP,
    TECHNIQUES,
)
from sizing.questions.rematerialize.request import REFERENCE_REMATERIALIZATION
from sizing.questions.sensitivity.request import REFERENCE_SENSITIVITY
from sizing.questions.simulate.request import REFERENCE_SIMULATION, ScenarioSimulation
from sizing.questions.stages.request import REFERENCE_STAGES
from sizing.questions.sweep.request import REFERENCE_SWEEP
from sizing.questions.techniques.request import REFERENCE_TECHNIQUES
from sizing.scenario import REFERENCE_SCENARIO
from tests.service.conftest import serving
from tests.testbed.processes import SECONDS_UNTIL_STUCK, until

LONG: dict[str, Any] = REFERENCE_CLUSTER | {"horizon_seconds": "900d"}
"""Takes half a minute or more."""


def test_requirements_are_those_of_the_library(client: httpx.Client) -> None:
    found = client.post("/v1/requirements", json=REFERENCE_SCENARIO)
    assert found.status_code == 200
    assert found.json() == REQUIRE.answer(REFERENCE_SCENARIO).model_dump(mode="json")


def test_a_cluster_is_that_of_the_library(client: httpx.Client) -> None:
    question = REFERENCE_CLUSTER | {"horizon_seconds": "1d"}
    found = client.post("/v1/clusters", json=question)
    assert found.status_code == 200
    assert found.json() == CLUSTER.answer(question).model_dump(mode="json")


def test_a_comparison_is_that_of_the_library(client: httpx.Client) -> None:
    found = client.post("/v1/comparisons", json=REFERENCE_COMPARISON)
    assert found.status_code == 200
    assert found.json() == COMPARE.answer(REFERENCE_COMPARISON).model_dump(mode="json")


def test_layers_to_compute_again_are_those_of_the_library(client: httpx.Client) -> None:
    question = REFERENCE_REMATERIALIZATION | {"gpu_memory_bytes": "70 GB"}
    found = client.post("/v1/rematerializations", json=question)
    assert found.status_code == 200, found.text
    assert found.json() == REMATERIALIZE.answer(question).model_dump(mode="json")


def test_stages_on_unlike_nodes_are_those_of_the_library(client: httpx.Client) -> None:
    found = client.post("/v1/stages", json=REFERENCE_STAGES)
    assert found.status_code == 200, found.text
    assert found.json() == STAGES.answer(REFERENCE_STAGES).model_dump(mode="json")


def test_layouts_are_those_of_the_library(client: httpx.Client) -> None:
    found = client.post("/v1/layouts", json=REFERENCE_SEARCH)
    assert found.status_code == 200
    assert found.json() == LAYOUTS.answer(REFERENCE_SEARCH).model_dump(mode="json")


def test_sensitivities_are_those_of_the_library(client: httpx.Client) -> None:
    found = client.post("/v1/sensitivities", json=REFERENCE_SENSITIVITY)
    assert found.status_code == 200
    assert found.json() == SENSITIVITY.answer(REFERENCE_SENSITIVITY).model_dump(mode="json")


def test_effects_of_techniques_are_those_of_the_library(client: httpx.Client) -> None:
    found = client.post("/v1/techniques", json=REFERENCE_TECHNIQUES)
    assert found.status_code == 200
    expected = TECHNIQUES.answer(REFERENCE_TECHNIQUES)
    assert found.json() == expected.model_dump(mode="json")


def test_a_simulation_is_that_of_the_library(client: httpx.Client) -> None:
    found = client.post("/v1/simulations", json=REFERENCE_SIMULATION)
    assert found.status_code == 200
    expected = SIMULATE.answer(ScenarioSimulation.model_validate(REFERENCE_SIMULATION))
    assert found.json() == expected.model_dump(mode="json")


@pytest.mark.parametrize(
    ("path", "question", "sentence"),
    [
        ("/v1/requirements", {"model": {"preset": "gpt2"}, "parallelism": {"tensor": 5}}, "must divide"),
        ("/v1/comparisons", {"scenarios": REFERENCE_COMPARISON["scenarios"][:1]}, "scenarios"),
        ("/v1/clusters", REFERENCE_CLUSTER | {"jobs": []}, "jobs"),
        ("/v1/layouts", {"scenario": {"model": {"preset": "gpt2"}}}, "scenario.cluster.num_gpus is required"),
        ("/v1/layouts", REFERENCE_SEARCH | {"objective": "best"}, "objective must be one of"),
        (
            "/v1/rematerializations",
            {"scenario": {"model": {"preset": "gpt2"}}},
            "training.micro_batch_size is required",
        ),
        ("/v1/sensitivities", REFERENCE_SENSITIVITY | {"fraction": 1}, "fraction must be less than 1"),
        (
            "/v1/sensitivities",
            REFERENCE_SENSITIVITY | {"ranges": {"a": {"low": 1, "high": 2}}},
            "ranges.a must be a field of a scenario",
        ),
        ("/v1/simulations", {"scenario": {"model": {"preset": "gpt2"}}}, "must have a write bandwidth"),
        ("/v1/simulations", REFERENCE_SIMULATION | {"num_runs": 99}, "num_runs must be at least 100"),
        (
            "/v1/simulations",
            REFERENCE_SIMULATION | {"num_runs": 10_000, "run_seconds": "36000d"},
            "must have at most 200,000,000 failures",
        ),
        ("/v1/clusters", REFERENCE_CLUSTER | {"horizon_seconds": "90mo"}, "has an unknown unit of time"),
        ("/v1/clusters", REFERENCE_CLUSTER | {"storage": {"preset": "none"}}, "must be a name of the catalog"),
    ],
)
def test_what_has_no_answer_is_refused(
    client: httpx.Client, path: str, question: dict[str, Any], sentence: str
) -> None:
    refused = client.post(path, json=question)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid-input")
    assert sentence in refused.json()["detail"]


TENSOR_7 = {"model": {"preset": "gpt2"}, "parallelism": {"tensor": 7}}
UNKNOWN_CALIBRATION = {"model": {"preset": "gpt2"}, "storage": {"calibration": "none"}}


@pytest.mark.parametrize(
    ("path", "question", "field"),
    [
        *(
            (f"/v1/{path}", {"scenario": TENSOR_7}, "scenario.parallelism.tensor")
            for path in ("simulations", "techniques", "sensitivities", "manifests", "rematerializations")
        ),
        ("/v1/stages", {"scenario": TENSOR_7}, "scenario.cluster.nodes"),
        ("/v1/sweeps", {"scenario": TENSOR_7 | {"foo": 1, "costs": {"per_terabyte": [1, 2]}}}, "scenario.foo"),
        ("/v1/sweeps", {"scenario": TENSOR_7 | {"costs": {"per_terabyte": []}}}, "scenario.costs.per_terabyte"),
        ("/v1/simulations", {"scenario": UNKNOWN_CALIBRATION}, "scenario.storage.calibration"),
        (
            "/v1/comparisons",
            {
                "scenarios": [
                    {"name": name, "scenario": each}
                    for name, each in (("a", {"model": {"preset": "gpt2"}}), ("b", UNKNOWN_CALIBRATION))
                ]
            },
            "scenarios.1.scenario.storage.calibration",
        ),
        (
            "/v1/sweeps",
            {"scenario": {"model": {"preset": "gpt2"}, "storage": {"calibration": ["none", "nor"]}}},
            "scenario.storage.calibration.0",
        ),
    ],
)
@pytest.mark.parametrize("prefer", ["", "respond-async"])
def test_a_field_is_named_by_its_path_in_the_body(
    client: httpx.Client, path: str, question: dict[str, Any], field: str, prefer: str
) -> None:
    answer = client.post(path, json=question, headers={"prefer": prefer})
    if answer.status_code == 202:
        job = answer.headers["location"]
        until(lambda: client.get(job).json()["state"] == "failed")
        answer = client.get(f"{job}/result")
    assert [error["field"] for error in answer.json()["errors"]] == [field], answer.text


@pytest.mark.long
def test_small_questions_are_answered_beside_a_large_one_which_becomes_a_job_in_time(tmp_path: Path) -> None:
    arguments = ("--port", "0", "--database-url", f"sqlite:///{tmp_path}/x.db", "--compute-seconds", "3s")
    with (
        serving(tmp_path / "log", *arguments, "--requests-per-second", "0") as (_, address),
        httpx.Client(base_url=address, timeout=SECONDS_UNTIL_STUCK) as client,
    ):
        assert client.post("/v1/requirements", json=REFERENCE_SCENARIO).status_code == 200
        large: list[httpx.Response] = []
        asking = threading.Thread(target=lambda: large.append(client.post("/v1/clusters", json=LONG)))
        asking.start()
        num_small = 0
        while asking.is_alive():
            assert client.get("/healthz").status_code == 200
            assert client.post("/v1/sizings", json=REFERENCE_SCENARIO).status_code == 200
            num_small += 1
        assert num_small > 2, "the large one let none pass"
        (accepted,) = large
        assert accepted.status_code == 202
        assert client.delete(accepted.headers["location"]).status_code == 204
        assert client.post("/v1/requirements", json=REFERENCE_SCENARIO).status_code == 200


def test_a_sweep_is_that_of_the_library_as_json_and_as_csv(client: httpx.Client) -> None:
    expected = SWEEP.answer(REFERENCE_SWEEP)
    found = client.post("/v1/sweeps", json=REFERENCE_SWEEP)
    assert found.json() == expected.model_dump(mode="json")
    table = client.post("/v1/sweeps", json=REFERENCE_SWEEP, headers={"accept": "text/csv"})
    assert table.headers["content-type"].startswith("text/csv")
    heading, *rows = csv.reader(table.text.splitlines())
    assert heading == expected.columns
    assert len(rows) == expected.num_rows
    assert client.post("/v1/sweeps", json=REFERENCE_SWEEP, headers={"accept": "image/png"}).status_code == 406


def test_a_sweep_of_too_many_rows_is_refused_before_any_work(client: httpx.Client) -> None:
    scenario = {"model": {"preset": "gpt2"}, "checkpoint": {"interval_seconds": {"from": 60, "to": 3600, "num": 10**9}}}
    refused = client.post("/v1/sweeps", json={"scenario": scenario})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid-input")
