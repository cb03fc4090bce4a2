"""`ckpt-size --from`: config files as the question, what is said of them, and two of them side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from sizing.scenario import scenario_from
from tests.testbed.terminal import ckpt_size

TOML = """
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 1
seq_len = 4096
[parallelism]
tensor_parallel_degree = 1
unheard_of = 3
[checkpoint]
interval = 500
async_mode = "{}"
"""
STORAGE = ("--storage-preset", "local-nvme-raid0-8x-gen5")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "new.toml").write_text(TOML.format("async"))
    (tmp_path / "old.toml").write_text(TOML.format("disabled"))
    return tmp_path


def test_the_answer_follows_a_table_of_what_each_setting_became(files: Path) -> None:
    done = ckpt_size("--from", "new.toml", "--gpus", "64", *STORAGE, cwd=files)
    assert done.returncode == 0, done.stderr
    told, _, answer = (
        done.stdout.partition("without effect")
        if "without effect" in done.stdout
        else done.stdout.partition("not understood")
    )
    assert "checkpoint.async_mode" in told
    assert "not understood: new.toml: parallelism.unheard_of is not known" in done.stdout
    assert "llama-3.1-8b: 8,030,261,248 parameters on 64 GPUs" in done.stdout
    assert answer


def test_a_config_file_given_as_the_scenario_is_read_as_one(files: Path) -> None:
    arguments = ("--gpus", "64", *STORAGE)
    assert ckpt_size("new.toml", *arguments, cwd=files).stdout == (
        ckpt_size("--from", "new.toml", *arguments, cwd=files).stdout
    )
    (files / "typing_error.yaml").write_text("model: {preset: gpt2}\nstorrage: {}\n")
    assert "did you mean storage" in ckpt_size("typing_error.yaml", cwd=files).stderr
    (files / "other.toml").write_text("[training]\nsteps = 1\n")
    assert "other.toml has the settings of no training that is known" in ckpt_size("other.toml", cwd=files).stderr


def test_what_is_missing_is_asked_for_by_its_flag(files: Path) -> None:
    done = ckpt_size("--from", "new.toml", cwd=files)
    assert (done.returncode, done.stderr) == (
        2,
        "error: cluster.num_gpus is missing, as the files do not say on how many GPUs they run: add --gpus.\n",
    )


def test_print_writes_the_scenario_that_files_and_flags_make(files: Path) -> None:
    done = ckpt_size("--from", "new.toml", "--gpus", "64", "--interval", "1h", "--print", cwd=files)
    scenario = scenario_from(yaml.safe_load(done.stdout))
    assert (scenario.checkpoint.interval_seconds, scenario.parallelism.data) == (3600, 64)
    (files / "scenario.yaml").write_text(done.stdout)
    again = ckpt_size("--from", "scenario.yaml", "--print", cwd=files)
    assert again.returncode == 0, again.stderr
    assert scenario_from(yaml.safe_load(again.stdout)) == scenario


def test_two_configs_stand_side_by_side_as_text_as_json_and_as_markdown(files: Path) -> None:
    flags = ("--from", "new.toml", "--against", "old.toml", "--gpus", "64", *STORAGE)
    done = ckpt_size(*flags, "--json", "--report", "change.md", cwd=files)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["names"] == ["before", "after"]
    stall = next(row for row in report["figures"] if row["figure"] == "write.stall_seconds")
    assert stall["values"][1] < stall["values"][0]
    markdown = (files / "change.md").read_text()
    assert "| checkpoint: mode | sync | async |" in markdown
    assert "before against after" in markdown


def test_a_file_that_is_no_config_is_refused_in_one_sentence(files: Path) -> None:
    (files / "notes.txt").write_text("call the storage team: tomorrow\n")
    done = ckpt_size("--from", "notes.txt", cwd=files)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "error: notes.txt has the settings of no training that is known: give a file of torchtitan, "
    )
    assert done.stderr.count("\n") == 1


def test_other_verbs_read_config_files_too(files: Path) -> None:
    done = ckpt_size("require", "--from", "new.toml", "--gpus", "64", cwd=files)
    assert done.returncode == 0, done.stderr
    assert "note: not understood: new.toml: parallelism.unheard_of is not known" in done.stderr
