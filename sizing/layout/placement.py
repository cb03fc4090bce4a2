"""Where the writers stand: ranks on nodes in the order tensor, context, data, pipeline."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sizing.layout.parallelism import Parallelism


@dataclass(frozen=True, slots=True)
class WriterPlacement:
    """How many nodes hold writers, and how many writers the fullest of them holds."""

    num_nodes: int
    most_per_node: int


def place_writers(parallelism: Parallelism, *, writers_per_stage: int, gpus_per_node: int) -> WriterPlacement:
    """The nodes on which the writers stand: the first `writers_per_stage` ranks of every stage.

    Rank = t + T (c + C (d + D p)) for tensor rank t of T, context c of C, data d of D, stage p; node =
    floor(rank / gpus_per_node). So stage p starts at rank p T C D, and replica 0 writes from its first T ranks.
    Source: Megatron-LM, core/parallel_state.py, default order tp-cp-ep-dp-pp.

    >>> place_writers(Parallelism(tensor=8, pipeline=64, data=6), writers_per_stage=8, gpus_per_node=8)
    WriterPlacement(num_nodes=64, most_per_node=8)
    >>> place_writers(Parallelism(tensor=1, pipeline=4, data=2), writers_per_stage=1, gpus_per_node=8)
    WriterPlacement(num_nodes=1, most_per_node=4)
    """
    stride = parallelism.ranks_per_stage
    if writers_per_stage == stride:
        return WriterPlacement(-(-parallelism.num_gpus // gpus_per_node), min(parallelism.num_gpus, gpus_per_node))
    full_nodes = max(0, writers_per_stage // gpus_per_node - 1)
    block = writers_per_stage - full_nodes * gpus_per_node
    stages_per_period = gpus_per_node // math.gcd(stride, gpus_per_node)
    periods, rest = divmod(parallelism.pipeline, stages_per_period)
    whole = _writers_by_node(min(parallelism.pipeline, stages_per_period), block, stride, gpus_per_node)
    part = _writers_by_node(rest, block, stride, gpus_per_node)
    partly_filled = max(periods, 1) * len(whole) + len(part) * bool(periods)
    return WriterPlacement(
        partly_filled + parallelism.pipeline * full_nodes, max(*whole, gpus_per_node if full_nodes else 0)
    )


def _writers_by_node(num_stages: int, block: int, stride: int, gpus_per_node: int) -> list[int]:
    """Writers on each node that has any. A period of stages starts on a fresh node."""
    ranks = np.arange(num_stages)[:, None] * stride + np.arange(block)
    counts: list[int] = np.unique(ranks // gpus_per_node, return_counts=True)[1].tolist()
    return counts
