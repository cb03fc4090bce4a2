"""`ckpt-size compare` as its user runs it."""

import json
import subprocess
from pathlib import Path

import pytest

from sizing.questions.compare.request import REFERENCE_COMPARISON
from sizing.questions.registry import COMPARE
from tests.testbed.terminal import ckpt_size


def compare_verb(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return ckpt_size("compare", *arguments, cwd=cwd)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    names = []
    for named in REFERENCE_COMPARISON["scenarios"]:
        (tmp_path / f"{named['name']}.json").write_text(json.dumps(named["scenario"]))
        names.append(f"{named['name']}.json")
    return names


def test_tables_and_a_chart_show_what_differs_and_why(tmp_path: Path, files: list[str]) -> None:
    found = compare_verb(*files, "--chart", "compared.svg", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    for text in ("273.0 GB/s", "138.00 s (2.73 x)", "one input after the other", "1,008,038,758,400"):
        assert text in found.stdout
    svg = (tmp_path / "compared.svg").read_text()
    assert "stall per save" in svg
    assert "slower storage, hourly" in svg


def test_json_is_the_document_of_the_library_from_files_or_one_document(tmp_path: Path, files: list[str]) -> None:
    (tmp_path / "both.json").write_text(json.dumps(REFERENCE_COMPARISON))
    expected = json.loads(COMPARE.answer(REFERENCE_COMPARISON).model_dump_json())
    for arguments in (files, ["both.json"]):
        assert json.loads(compare_verb(*arguments, "--json", cwd=tmp_path).stdout) == expected


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for folder, named in zip(("old", "new"), REFERENCE_COMPARISON["scenarios"], strict=True):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run.json").write_text(json.dumps(named["scenario"]))
    assert "old/run against new/run" in compare_verb("old/run.json", "new/run.json", cwd=tmp_path).stdout
    twice = compare_verb("old/run.json", "old/run.json", cwd=tmp_path)
    sentence = "error: files must be given once each, got 'old/run.json': remove one, or give another file.\n"
    assert (twice.returncode, twice.stderr) == (2, sentence)


def test_an_empty_file_is_called_empty(tmp_path: Path, files: list[str]) -> None:
    (tmp_path / "new.yaml").touch()
    found = compare_verb(files[0], "new.yaml", cwd=tmp_path)
    assert (found.returncode, "new.yaml is empty: write a scenario into it" in found.stderr) == (2, True)


def test_one_scenario_alone_is_refused(tmp_path: Path, files: list[str]) -> None:
    found = compare_verb(files[0], cwd=tmp_path)
    assert found.returncode == 2
    assert "scenarios" in found.stderr
    assert "Traceback" not in found.stderr
