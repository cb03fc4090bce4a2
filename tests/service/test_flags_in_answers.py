"""Who asks over REST or on a page types no flags: answers and refusals name fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from sizing.cli.flags import FLAGS
from sizing.cluster.cluster import Cluster
from sizing.questions.registry import QUESTIONS, QuestionEntry
from sizing.run.failures import Reliability
from sizing.scenario import Scenario
from tests.service.test_checkpoint_files import SAFETENSORS, WORDS, sent
from tests.service.test_examples import JSON, examples_of, operations

FLAG = re.compile(rf"(?<![\w-])({'|'.join([*(flag.name for flag in FLAGS), '--hf-config', '--storage'])})(?![\w-])")
GPT2 = {"model": {"preset": "gpt2"}}


def texts(document: Any) -> Iterator[str]:
    """Every text of a document. `flags` of a checkpoint's contents are those of the command line, by its name."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from () if name == "flags" else texts(value)
    elif isinstance(document, list):
        for value in document:
            yield from texts(value)
    elif isinstance(document, str):
        yield document


def flags_in(document: Any) -> list[str]:
    """Texts with a flag of `ckpt-size`; `ckpt-bench`, which measures where the storage is, has flags alone."""
    return [text for text in texts(document) if FLAG.search(text) and "ckpt-bench" not in text]


@pytest.mark.parametrize("accept", [JSON, WORDS["accept"]])
def test_no_answer_to_an_example_names_a_flag(client: httpx.Client, accept: str) -> None:
    document = client.get("/openapi.json").json()
    questions = [
        (path, examples_of(operation["requestBody"]["content"][JSON], document)[0])
        for method, path, operation in operations(document)
        if method == "post" and "security" not in operation and "get" not in document["paths"][path]
    ]
    assert len(questions) >= 10
    for path, example in questions:
        answered = client.post(path, json=example, headers={"Accept": accept})
        assert answered.status_code in {200, 406}, path
        assert flags_in(answered.json()) == [], path


def test_no_description_of_a_field_names_a_flag_to_type(client: httpx.Client) -> None:
    found = flags_in(client.get("/openapi.json").json())
    assert [text for text in found if "Megatron" not in text] == []


@pytest.mark.parametrize(
    "scenario",
    [
        GPT2,
        GPT2 | {"storage": {"profile": {"write_bytes_per_second": "1GB/s"}}},
        GPT2 | {"reliability": {"mtbf_seconds": "9h"}},
        {"model": {"num_parameters": "400B"}},
    ],
)
@pytest.mark.parametrize("accept", [JSON, WORDS["accept"]])
def test_what_a_scenario_leaves_open_is_asked_for_by_its_field(
    client: httpx.Client, scenario: dict[str, Any], accept: str
) -> None:
    answered = client.post("/v1/sizings", json=scenario, headers={"Accept": accept})
    assert answered.status_code == 200
    assert flags_in(answered.json()) == []
    fields = ("storage.profile.write_bytes_per_second", "storage.profile.read_bytes_per_second")
    assert any(field in answered.text for field in (*fields, "reliability.mtbf_seconds"))


@pytest.mark.parametrize(
    ("path", "question", "field"),
    [
        ("/v1/simulations", {"scenario": GPT2}, "storage.profile.write_bytes_per_second"),
        (
            "/v1/simulations",
            {"scenario": GPT2 | {"storage": {"profile": {"write_bytes_per_second": "1GB/s"}}}},
            "reliability.mtbf_seconds",
        ),
        ("/v1/sizings", {"model": {"preset": "zephyr"}}, "model.huggingface_config"),
        ("/v1/sizings", {"model": {"huggingface_config": {"model_type": "zzz"}}}, "model.tensors"),
        (
            "/v1/sizings",
            GPT2 | {"checkpoint": {"format": "megatron-distributed-optimizer"}, "training": {"framework": "megatron"}},
            "training.distributed_optimizer",
        ),
        ("/v1/sizings", GPT2 | {"reliability": {}}, "mtbf_seconds"),
    ],
)
def test_a_refusal_names_the_field_to_give(
    client: httpx.Client, path: str, question: dict[str, Any], field: str
) -> None:
    refused = client.post(path, json=question)
    assert refused.status_code == 422, refused.text
    assert flags_in(refused.json()) == []
    assert field in refused.json()["detail"]


def test_a_checkpoint_tells_fields_and_the_same_as_flags(client: httpx.Client) -> None:
    contents = client.post("/v1/inspections", json=sent("model.safetensors", SAFETENSORS)).json()
    assert flags_in(contents) == []
    assert {"fields", "flags"} <= contents.keys()
    shown = client.post("/v1/inspections", json=sent("model.safetensors", SAFETENSORS), headers=WORDS).json()
    assert flags_in(shown) == []
    assert shown["told_fields"] == {"model.num_parameters": "64640"}


COMMAND = re.compile(r"(?<![\w-])--[a-z]|ckpt-(size|serve) ")
ODD: list[dict[str, Any]] = [
    {"model": {"preset": "zephyr"}},
    GPT2 | {"cluster": {"node": "zephyr"}},
    GPT2 | {"cluster": {"nodes": [{"node": "dgx-h100", "count": 1}, {"node": "gb200-nvl72", "count": 1}]}},
    GPT2 | {"storage": {"preset": "zephyr"}},
    GPT2 | {"checkpoint": {"format": "zephyr"}},
    GPT2 | {"reliability": {"preset": "zephyr"}},
    GPT2 | {"training": {"framework": "zephyr"}},
    GPT2 | {"parallelism": {"tensor": 7}},
    GPT2 | {"reliability": {}},
]


def replaced(document: Any, scenario: dict[str, Any]) -> Any:
    """A request whose scenarios are all another one."""
    if isinstance(document, list):
        return [replaced(each, scenario) for each in document]
    if not isinstance(document, dict):
        return document
    return {name: scenario if name == "scenario" else replaced(value, scenario) for name, value in document.items()}


def is_in(field: str, document: Any, known: set[str]) -> bool:
    """Whether a path leads into a request: to what it has, or to what a block of it may have."""
    name, _, rest = field.partition(".")
    if isinstance(document, list):
        return name.isdecimal() and int(name) < len(document) and is_in(rest, document[int(name)], known)
    if isinstance(document, dict) and name in document and rest:
        return is_in(rest, document[name], known)
    return not name or (isinstance(document, dict) and name in document) or name in known


@pytest.mark.parametrize("entry", QUESTIONS.values(), ids=lambda entry: str(entry.name))
def test_a_refusal_names_paths_of_the_request_and_no_command_to_type(
    client: httpx.Client, entry: QuestionEntry[Any, Any]
) -> None:
    question = entry.question
    known = {*question.request.model_fields, *Scenario.model_fields, *Cluster.model_fields, *Reliability.model_fields}
    has_scenarios = "scenario" in str(question.example)
    example: dict[str, Any] = dict(question.example)
    wrong: tuple[Any, ...] = ("zephyr", [], None)
    requests = [replaced(example, odd) if has_scenarios else example | odd for odd in ODD]
    requests += [{**example, name: value} for name in example for value in wrong]
    answers = [(each, client.post(f"/v1/{question.route.path}", json=each)) for each in requests]
    refused = [(each, answer.json()) for each, answer in answers if answer.status_code == 422]
    assert len(refused) >= len(ODD) - 2
    for request, document in refused:
        assert not COMMAND.search(document["detail"]), document["detail"]
        assert [error["field"] for error in document["errors"] if not is_in(error["field"], request, known)] == []
