"""The tiny model over a mesh of ranks: pipeline stages, FSDP2 shards and their copies, tensor and expert ranks."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from io_bench.validation.cases import Case
from io_bench.validation.tiny_llama import Experts, TinyLlama, loss_of, random_tokens
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
    _keep_stage(model, degrees, dense["stage"].get_local_rank())
    if degrees.tensor > 1:
        _cut(model, dense["tensor"], is_mixture=case.architecture.num_experts is not None)
    if degrees.expert > 1:
        shards = degrees.num_expert_replicas // copies
        mesh = _mesh(
            world, expert_stage=degrees.pipeline, expert_copy=copies, expert_shard=shards, expert=degrees.expert
        )
        _deal_experts(model, mesh, over_width=shards * degrees.expert > (case.architecture.num_experts or 0))
    mesh = dense["copy", "shard"] if copies > 1 else dense["shard"]
    for layer in model.layers.values():
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def train_stage(model: TinyLlama, case: Case) -> None:
    """Gradients of one step of a pipeline, whose stages pass activations and gradients on to each other."""
    degrees = Parallelism.model_validate(case.parallelism)
    ranks = torch.arange(case.num_ranks).view(degrees.pipeline, -1)
    groups = [dist.new_group(column.tolist()) for column in ranks.T]
    stage, column = divmod(dist.get_rank(), degrees.ranks_per_stage)
    schedule = ScheduleGPipe(
        PipelineStage(model, stage, degrees.pipeline, torch.device("cpu"), group=groups[column]), 2, loss_fn=loss_of
    )
    tokens = random_tokens(vocab_size=case.architecture.vocab_size)
    given = (tokens[:, :-1],) if stage == 0 else ()
    expected: dict[str, Any] = {"target": tokens[:, 1:]} if stage == degrees.pipeline - 1 else {}
    schedule.step(*given, **expected)


def _mesh(world: DeviceMesh, **sizes: int) -> DeviceMesh:
    """The ranks in so many dimensions, the last the fastest.

    All are made of one mesh, because FSDP2 joins those of a tensor's cuts.
    """
    return world._unflatten(0, tuple(sizes.values()), tuple(sizes))


def _keep_stage(model: TinyLlama, degrees: Parallelism, stage: int) -> None:
    kept = {str(layer) for chunk in LayerSplit.of(degrees, len(model.layers)).chunks_on(stage) for layer in chunk}
    for name in model.layers.keys() - kept:
        del model.layers[name]
    if stage > 0:
        model.embed_tokens = None
    if stage < degrees.pipeline - 1:
        model.norm = model.lm_head = None


def _deal_experts(model: TinyLlama, mesh: DeviceMesh, *, over_width: bool) -> None:
    """Whole experts over expert ranks, and over FSDP's ranks their number, or their width where they are too few."""
    shards = mesh["expert_copy", "expert_shard"] if mesh["expert_copy"].size() > 1 else mesh["expert_shard"]
    for experts in [module for module in model.modules() if isinstance(module, Experts)]:
        for name, weight in list(experts.named_parameters()):
            experts.register_parameter(name, nn.Parameter(distribute_tensor(weight, mesh["expert"], [Shard(0)])))
        fully_shard(experts, mesh=shards, shard_placement_fn=lambda _: Shard(int(over_width)))


def _cut(model: TinyLlama, mesh: DeviceMesh, *, is_mixture: bool) -> None:
    """Between the cut tensors, activations are cut along the sequence: norms are on every rank."""
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
