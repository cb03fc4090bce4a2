"""How replicas divide the training state that they would each hold whole: FSDP, HSDP, ZeRO, a distributed optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sizing.layout.framework_defaults import DEEPSPEED_ZERO_STAGE, MEGATRON_DISTRIBUTED_OPTIMIZER
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.state.training import Training

ZERO_STAGE_OF_OPTIMIZER, ZERO_STAGE_OF_GRADIENTS, ZERO_STAGE_OF_WEIGHTS = 1, 2, 3
"""The first stage of ZeRO that shards it. Source: Rajbhandari et al. 2020, arXiv 1910.02054, section 5."""

WHOLE = Ranks()
"""Not divided: every rank that holds the tensors has all of it."""


Gathers = Literal["nothing", "layers", "modules"]
"""Of the weights that a rank holds a shard of, what it has whole at a time to compute. FSDP gathers units, which are
layers here; ZeRO 3 the modules with parameters of their own."""


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
        case "fsdp2":
            return _fsdp(parallelism.shard_ranks)
        case "deepspeed":
            return _zero(parallelism)


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


def _fsdp(num_ranks: int) -> Sharding:
    """Everything within a shard group; with HSDP each group has a copy."""
    ranks = Ranks(num_ranks, num_ranks)
    gathers: Gathers = "layers" if num_ranks > 1 else "nothing"
    return Sharding(weights=ranks, gradients=ranks, optimizer=ranks, shard_group=num_ranks, gathers=gathers)


def _zero(parallelism: Parallelism) -> Sharding:
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
        optimizer=ranks(ZERO_STAGE_OF_OPTIMIZER),
        shard_group=1,
        gathers="modules" if weights.dense > 1 else "nothing",
        copies_fp32_weights=ZERO_STAGE_OF_OPTIMIZER <= stage < ZERO_STAGE_OF_WEIGHTS,
    )
