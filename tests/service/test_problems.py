"""Errors over HTTP: problem+json with the sentences of the command line, and nothing of the inside."""

import json
from typing import Any

import httpx
import pytest

SIZINGS = "/v1/sizings"
JSON = {"content-type": "application/json"}


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert document["status"] == status
    assert document["code"] == code
    assert "Traceback" not in response.text
    return document


def test_a_field_that_breaks_a_rule_is_named_as_in_the_terminal(client: httpx.Client) -> None:
    body = {"model": {"preset": "gpt2"}, "parallelism": {"tensor": 0}}
    document = problem(client.post(SIZINGS, json=body), 422, "invalid-input")
    assert document["errors"] == [
        {
            "field": "parallelism.tensor",
            "rule": "must be at least 1",
            "value": "0",
            "remedy": "give 1 or more",
            "sentence": "parallelism.tensor must be at least 1, got 0: give 1 or more.",
        }
    ]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "model is required: add it."),
        ({"modle": {}, "model": {"preset": "gpt2"}}, "modle is not a known field, got {}: did you mean model."),
        ({"model": {"preset": "gpt3"}}, "model.preset must be a name of the catalog, got 'gpt3'"),
        ({"model": {"preset": "gpt2"}, "cluster": {"num_gpus": 9}}, "cluster.num_gpus must equal"),
        ({"model": {"preset": "gpt2"}, "parallelism": {"tensor": 5}}, "must divide num_attention_heads 12, got 5"),
        ({"model": {"huggingface_config": {"model_type": "x"}}}, "model_type must be a name of the catalog"),
        ([], "the input must be an object"),
    ],
)
def test_contradictions_are_refused_with_their_sentence(client: httpx.Client, body: Any, sentence: str) -> None:
    document = problem(client.post(SIZINGS, json=body), 422, "invalid-input")
    assert sentence in document["detail"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_what_is_no_number_is_refused(client: httpx.Client, number: str) -> None:
    body = f'{{"model": {{"preset": "gpt2"}}, "targets": {{"max_overhead_fraction": {number}}}}}'
    document = problem(client.post(SIZINGS, content=body, headers=JSON), 422, "invalid-input")
    assert "targets.max_overhead_fraction must be" in document["detail"]


def test_a_body_that_is_no_json_is_a_bad_request(client: httpx.Client) -> None:
    problem(client.post(SIZINGS, content="{model:", headers=JSON), 400, "invalid-json")


def test_a_body_of_another_kind_is_told_which_kind_to_send(client: httpx.Client) -> None:
    document = problem(client.post(SIZINGS, data={"model": "gpt2"}), 422, "invalid-input")
    assert "content-type application/json" in document["detail"]


def test_a_large_body_is_refused_before_it_is_parsed(client: httpx.Client) -> None:
    problem(client.post(SIZINGS, content=b" " * (1024**2 + 1)), 413, "too-large")


def test_a_deep_body_is_refused(client: httpx.Client) -> None:
    problem(client.post(SIZINGS, content=b"[" * 100_000), 400, "too-deep")
    nested: Any = {"model_type": "llama"}
    for _ in range(60):
        nested = {"a": nested}
    problem(client.post(SIZINGS, json={"model": {"huggingface_config": nested}}), 400, "too-deep")


def test_many_brackets_side_by_side_are_not_deep(client: httpx.Client) -> None:
    config = {"model_type": "llama", "lists": [[] for _ in range(200)]}
    document = problem(client.post(SIZINGS, json={"model": {"huggingface_config": config}}), 422, "invalid-input")
    assert "hidden_size is required" in document["detail"]


def test_an_unknown_route_and_method_are_problems_too(client: httpx.Client) -> None:
    problem(client.get("/v1/nothing"), 404, "not-found")
    problem(client.get(SIZINGS), 405, "method-not-allowed")


def test_html_and_sql_in_names_come_back_inert(client: httpx.Client) -> None:
    for name in ("<script>alert(1)</script>", "'; DROP TABLE scenarios; --"):
        document = problem(client.post(SIZINGS, json={"model": {"preset": name}}), 422, "invalid-input")
        assert name[:20] in document["errors"][0]["value"]
    json.loads(client.get("/v1/scenarios").text)
