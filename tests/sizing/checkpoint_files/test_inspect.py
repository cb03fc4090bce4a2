"""`ckpt-size inspect` as its user runs it: tables, JSON, the flags at the end, exit codes."""

import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from sizing.checkpoint_files import contents_of
from sizing.cli.scenarios import scenario_document
from tests.sizing.checkpoint_files.trained import num_parameters, stepped, tiny_llama
from tests.testbed.processes import SECONDS_UNTIL_STUCK
from tests.testbed.terminal import ckpt_size


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    model = tiny_llama()
    state = {"model": model.state_dict(), "optimizer": stepped(model).state_dict()}
    torch.save(state, tmp_path / "checkpoint.pt")
    return tmp_path / "checkpoint.pt"


def test_the_table_shows_parts_bytes_and_files(checkpoint: Path) -> None:
    found = ckpt_size("inspect", str(checkpoint))
    count = num_parameters(tiny_llama())
    assert found.returncode == 0
    assert found.stderr == ""
    for text in ("weights", "moments", f"{count:,}", "KiB", "checkpoint.pt", "B per parameter"):
        assert text in found.stdout


def test_the_last_line_can_be_run_as_it_stands(checkpoint: Path) -> None:
    last = ckpt_size("inspect", str(checkpoint)).stdout.strip().splitlines()[-1]
    size, count = checkpoint.stat().st_size, num_parameters(tiny_llama())
    framework = "--framework ddp --precision fp32"
    assert last == f"ckpt-size --parameters {count} {framework} --observed-bytes {size}"
    report = json.loads(ckpt_size(*last.split()[1:], "--json").stdout)
    assert report["model"]["num_parameters"] == count
    assert report["checkpoint"]["observed_bytes"] == size


def test_json_is_the_document_of_the_library(checkpoint: Path) -> None:
    found = ckpt_size("inspect", str(checkpoint), "--json")
    assert json.loads(found.stdout) == contents_of(checkpoint).model_dump(mode="json")


def test_weights_alone_are_said_to_be_no_training_checkpoint(tmp_path: Path) -> None:
    safetensors.torch.save_file({"a.weight": torch.zeros(3)}, tmp_path / "[red]a.safetensors")
    found = ckpt_size("inspect", str(tmp_path))
    assert "The checkpoint has no optimizer state" in found.stdout
    assert "[red]a.safetensors" in found.stdout


def test_tensors_of_any_name_in_a_file_of_a_model_are_weights(tmp_path: Path) -> None:
    tensors = {"w": torch.zeros(3, 4), "running_mean": torch.zeros(5), "ids": torch.zeros(7, dtype=torch.int64)}
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    found = contents_of(tmp_path)
    assert [(total.part, total.num_parameters) for total in found.tensors if total.part == "weights"] == [
        ("weights", 12)
    ]
    activations = tmp_path / "activations.safetensors"
    safetensors.torch.save_file(tensors, activations)
    assert {total.part for total in contents_of(activations).tensors} == {"other"}


def test_unknown_parameters_leave_the_model_to_be_named(tmp_path: Path) -> None:
    torch.save({"optimizer": {"state": {0: {"exp_avg": torch.zeros(3)}}}}, tmp_path / "a.pt")
    found = ckpt_size("inspect", str(tmp_path))
    assert "The checkpoint has no weights" in found.stdout
    assert found.stdout.strip().endswith("ckpt-size --model NAME")


def test_a_shard_without_the_others_gives_no_number_of_parameters(tmp_path: Path) -> None:
    safetensors.torch.save_file({"a.weight": torch.zeros(3)}, tmp_path / "model-00001-of-00002.safetensors")
    found = ckpt_size("inspect", str(tmp_path))
    assert "Tensors of the files that are there (safetensors)" in found.stdout
    assert "counted are those of the files that are there, not of the model: download or copy" in found.stdout
    assert found.stdout.strip().endswith("ckpt-size --model NAME")
    flag = ckpt_size("--checkpoint", str(tmp_path))
    assert (flag.returncode, flag.stdout) == (2, "")
    assert "lacks files of weights (model-00002-of-00002.safetensors)" in flag.stderr


@pytest.fixture
def trainer_folder(tmp_path: Path) -> Path:
    """Of a Hugging Face Trainer that trains in bf16 alone."""
    model: Any = tiny_llama(dtype=torch.bfloat16)
    safetensors.torch.save_file(dict(model.state_dict()), tmp_path / "model.safetensors")
    torch.save(stepped(model).state_dict(), tmp_path / "optimizer.pt")
    (tmp_path / "trainer_state.json").write_text("{}")
    return tmp_path


def test_the_flag_answers_as_the_last_line_does(trainer_folder: Path) -> None:
    last = ckpt_size("inspect", str(trainer_folder)).stdout.strip().splitlines()[-1]
    assert "--framework transformers --precision bf16 --observed-bytes" in last
    found = ckpt_size("--checkpoint", str(trainer_folder), "--json")
    assert found.stdout == ckpt_size(*last.split()[1:], "--json").stdout
    assert found.stderr == ""


def test_an_adapter_with_magnitudes_is_answered_as_dora(tmp_path: Path) -> None:
    module = "base_model.model.model.layers.0.self_attn.q_proj.lora_{}"
    tensors = {module.format("A.weight"): torch.zeros(2, 8), module.format("B.weight"): torch.zeros(8, 2)}
    tensors[module.format("magnitude_vector")] = torch.zeros(8)
    folder = tmp_path / "adapter"
    folder.mkdir()
    safetensors.torch.save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 2}')
    adapters = asked(path=folder, file='{"model": {"preset": "gpt2"}}')["training"]["adapters"]
    assert adapters == {"rank": "2", "tensors": "attention.query", "dora": True}
    answered = ckpt_size("--checkpoint", str(folder), "--model", "llama-3.1-8b")
    assert "must be true or false" not in answered.stderr
    assert answered.returncode == 0


def asked(*flags: str, path: Path, file: str = "{}") -> dict[str, Any]:
    """The scenario that a checkpoint's folder and flags make of a file."""
    scenario = path.parent / "scenario.json"
    scenario.write_text(file)
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    return scenario_document(scenario, storage=None, hf_config=None, checkpoint=path, flags=given)


def test_flags_and_files_go_before_what_a_folder_tells(trainer_folder: Path) -> None:
    told = asked(path=trainer_folder)["training"]
    assert told == {"framework": "transformers", "precision": "bf16"}
    assert asked("precision", "bf16-mixed", path=trainer_folder)["training"] == told | {"precision": "bf16-mixed"}
    assert asked("framework", "deepspeed", path=trainer_folder)["training"] == {"framework": "deepspeed"}
    megatron = {"framework": "megatron"}
    assert asked(path=trainer_folder, file=json.dumps({"training": megatron}))["training"] == megatron
    named = asked("model", "gpt2", "observed_bytes", "5GB", path=trainer_folder)
    assert (named["model"], named["checkpoint"]) == (
        {"preset": "gpt2"},
        {"observed_bytes": "5GB"},
    )


def test_the_flag_says_of_weights_alone_what_inspect_says(tmp_path: Path) -> None:
    safetensors.torch.save_file({"a.weight": torch.zeros(3)}, tmp_path / "a.safetensors")
    found = ckpt_size("--checkpoint", str(tmp_path))
    assert found.returncode == 0
    assert found.stderr == (
        "note: The checkpoint has no optimizer state. No run can go on from it, so its bytes are left out\n"
    )


def test_an_optimizer_alone_needs_a_model_beside_it(tmp_path: Path) -> None:
    torch.save({"optimizer": {"state": {0: {"exp_avg": torch.zeros(3)}}}}, tmp_path / "a.pt")
    found = ckpt_size("--checkpoint", str(tmp_path))
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == (
        f"error: --checkpoint {tmp_path} has optimizer state alone, which does not tell the model's number of "
        "parameters: add --model NAME, --parameters N or --hf-config FILE.\n"
    )
    assert "The checkpoint has no weights" in ckpt_size("--checkpoint", str(tmp_path), "--model", "gpt2").stderr


class Attack:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


@pytest.mark.parametrize("content", [None, b"", b"\x80\x02", b"PK\x03\x04", b"\0" * 100])
@pytest.mark.parametrize("name", ["a.pt", "a.safetensors", ".metadata", "a.safetensors.index.json", "a.unknown"])
def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path: Path, name: str, content: bytes | None) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    found = ckpt_size("inspect", str(path))
    assert found.returncode == 2
    assert found.stderr.startswith(f"error: {path} ")
    assert len(found.stderr.splitlines()) == 1
    assert found.stdout == ""


def test_an_attack_runs_nothing(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as file:
        file.writestr("a/data.pkl", pickle.dumps(Attack(f"touch {trap}"), 2))
    found = ckpt_size("inspect", str(tmp_path / "a.pt"))
    assert found.returncode == 2
    assert "'posix.system', which no plain checkpoint needs" in found.stderr
    assert not trap.exists()


def test_neither_torch_nor_safetensors_nor_numpy_is_needed_to_read(checkpoint: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from sizing.checkpoint_files import contents_of; "
        f"contents_of(Path({str(checkpoint)!r})); "
        "print([name for name in ('torch', 'safetensors', 'numpy') if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS_UNTIL_STUCK, check=True
    )
    assert found.stdout.strip() == "[]"
