"""The published schema is the one that the code has, and it describes what the agent writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from io_bench.commands.journal import Header, MeasuredConfiguration
from io_bench.commands.main import main
from io_bench.measure.configuration import Configuration
from io_bench.results.outputs import document_text
from io_bench.target.places import Manifest
from sizing.storage.measurement import BenchmarkResult, Measurement, result_schema
from tests.descriptions import flaws_of
from tests.io_bench.conftest import REPOSITORY
from tests.io_bench.test_result_table import RESULT

PUBLISHED = REPOSITORY / "docs" / "benchmark-result.schema.json"


def checked(document: Path) -> int:
    command = [sys.executable, "-m", "check_jsonschema", "--schemafile", str(PUBLISHED), str(document)]
    return subprocess.run(command, capture_output=True, check=False).returncode


def test_the_schema_in_the_docs_is_what_the_verb_prints(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["schema"])
    assert end.value.code == 0
    assert capsys.readouterr().out == PUBLISHED.read_text()
    assert json.loads(PUBLISHED.read_text()) == result_schema()


def test_a_result_agrees_with_the_schema_and_one_of_another_version_does_not(tmp_path: Path) -> None:
    document = tmp_path / "r.json"
    document.write_text(document_text(RESULT))
    assert checked(document) == 0
    document.write_text(document_text(RESULT).replace('"schema_version": 1', '"schema_version": 2'))
    assert checked(document) == 1


@pytest.mark.parametrize(
    "document", [BenchmarkResult, Measurement, Header, MeasuredConfiguration, Configuration, Manifest]
)
def test_every_field_that_the_agent_writes_says_what_it_is(document: type[BaseModel]) -> None:
    assert list(flaws_of(document)) == []
