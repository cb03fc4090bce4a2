"""The weights of a checkpoint one by one, as a list of a model's tensors takes them."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint.state_dict_saver import save

from sizing.checkpoint_files.weights import weights_of
from sizing.errors import UnreadableFile


def state() -> dict[str, torch.Tensor]:
    table = torch.zeros(20, 4)
    return {"wte.weight": table, "h.0.fc.weight": torch.zeros(8, 4), "lm_head.weight": table[:]}


def test_a_torch_dcp_checkpoint_gives_weights_and_leaves_the_optimizer_out(tmp_path: Path) -> None:
    model = {name: tensor for name, tensor in state().items() if name != "lm_head.weight"}
    optimizer = {"state": {"wte.weight": {"exp_avg": torch.zeros(20, 4), "exp_avg_sq": torch.zeros(20, 4)}}}
    with warnings.catch_warnings(action="ignore"):  # of one process alone
        save({"model": model, "optimizer": optimizer}, checkpoint_id=tmp_path / "step", no_dist=True)
    weights = weights_of(tmp_path / "step")
    assert {tensor.name: tensor.shape for tensor in weights.tensors} == {
        "model.wte.weight": (20, 4),
        "model.h.0.fc.weight": (8, 4),
    }
    assert weights.num_others == 2


def test_a_torch_save_file_says_which_names_share_data(tmp_path: Path) -> None:
    torch.save(state(), tmp_path / "model.pt")
    weights = weights_of(tmp_path / "model.pt")
    assert {tensor.name: tensor.is_alias for tensor in weights.tensors} == {
        "wte.weight": False,
        "h.0.fc.weight": False,
        "lm_head.weight": True,
    }


def test_shards_of_ranks_and_files_without_weights_are_refused(tmp_path: Path) -> None:
    for rank in range(2):
        folder = tmp_path / "step" / f"mp_rank_{rank:02}"
        folder.mkdir(parents=True)
        torch.save({"model": {"h.0.fc.weight": torch.zeros(4, 4)}}, folder / "model_optim_rng.pt")
    with pytest.raises(
        UnreadableFile, match=r"in several files, each of which may hold a part of it: give a checkpoint"
    ):
        weights_of(tmp_path / "step")
    torch.save({"optimizer": {"exp_avg": torch.zeros(4)}}, tmp_path / "optimizer.pt")
    with pytest.raises(UnreadableFile, match=r"holds no weights: give a checkpoint that holds the model's weights"):
        weights_of(tmp_path / "optimizer.pt")
