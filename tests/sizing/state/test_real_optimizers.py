"""What real optimizers keep after a step is what is counted of them, tensor by tensor."""

import json
import subprocess
import sys
from typing import Any, cast

import pytest
import torch

from sizing.model import TensorGroup
from sizing.state.optimizers import Optimizer
from tests.sizing.state.real_optimizers import PACKAGES, predicted_bytes, state_bytes

IN_TORCH: dict[Optimizer, tuple[Any, dict[str, Any]]] = {
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {}),
    "adam-amsgrad": (torch.optim.Adam, {"amsgrad": True}),
    "sgd": (torch.optim.SGD, {"lr": 0.1}),
    "sgd-momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "adagrad": (torch.optim.Adagrad, {}),
    "rmsprop": (torch.optim.RMSprop, {}),
    "adafactor": (torch.optim.Adafactor, {}),
}


@pytest.mark.parametrize("optimizer", IN_TORCH)
def test_an_optimizer_of_torch_keeps_what_is_counted(optimizer: Optimizer) -> None:
    kind, settings = IN_TORCH[optimizer]
    assert state_bytes(lambda parameters: kind(parameters, **settings)) == predicted_bytes(optimizer)


TABLES = 2 * 1024 * 21
"""Bytes of two tables of 256 levels for each of the tensors."""


def _is_hidden(group: TensorGroup) -> bool:
    return group.is_hidden_matrix


@pytest.mark.long
def test_muon_of_torch_keeps_one_momentum_of_matrices_and_adamw_the_rest() -> None:
    matrices = state_bytes(torch.optim.Muon, _is_hidden)
    others = state_bytes(torch.optim.AdamW, lambda group: not _is_hidden(group))
    assert matrices + others == predicted_bytes("muon")
    assert matrices == 2 * (4 * 256 * 256 + 3 * 256 * 768) * 4


def test_muon_of_torch_takes_matrices_alone() -> None:
    with pytest.raises(ValueError, match="2D parameters"):
        torch.optim.Muon([torch.nn.Parameter(torch.zeros(8))])


@pytest.mark.long
@pytest.mark.parametrize("package", PACKAGES)
def test_an_optimizer_of_another_package_keeps_what_is_counted(package: str) -> None:
    """The packages are installed by scripts/test. Tables of quantised levels, 1 kB each, are not counted."""
    command = [sys.executable, "-m", "tests.sizing.state.real_optimizers", package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{package} is missing or failed, run scripts/test long: {done.stderr[-2000:]}"
    for optimizer, found in json.loads(done.stdout.splitlines()[-1]).items():
        counted = predicted_bytes(cast("Optimizer", optimizer))
        assert counted <= found <= counted + TABLES, optimizer
