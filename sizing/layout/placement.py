"""Where the writers stand: ranks on nodes in the order of their axes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sizing.errors import InvalidInput
from sizing.layout.parallelism import Parallelism

MAX_WRITERS_PLACED = 4_000_000
"""Of one stage. Their places are an array of 32 MB; a larger one is a cluster that nobody has."""


@dataclass(frozen=True, slots=True)
class WriterPlacement:
    """How many nodes hold writers, and how many writers the fullest of them holds."""

    num_nodes: int
    max_per_node: int


def place_writers(parallelism: Parallelism, *, writers_per_stage: int, gpus_per_node: int) -> WriterPlacement:
    """The nodes on which the writers stand: of every stage its first ranks, tensor ranks the fastest.

    Rank = sum over axes of its number x the product of the degrees before it in `rank_order`; by default
    t + T (c + C (d + D p)) for tensor rank t of T, context c of C, data d of D, stage p. Node =
    floor(rank / gpus_per_node). Replica 0 is c = d = 0.
    Source: Megatron-LM, core/parallel_state.py, RankGenerator.

    >>> place_writers(Parallelism(tensor=8, pipeline=64, data=6), writers_per_stage=8, gpus_per_node=8)
    WriterPlacement(num_nodes=64, max_per_node=8)
    >>> place_writers(Parallelism(tensor=1, pipeline=4, data=2), writers_per_stage=1, gpus_per_node=8)
    WriterPlacement(num_nodes=1, max_per_node=4)
    >>> place_writers(Parallelism(tensor=2, data=6), writers_per_stage=11, gpus_per_node=1)
    WriterPlacement(num_nodes=11, max_per_node=1)
    """
    if writers_per_stage == parallelism.ranks_per_stage:
        nodes = -(-parallelism.num_gpus // gpus_per_node)
        return WriterPlacement(nodes, min(parallelism.num_gpus, gpus_per_node))
    return _placed(_first_ranks(parallelism, writers_per_stage), parallelism, gpus_per_node=gpus_per_node)


def place_uneven_writers(
    parallelism: Parallelism, *, writers_of_stages: Mapping[range, npt.NDArray[np.int64]], gpus_per_node: int
) -> WriterPlacement:
    """The nodes on which the writers stand where stages have different ones: in each of a range those of these numbers.

    Number i = t + T j of a stage is tensor rank t of replica j. Rank and node are those of `place_writers`, of which
    this is a walk over every writer.
    Source: Megatron-LM, core/parallel_state.py, RankGenerator.

    >>> uneven = {range(1): np.array([0]), range(1, 4): np.array([0, 1])}
    >>> place_uneven_writers(Parallelism(pipeline=4, data=2), writers_of_stages=uneven, gpus_per_node=4)
    WriterPlacement(num_nodes=2, max_per_node=4)
    """
    num_writers = sum(len(stages) * len(numbers) for stages, numbers in writers_of_stages.items())
    if num_writers > MAX_WRITERS_PLACED:
        raise _too_many(num_writers)
    stride = parallelism.strides["pipeline"]
    ranks = [
        (np.asarray(stages)[:, None] * stride + ranks_of_numbers(parallelism, numbers)).ravel()
        for stages, numbers in writers_of_stages.items()
    ]
    counts = _counts_by_node(np.concatenate(ranks), gpus_per_node)
    return WriterPlacement(len(counts), max(counts))


def _first_ranks(parallelism: Parallelism, num_writers: int) -> npt.NDArray[np.int64]:
    """So many ranks of stage 0, the first of them.

    Raises InvalidInput for more of them than are worth placing.
    """
    if num_writers > MAX_WRITERS_PLACED:
        raise _too_many(num_writers)
    strides = parallelism.strides
    replicas = np.arange(-(-num_writers // parallelism.tensor))
    ranks: npt.NDArray[np.int64] = (
        np.arange(parallelism.tensor) * strides["tensor"]
        + (replicas % parallelism.context * strides["context"])[:, None]
        + (replicas // parallelism.context * strides["data"])[:, None]
    ).ravel()[:num_writers]
    return ranks


def ranks_of_numbers(parallelism: Parallelism, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The ranks of stage 0 with these numbers in it."""
    strides = parallelism.strides
    replicas, tensor_ranks = np.divmod(numbers, parallelism.tensor)
    ranks: npt.NDArray[np.int64] = (
        tensor_ranks * strides["tensor"]
        + replicas % parallelism.context * strides["context"]
        + replicas // parallelism.context * strides["data"]
    )
    return ranks


def _placed(in_stage: npt.NDArray[np.int64], parallelism: Parallelism, *, gpus_per_node: int) -> WriterPlacement:
    """The nodes of the same ranks of every stage; stages that begin equally on a node place them equally."""
    stride = parallelism.strides["pipeline"]
    period = gpus_per_node // math.gcd(stride, gpus_per_node)
    disjoint = parallelism.rank_order[-1] == "pipeline"
    periods, rest = divmod(parallelism.pipeline, period) if disjoint else (0, parallelism.pipeline)
    whole = _writers_by_node(in_stage, min(parallelism.pipeline, period) if disjoint else rest, stride, gpus_per_node)
    if not disjoint:
        return WriterPlacement(len(whole), max(whole))
    part = _writers_by_node(in_stage, rest, stride, gpus_per_node)
    return WriterPlacement(max(periods, 1) * len(whole) + len(part) * bool(periods), max(whole))


def _writers_by_node(in_stage: npt.NDArray[np.int64], num_stages: int, stride: int, gpus_per_node: int) -> list[int]:
    """Writers on each node that has any.

    Raises InvalidInput for more of them than are worth walking over.
    """
    if num_stages * len(in_stage) > MAX_WRITERS_PLACED:
        raise _too_many(num_stages * len(in_stage))
    return _counts_by_node(np.arange(num_stages)[:, None] * stride + in_stage, gpus_per_node)


def _counts_by_node(ranks: npt.NDArray[np.int64], gpus_per_node: int) -> list[int]:
    counts: list[int] = np.unique(ranks // gpus_per_node, return_counts=True)[1].tolist()
    return counts


def _too_many(num_writers: int) -> InvalidInput:
    return InvalidInput.of(
        "parallelism",
        f"must have at most {MAX_WRITERS_PLACED:,} writers to place on nodes",
        value=num_writers,
        remedy="lower a degree",
    )
