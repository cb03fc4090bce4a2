"""`ckpt-size techniques` with a scenario, as its user runs it."""

import json
from pathlib import Path

import yaml

from sizing.training.techniques import techniques
from tests.testbed.terminal import ckpt_size

RUN = (
    "--model llama-3.1-8b --framework deepspeed --data 8 --zero-stage 2 --node dgx-h100 --mode async "
    "--sequence-length 8192 --micro-batch 1 --write-bandwidth 10GB/s"
).split()


def test_each_technique_shows_its_flag_and_what_it_moves() -> None:
    shown = " ".join(ckpt_size("techniques", *RUN).stdout.split())
    assert shown.startswith("llama-3.1-8b on 8 GPUs:")
    assert "--optimizer adam-8bit" in shown
    assert "--offload-optimizer host" in shown
    assert "training: GPU state 30.11 GB -> 16.06 GB" in shown
    assert "What does not apply here" in shown
    assert "It needs parallelism.pipeline above 1" in shown


def test_the_flag_that_is_shown_gives_the_figure_that_is_shown() -> None:
    found = json.loads(ckpt_size("techniques", "8-bit", *RUN, "--json").stdout)
    (effect,) = found["techniques"]
    (change,) = [each for each in effect["effects"] if each["figure"] == "checkpoint.written_bytes"]
    answered = json.loads(ckpt_size("answer", *RUN, "--optimizer", "adam-8bit", "--json").stdout)
    assert answered["checkpoint"]["written_bytes"] == change["after"]


def test_a_word_keeps_some_of_them_and_a_file_is_a_scenario_too(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({"model": {"preset": "gpt2"}}))
    found = json.loads(ckpt_size("techniques", "low-precision", "--scenario", str(path), "--json").stdout)
    kinds = {row.name: row.kind for row in techniques()}
    assert {kinds[each["name"]] for each in found["techniques"]} == {"low-precision-optimizer"}
    assert ckpt_size("techniques", str(path)).stdout == ckpt_size("techniques", "--scenario", str(path)).stdout


def test_a_scenario_that_breaks_a_rule_is_refused_in_the_words_of_its_flag() -> None:
    refused = ckpt_size("techniques", *RUN, "--zero-stage", "7")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--zero-stage" in refused.stderr
    assert "Traceback" not in refused.stderr
