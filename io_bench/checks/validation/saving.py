"""One rank of a case: train the tiny model over a mesh of ranks for one step, and save it the way that the case names.

A mesh has pipeline stages, FSDP2 shards and their copies, tensor and expert ranks. Started by `forked_ranks`, with CASE
and FOLDER.
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
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from io_bench.checks.validation.cases import Case, Kind, available_cases
from io_bench.checks.validation.tiny_llama import TinyExperts, TinyLlama, loss_of, random_tokens, train_one_step
from sizing.layout.chunks import LayerSplit
from sizing.layout.parallelism import Parallelism

_MIXTURE_STYLE = PrepareModuleInputOutput(
    input_layouts=(Shard(1),),
    desired_input_layouts=(Replicate(),),
    use_local_input=True,
    output_layouts=(Replicate(),),
    desired_output_layouts=(Shard(1),),
)
"""Router and routed experts see whole sequences."""


def parallelize(model: TinyLlama, case: Case) -> None:
    """Cut the model as torchtitan does: stages, then tensor and expert ranks, then FSDP2 over what each of them has."""
    degrees = Parallelism.model_validate(case.parallelism)
    world = init_device_mesh("cpu", (case.num_ranks,), mesh_dim_names=("world",))
    copies = degrees.num_replicas // degrees.shard_ranks
    dense = _mesh(world, stage=degrees.pipeline, copy=copies, shard=degrees.shard_ranks, tensor=degrees.tensor)
    _keep_only_stage(model, degrees, dense["stage"].get_local_rank())
    if degrees.tensor > 1:
        _cut_sequences(model, dense["tensor"], is_mixture=case.architecture.num_experts is not None)
    if degrees.expert > 1:
        shards = degrees.num_expert_replicas // copies
        mesh = _mesh(
            world, expert_stage=degrees.pipeline, expert_copy=copies, expert_shard=shards, expert=degrees.expert
        )
        _shard_experts(model, mesh, over_width=shards * degrees.expert > (case.architecture.num_experts or 0))
    mesh = dense["copy", "shard"] if copies > 1 else dense["shard"]
    for layer in model.layers.values():
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def train_stage(model: TinyLlama, case: Case) -> None:
    """Take one step of a pipeline, whose stages pass activations and gradients on to each other."""
    degrees = Parallelism.model_validate(case.parallelism)
    ranks = torch.arange(case.num_ranks).view(degrees.pipeline, -1)
    groups = [dist.new_group(column.tolist()) for column in ranks.T]
    stage, column = divmod(dist.get_rank(), degrees.ranks_per_stage)
    schedule = ScheduleGPipe(
        PipelineStage(model, stage, degrees.pipeline, torch.device("cpu"), group=groups[column]), 2, loss_fn=loss_of
    )
    tokens = random_tokens(vocab_size=case.architecture.vocab_size)
    inputs = (tokens[:, :-1],) if stage == 0 else ()
    expected: dict[str, Any] = {"target": tokens[:, 1:]} if stage == degrees.pipeline - 1 else {}
    schedule.step(*inputs, **expected)


def _mesh(world: DeviceMesh, **sizes: int) -> DeviceMesh:
    """Arrange the ranks in dimensions of these sizes; along the last one, ranks follow each other.

    All are made of one mesh, because FSDP2 joins those of a tensor's cuts.
    """
    return world._unflatten(0, tuple(sizes.values()), tuple(sizes))


def _keep_only_stage(model: TinyLlama, degrees: Parallelism, stage: int) -> None:
    """Remove the layers of the model that other pipeline stages have."""
    kept = {str(layer) for chunk in LayerSplit.of(degrees, len(model.layers)).chunks_on(stage) for layer in chunk}
    for name in model.layers.keys() - kept:
        del model.layers[name]
    if stage > 0:
        model.embed_tokens = None
    if stage < degrees.pipeline - 1:
        model.norm = model.lm_head = None


def _shard_experts(model: TinyLlama, mesh: DeviceMesh, *, over_width: bool) -> None:
    """Shard whole experts over expert ranks, and over FSDP's ranks their number, or their width where they are few."""
    shards = mesh["expert_copy", "expert_shard"] if mesh["expert_copy"].size() > 1 else mesh["expert_shard"]
    for experts in [module for module in model.modules() if isinstance(module, TinyExperts)]:
        for name, weight in list(experts.named_parameters()):
            experts.register_parameter(name, nn.Parameter(distribute_tensor(weight, mesh["expert"], [Shard(0)])))
        fully_shard(experts, mesh=shards, shard_placement_fn=lambda _: Shard(int(over_width)))


def _cut_sequences(model: TinyLlama, mesh: DeviceMesh, *, is_mixture: bool) -> None:
    """Cut activations along the sequence between the cut tensors: norms are on every rank."""
    plan: dict[str, ParallelStyle] = {
        "embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "lm_head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    for name in ("input_layernorm", "post_attention_layernorm"):
        plan[f"layers.*.{name}"] = SequenceParallel()
    plan["layers.*.self_attn"] = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    plan["layers.*.mlp"] = _MIXTURE_STYLE if is_mixture else plan["layers.*.self_attn"]
    for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
        plan[f"layers.*.{name}"] = ColwiseParallel()
    for name in ("self_attn.o_proj", "mlp.down_proj"):
        plan[f"layers.*.{name}"] = RowwiseParallel(output_layouts=Shard(1))
    parallelize_module(model, mesh, plan)


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


def _cut_by_tensor_parallel(model: TinyLlama, case: Case) -> None:
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
    torch.save(_local_part(state), path / "model_optim_rng.pt")


def _local_part(state: Any) -> Any:
    """Copy the rank's own part of every tensor, without the memory around it."""
    if isinstance(state, dict):
        return {key: _local_part(value) for key, value in state.items()}
    if isinstance(state, list):
        return [_local_part(value) for value in state]
    return state.to_local().clone() if isinstance(state, DTensor) else state


def _save_weights(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    from safetensors.torch import save_file  # noqa: PLC0415  this case alone needs it

    del optimizer
    save_file(dict(model.state_dict()), folder / "checkpoint.pt")


_PARALLELIZE: dict[Kind, Callable[[TinyLlama, Case], None]] = {
    "fsdp": parallelize,
    "full": parallelize,
    "safetensors": lambda model, case: None,  # noqa: ARG005 - one rank holds it all
    "tensor-parallel": _cut_by_tensor_parallel,
}
_SAVE: dict[Kind, Callable[[nn.Module, torch.optim.Optimizer, Path], None]] = {
    "fsdp": _save_sharded,
    "full": _save_gathered,
    "safetensors": _save_weights,
    "tensor-parallel": _save_cut,
}


def main(arguments: list[str]) -> None:
    """Save the case of a name in a folder, as one rank in its process group."""
    name, folder = arguments
    save(next(case for case in available_cases() if case.name == name), Path(folder))
