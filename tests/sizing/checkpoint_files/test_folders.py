"""Folder trees: Megatron, DeepSpeed, Trainer and Accelerate layouts, and trees that are refused."""

import argparse
import enum
import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch.distributed.checkpoint.state_dict_saver import save

from sizing.checkpoint_files import contents_of, folder
from sizing.errors import UnreadableFile
from tests.sizing.checkpoint_files.trained import num_parameters, stepped, tiny_llama


def saved(path: Path, state: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(state, path)


def framework_class(monkeypatch: pytest.MonkeyPatch, module: str, name: str, base: type = object) -> Any:
    """A class that pickles as if a framework had defined it."""
    made: Any = enum.Enum(name, {"first": 1}) if base is enum.Enum else type(name, (base,), {})
    made.__module__ = module
    parts = module.split(".")
    for i in range(len(parts)):
        name_so_far = ".".join(parts[: i + 1])
        monkeypatch.setitem(sys.modules, name_so_far, sys.modules.get(name_so_far, types.ModuleType(name_so_far)))
    setattr(sys.modules[module], name, made)
    return made


def refusal_of(path: Path) -> str:
    with pytest.raises(UnreadableFile) as refused:
        contents_of(path)
    return str(refused.value)


def test_a_megatron_tree_is_summed_over_its_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model_type = framework_class(monkeypatch, "megatron.core.enums", "ModelType", enum.Enum)
    for rank in range(2):
        model = {
            "embedding": torch.full((8, 4), 1 + rank, dtype=torch.bfloat16),
            "norm.weight": torch.ones(4, dtype=torch.bfloat16),
        }
        master = [[tensor.float() for tensor in model.values()]]
        moments = {i: {"exp_avg": m.clone(), "exp_avg_sq": m.clone(), "step": 3} for i, m in enumerate(master[0])}
        state = {
            "args": argparse.Namespace(model_type=model_type.first, params_dtype=torch.bfloat16),
            "checkpoint_version": 3.0,
            "iteration": 100,
            "model": {"language_model": model, "extra._extra_state": None},
            "optimizer": {
                "optimizer": {"state": moments, "param_groups": []},
                "fp32_from_fp16_params": master,
            },
            "rng_state": [{"random_rng_state": (3, (1, 2), None), "torch_rng_state": torch.get_rng_state()}],
        }
        saved(tmp_path / "iter_0000100" / f"mp_rank_{rank:02}" / "model_optim_rng.pt", state)
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("100")
    contents = contents_of(tmp_path)
    assert contents.num_parameters == 2 * 32 + 4
    assert contents.part_bytes == {
        "weights": 2 * 36 * 2,
        "master": 2 * 36 * 4,
        "moments": 2 * 36 * 8,
        "other": 2 * torch.get_rng_state().nbytes,
    }
    assert len(contents.files) == 3
    assert contents.disk_bytes == sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file())
    assert contents.notes == ("Copies of weights in several files: 1. As parameters they count once",)


def test_a_megatron_distributed_optimizer_is_master_and_moments(tmp_path: Path) -> None:
    shard = {"param": torch.zeros(50), "exp_avg": torch.zeros(50), "exp_avg_sq": torch.zeros(50)}
    state = {0: {(torch.bfloat16, torch.float32): {"param": shard["param"], **shard}, "buckets_coalesced": True}}
    saved(tmp_path / "mp_rank_00" / "distrib_optim.pt", state)
    assert contents_of(tmp_path).part_bytes == {"master": 200, "moments": 400}


def test_a_deepspeed_folder_is_summed_over_its_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scaler = framework_class(monkeypatch, "deepspeed.runtime.fp16.loss_scaler", "LossScaler")()
    scaler.cur_scale = 1.0
    stage = framework_class(monkeypatch, "deepspeed.runtime.zero.config", "ZeroStageEnum", enum.Enum)
    step = tmp_path / "global_step10"
    weights = {"a.weight": torch.zeros(10, 10, dtype=torch.bfloat16)}
    shapes = [{"a.weight": torch.Size([10, 10])}]
    saved(step / "mp_rank_00_model_states.pt", {"module": weights, "param_shapes": shapes, "ds_version": "0.19"})
    for rank in range(4):
        flat = {"exp_avg": torch.zeros(25), "exp_avg_sq": torch.zeros(25), "step": torch.tensor(1.0)}
        optimizer = {
            "loss_scaler": scaler,
            "zero_stage": stage.first,
            "base_optimizer_state": {"state": {0: flat}, "param_groups": [{"lr": 0.1}]},
            "single_partition_of_fp32_groups": [torch.zeros(25)],
            "partition_count": [4],
        }
        name = f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        saved(step / name, {"optimizer_state_dict": optimizer, "ds_config": {"zero": 1}})
    (tmp_path / "latest").write_text("global_step10")
    contents = contents_of(tmp_path)
    assert contents.num_parameters == 100
    assert contents.part_bytes == {"weights": 200, "master": 400, "moments": 800, "other": 16}
    assert contents.notes == ()


def test_a_zero_3_checkpoint_holds_no_weights_to_count(tmp_path: Path) -> None:
    saved(tmp_path / "zero_pp_rank_0_mp_rank_00_model_states.pt", {"module": {"a.weight": torch.zeros(0)}})
    flat = {"state": {0: {"exp_avg": torch.zeros(25), "exp_avg_sq": torch.zeros(25)}}}
    optimizer = {"fp32_flat_groups": [torch.zeros(25)], "optimizer_state_dict": flat}
    saved(tmp_path / "zero_pp_rank_0_mp_rank_00_optim_states.pt", {"optimizer_state_dict": optimizer})
    contents = contents_of(tmp_path)
    assert contents.num_parameters is None
    assert contents.part_bytes == {"master": 100, "moments": 200}


def test_a_trainer_folder_counts_weights_and_optimizer(tmp_path: Path) -> None:
    model: Any = tiny_llama()
    optimizer = stepped(model)
    model.save_pretrained(tmp_path)
    saved(tmp_path / "optimizer.pt", optimizer.state_dict())
    saved(tmp_path / "scheduler.pt", {"last_epoch": 1, "_last_lr": [0.1]})
    saved(tmp_path / "rng_state.pth", {"cpu": torch.get_rng_state()})
    (tmp_path / "training_args.bin").write_bytes(b"PK\x03\x04 pickles classes of transformers")
    (tmp_path / "trainer_state.json").write_text("{}")
    contents = contents_of(tmp_path)
    assert contents.format == "mixed"
    assert contents.num_parameters == num_parameters(model)
    assert contents.part_bytes["moments"] == 8 * num_parameters(model)
    assert {f.name: f.format for f in contents.files}["training_args.bin"] == "other"
    assert contents.notes == ()


def test_weights_in_two_formats_are_pointed_out(tmp_path: Path) -> None:
    weights = {"a.weight": torch.zeros(4)}
    safetensors.torch.save_file(weights, tmp_path / "model.safetensors")
    saved(tmp_path / "pytorch_model.bin", weights)
    contents = contents_of(tmp_path)
    assert contents.num_parameters == 8
    assert "safetensors and torch-save. If these are copies" in contents.notes[0]


@pytest.mark.filterwarnings("ignore")
def test_a_dcp_folder_with_a_torch_file_is_both(tmp_path: Path) -> None:
    """Megatron's torch_dist format: `common.pt` beside DCP."""
    save({"decoder.weight": torch.zeros(4)}, checkpoint_id=tmp_path, no_dist=True)
    saved(tmp_path / "common.pt", {"iteration": 3, "args": argparse.Namespace(a=1)})
    contents = contents_of(tmp_path)
    assert (contents.format, contents.num_parameters) == ("mixed", 4)


def test_a_folder_of_several_steps_is_refused_with_the_last(tmp_path: Path) -> None:
    for step in (100, 200):
        saved(tmp_path / f"iter_{step:07}" / "mp_rank_00" / "model_optim_rng.pt", {"model": {}})
    said = refusal_of(tmp_path)
    assert "holds 2 checkpoints (iter_0000100 to iter_0000200)" in said
    assert f"give one of them: {tmp_path / 'iter_0000200'}" in said


def test_a_link_to_a_file_is_followed_and_a_link_to_a_folder_is_not(tmp_path: Path) -> None:
    """A model hub's cache keeps the files in `blobs` and links to them."""
    blob, snapshot = tmp_path / "blobs" / "1234", tmp_path / "snapshot"
    blob.parent.mkdir()
    snapshot.mkdir()
    safetensors.torch.save_file({"a.weight": torch.zeros(4)}, blob)
    (snapshot / "model.safetensors").symlink_to(blob)
    (snapshot / "loop").symlink_to(snapshot)
    (snapshot / "up").symlink_to(tmp_path)
    contents = contents_of(snapshot)
    assert (contents.num_parameters, len(contents.files)) == (4, 1)
    assert contents.disk_bytes == blob.stat().st_size


def test_a_link_that_loops_or_leads_nowhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.pt").symlink_to(tmp_path / "b.pt")
    (tmp_path / "b.pt").symlink_to(tmp_path / "a.pt")
    assert "cannot be read" in refusal_of(tmp_path)
    assert "cannot be read" in refusal_of(tmp_path / "a.pt")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "model.safetensors").symlink_to(tmp_path / "nowhere")
    assert "cannot be read (No such file" in refusal_of(tmp_path / "c")


def test_a_pipe_is_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.pt")
    assert "is not a regular file" in refusal_of(tmp_path / "a.pt")
    assert "holds no safetensors file" in refusal_of(tmp_path)
    assert "is not a regular file" in refusal_of(Path("/dev/zero"))


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "MAX_FILES", 3)
    for i in range(4):
        (tmp_path / f"{i}.txt").touch()
    assert "more than 3 files" in refusal_of(tmp_path)


def test_one_bad_file_in_a_tree_is_refused_by_its_name(tmp_path: Path) -> None:
    saved(tmp_path / "good.pt", {"a.weight": torch.zeros(3)})
    (tmp_path / "bad.pt").write_bytes(b"")
    assert str(tmp_path / "bad.pt") in refusal_of(tmp_path)


@pytest.mark.parametrize("name", ["", "nothing here", "a\0b", "x" * 5000])
def test_a_path_that_is_nothing_is_refused(tmp_path: Path, name: str) -> None:
    assert str(tmp_path)[:20] in refusal_of(tmp_path / name)


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert "neither a safetensors file" in refusal_of(tmp_path / "notes.txt")
    (tmp_path / "config.json").write_text("{}")
    assert "no weight_map" in refusal_of(tmp_path / "config.json")
