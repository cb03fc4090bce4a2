"""Division of the training state over replicas: FSDP, HSDP, ZeRO, a distributed optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sizing.frameworks import FRAMEWORKS, resident_statistics
from sizing.frameworks.deepspeed import DEFAULT_ZERO_STAGE
from sizing.frameworks.framework import GatheredUnits, OptimizerSharding
from sizing.layout.fsdp_shards import FsdpMesh, FsdpSpan
from sizing.layout.holders import Content, HolderClass, Shard, content_of, rank_shards
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.stages import StageSpan
from sizing.state.training import Precision, Training

ZERO_STAGE_OF_OPTIMIZER, ZERO_STAGE_OF_GRADIENTS, ZERO_STAGE_OF_WEIGHTS = 1, 2, 3
"""First stage of ZeRO that shards each part. Source: Rajbhandari et al. 2020, arXiv 1910.02054, section 5."""

WHOLE = Ranks()
"""Number of ranks that divide an undivided part, 1: every rank that holds the tensors has all of it."""


@dataclass(frozen=True, slots=True)
class Sharding:
    """Number of ranks over which each part of the training state is divided, among those that hold the same tensors.

    `shard_group`: number of ranks that each have their own rows of every tensor. Only FSDP cuts tensors; ZeRO and a
    distributed optimizer divide one flat buffer of all tensors. `copies_fp32_weights`: the optimizer keeps an fp32 copy
    of its share even of fp32 weights. `fullest_over_mean`: bytes of the fullest of these ranks over those of the mean,
    above 1 where embedding tables stand whole on one rank. `mesh`: ranks over which FSDP2 cuts every tensor by rows, so
    that the first ones may have more than the mean.
    """

    weights: Ranks
    gradients: Ranks
    optimizer: Ranks
    shard_group: int
    gathers: GatheredUnits
    copies_fp32_weights: bool = False
    fullest_over_mean: float = 1.0
    mesh: FsdpMesh | None = None


UNDIVIDED = Sharding(weights=WHOLE, gradients=WHOLE, optimizer=WHOLE, shard_group=1, gathers="nothing")
"""Sharding of DDP: every replica holds all state."""


def sharding_of(training: Training, parallelism: Parallelism) -> Sharding:
    """Return how a framework shards the state. Only Megatron lets a scenario choose a distributed optimizer."""
    match FRAMEWORKS[training.framework].shards:
        case "optimizer":
            sharing = parallelism.replicas if has_distributed_optimizer(training) else WHOLE
            return replace(UNDIVIDED, optimizer=sharing)
        case "fsdp":
            return shard_by_fsdp(parallelism)
        case "shard-group":
            return shard_by_fsdp(parallelism) if parallelism.shard_group else UNDIVIDED
        case "zero":
            return _shard_by_zero(training, parallelism)
        case "mesh-axes":
            return _shard_by_mesh_axes(parallelism)


def with_placed_tables(sharding: Sharding, span: StageSpan, parallelism: Parallelism) -> Sharding:
    """Return the sharding with what the fullest rank has where the tables of a span each stand on one rank.

    >>> from sizing.layout.stages import stage_spans
    >>> from sizing.model import TensorGroup
    >>> degrees = Parallelism(data=2, table_sharding="table-wise")
    >>> tables = tuple(TensorGroup(f"table_{rows}", (rows, 4), 1, "first-stage") for rows in (9, 5, 4))
    >>> (span,) = stage_spans(tables, degrees, num_layers=0)
    >>> round(with_placed_tables(shard_by_fsdp(degrees), span, degrees).fullest_over_mean, 3)
    1.444
    """
    if not parallelism.places_tables:
        return sharding
    return replace(sharding, fullest_over_mean=FsdpSpan.of(span, FsdpMesh.of(parallelism)).fullest_over_mean)


def resident_holders(
    holders: Iterable[HolderClass], training: Training, parallelism: Parallelism, sharding: Sharding
) -> tuple[HolderClass, ...]:
    """Return the holders with what training keeps of their tensors, beside what each parameter has alike.

    This is the bytes of `resident_statistics`, and the content of the fullest of the ranks over which FSDP2 cuts rows.
    8 experts over 64 ranks are a whole one on each of 8 ranks: FSDP2 cuts rows as torch.chunk does, and pads the shards
    of the other ranks to that size. Source: PyTorch, torch/distributed/fsdp/_fully_shard/_fsdp_param.py.

    >>> from sizing.layout.holders import holder_classes
    >>> from sizing.layout.stages import stage_spans
    >>> from sizing.model import TensorGroup
    >>> experts, degrees = TensorGroup("experts.weight", (6, 5), 1, layers=range(1), experts=8), Parallelism(data=64)
    >>> holders = holder_classes(stage_spans((experts,), degrees, num_layers=1), degrees, ())
    >>> training = Training(framework="fsdp2")
    >>> (resident,) = resident_holders(holders, training, degrees, sharding_of(training, degrees))
    >>> resident.expert.fullest.parameters
    30
    """
    statistics = resident_statistics(training, is_sharded=sharding.weights.dense > 1)

    def counted(content: Content, shards: Sequence[Shard]) -> Content:
        of_statistics = content_of(shards, statistics).part_bytes.values() if statistics else ()
        return replace(content, statistics_bytes=sum(of_statistics))

    classes = []
    for each in holders:
        dense, expert, rank = each.dense, each.expert, each.tensor_ranks.start
        if statistics:
            of_dense, of_experts = rank_shards(each.span, parallelism, rank)
            dense, expert = counted(dense, of_dense), counted(expert, of_experts)
        if sharding.mesh is not None:
            of_dense, of_experts = FsdpSpan.of(each.span, sharding.mesh).fullest_shards(rank)
            dense = replace(dense, fullest=counted(content_of(of_dense, ()), of_dense))
            expert = replace(expert, fullest=counted(content_of(of_experts, ()), of_experts))
        classes.append(HolderClass(each.span, each.tensor_ranks, dense, expert))
    return tuple(classes)


def ranks_of_a_copy(parallelism: Parallelism, *, shard_group: int) -> int:
    """Count the ranks of a stage that together hold one copy of all tensors: max(t s, e x), with s FSDP shards.

    Source: definition. The experts are on e x ranks of the stage, with e the expert and x the expert-tensor degree.

    >>> ranks_of_a_copy(Parallelism(tensor=8, data=4), shard_group=4)
    32
    """
    p = parallelism
    return max(p.tensor * shard_group, p.expert * p.expert_tensor_degree if p.expert > 1 else 1)


def has_distributed_optimizer(training: Training) -> bool:
    """Return whether data-parallel ranks divide the flat buffer of the optimizer, as Megatron's can.

    Source: `distributed_optimizer` of the framework where it is not given.

    >>> has_distributed_optimizer(Training()), has_distributed_optimizer(Training(distributed_optimizer=True))
    (False, True)
    """
    given = training.distributed_optimizer
    return FRAMEWORKS[training.framework].distributed_optimizer if given is None else given


def zero_stage_of(parallelism: Parallelism) -> int:
    """Return the stage of DeepSpeed's ZeRO in effect.

    Source: DEFAULT_ZERO_STAGE where none is given.

    >>> zero_stage_of(Parallelism(data=4)), zero_stage_of(Parallelism(data=4, zero_stage=3))
    (1, 3)
    """
    return DEFAULT_ZERO_STAGE if parallelism.zero_stage is None else parallelism.zero_stage


def shard_by_fsdp(parallelism: Parallelism) -> Sharding:
    """Shard all state within a shard group; with HSDP, each group has a copy.

    A pipeline stage gathers its weights once in a step, and adds up the gradients of its microbatches before it shards
    them. Source: torchtitan, distributed/fsdp.py, get_fsdp_reshard_after_forward_policy; PyTorch,
    torch/distributed/pipelining/stage.py, which syncs gradients after the last microbatch.

    >>> shard_by_fsdp(Parallelism(data=8, shard_group=4)).weights
    Ranks(dense=4, expert=4)
    """
    mesh, has_stages = FsdpMesh.of(parallelism), parallelism.pipeline > 1
    ranks = Ranks(mesh.shards, mesh.expert_shards)
    gathers: GatheredUnits = "nothing" if max(ranks) == 1 else "stages" if has_stages else "layers"
    gradients = WHOLE if has_stages else ranks
    return Sharding(
        weights=ranks,
        gradients=gradients,
        optimizer=ranks,
        shard_group=mesh.shards,
        gathers=gathers,
        mesh=None if max(ranks) == 1 else mesh,
    )


def _shard_by_mesh_axes(parallelism: Parallelism) -> Sharding:
    """Shard all state within a shard group, whose ranks are those of MaxText's axes fsdp, context and expert.

    Expert ranks divide the routed experts already; the other ranks of the group divide what is left. Source: MaxText,
    configs/base.yml, logical_axis_rules.
    """
    experts = max(1, parallelism.shard_ranks // parallelism.expert)
    ranks = Ranks(parallelism.shard_ranks, experts)
    gathers: GatheredUnits = "layers" if ranks.dense > 1 else "nothing"
    return Sharding(weights=ranks, gradients=ranks, optimizer=ranks, shard_group=experts, gathers=gathers)


def zero_shards_optimizer(precision: Precision, parallelism: Parallelism) -> bool:
    """Return whether DeepSpeed's data ranks divide the optimizer: from ZeRO 1 on, and in any pipeline with bf16.

    Source: DeepSpeed 0.19, runtime/engine.py, _do_optimizer_sanity_check, which takes BF16_Optimizer there.

    >>> [zero_shards_optimizer("bf16-mixed", Parallelism(pipeline=p, zero_stage=0)) for p in (1, 2)]
    [False, True]
    """
    is_bf16_pipeline = precision == "bf16-mixed" and parallelism.pipeline > 1
    return is_bf16_pipeline or zero_stage_of(parallelism) >= ZERO_STAGE_OF_OPTIMIZER


def _shard_by_zero(training: Training, parallelism: Parallelism) -> Sharding:
    """Shard the state by the stage of ZeRO.

    ZeRO 1 and 2 copy their share of the optimizer from whole weights of any dtype; in ZeRO 3 the fp32 shards are that
    share. Source: DeepSpeed 0.19, runtime/zero/stage_1_and_2.py, single_partition_of_fp32_groups;
    runtime/zero/stage3.py, fp32_partitioned_groups_flat; without ZeRO the optimizer uses the weights themselves.
    """
    stage = zero_stage_of(parallelism)

    def ranks(first_stage: int) -> Ranks:
        return parallelism.replicas if stage >= first_stage else WHOLE

    weights = ranks(ZERO_STAGE_OF_WEIGHTS)
    return Sharding(
        weights=weights,
        gradients=ranks(ZERO_STAGE_OF_GRADIENTS),
        optimizer=parallelism.replicas if zero_shards_optimizer(training.precision, parallelism) else WHOLE,
        shard_group=1,
        gathers="modules" if weights.dense > 1 else "nothing",
        copies_fp32_weights=ZERO_STAGE_OF_OPTIMIZER <= stage < ZERO_STAGE_OF_WEIGHTS,
    )


def optimizer_sharding_of(training: Training, given: OptimizerSharding | None) -> OptimizerSharding | None:
    """Return the form in which the optimizer is saved; None if it is not distributed, and so saved by tensor.

    Source: `optimizer_sharding` of the framework where it is not given.

    >>> optimizer_sharding_of(Training(distributed_optimizer=True), None), optimizer_sharding_of(Training(), None)
    ('dp-reshardable', None)
    """
    if not has_distributed_optimizer(training):
        return None
    return given or FRAMEWORKS[training.framework].optimizer_sharding
