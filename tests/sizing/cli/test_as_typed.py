"""`ckpt-size` takes what people type, and names what they typed where it cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sizing.cli.flags import FLAGS, FLAGS_ELSEWHERE
from sizing.cli.main import app
from tests.testbed.terminal import ckpt_size


def report(*arguments: str) -> dict[str, Any]:
    found = ckpt_size(*arguments, "--json")
    assert found.returncode == 0, found.stderr
    document: dict[str, Any] = json.loads(found.stdout)
    return document


def refusal(*arguments: str, cwd: Path | None = None) -> str:
    found = ckpt_size(*arguments, cwd=cwd)
    assert (found.returncode, found.stdout) == (2, "")
    (line,) = found.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(".")
    return line.removeprefix("error: ")


def test_quantities_and_names_are_read_as_people_write_them() -> None:
    typed = report(
        *("--model", "Llama-3.1-405B", "--node", "DGX-H200", "--tensor", "8", "--write-bandwidth", "500 gb/s"),
        *("--interval", "1hr", "--max-overhead", "5%", "--mtbf", "9 Hours", "--format", "torch_dist"),
    )
    exact = report(
        *("--model", "llama-3.1-405b", "--node", "dgx-h200", "--tensor", "8", "--write-bandwidth", "500GB/s"),
        *("--interval", "3600s", "--max-overhead", "0.05", "--mtbf", "32400", "--format", "torch-dist"),
    )
    assert typed == exact
    assert report("--parameters", "400B")["model"]["num_parameters"] == 400_000_000_000


@pytest.mark.parametrize("flag", [flag.name for flag in FLAGS if flag.field.endswith("_bytes_per_second")])
def test_a_rate_without_a_unit_is_refused(flag: str) -> None:
    assert refusal("--model", "gpt2", flag, "500") == (
        f"{flag} is a rate without a unit, got '500': write the unit too, for example 500 GB/s."
    )


def test_a_rate_without_a_unit_is_refused_in_a_list_too() -> None:
    assert refusal("sweep", "--model", "gpt2", "--write-bandwidth", "500,600").startswith("--write-bandwidth is a rate")


def test_a_number_in_a_file_is_in_base_units(tmp_path: Path) -> None:
    profile = {"write_bytes_per_second": 500}
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps({"model": {"preset": "gpt2"}, "storage": {"profile": profile}}))
    assert report(str(path))["write"]["bytes_per_second"] == pytest.approx(500)


def test_a_duration_that_is_too_long_to_be_one_is_refused_not_cut() -> None:
    assert "--interval must have at most 64 characters" in refusal("--model", "gpt2", "--interval", "1h  " * 30)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("modles", "models"),
        ("simluate", "simulate"),
        ("requires", "require"),
        ("Nodes", "nodes"),
    ],
)
def test_a_misspelt_verb_is_told_the_right_one(typed: str, meant: str, tmp_path: Path) -> None:
    sentence = f"{typed} is neither a file nor a verb of ckpt-size: did you mean {meant}."
    assert refusal(typed, cwd=tmp_path) == sentence


def test_a_file_goes_before_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "model").write_text('{"model": {"preset": "gpt2"}}')
    assert ckpt_size("model", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--tp", "--tensor"),
        ("--pp", "--pipeline"),
        ("--dp", "--data"),
        ("--ep", "--expert"),
        ("--cp", "--context"),
        ("--mbs", "--micro-batch"),
        ("--gbs", "--global-batch"),
        ("--tensor-model-parallel-size", "--tensor"),
        ("--num-gpus", "--gpus"),
        ("--tensro", "--tensor"),
        ("--micro_batch", "--micro-batch"),
    ],
)
def test_a_flag_that_is_none_is_told_the_right_one(typed: str, meant: str) -> None:
    assert refusal("--model", "gpt2", typed, "8") == (
        f"{typed} is not a flag of ckpt-size answer: did you mean {meant}."
    )


def test_the_names_of_other_tools_lead_to_flags_that_there_are_and_hide_none() -> None:
    names = {flag.name for flag in FLAGS}
    assert set(FLAGS_ELSEWHERE.values()) <= names
    assert not names & set(FLAGS_ELSEWHERE)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--model gpt2 --pipeline 13", "--pipeline must be at most num_layers 12, got 13"),
        ("--model gpt2 --node dgx-h10", "--node must be a name of the catalog, got 'dgx-h10': the nearest"),
        ("--model gpt2 --max-overhead 5", "--max-overhead must be at most 1, got '5'"),
        ("--model gpt2 --sequence-length 2048", "training has --sequence-length without --micro-batch"),
        ("--model gpt2 --data 8 --gpus 16", "got 16: change a degree or --gpus."),
        ("layouts --model gpt2 --gpus 0", "--gpus must be at least 1, got '0'"),
        ("layouts --model gpt2 --gpus 8 --headroom 2", "--headroom must be at most 0.9, got '2'"),
        ("simulate --model gpt2 --mtbf 9h --lasting soon", "--lasting is not a duration, got 'soon'"),
        ("require --model gpt2 --recovery x", "--recovery is not a duration, got 'x'"),
        ("manifest --model gpt2 --optimizer adan", "got 'adan': did you mean adam."),
    ],
)
def test_a_sentence_names_the_flag_that_was_typed(arguments: str, sentence: str) -> None:
    assert sentence in refusal(*arguments.split())


def test_what_a_file_says_keeps_the_name_of_its_field(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps({"model": {"preset": "gpt2"}, "parallelism": {"tensor": 0}}))
    assert refusal(str(path), "--data", "2").startswith("parallelism.tensor must be at least 1, got 0")


def test_the_number_of_gpus_is_enough_and_the_report_says_which_layout_it_took() -> None:
    found = report("--model", "llama-3.1-405b", "--gpus", "2048")
    assert found["layout"]["num_gpus"] == 2048
    assert found["assumptions"][0]["field"] == "parallelism"
    assert found["assumptions"][0]["value"] == "tensor 8, pipeline 16, data 16"
    kept = report("--model", "llama-3.1-405b", "--gpus", "2048", "--tensor", "4")
    assert kept["assumptions"][0]["value"].startswith("tensor 4, ")


@pytest.mark.parametrize("verb", ["require", "manifest"])
def test_a_verb_without_assumptions_notes_the_layout_beside_its_answer(verb: str) -> None:
    found = ckpt_size(verb, "--model", "llama-3.1-405b", "--gpus", "2048", "--write-bandwidth", "1TB/s")
    assert found.returncode == 0
    assert found.stderr.startswith("note: parallelism = tensor 8, pipeline 16, data 16 (left open")


@pytest.mark.parametrize("word", ["models", "nodes", "storage", "formats", "failure-rates", "techniques"])
def test_a_catalog_is_listed_whole_as_json(word: str) -> None:
    listed = json.loads(ckpt_size(word, "--json").stdout)
    assert len(listed) > 3
    assert all(entry["name"] and entry["source"] for entry in listed)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["models", "Llama 405"], ["llama-3.1-405b"]),
        (["nodes", "h200"], ["dgx-h200", "hgx-h200"]),
        (["storage", "yanrong"], ["mlperf-v3-yanrong-f9000x"]),
        (["formats", "DEEPSPEED"], ["deepspeed"]),
        (["techniques", "8-bit Adam"], ["8-bit Adam"]),
        (["models", "deepseek"], ["deepseek-v2-lite", "deepseek-v2", "deepseek-v3", "deepseek-r1", "deepseek-v3.2"]),
        (["nodes", "azure"], ["azure-nd-h100-v5", "azure-nd-a100-v4"]),
    ],
)
def test_a_word_keeps_what_has_it_in_its_name(arguments: list[str], names: list[str]) -> None:
    assert [entry["name"] for entry in json.loads(ckpt_size(*arguments, "--json").stdout)] == names
    shown = ckpt_size(*arguments).stdout
    assert all(name in shown for name in names)


def test_a_word_that_stands_in_no_name_is_looked_for_in_the_lines() -> None:
    kinds = {entry["kind"] for entry in json.loads(ckpt_size("techniques", "activation-offload", "--json").stdout)}
    assert kinds == {"activation-offload"}


def test_a_word_that_stands_nowhere_is_told_the_nearest_name() -> None:
    assert refusal("nodes", "dgx-h300") == (
        "the word fits none of the 13 nodes, got 'dgx-h300': the nearest names are dgx-h200, dgx-h100, hgx-h200."
    )


def test_every_verb_that_takes_a_scenario_takes_every_flag() -> None:
    verbs = {"answer", "manifest", "require", "sweep", "simulate", "layouts"}
    for command in app.registered_commands:
        if command.name in verbs:
            shown = ckpt_size(str(command.name), "--help").stdout
            assert "--tensor" in shown
            assert "--min-goodput" in shown
