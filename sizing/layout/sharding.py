"""How replicas divide the training state that they would each hold whole: FSDP, HSDP, ZeRO, a distributed optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sizing.layout.framework_defaults import DEEPSPEED_ZERO_STAGE, MEGATRON_DISTRIBUTED_OPTIMIZER
from sizing.layout.fsdp_shards import FsdpMesh
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.state.training import Precision, Training

ZERO_STAGE_OF_OPTIMIZER, ZERO_STAGE_OF_GRADIENTS, ZERO_STAGE_OF_WEIGHTS = 1, 2, 3
"""The first stage of ZeRO that shards it. Source: Rajbhandari et al. 2020, arXiv 1910.02054, section 5."""

WHOLE = Ranks()
"""Not divided: every rank that holds the tensors has all of it."""


Gathers = Literal["nothing", "layers", "stages", "modules"]
"""Of the weights that a rank holds a shard of, what it has whole at a time to compute. FSDP gathers units, which are
layers here, and keeps those of a pipeline stage; ZeRO 3 the modules with parameters of their own."""


@dataclass(frozen=True, slots=True)
class Sharding:
    """Over how many of the ranks that hold the same tensors each part of the training state is divided.

    `shard_group`: ranks of which each has its rows of every tensor. FSDP alone cuts tensors; ZeRO and a distributed
    optimizer divide the flat buffer of them all.
    `copies_fp32_weights`: whether the optimizer keeps an fp32 copy of its share of the weights also where these are
    fp32 themselves.
    """

    weights: Ranks
    gradients: Ranks
    optimizer: Ranks
    shard_group: int
    gathers: Gathers
    copies_fp32_weights: bool = False


def sharding_of(training: Training, parallelism: Parallelism) -> Sharding:
    """The sharding of a framework; whether the optimizer is distributed is open in Megatron alone."""
    match training.framework:
        case "megatron":
            return _megatron(parallelism.replicas if has_distributed_optimizer(training) else WHOLE)
        case "fsdp2" | "torchtitan":
            return _fsdp(FsdpMesh.of(parallelism), has_stages=parallelism.pipeline > 1)
        case "deepspeed":
            return _zero(training, parallelism)
        case "maxtext":
            return _maxtext(parallelism)


def ranks_of_a_copy(parallelism: Parallelism, *, shard_group: int) -> int:
    """Ranks of a stage that together hold one copy of all tensors: max(t s, e x), s ranks of FSDP's shard group.

    Source: definition; e x ranks hold the experts, e of expert and x of expert-tensor parallelism, carved out of those
    of the stage.

    >>> ranks_of_a_copy(Parallelism(tensor=8, data=4), shard_group=4)
    32
    """
    p = parallelism
    return max(p.tensor * shard_group, p.expert * p.expert_tensor_degree if p.expert > 1 else 1)


def has_distributed_optimizer(training: Training) -> bool:
    """Whether Megatron's data-parallel ranks divide the optimizer.

    Source: MEGATRON_DISTRIBUTED_OPTIMIZER where it is not given.

    >>> has_distributed_optimizer(Training()), has_distributed_optimizer(Training(distributed_optimizer=True))
    (False, True)
    """
    given = training.distributed_optimizer
    return MEGATRON_DISTRIBUTED_OPTIMIZER if given is None else given


def zero_stage_of(parallelism: Parallelism) -> int:
    """The stage of DeepSpeed's ZeRO in effect.

    Source: DEEPSPEED_ZERO_STAGE where none is given.

    >>> zero_stage_of(Parallelism(data=4)), zero_stage_of(Parallelism(data=4, zero_stage=3))
    (1, 3)
    """
    return DEEPSPEED_ZERO_STAGE if parallelism.zero_stage is None else parallelism.zero_stage


def _megatron(sharing: Ranks) -> Sharding:
    return Sharding(weights=WHOLE, gradients=WHOLE, optimizer=sharing, shard_group=1, gathers="nothing")


def _fsdp(mesh: FsdpMesh, *, has_stages: bool) -> Sharding:
    """Everything within a shard group; with HSDP each group has a copy.

    A pipeline stage gathers its weights once in a step, and adds up the gradients of its microbatches before it shards
    them. Source: torchtitan, distributed/fsdp.py, get_fsdp_reshard_after_forward_policy; PyTorch,
    torch/distributed/pipelining/stage.py, which syncs gradients after the last microbatch.
    """
    ranks = Ranks(mesh.shards, mesh.expert_shards)
    gathers: Gathers = "nothing" if max(ranks) == 1 else "stages" if has_stages else "layers"
    gradients = WHOLE if has_stages else ranks
    return Sharding(weights=ranks, gradients=gradients, optimizer=ranks, shard_group=mesh.shards, gathers=gathers)


def _maxtext(parallelism: Parallelism) -> Sharding:
    """Everything within a shard group, whose ranks are those of MaxText's axes fsdp, context and expert.

    Of routed experts, which its expert ranks divide already, the others divide what is left.
    Source: MaxText, configs/base.yml, logical_axis_rules.
    """
    experts = max(1, parallelism.shard_ranks // parallelism.expert)
    ranks = Ranks(parallelism.shard_ranks, experts)
    gathers: Gathers = "layers" if ranks.dense > 1 else "nothing"
    return Sharding(weights=ranks, gradients=ranks, optimizer=ranks, shard_group=experts, gathers=gathers)


def zero_shards_optimizer(precision: Precision, parallelism: Parallelism) -> bool:
    """Whether DeepSpeed's data ranks divide the optimizer: from ZeRO 1 on, and in a pipeline with bf16 always.

    Source: DeepSpeed 0.19, runtime/engine.py, _do_optimizer_sanity_check, which takes BF16_Optimizer there.

    >>> [zero_shards_optimizer("bf16-mixed", Parallelism(pipeline=p, zero_stage=0)) for p in (1, 2)]
    [False, True]
    """
    is_bf16_pipeline = precision == "bf16-mixed" and parallelism.pipeline > 1
    return is_bf16_pipeline or zero_stage_of(parallelism) >= ZERO_STAGE_OF_OPTIMIZER


def _zero(training: Training, parallelism: Parallelism) -> Sharding:
    """ZeRO 1 and 2 clone the share of the optimizer from whole weights of any dtype; in ZeRO 3 fp32 shards are it.

    Source: DeepSpeed 0.19, runtime/zero/stage_1_and_2.py, single_partition_of_fp32_groups; runtime/zero/stage3.py,
    fp32_partitioned_groups_flat; without ZeRO the optimizer has the weights themselves.
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
