"""Saves of a small model in the files that trainers write, with their names and structures, laid without the trainers.

`library_folders.py` makes the real ones, for the long tests.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

HIDDEN = 64


def tiny_model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.Linear(HIDDEN, HIDDEN))


def num_parameters() -> int:
    return sum(parameter.numel() for parameter in tiny_model().parameters())


def stepped(model: torch.nn.Module, optimizer: type[torch.optim.Optimizer], **settings: Any) -> dict[str, Any]:
    made = optimizer(model.parameters(), **settings)
    torch.autograd.backward(torch.stack([parameter.square().sum() for parameter in model.parameters()]).sum())
    made.step()
    return made.state_dict()


def random_state() -> dict[str, Any]:
    return {"python": (3, tuple(range(625)), None), "cpu": torch.get_rng_state()}


def trainer(
    folder: Path,
    *,
    num_ranks: int = 1,
    optimizer: type[torch.optim.Optimizer] = torch.optim.AdamW,
    **settings: Any,
) -> Path:
    """As Hugging Face Trainer saves without sharding."""
    folder.mkdir(parents=True)
    model = tiny_model()
    safetensors.torch.save_file(dict(model.state_dict()), folder / "model.safetensors")
    torch.save(stepped(model, optimizer, **settings), folder / "optimizer.pt")
    torch.save({"last_epoch": 2}, folder / "scheduler.pt")
    for rank in range(num_ranks):
        torch.save(random_state(), folder / ("rng_state.pth" if num_ranks == 1 else f"rng_state_{rank}.pth"))
    torch.save({"lr": 0.1}, folder / "training_args.bin")
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": 2}))
    (folder / "config.json").write_text(json.dumps({"hidden_size": HIDDEN}))
    return folder


def accelerate(folder: Path, *, num_ranks: int = 1) -> Path:
    """As accelerate's save_state."""
    folder.mkdir(parents=True)
    model = tiny_model()
    safetensors.torch.save_file(dict(model.state_dict()), folder / "model.safetensors")
    torch.save(stepped(model, torch.optim.AdamW), folder / "optimizer.bin")
    torch.save({"last_epoch": 2}, folder / "scheduler.bin")
    for rank in range(num_ranks):
        torch.save(random_state(), folder / f"random_states_{rank}.pkl")
    return folder


def deepspeed(folder: Path, *, stage: int, num_ranks: int = 2, dtype: torch.dtype = torch.bfloat16) -> Path:
    """As DeepSpeed's save_checkpoint, without a prefix of names where the run is in fp32."""
    folder.mkdir(parents=True)
    model = tiny_model()
    weights = {name: value.to(dtype) for name, value in model.state_dict().items()}
    ranks = {"dp_world_size": num_ranks, "mp_world_size": 1, "ds_config": {"zero_optimization": {"stage": stage}}}
    shapes = [{name: value.shape for name, value in weights.items()}]
    share = -(-num_parameters() // num_ranks)
    for rank in range(num_ranks):
        name = f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt"
        if stage == 3:
            torch.save({"module": {n: torch.zeros(0) for n in weights}, "param_shapes": shapes} | ranks, folder / name)
        moments = {"step": torch.tensor(1.0), "exp_avg": torch.ones(share), "exp_avg_sq": torch.ones(share)}
        groups = [{"lr": 0.1, "betas": (0.9, 0.99)}]
        own = {"single_partition_of_fp32_groups": [torch.ones(share)], "partition_count": [num_ranks]}
        state = {"base_optimizer_state": {"state": {0: moments}, "param_groups": groups}} | own
        prefix = "bf16_" if dtype == torch.bfloat16 else ""
        torch.save({"optimizer_state_dict": state}, folder / f"{prefix}zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    if stage < 3:
        torch.save({"module": weights, "param_shapes": shapes} | ranks, folder / "mp_rank_00_model_states.pt")
    return folder


def trainer_with_deepspeed(folder: Path, *, stage: int, num_ranks: int = 2) -> Path:
    """As Hugging Face Trainer saves with DeepSpeed: with ZeRO 3, as it ships, DeepSpeed alone saves the weights."""
    trainer(folder, num_ranks=num_ranks)
    for name in ("optimizer.pt", "scheduler.pt", *(["model.safetensors"] if stage == 3 else [])):
        (folder / name).unlink()
    deepspeed(folder / "global_step2", stage=stage, num_ranks=num_ranks)
    (folder / "latest").write_text("global_step2")
    (folder / "zero_to_fp32.py").write_text("print()")
    return folder


def lightning(path: Path, *, step: int) -> Path:
    """As Lightning's ModelCheckpoint without sharding."""
    path.parent.mkdir(parents=True, exist_ok=True)
    model = tiny_model()
    optimizer = stepped(model, torch.optim.AdamW)
    content = {"epoch": 0, "global_step": step, "pytorch-lightning_version": "2.6.6", "state_dict": model.state_dict()}
    torch.save(content | {"loops": {}, "optimizer_states": [optimizer], "lr_schedulers": []}, path)
    return path


def script(path: Path) -> Path:
    """As a script with torch.save."""
    path.parent.mkdir(parents=True, exist_ok=True)
    model = tiny_model()
    torch.save({"model": model.state_dict(), "optimizer": stepped(model, torch.optim.AdamW), "epoch": 1}, path)
    return path


def bytes_of(path: Path) -> int:
    return (
        sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else path.stat().st_size
    )


def megatron(folder: Path, *, tensor: int, pipeline: int) -> Path:
    """As Megatron's classic format without a distributed optimizer."""
    arguments = argparse.Namespace(tensor_model_parallel_size=tensor, pipeline_model_parallel_size=pipeline)
    for rank, stage in itertools.product(range(tensor), range(pipeline)):
        own = folder / (f"mp_rank_{rank:02}_{stage:03}" if pipeline > 1 else f"mp_rank_{rank:02}")
        own.mkdir(parents=True)
        model = tiny_model()
        optimizer = {"optimizer": stepped(model, torch.optim.AdamW)}
        content = {"args": arguments, "iteration": 2, "model": model.state_dict(), "optimizer": optimizer}
        torch.save(content, own / "model_optim_rng.pt")
    return folder
