"""`ckpt-size` as its user types it: its output, its exit code."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from sizing.cli.flags import FLAGS, Flag, with_flags
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.storage.calibration import calibrate
from tests.sizing.storage.calibration.simulation import result
from tests.testbed.processes import SECONDS_UNTIL_STUCK
from tests.testbed.terminal import ckpt_size

REFERENCE_FLAGS = (
    "--model megatron-1t --tensor 8 --pipeline 64 --data 6 --node dgx-a100 --gpus 3072 --observed-bytes 13.8TB "
    "--write-bandwidth 273GB/s --read-bandwidth 1TB/s --interval 4h --failures-per-node-day 0.0065 --restart 0s "
    "--format megatron --detection 0s"
).split()


def write(path: Path, document: Any) -> str:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


def test_a_bare_file_is_answered_on_one_screen(tmp_path: Path) -> None:
    found = ckpt_size(write(tmp_path / "scenario.json", REFERENCE_SCENARIO))
    assert found.returncode == 0
    for figure in (
        "13.80 TB",
        "50.55 s",
        "82.80 s",
        "19.6 %",
        "31.5 min",
        "19.17 GB/s",
        "27.60 TB",
        "loses at least 19.6 %",
    ):
        assert figure in found.stdout
    assert "Who writes what" not in found.stdout


def test_full_prints_every_table(tmp_path: Path) -> None:
    found = ckpt_size(write(tmp_path / "scenario.json", REFERENCE_SCENARIO), "--full")
    assert found.returncode == 0
    for figure in (
        "Who writes what",
        "14.11 TB (12.84 TiB)",
        "13.80 TB",
        "50.55 s",
        "533.2 MB/s",
        "4.266 GB/s",
        "0.351 %",
        "19.17 GB/s",
    ):
        assert figure in found.stdout
    assert "512 of 3,072 GPUs" in found.stdout
    assert "1.638 TB/s" in found.stdout
    assert "loses at least 19.6 %" in found.stdout


def test_json_is_the_document_of_the_library(tmp_path: Path) -> None:
    found = ckpt_size("answer", write(tmp_path / "scenario.json", REFERENCE_SCENARIO), "--json")
    assert json.loads(found.stdout) == answer(scenario_from(REFERENCE_SCENARIO)).model_dump(mode="json")


def test_flags_alone_say_the_same_as_the_file() -> None:
    by_flags = json.loads(ckpt_size(*REFERENCE_FLAGS, "--json").stdout)
    expected = answer(scenario_from(REFERENCE_SCENARIO)).model_dump(mode="json")
    assert {**by_flags, "assumptions": None} == {**expected, "assumptions": None}


def test_yaml_is_read_and_flags_are_set_over_it(tmp_path: Path) -> None:
    path = write(
        tmp_path / "scenario.yaml",
        "model: {preset: megatron-1t}\nparallelism: {tensor: 8, pipeline: 64, data: 6}\n"
        "checkpoint: {format: megatron}\nstorage: {profile: {write_bytes_per_second: 273 GB/s}}\n",
    )
    report = json.loads(ckpt_size(path, "--model", "gpt3-175b", "--pipeline", "8", "--json").stdout)
    assert report["model"]["name"] == "gpt3-175b"
    assert report["layout"]["num_gpus"] == 384
    assert report["write"]["bytes_per_second"] == pytest.approx(273e9)


def test_a_number_with_an_exponent_is_a_number_in_yaml_too(tmp_path: Path) -> None:
    storage = "storage: {profile: {write_bytes_per_second: 1e9}}\n"
    scenario = f"model: {{preset: gpt2}}\ncheckpoint: {{format: megatron}}\n{storage}"
    report = json.loads(ckpt_size(write(tmp_path / "scenario.yaml", scenario), "--json").stdout)
    assert report["write"]["bytes_per_second"] == pytest.approx(1e9)


VALUES = {
    "--nodes": "2 x dgx-a100, 1 x dgx-h100",
    "--model": "mixtral-8x7b",
    "--parameters": "1e9",
    "--active": "33e9",
    "--experts": "256",
    "--experts-per-token": "9",
    "--framework": "deepspeed",
    "--precision": "fp16-mixed",
    "--optimizer": "lion",
    "--node": "dgx-a100",
    "--gpus": "1",
    "--storage-nics": "2 x 400 Gb/s",
    "--format": "deepspeed",
    "--zero-stage": "2",
    "--max-overhead": "0.1",
    "--min-goodput": "0.9",
    "--failures-per-node-day": "0.01",
    "--io": "direct",
    "--failures": "rsc-1",
    "--mode": "async",
    "--restore": "read-once-broadcast",
    "--schedule": "gpipe",
    "--table-sharding": "table-wise",
    "--recomputation": "full",
    "--optimizer-sharding": "fully-reshardable",
    "--publish": "delta",
    "--publish-over": "storage",
    "--delta-full-every": "8",
    "--experts-full-every": "8",
    "--export-dtype": "fp32",
    "--export-by": "every-rank",
    "--strategy": "restart",
    "--offload-optimizer": "host",
    "--offload-weights": "host",
    "--offload-activations": "0.5",
    "--compress-gradients": "powersgd",
    "--keep-free": "0.5",
    "--ema": "fp32",
    "--frozen": "attention",
    "--base-dtype": "int8",
    "--bias": "all",
    "--layers-per-stage": ", ".join("1" * 16),
}
"""Where 1 is no value that the flag takes."""
ONE_OF = {"_bytes_per_second": "1 B/s", "_seconds": "1s", "_bytes": "1 B"}
"""One with its unit, where a flag refuses a bare number."""


NEEDED: dict[str, dict[str, Any]] = {
    "checkpoint.optimizer_sharding": {"training": {"distributed_optimizer": True}},
    "training.num_tokens": {"training": {"global_batch_size": 8, "sequence_length": 1024, "micro_batch_size": 1}},
    "training.critical_batch_tokens": {
        "training": {"global_batch_size": 8, "sequence_length": 1024, "micro_batch_size": 1, "num_tokens": 10**9}
    },
    "training.recomputed_layers": {
        "training": {"sequence_length": 1024, "micro_batch_size": 1, "recomputation": "full"}
    },
    "checkpoint.files_per_rank": {"training": {"framework": "megatron"}},
    "parallelism.layers_per_stage": {"parallelism": {"pipeline": 16}},
    "training.offload.": {"training": {"framework": "deepspeed", "sequence_length": 1024, "micro_batch_size": 1}},
    "checkpoint.reduction.delta.": {"checkpoint": {"reduction": {"delta": {"fraction": 0.2, "full_every": 4}}}},
    "checkpoint.reduction.partial_experts.": {"checkpoint": {"reduction": {"partial_experts": {"num_per_save": 1}}}},
    "training.adapters.": {"training": {"adapters": {"rank": 16, "tensors": ["attention.query"], "base_dtype": "nf4"}}},
    "reliability.s": {"reliability": {"mtbf_seconds": 3600, "strategy": "peers", "step_seconds": 6}},
    "checkpoint.export.": {"checkpoint": {"export": {"every": 2}}},
    "training.reinforcement.publication.": {
        "training": {"reinforcement": {"publication": {"interval_seconds": "5min"}}}
    },
}
"""What stands beside the field of a flag that is not all of its block."""


def document_for(flag: Flag) -> dict[str, Any]:
    """A model, where the flag does not say which."""
    if flag.name in ("--active", "--experts", "--experts-per-token"):
        return {"model": {"num_parameters": "1T", "num_active_parameters": "32B", "num_experts": 384}}
    needed = next((block for start, block in NEEDED.items() if flag.field.startswith(start)), {})
    return {} if flag.field.startswith("model.") else {"model": {"preset": "gpt2"}, **needed}


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_every_flag_takes_a_value_and_sets_its_field(flag: Flag) -> None:
    text = flag.sets or VALUES.get(
        flag.name, next((text for unit, text in ONE_OF.items() if flag.field.endswith(unit)), "1")
    )
    model = document_for(flag)
    if flag.name in ("--restart", "--relaunch", "--detection", "--repair"):
        model["reliability"] = {"mtbf_seconds": 3600}
    if flag.name in ("--first-stage-layers", "--last-stage-layers"):
        model["parallelism"] = {"pipeline": 2}
    if flag.name == "--io":
        model["storage"] = {"preset": "dgx-a100-storage-network"}
    if flag.name in ("--sequence-length", "--micro-batch", "--global-batch", "--schedule", "--recomputation"):
        model["training"] = {"sequence_length": 2048, "micro_batch_size": 1}
    scenario = scenario_from(with_flags(model, {flag.parameter: text}))
    owner: Any = scenario
    for name in flag.field.split("."):
        owner = getattr(owner, name)
    if isinstance(owner, tuple):
        owner = ", ".join(str(kind) if isinstance(kind, str | int) else f"{kind.count} x {kind.node}" for kind in owner)
    assert getattr(owner, "text", owner) == text or float(owner) == float(re.sub(r"[A-Za-z/ ]+$", "", text))


def test_a_base_in_4_or_8_bits_has_flags_without_a_value() -> None:
    lora = ("--model", "gpt2", "--framework", "fsdp2", "--lora-rank", "8", "--save-base", "yes")
    for flag, dtype in (("--load-in-4bit", "nf4"), ("--load-in-8bit", "int8")):
        scenario = ckpt_size(*lora, flag, "--print").stdout
        assert f"base_dtype: {dtype}\n" in scenario
    both = ckpt_size(*lora, "--load-in-4bit", "--base-dtype", "int8")
    assert both.returncode == 2
    assert "--base-dtype sets the same field as --load-in-4bit: give one of them" in both.stderr
    doubled = ckpt_size(*lora, "--load-in-8bit", "--double-quant", "yes")
    assert "has --double-quant with --base-dtype int8: give --base-dtype nf4 or fp4" in doubled.stderr
    without = ckpt_size("--model", "gpt2", "--load-in-4bit")
    assert "--lora-rank is required: add it" in without.stderr


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if flag.example], ids=lambda flag: flag.name)
def test_the_example_in_the_help_is_a_value_of_the_field(flag: Flag) -> None:
    document = document_for(flag)
    if flag.name in ("--restart", "--relaunch", "--detection", "--repair"):
        document["reliability"] = {"mtbf_seconds": 3600}
    assert scenario_from(with_flags(document, {flag.parameter: flag.example}))


def test_the_help_of_a_flag_is_what_its_field_says_of_itself() -> None:
    shown = " ".join(ckpt_size("answer", "--help-all").stdout.replace("│", " ").split())
    assert "Tensor-parallel degree: ranks that share every layer" in shown


def test_the_answer_says_whether_state_and_activations_fit() -> None:
    degrees = "--model gpt3-175b --tensor 8 --pipeline 8 --data 16 --sequence-length 2048 --micro-batch 1"
    runs = ckpt_size(*f"{degrees} --global-batch 1536 --full".split()).stdout
    assert "61.73 GB  on stage 0" in runs
    assert "6.80 %  of a step the pipeline is idle, with 96 microbatches" in runs
    assert "DOES NOT FIT" not in runs
    misfit = ckpt_size(*f"{degrees} --recomputation none --full".split(), "--tensor", "4").stdout
    assert "DOES NOT FIT" in misfit
    heading, _, rest = misfit.partition("\n\n")
    said = heading.replace("\n", " ")
    assert "Does not fit on 512 GPUs: training state and activations need 122.8 GB" in said
    assert "If it could run: " in said
    assert "To run: with --distributed-optimizer true and recomputation none it needs 59.62 GB" in said
    assert "The nearest layout that fits is" in said
    assert "cannot run" not in rest


def test_check_exits_with_1_where_a_target_is_missed() -> None:
    assert ckpt_size(*REFERENCE_FLAGS, "--check").returncode == 0
    missed = ckpt_size(*REFERENCE_FLAGS, "--check", "--max-overhead", "0.001")
    assert missed.returncode == 1
    assert "Misses the target: overhead 0.351 % (max 0.100 %)" in missed.stdout
    assert ckpt_size(*REFERENCE_FLAGS, "--max-overhead", "0.001").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere.json"], "nowhere.json cannot be read (No such file or directory)"),
        (["."], ". cannot be read (Is a directory)"),
        (["broken.json"], "broken.json cannot be parsed"),
        (["list.json"], "list.json must hold an object with named fields, found list."),
        (["binary.json"], "binary.json is not a text file"),
        (["twice.json"], "the field 'model' is given twice"),
        (["deep.json"], "deep.json cannot be parsed"),
        (["twice.yaml"], "the field 'model' is given twice"),
        (["/dev/zero"], "/dev/zero is larger than 64.00 MiB"),
        (["surrogate.json"], "model.preset must be"),
        (["nan.json"], "targets.max_overhead_fraction must be a finite number, got nan"),
        (
            ["comma.yaml"],
            "cluster.24 must be the name of a field, got 24: correct what stands before it; inside braces a",
        ),
        (["unknown.yaml"], "modle is not a known field, got 'gpt2': did you mean model."),
        (["--model", "gpt2", "--tensor", "0"], "--tensor must be at least 1, got '0'"),
        (["--model", "gpt2", "--tensor", "-8"], "--tensor must be at least 1, got '-8'"),
        (
            ["--model", "gpt2", "--interval", "soon"],
            "--interval is not a duration, got 'soon'",
        ),
        (["--model", "gpt2", "--data", "8", "--gpus", "16"], "--gpus must equal"),
        (["--tensor", "8"], "model is required: give --model NAME or --parameters N."),
        (["--model", "gpt2", "--storage", "nowhere.json"], "nowhere.json cannot be read"),
        (["--model", "gpt2", "--storage", "empty.json"], "must have at least one rate"),
        (["--json"], "the scenario is missing"),
        (["words.json"], "line 1 column 68 (char 67), found nan: write names and texts in double quotes, no number as"),
    ],
)
def test_bad_input_ends_with_one_sentence_and_exit_code_2(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    files: dict[str, str | bytes] = {
        "broken.json": "{",
        "list.json": "[]",
        "binary.json": b"\xff\xfe\x00\x80",
        "twice.json": '{"model": {"preset": "gpt2"}, "model": {"preset": "gpt3-175b"}}',
        "deep.json": "[" * 100_000,
        "twice.yaml": "model: {preset: gpt2}\nmodel: {preset: gpt3-175b}\n",
        "surrogate.json": '{"model": {"preset": "\\ud800"}}',
        "nan.json": '{"model": {"preset": "gpt2"}, "targets": {"max_overhead_fraction": NaN}}',
        "words.json": '{"model": {"preset": "gpt2"}, "targets": {"max_overhead_fraction": nan}}',
        "comma.yaml": "{model: {preset: gpt2}, cluster: {num_gpus: 1,24}}",
        "unknown.yaml": "modle: gpt2\nmodel: {preset: gpt2}\n",
        "empty.json": "{}",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    found = ckpt_size(*arguments, cwd=tmp_path)
    assert found.returncode == 2
    assert sentence in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1
    assert "Traceback" not in found.stderr
    assert found.stdout == ""


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    found = ckpt_size(str(tmp_path / ("x" * 300)))
    assert found.returncode == 2
    assert "cannot be read" in found.stderr


def test_an_existing_checkpoint_is_a_model_and_a_size(tmp_path: Path) -> None:
    model = torch.nn.Linear(512, 512)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.zeros(1, 512)).sum().backward()
    optimizer.step()
    whole, weights = tmp_path / "whole.pt", tmp_path / "weights.pt"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, whole)
    torch.save(model.state_dict(), weights)
    report = json.loads(ckpt_size("--checkpoint", str(whole), "--json").stdout)
    assert report["model"]["num_parameters"] == 512 * 513
    assert report["checkpoint"]["written_bytes"] == whole.stat().st_size
    alone = json.loads(ckpt_size("--checkpoint", str(weights), "--json").stdout)
    assert alone["model"]["num_parameters"] == 512 * 513
    assert alone["checkpoint"]["observed_bytes"] is None


def test_the_catalogs_are_listed_with_their_sources() -> None:
    models, nodes, formats = (ckpt_size(verb).stdout for verb in ("models", "nodes", "formats"))
    assert "megatron-distributed-optimizer" in formats
    assert "megatron-1t" in models
    assert "arXiv 2104.04473" in models
    assert "dgx-a100" in nodes
    assert "azure-nd-h100-v5" in nodes


def test_help_names_the_verbs() -> None:
    help_text = ckpt_size("--help").stdout
    for verb in ("answer", "validate", "profile", "models", "nodes"):
        assert verb in help_text


def test_the_program_exits_with_2_and_one_sentence_for_bad_input() -> None:
    program = [sys.executable, "-c", "from sizing.cli.main import main; main()", "--model", "gpt5"]
    found = subprocess.run(program, capture_output=True, text=True, timeout=SECONDS_UNTIL_STUCK, check=False)
    assert found.returncode == 2
    assert found.stdout == ""
    assert found.stderr == ckpt_size("--model", "gpt5").stderr
    assert found.stderr.startswith("error: --model must be")


def test_a_reader_that_stops_early_is_no_error() -> None:
    program = f"{sys.executable} -c 'from sizing.cli.main import main; main()' fields | head -1"
    found = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, timeout=SECONDS_UNTIL_STUCK, check=False
    )
    assert found.stderr == ""


def test_storage_takes_a_calibration(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(calibrate([result()], num_draws=50).model_dump_json())
    report = json.loads(ckpt_size("--model", "gpt2", "--storage", str(path), "--json").stdout)
    assert report["write"]["bottleneck"] == "writer"
    assert "node_write_bytes_per_second" in ckpt_size("profile", str(path)).stdout


def test_simulate_sets_the_runs_beside_the_formula() -> None:
    arguments = (*REFERENCE_FLAGS, "--runs", "500", "--lasting", "10d")
    shown = ckpt_size("simulate", *arguments).stdout
    assert "500 runs of 10.4 days on average (min 10.0 days), MTBF 9.62 h" in shown
    assert "goodput, formula" in shown
    report = json.loads(ckpt_size("simulate", *arguments, "--json").stdout)
    assert abs(report["difference_in_standard_errors"]) < 3.5


def test_simulate_refuses_too_few_runs() -> None:
    found = ckpt_size("simulate", *REFERENCE_FLAGS, "--runs", "1")
    assert found.returncode == 2
    assert "--runs must be at least 100, got '1'" in found.stderr
