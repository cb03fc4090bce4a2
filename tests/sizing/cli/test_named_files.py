"""Every verb that takes a scenario reads all files that its command line names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbed.terminal import ckpt_size

VERBS = ("answer", "manifest", "require", "sweep", "simulate", "layouts")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("flag", ["--storage", "--hf-config", "--checkpoint"])
def test_a_file_that_is_not_there_is_missed(verb: str, flag: str, tmp_path: Path) -> None:
    (tmp_path / "scenario.json").write_text('{"model": {"preset": "gpt2"}}')
    found = ckpt_size(verb, "scenario.json", flag, "nowhere.json", cwd=tmp_path)
    assert (found.returncode, found.stdout) == (2, "")
    assert "nowhere.json" in found.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_so_is_the_scenario_itself(verb: str, tmp_path: Path) -> None:
    found = ckpt_size(verb, "nowhere.json", cwd=tmp_path)
    assert (found.returncode, found.stdout) == (2, "")
    assert "nowhere.json" in found.stderr
