"""The OpenAPI document, and the service held against it."""

import asyncio
import itertools
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from fastapi import FastAPI

from service.http.etags import Constant
from service.routes.pages import OpenApiDocument
from sizing.questions.registry import ANSWER, QUESTIONS
from sizing.scenario import REFERENCE_SCENARIO, Scenario
from tests.descriptions import flaw_of
from tests.service.conftest import created_token
from tests.service.test_problems import problem
from tests.testbed.processes import SECONDS_UNTIL_STUCK

CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")
MIN_LINKS = 10
"""Between requests that follow each other, of which one reads or changes what the other has made."""
MAX_RUNS = 10
"""Of sequences, until one has followed as many links: whatever --max-examples is, hypothesis gives a run up when it has
drawn too much that fits nowhere, and three of ten runs follow fewer."""

OTHER_QUESTIONS = f"^/v1/({'|'.join(e.question.route.path for e in QUESTIONS.values() if e is not ANSWER)})$"
"""Most fields of their bodies are those of a scenario, which the coverage of /v1/sizings goes through: a coverage of
their own has one scenario as it is."""
BATCH = {"global_batch_size": 512, "micro_batch_size": 1, "sequence_length": 8192}

exhaustive = pytest.mark.exhaustive(minutes=6)


@pytest.mark.long
@pytest.mark.parametrize(
    ("phases", "flags"),
    [
        pytest.param("examples,fuzzing", ["--max-examples", "8"], marks=exhaustive),
        pytest.param("coverage", ["--exclude-path-regex", OTHER_QUESTIONS], marks=exhaustive),
        pytest.param("coverage", ["--include-path-regex", OTHER_QUESTIONS], marks=exhaustive),
        ("stateful", ["--max-examples", "30"]),
    ],
)
def test_the_whole_document_is_held_by_single_requests_and_by_sequences_of_them(
    server: str, database_url: str, tmp_path: Path, phases: str, flags: list[str]
) -> None:
    """Examples, random requests, bounds, and sequences in which one request reads what another has made."""
    token = created_token(database_url, f"schemathesis-{phases}{flags[0]}", scope="admin")
    document = httpx.get(f"{server}/openapi.json", timeout=SECONDS_UNTIL_STUCK).json()
    if "--include-path-regex" in flags:
        document["components"]["schemas"]["Scenario"] = {"const": REFERENCE_SCENARIO}
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(document))
    command = [sys.executable, "-m", "schemathesis.cli", "run", str(file), "--url", server, "--no-color"]
    command += ["--phases", phases, *flags, "--header", f"Authorization: Bearer {token}"]
    command += ["--checks", ",".join(CHECKS), "--suppress-health-check", "all"]
    command += ["--request-timeout", str(SECONDS_UNTIL_STUCK)]
    said = said_by(command, tmp_path)
    for phase in phases.split(","):
        assert re.search(rf"✅ +{phase.capitalize()}", said), phase
    assert ("stateful" in phases) == (num_links(said) is not None)
    if "stateful" in phases:
        more = (said_by(command, tmp_path) for _ in range(MAX_RUNS - 1))
        assert any((num_links(each) or 0) >= MIN_LINKS for each in itertools.chain([said], more))


def said_by(command: list[str], folder: Path) -> str:
    """What schemathesis prints; it finds nothing wrong."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    print(done.stdout[-3000:])
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
    return done.stdout


def num_links(said: str) -> int | None:
    """The links that a run followed."""
    links = re.search(r"API Links: +(\d+) covered", said)
    return int(links[1]) if links else None


@pytest.fixture(scope="module")
def document(client: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def test_the_document_is_made_once_and_others_are_answered_meanwhile() -> None:
    """It takes seconds: the event loop goes on, here to let the making end."""
    begun, may_end, made = threading.Event(), threading.Event(), []

    class Slow(FastAPI):
        def openapi(self) -> dict[str, Any]:
            made.append(self)
            begun.set()
            assert may_end.wait(SECONDS_UNTIL_STUCK)
            return {"openapi": "3.1.0"}

    async def asked_twice() -> list[Constant]:
        document = OpenApiDocument(Slow())
        asked = [asyncio.create_task(document.make()) for _ in range(2)]
        await asyncio.to_thread(begun.wait, SECONDS_UNTIL_STUCK)
        may_end.set()
        return await asyncio.gather(*asked)

    first, second = asyncio.run(asked_twice())
    assert first is second
    assert len(made) == 1
    assert first.content == b'{"openapi": "3.1.0"}'


def test_the_types_of_the_library_are_those_of_the_routes(document: dict[str, Any]) -> None:
    operation = document["paths"]["/v1/sizings"]["post"]
    assert operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/Scenario")
    assert operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].endswith("/SizingReport")


def test_the_reference_scenario_is_filled_in_and_has_its_answer(document: dict[str, Any], client: httpx.Client) -> None:
    operation = document["paths"]["/v1/sizings"]["post"]
    (example,) = operation["requestBody"]["content"]["application/json"]["examples"].values()
    assert example["value"] == REFERENCE_SCENARIO
    answered = client.post("/v1/sizings", json=example["value"])
    assert document["components"]["schemas"]["SizingReport"]["examples"] == [answered.json()]


def test_every_schema_has_one_plain_name_for_generators_of_clients(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert [name for name in schemas if not re.fullmatch("[A-Za-z0-9]+", name)] == []
    assert {name: schema["title"] for name, schema in schemas.items() if schema.get("title", name) != name} == {}
    assert {"Adapters", "NetworkAdapters"} <= set(schemas)


@pytest.mark.parametrize(
    "scenario",
    [
        {"cluster": {"nodes": "4 x dgx-a100, 4 x dgx-h100"}},
        {"cluster": {"nodes": ["4 x dgx-a100", {"count": 4, "node": "dgx-h100", "storage_nics": "2 x 400 Gb/s"}]}},
        {"cluster": {"storage_nics": "2 x 400 Gb/s"}},
        {"parallelism": {"pipeline": 8, "layers_per_stage": "3,6x4,5"}},
        {"model": {"num_parameters": "400B", "num_active_parameters": "250B", "num_experts": 16}},
        {"training": {"frozen": "attention, ffn"} | BATCH | {"num_tokens": "1T", "critical_batch_tokens": "4M"}},
        {"training": {"offload": {"optimizer": "host", "optimizer_fraction": "50 %"}}},
        {"training": {"adapters": {"rank": 8, "tensors": "q_proj, v_proj", "modules_to_save": "lm_head"}}},
        {"checkpoint": {"stored_fraction": "90 %", "reduction": {"compression": {"weights_fraction": "80 %"}}}},
        {"retention": {"free_fraction": "10 %", "redundancy_fraction": "25 %"}},
        {"targets": {"max_overhead_fraction": "5 %", "min_goodput_fraction": "90 %"}},
    ],
    ids=str,
)
def test_text_that_a_scenario_reads_is_in_its_schema_too(scenario: dict[str, Any], document: dict[str, Any]) -> None:
    Scenario.model_validate({"model": {"preset": "llama-3.1-8b"}} | scenario)
    schema = {"$ref": "#/components/schemas/Scenario", "components": document["components"]}
    jsonschema_rs.Draft202012Validator(schema).validate({"model": {"preset": "llama-3.1-8b"}} | scenario)


def test_what_an_answer_has_as_a_number_or_a_list_is_no_text_there(document: dict[str, Any]) -> None:
    kinds = document["components"]["schemas"]["Parallelism"]["properties"]["layers_per_stage"]["anyOf"]
    assert [kind["type"] for kind in kinds] == ["array", "null"]


def test_bounds_have_the_names_of_json_schema(document: dict[str, Any]) -> None:
    """Pydantic writes a bound by its own name where it stands behind a validator."""

    def keywords(part: Any) -> Iterator[str]:
        for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
            yield from keywords(inner)
        if isinstance(part, dict):
            yield from part
            if part.get("type") in ("array", "object") and {"maxLength", "minLength"} & part.keys():
                yield f"a length of an {part['type']}"

    schemas = [{**schema, "examples": []} for schema in document["components"]["schemas"].values()]
    wrong = {"ge", "gt", "le", "lt", "a length of an array", "a length of an object"}
    assert {name for name in keywords(schemas) if name in wrong} == set()


def test_every_error_is_documented_as_a_problem(document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for operation in operations.values():
            errors = {status: found for status, found in operation["responses"].items() if int(status) >= 400}
            assert errors or path == "/healthz"
            for found in errors.values():
                assert list(found["content"]) == ["application/problem+json"]
                schema = found["content"]["application/problem+json"]["schema"]
                assert schema["$ref"].endswith("/ProblemDocument")
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_every_property_and_parameter_says_in_a_sentence_what_it_is(document: dict[str, Any]) -> None:
    flaws = [
        f"{class_name}.{name} {flaw}"
        for class_name, name, said in (*properties(document), *parameters(document))
        if (flaw := flaw_of(name, said.get("description", ""), class_name=class_name))
    ]
    assert flaws == []


def properties(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every property of every body and answer: its class, its name, and what is said of it."""
    for class_name, schema in document["components"]["schemas"].items():
        yield from ((class_name, name, said) for name, said in schema.get("properties", {}).items())


def parameters(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every parameter of every operation."""
    for operations in document["paths"].values():
        for operation in operations.values():
            yield from ((operation["operationId"], said["name"], said) for said in operation.get("parameters", ()))


def test_routes_that_store_say_that_they_need_a_token(document: dict[str, Any]) -> None:
    assert document["paths"]["/v1/scenarios"]["post"]["security"]
    assert "security" not in document["paths"]["/v1/sizings"]["post"]


def test_the_same_problem_is_found_everywhere(client: httpx.Client) -> None:
    for path in ("/v1/models/nothing", "/v1/nodes/nothing", "/v1/scenarios/nothing", "/v1/scenarios/nothing/report"):
        problem(client.get(path), 404, "not-found")
