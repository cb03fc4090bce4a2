"""`ckpt-size sensitivity` as its user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sizing.questions.registry import SENSITIVITY
from sizing.questions.sensitivity.request import REFERENCE_SENSITIVITY
from sizing.scenario import REFERENCE_SCENARIO
from tests.testbed.terminal import ckpt_size


def test_the_table_has_each_input_with_what_the_headline_becomes(tmp_path: Path) -> None:
    (tmp_path / "scenario.json").write_text(json.dumps(REFERENCE_SCENARIO))
    found = ckpt_size("sensitivity", "scenario.json", "--range", "interval=30min..4h", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    lines = [" ".join(line.split()) for line in found.stdout.splitlines()]
    assert lines[0] == "Lost time 19.6 %"
    assert "interval 4.00 h 30.0 min to 4.00 h 5.31 % to 19.6 % as given" in lines
    failures = "failures per node day 0.0065 0.0052 to 0.0078 16.0 % to 23.2 %"
    assert f"{failures} 20.0 % down and up: no range of it is published" in lines


def test_json_is_the_document_of_the_library_from_flags_or_a_document(tmp_path: Path) -> None:
    expected = json.loads(SENSITIVITY.answer(REFERENCE_SENSITIVITY).model_dump_json())
    (tmp_path / "request.json").write_text(json.dumps(REFERENCE_SENSITIVITY))
    drawn = ckpt_size("sensitivity", "request.json", "--json", "--chart", "found.svg", cwd=tmp_path)
    assert json.loads(drawn.stdout) == expected
    assert "Inputs by how far they move the lost time" in (tmp_path / "found.svg").read_text()
    (tmp_path / "scenario.json").write_text(json.dumps(REFERENCE_SCENARIO))
    flags = ("--range", "checkpoint.interval_seconds=30min..4h", "--fraction", "20%")
    assert json.loads(ckpt_size("sensitivity", "scenario.json", *flags, "--json", cwd=tmp_path).stdout) == expected


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--range", "interval=30min"), "--range must be FIELD=LOW..HIGH, got 'interval=30min'"),
        (("--range", "intervall=1h..2h"), "--range must be a field of a scenario"),
        (("--fraction", "2"), "--fraction must be less than 1"),
    ],
)
def test_what_says_nothing_is_refused_by_the_flag(flags: tuple[str, ...], sentence: str) -> None:
    found = ckpt_size("sensitivity", "--model", "gpt2", *flags)
    assert found.returncode == 2
    assert sentence in found.stderr
