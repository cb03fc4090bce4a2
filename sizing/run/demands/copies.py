"""How many copies of the whole training state lie in the memory of GPUs whose nodes fail apart."""

from __future__ import annotations

import numpy as np

from sizing.errors import InvalidInput
from sizing.layout import Parallelism
from sizing.layout.placement import MAX_WRITERS_PLACED, ranks_of_numbers
from sizing.layout.sharding import Sharding


def num_state_copies(sharding: Sharding, parallelism: Parallelism, *, gpus_per_node: int) -> int:
    """Copies of the state in different nodes: of c = replicas / shards, those that share no node.

    Each part of the state is whole on every replica, or divided over `shards` of them; the part that is divided most
    decides. The copies of one shard are as many replicas apart as there are shards, and those on one node count once.
    Source: definition; Zhao et al. 2023, arXiv 2304.11277, section 3.2.2, for hybrid sharding.

    >>> from sizing.layout.sharding import sharding_of
    >>> from sizing.state import Training
    >>> degrees, plain, divided = Parallelism(tensor=8, data=6), Training(), Training(distributed_optimizer=True)
    >>> [num_state_copies(sharding_of(each, degrees), degrees, gpus_per_node=8) for each in (plain, divided)]
    [6, 1]
    """
    dense = max(sharding.weights.dense, sharding.optimizer.dense)
    expert = max(sharding.weights.expert, sharding.optimizer.expert)
    copies = max(1, parallelism.num_replicas // dense)
    if parallelism.expert > 1:
        copies = min(copies, max(1, parallelism.num_expert_replicas // expert))
    return _num_nodes(parallelism, copies=copies, replicas_apart=dense, gpus_per_node=gpus_per_node)


def _num_nodes(parallelism: Parallelism, *, copies: int, replicas_apart: int, gpus_per_node: int) -> int:
    """Nodes of every so many-th replica: ranks that are `step` apart pass over no node where it is within one.

    Only where another axis stands between context and data, and copies differ in context, is every one looked at.

    Raises InvalidInput where these are more than are worth looking at.
    """
    step = _step(parallelism, replicas_apart)
    if step is not None:
        return copies if step >= gpus_per_node else (copies - 1) * step // gpus_per_node + 1
    if copies > MAX_WRITERS_PLACED:
        raise InvalidInput.of(
            "parallelism",
            f"must have at most {MAX_WRITERS_PLACED:,} copies of the state to place on nodes in this rank_order",
            value=copies,
            remedy="lower a degree, or let context and data follow each other",
        )
    ranks = ranks_of_numbers(parallelism, np.arange(copies) * replicas_apart * parallelism.tensor)
    return len(np.unique(ranks // gpus_per_node))


def _step(parallelism: Parallelism, replicas_apart: int) -> int | None:
    """By how much the rank grows from one copy to the next, where that is always the same."""
    strides = parallelism.strides
    data_ranks, rest = divmod(replicas_apart, parallelism.context)
    if not rest:
        return data_ranks * strides["data"]
    follows = strides["data"] == strides["context"] * parallelism.context
    return replicas_apart * strides["context"] if follows else None
