"""Every question is a tool, asked by the library of the protocol: in this process, on standard streams and by HTTP."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import jsonschema_rs
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.client import ConnectMode
from mcp_types import CallToolResult, TextContent

from mcp_server.main import main
from mcp_server.server import new_server
from mcp_server.tools import MAX_ROWS, tools
from sizing.questions.registry import QUESTIONS
from sizing.scenario import REFERENCE_SCENARIO
from tests.testbed.ports import free_port
from tests.testbed.processes import SECONDS_UNTIL_STUCK, until
from tests.testbed.terminal import typed

PROGRAM = [sys.executable, "-m", "mcp_server.main"]
GPT2 = {"model": {"preset": "gpt2"}}


def asked(name: str, arguments: dict[str, Any], server: Any = None, mode: ConnectMode = "auto") -> CallToolResult:
    async def ask() -> CallToolResult:
        async with Client(server or new_server(), mode=mode) as client:
            return await client.call_tool(name, arguments)

    return anyio.run(ask)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_answers_its_example_as_in_python(name: str) -> None:
    question = QUESTIONS[name].question
    example = dict(question.quick_example or question.example)
    jsonschema_rs.Draft202012Validator(tools()[name].schema()).validate(example)
    result = asked(name, example | {"detail": "report"})
    answer = question.answer_request(question.parse_request(example))
    assert result.structured_content == answer.report.model_dump(mode="json")


def test_schemas_are_short_enough_to_be_read_with_every_conversation_and_refuse_unknown_fields() -> None:
    schemas = {name: tool.schema() for name, tool in tools().items()}
    assert sum(len(json.dumps(schema)) for schema in schemas.values()) < 50_000
    for schema in schemas.values():
        jsonschema_rs.meta.validate(schema)
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schemas["answer"], GPT2 | {"gpus": 8})


def test_a_short_answer_has_the_verdict_and_no_table_and_tables_have_all() -> None:
    short = text_of(asked("answer", REFERENCE_SCENARIO))
    tables = text_of(asked("answer", REFERENCE_SCENARIO | {"detail": "tables"}))
    assert "13.80 TB" in short
    assert "### " not in short
    assert "### Who writes what" in tables


def test_a_long_table_is_cut_in_a_short_answer_and_says_so() -> None:
    sweep = {"scenario": GPT2 | {"checkpoint": {"interval_seconds": [f"{minutes}min" for minutes in range(1, 41)]}}}
    short, tables = (text_of(asked("sweep", sweep | more)) for more in ({}, {"detail": "tables"}))
    assert f"{40 - MAX_ROWS} more rows stand in the answer with detail `tables`." in short
    assert [text.count(" min | ") + text.count(" s | ") for text in (short, tables)] == [MAX_ROWS, 40]


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("answer", {"model": {"preset": "gpt-2x"}}, "model.preset must be a name of the catalog, got 'gpt-2x'"),
        ("answer", GPT2 | {"detail": "all"}, "detail must be known, got 'all': give one of short, tables, report."),
        ("nothing", {}, "The tool must be one of answer, manifest, "),
        ("catalog", {"catalog": "gpus"}, "catalog must be known, got 'gpus': give one of models, formats, "),
        ("fields", {}, "words must be a text"),
        ("fields", {"words": "zzz"}, "words must fit one of "),
        ("config_files", {"files": []}, "files must"),
    ],
)
def test_what_breaks_a_rule_is_told_as_a_sentence(name: str, arguments: dict[str, Any], sentence: str) -> None:
    result = asked(name, arguments)
    assert result.is_error
    assert text_of(result).startswith(sentence)


def test_names_and_fields_are_found_by_words() -> None:
    assert "dgx-h100 | 8 | 80.00 GB" in text_of(asked("catalog", {"catalog": "nodes", "words": "h100"}))
    found = text_of(asked("fields", {"words": "interval_seconds"})).splitlines()
    assert found[0].startswith("checkpoint.interval_seconds: ")


def test_config_files_become_a_scenario_that_answers() -> None:
    settings = ("[job]", 'dump_folder = "out"', "[model]", 'flavor = "8B"', "[training]", "seq_len = 8192")
    file = {"name": "train.toml", "content": "\n".join(settings)}
    result = asked("config_files", {"files": [file], "num_gpus": 8})
    scenario = result.structured_content["scenario"]
    assert "8,030,261,248" in text_of(asked("answer", scenario))


def test_progress_is_told() -> None:
    told: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001 - named by the protocol
        told.append(progress)

    async def ask() -> None:
        async with Client(new_server()) as client:
            scenario = {"model": {"preset": "llama-3.1-8b"}, "cluster": {"num_gpus": 64}}
            await client.call_tool("layouts", {"scenario": scenario}, progress_callback=hear)

    anyio.run(ask)
    assert told
    assert told == sorted(told)
    assert all(0 < fraction <= 1 for fraction in told)


@pytest.fixture
def address() -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen([*PROGRAM, "--http", f"127.0.0.1:{port}"])

    def answers() -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    try:
        until(answers)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        assert process.wait(SECONDS_UNTIL_STUCK) in (0, -15)


@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.long)])
def test_a_program_asks_on_standard_streams(mode: ConnectMode) -> None:
    server = StdioServerParameters(command=PROGRAM[0], args=PROGRAM[1:])
    assert "124,439,808 parameters" in text_of(asked("answer", GPT2, server, mode))


def test_a_program_asks_by_http_and_another_host_is_refused(address: str) -> None:
    assert "124,439,808 parameters" in text_of(asked("answer", GPT2, address))
    headers = {"Host": "elsewhere.example", "Accept": "application/json, text/event-stream"}
    assert httpx.post(address, json={"jsonrpc": "2.0"}, headers=headers).status_code == 421


@pytest.mark.parametrize("text", ["0.0.0.0:8300", "127.0.0.1", "127.0.0.1:99999", ":8300"])
def test_an_address_beyond_this_machine_is_refused(text: str, tmp_path: Path) -> None:
    done = typed(main, "ckpt-mcp", "--http", text, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: --http must be an address of this machine with a port, got ")
