"""One rank of a case: train the model for one step and save it the way that the case names.

Started by `forked_ranks`, with CASE and FOLDER.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
from torch.distributed.checkpoint.state_dict_saver import save as save_distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from io_bench.validation.cases import Case, Kind, available_cases
from io_bench.validation.meshes import parallelize, train_stage
from io_bench.validation.tiny_llama import TinyLlama, train_one_step


def save(case: Case, folder: Path) -> None:
    """Train and save, on every rank."""
    torch.manual_seed(0)
    model = TinyLlama(case.architecture).to(getattr(torch, case.dtype))
    _PARALLELIZE[case.kind](model, case)
    optimizer = torch.optim.AdamW(model.parameters())
    if case.parallelism.get("pipeline", 1) > 1:
        train_stage(model, case)
        optimizer.step()
    else:
        train_one_step(model, optimizer, vocab_size=case.architecture.vocab_size)
    _SAVE[case.kind](model, optimizer, folder)


def _cut(model: TinyLlama, case: Case) -> None:
    mesh = init_device_mesh("cpu", (case.num_ranks,))
    plan = {
        "embed_tokens": RowwiseParallel(input_layouts=Replicate()),
        "lm_head": ColwiseParallel(output_layouts=Replicate()),
    }
    for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
        plan[f"layers.*.{name}"] = ColwiseParallel()
    for name in ("self_attn.o_proj", "mlp.down_proj"):
        plan[f"layers.*.{name}"] = RowwiseParallel()
    parallelize_module(model, mesh, plan)


def _leave(model: TinyLlama, case: Case) -> None:
    """One rank holds it all."""


def _save_sharded(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    weights, state = get_state_dict(model, optimizer)
    save_distributed({"model": weights, "optimizer": state}, checkpoint_id=folder)


def _save_gathered(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights, state = get_state_dict(model, optimizer, options=options)
    if dist.get_rank() == 0:
        torch.save({"model": weights, "optimizer": state}, folder / "checkpoint.pt")


def _save_cut(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    path = folder / f"mp_rank_{dist.get_rank():02d}"
    path.mkdir()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(_local(state), path / "model_optim_rng.pt")


def _local(state: Any) -> Any:
    """The rank's own part of every tensor, without what lies around it in memory."""
    if isinstance(state, dict):
        return {key: _local(value) for key, value in state.items()}
    if isinstance(state, list):
        return [_local(value) for value in state]
    return state.to_local().clone() if isinstance(state, DTensor) else state


def _save_weights(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    from safetensors.torch import save_file  # noqa: PLC0415  this case alone needs it

    del optimizer
    save_file(dict(model.state_dict()), folder / "checkpoint.pt")


_PARALLELIZE: dict[Kind, Callable[[TinyLlama, Case], None]] = {
    "fsdp": parallelize,
    "full": parallelize,
    "safetensors": _leave,
    "tensor-parallel": _cut,
}
_SAVE: dict[Kind, Callable[[nn.Module, torch.optim.Optimizer, Path], None]] = {
    "fsdp": _save_sharded,
    "full": _save_gathered,
    "safetensors": _save_weights,
    "tensor-parallel": _save_cut,
}


def main(arguments: list[str]) -> None:
    """The work of a rank, in its process group: save the case of that name in that folder."""
    name, folder = arguments
    save(next(case for case in available_cases() if case.name == name), Path(folder))
