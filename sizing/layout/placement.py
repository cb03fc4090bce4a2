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


def place_writers(parallelism: Parallelism, *, gpus_per_node: int) -> WriterPlacement:
    """The nodes on which replica 0's model-parallel ranks stand.

    Rank = t + T (c + C (d + D p)) for tensor rank t of T, context c of C, data d of D, stage p; node =
    floor(rank / gpus_per_node). Replica 0 has c = d = 0, so stage p starts at rank p T C D.
    Source: Megatron-LM, core/parallel_state.py, default order tp-cp-ep-dp-pp.

    >>> place_writers(Parallelism(tensor=8, pipeline=64, data=6), gpus_per_node=8)
    WriterPlacement(num_nodes=64, most_per_node=8)
    >>> place_writers(Parallelism(tensor=1, pipeline=4, data=2), gpus_per_node=8)
    WriterPlacement(num_nodes=1, most_per_node=4)
    """
    stride = parallelism.tensor * parallelism.num_replicas
    stages_per_period = gpus_per_node // math.gcd(stride, gpus_per_node)
    periods, rest = divmod(parallelism.pipeline, stages_per_period)
    whole = _writers_by_node(
        min(parallelism.pipeline, stages_per_period), parallelism.tensor, stride, gpus_per_node
    )
    part = _writers_by_node(rest, parallelism.tensor, stride, gpus_per_node)
    return WriterPlacement(max(periods, 1) * len(whole) + len(part) * bool(periods), max(whole))


def _writers_by_node(num_stages: int, tensor: int, stride: int, gpus_per_node: int) -> list[int]:
    """Writers on each node that has any. A period of stages starts on a fresh node."""
    ranks = np.arange(num_stages)[:, None] * stride + np.arange(tensor)
    counts: list[int] = np.unique(ranks // gpus_per_node, return_counts=True)[1].tolist()
    return counts
