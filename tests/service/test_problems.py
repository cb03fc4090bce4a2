"""Errors over HTTP: problem+json with the sentences of the command line, and nothing of the inside."""

import gzip
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.errors import MAX_PROBLEMS
from service.http.problems import KINDS
from sizing.cli.flags import flag_words
from tests.service.conftest import connected
from tests.testbed.terminal import ckpt_size

SIZINGS = "/v1/sizings"
JSON = {"content-type": "application/json"}
MIB = 1024**2


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert document["type"].endswith(f":{code}")
    assert document["status"] == status
    assert document["code"] == code
    assert document["title"]
    assert document["detail"] == "\n".join(error["sentence"] for error in document["errors"])
    assert "Traceback" not in response.text
    return document


def test_a_field_that_breaks_a_rule_is_named_with_rule_value_and_remedy(client: httpx.Client) -> None:
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


BAD_SCENARIOS: list[Any] = [
    ({"modle": {}, "model": {"preset": "gpt2"}}, "modle is not a known field, got {}: did you mean model."),
    (
        {"model": {"preset": "gpt2"}, "parallelism": {"tensr": 2}},
        "parallelism.tensr is not a known field, got 2: did you mean tensor.",
    ),
    ({"model": {"preset": "gpt3"}}, "model.preset must be a name of the catalog, got 'gpt3'"),
    (
        {"model": {"preset": "gpt2"}, "parallelism": {"data": 4}, "cluster": {"num_gpus": 9}},
        "cluster.num_gpus must equal",
    ),
    ({"model": {"preset": "gpt2"}, "parallelism": {"tensor": 5}}, "must divide num_attention_heads 12, got 5"),
    ({"model": {"huggingface_config": {"model_type": "x"}}}, "model_type must be a model_type that is counted here"),
    ({"model": {"tensors": [{"name": "a", "shape": [1]}] * 5001}}, "model.tensors must have at most 5000 entries"),
]


@pytest.mark.parametrize(("body", "sentence"), BAD_SCENARIOS)
def test_the_sentences_are_those_of_the_command_line(
    client: httpx.Client, tmp_path: Path, body: dict[str, Any], sentence: str
) -> None:
    document = problem(client.post(SIZINGS, json=body), 422, "invalid-input")
    assert sentence in document["detail"]
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(body))
    detail = document["detail"].replace("GET /v1/models lists", "`ckpt-size models` lists")
    typed = flag_words(path, {})(detail)
    assert ckpt_size(str(path)).stderr == "".join(f"error: {line}\n" for line in typed.splitlines())


def test_a_body_that_is_no_object_is_refused(client: httpx.Client) -> None:
    document = problem(client.post(SIZINGS, json=[]), 422, "invalid-input")
    assert "the input must be an object" in document["detail"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("field", ['"targets": {"max_overhead_fraction": %s}', '"a": [{"b": %s}]'])
def test_what_is_no_number_is_no_json(client: httpx.Client, field: str, number: str) -> None:
    body = f'{{"model": {{"preset": "gpt2"}}, {field % number}}}'
    document = problem(client.post(SIZINGS, content=body, headers=JSON), 400, "invalid-json")
    [error] = document["errors"]
    assert error["field"] in ("targets.max_overhead_fraction", "a.0.b")
    assert error["value"] == number.replace("1e999", "Infinity")
    assert "null" in error["remedy"]


@pytest.mark.parametrize(
    "body",
    ["{model:", "{} {}", '{"model": }', "'", b"\xff", b"\xef\xbb\xbf{}", '"\\ud800"', "1" * 5000, '{"a": "\x00"}'],
    ids=range(9),
)
def test_a_body_that_is_no_json_is_a_bad_request(client: httpx.Client, body: str | bytes) -> None:
    problem(client.post(SIZINGS, content=body, headers=JSON), 400, "invalid-json")


def test_a_field_that_stands_twice_is_refused(client: httpx.Client) -> None:
    body = '{"model": {"preset": "gpt2"}, "parallelism": {"data": 1, "data": 2}}'
    document = problem(client.post(SIZINGS, content=body, headers=JSON), 400, "invalid-json")
    [error] = document["errors"]
    assert (error["value"], error["remedy"]) == ("'data'", "keep one of the two")


@pytest.mark.parametrize("body", ["[" * 100_000, '{"a":' * 100_000, "[" * 300 + "]" * 300])
def test_a_deep_body_is_refused(client: httpx.Client, body: str) -> None:
    document = problem(client.post(SIZINGS, content=body, headers=JSON), 400, "invalid-json")
    assert "recursion limit" in document["detail"]


def test_many_brackets_side_by_side_are_not_deep(client: httpx.Client) -> None:
    config = {"model_type": "llama", "lists": [[] for _ in range(2000)], "text": "[{" * 2000}
    document = problem(client.post(SIZINGS, json={"model": {"huggingface_config": config}}), 422, "invalid-input")
    assert "hidden_size is required" in document["detail"]


def test_many_mistakes_are_counted_and_not_explained_one_by_one(client: httpx.Client) -> None:
    body = {f"modle{number}": number for number in range(50_000)}
    document = problem(client.post(SIZINGS, json=body), 422, "invalid-input")
    assert "breaks 50,001 rules" in document["detail"]
    few = {f"modle{number}": number for number in range(MAX_PROBLEMS - 1)}
    assert len(problem(client.post(SIZINGS, json=few), 422, "invalid-input")["errors"]) == MAX_PROBLEMS


def test_a_body_must_be_declared_as_json(client: httpx.Client) -> None:
    for headers in ({}, {"content-type": "application/x-www-form-urlencoded"}, {"content-type": "nonsense"}):
        document = problem(client.post(SIZINGS, content="{}", headers=headers), 415, "unsupported-media-type")
        assert "content-type must be application/json" in document["detail"]


def test_a_missing_body_is_invalid_input(client: httpx.Client) -> None:
    packed = {"content-encoding": "gzip"}
    for content, headers in ((b"", {}), (b"", JSON), (gzip.compress(b""), JSON | packed)):
        [error] = problem(client.post(SIZINGS, content=content, headers=headers), 400, "invalid-json")["errors"]
        assert (error["field"], error["rule"]) == ("body", "must not be empty")
        assert "send a JSON document" in error["remedy"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"a": "\\u0000"}', r"must not have \u0000 in a text: remove the character"),
        (b"[" * 300 + b"]" * 300, "send a document of at most 200 objects and lists inside each other"),
        (b"\xef\xbb\xbf{}", "UTF-8 without a byte order mark"),
        ('{"a": 1}'.encode("utf-16"), "must be UTF-8, and is not at byte 0 (0xff): save the document as UTF-8"),
        ('{"a": 1}'.encode("utf-16-le"), "it looks like UTF-16"),
        ('{"a": "é"}'.encode("latin-1"), "must be UTF-8, and is not at byte 7 (0xe9): save the document as UTF-8"),
        (b"{" + b'"x": 1,' * 2 + b'"y": 1}', "must not have a field twice in one object, got 'x': keep one"),
        (b'{"%s": 1}' % (b"x" * 201), "must have field names of at most 200 characters"),
    ],
)
def test_the_remedy_is_of_what_is_wrong_with_a_body(client: httpx.Client, body: bytes, sentence: str) -> None:
    document = problem(client.post(SIZINGS, content=body, headers=JSON), 400, "invalid-json")
    assert sentence in document["detail"]


def test_a_key_that_is_none_and_a_page_that_is_none_are_refused_in_these_words(
    client: httpx.Client, token: str
) -> None:
    saved = {"name": "x", "scenario": {"model": {"preset": "gpt2"}}}
    for key in ("", "a b", "x" * 201):
        headers = {"authorization": f"Bearer {token}", "idempotency-key": key}
        [error] = problem(client.post("/v1/scenarios", json=saved, headers=headers), 422, "invalid-input")["errors"]
        assert (error["field"], error["remedy"]) == ("idempotency-key", "give a random UUID")
        assert error["rule"] == "must be 1 to 200 letters, digits and signs of ASCII, no spaces"
    [error] = problem(client.get("/v1/scenarios?limit=0"), 422, "invalid-input")["errors"]
    assert error["sentence"] == "limit must be at least 1, got '0': give 1 or more."


def test_a_large_body_is_refused_and_one_of_just_the_limit_is_read(client: httpx.Client) -> None:
    problem(client.post(SIZINGS, content=b" " * (MIB + 1), headers=JSON), 413, "too-large")
    problem(client.post(SIZINGS, content=b" " * MIB, headers=JSON), 400, "invalid-json")


def test_a_body_of_undeclared_length_is_refused_when_it_becomes_too_large(client: httpx.Client) -> None:
    def chunks() -> Any:
        for _ in range(17):
            yield b" " * (MIB // 16)

    problem(client.post(SIZINGS, content=chunks(), headers=JSON), 413, "too-large")


def test_a_body_that_is_declared_too_large_is_refused_before_it_arrives(server: str) -> None:
    with connected(server) as connection:
        head = (
            f"POST {SIZINGS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {10**12}\r\n\r\n"
        )
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_defect(
    server: str, client: httpx.Client, server_log: Path
) -> None:
    with connected(server) as connection:
        head = f"POST {SIZINGS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
        connection.sendall(head.encode() + b"{")
    for _ in range(10):  # the server meets the end of the body before, or between, these
        assert client.get("/healthz").status_code == 200
    assert "Traceback" not in server_log.read_text()


def test_an_unknown_route_and_method_are_problems_too(client: httpx.Client) -> None:
    problem(client.get("/v1/nothing"), 404, "not-found")
    problem(client.get("/v1/models/"), 404, "not-found")
    problem(client.get("/docs/assets/nothing.js"), 404, "not-found")
    problem(client.get("/docs/assets/../../../../etc/passwd"), 404, "not-found")
    refused = client.get(SIZINGS)
    problem(refused, 405, "method-not-allowed")
    assert refused.headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/scenarios", "GET, HEAD, POST"),
        ("/v1/scenarios/x", "DELETE, GET, HEAD"),
        ("/v1/storage-systems/x/trend", "GET, HEAD"),
        ("/v1/nodes", "GET, HEAD"),
        ("/docs", "GET, HEAD"),
        (SIZINGS, "POST"),
    ],
)
def test_a_method_that_a_path_does_not_have_is_told_all_that_it_has(
    client: httpx.Client, path: str, allowed: str
) -> None:
    refused = client.patch(path)
    problem(refused, 405, "method-not-allowed")
    assert refused.headers["allow"] == allowed
    assert f"must be one of {allowed} at" in refused.json()["detail"]


@pytest.mark.parametrize(
    "path", ["/", "/docs", "/healthz", "/v1/models", "/v1/nodes/dgx-h100", "/v1/scenarios", "/none"]
)
def test_head_is_answered_as_get_without_content(client: httpx.Client, path: str) -> None:
    got, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (got.status_code, b"")
    for name in ("content-type", "content-length", "etag", "location", "content-security-policy"):
        assert head.headers.get(name) == got.headers.get(name), name


def test_head_is_counted_as_such_for_its_route(client: httpx.Client) -> None:
    client.head("/v1/nodes")
    counted = 'ckpt_http_request_duration_seconds_count{method="HEAD",route="/v1/nodes",status="200"} '
    assert counted in client.get("/metrics").text
    refused = client.head("/v1/sizings")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


def test_html_and_sql_in_names_come_back_inert(client: httpx.Client) -> None:
    for name in ("<script>alert(1)</script>", "'; DROP TABLE scenarios; --", "\u202e\u0007"):
        refused = client.post(SIZINGS, json={"model": {"preset": name}})
        problem(refused, 422, "invalid-input")
        assert refused.headers["x-content-type-options"] == "nosniff"
    assert client.get("/v1/scenarios").status_code == 200


def test_codes_are_distinct() -> None:
    assert len({kind.code for kind in KINDS.values()}) == len(KINDS)
