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
    assert last == f"ckpt-size --parameters {count} --observed-bytes {size}"
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


def test_unknown_parameters_leave_the_model_to_be_named(tmp_path: Path) -> None:
    torch.save({"optimizer": {"state": {0: {"exp_avg": torch.zeros(3)}}}}, tmp_path / "a.pt")
    found = ckpt_size("inspect", str(tmp_path))
    size = (tmp_path / "a.pt").stat().st_size
    assert found.stdout.strip().endswith(f"ckpt-size --model NAME --observed-bytes {size}")


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
