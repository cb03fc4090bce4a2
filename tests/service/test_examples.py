"""Every route shows a filled example of what it takes and of what it answers, and the examples are true."""

from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from service_client.documents import CalibrationSummary, RunSummary, SavedScenario, StoredCalibration
from sizing.report import SizingReport
from sizing.storage.measurement import BenchmarkResult
from tests.service.test_access import STATELESS

JSON = "application/json"


@pytest.fixture(scope="module")
def document(client: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation) for path, found in document["paths"].items() for method, operation in found.items()
    ]


def examples_of(content: dict[str, Any], document: dict[str, Any]) -> list[Any]:
    """The examples of a body: beside its schema, in the schema, or in the one that it refers to."""
    beside = [example["value"] for example in content.get("examples", {}).values()]
    schema = content["schema"]
    if schema.get("type") == "array":
        return [[item] for item in examples_of({"schema": schema["items"]}, document)]
    return beside or document["components"]["schemas"][schema["$ref"].rpartition("/")[2]].get("examples", [])


def without_example(document: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The bodies and the answers of routes that show no filled example: method, path, and "body" or the status."""
    contents = [
        (method.upper(), path, place, found["content"][JSON])
        for method, path, operation in operations(document)
        for place, found in {"body": operation.get("requestBody", {}), **operation["responses"]}.items()
        if JSON in found.get("content", {})
    ]
    assert len({path for _, path, place, _ in contents if place == "body"}) >= 8
    return [
        (method, path, place)
        for method, path, place, content in contents
        if next(iter(examples_of(content, document)), None) is None
    ]


def test_every_body_and_every_answer_has_a_filled_example(document: dict[str, Any]) -> None:
    assert without_example(document) == []


def test_answers_have_the_media_types_that_there_are(document: dict[str, Any]) -> None:
    known = {JSON, "application/problem+json", "text/html", "text/csv", "text/plain", "application/pdf"}
    known |= {"application/vnd.checkpoint-sizing.presentation+json"}
    for method, path, operation in operations(document):
        for status, answer in operation["responses"].items():
            assert answer.get("content", {}).keys() <= known, (method, path, status)


def test_every_question_is_answered_as_its_example_asks(document: dict[str, Any], client: httpx.Client) -> None:
    asked = set()
    for method, path, operation in operations(document):
        if method == "post" and "security" not in operation:
            (example, *_) = examples_of(operation["requestBody"]["content"][JSON], document)
            assert client.post(path, json=example).status_code == 200, path
            asked.add(("POST", path))
    assert asked == {("POST", path) for method, path in STATELESS if method == "POST"}


@pytest.mark.parametrize(
    "kind", [SizingReport, BenchmarkResult, StoredCalibration, CalibrationSummary, RunSummary, SavedScenario]
)
def test_an_example_is_what_it_is_an_example_of(document: dict[str, Any], kind: type[BaseModel]) -> None:
    (example,) = document["components"]["schemas"][kind.__name__]["examples"]
    assert kind.model_validate(example)
