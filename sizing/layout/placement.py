"""Placement of the writers: ranks on nodes in the order of their axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sizing.errors import InvalidInput
from sizing.layout.parallelism import Parallelism

MAX_WRITERS_PLACED = 4_000_000
"""Max writers of one stage. Their places are an array of 32 MB; no cluster has more."""
MAX_WRITERS_WALKED = 1_000_000
"""Max writers whose bytes are added up node by node, in some 100 MB and a tenth of a second. With more, the max of a
node is estimated.
"""
MAX_RANKS_WALKED = 4_000_000
"""Max ranks for a format that computes its files rank by rank, in a few seconds and some hundred MB. It is checked
beforehand.
"""


@dataclass(frozen=True, slots=True)
class WriterPlacement:
    """Number of nodes that hold writers, and of writers on the fullest node."""

    num_nodes: int
    max_per_node: int


def place_writers(parallelism: Parallelism, *, writers_per_stage: int, gpus_per_node: int) -> WriterPlacement:
    """Count the nodes with writers, which are the first ranks of every stage, tensor ranks the fastest.

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
    require_placeable(writers_per_stage)
    in_stage = ranks_of_numbers(parallelism, np.arange(writers_per_stage))
    stride = parallelism.strides["pipeline"]
    if parallelism.rank_order[-1] != "pipeline":
        counts = _count_writers(in_stage, parallelism.pipeline, stride, gpus_per_node)
        return WriterPlacement(len(counts), max(counts))
    # Stages with the same offset on a node are placed alike.
    period = gpus_per_node // math.gcd(stride, gpus_per_node)
    num_periods, rest = divmod(parallelism.pipeline, period)
    counts = _count_writers(in_stage, min(parallelism.pipeline, period), stride, gpus_per_node)
    num_nodes = max(num_periods, 1) * len(counts)
    if num_periods:
        num_nodes += len(_count_writers(in_stage, rest, stride, gpus_per_node))
    return WriterPlacement(num_nodes, max(counts))


def place_uneven_writers(
    parallelism: Parallelism, *, writers_of_stages: Mapping[range, npt.NDArray[np.int64]], gpus_per_node: int
) -> WriterPlacement:
    """Count the nodes with writers if stages have different ones; each range of stages has writers of these numbers.

    Number i = t + T j of a stage is tensor rank t of replica j. Ranks and nodes are numbered as in `place_writers`;
    this function walks over every writer. Source: Megatron-LM, core/parallel_state.py, RankGenerator.

    >>> uneven = {range(1): np.array([0]), range(1, 4): np.array([0, 1])}
    >>> place_uneven_writers(Parallelism(pipeline=4, data=2), writers_of_stages=uneven, gpus_per_node=4)
    WriterPlacement(num_nodes=2, max_per_node=4)
    """
    require_placeable(sum(len(stages) * len(numbers) for stages, numbers in writers_of_stages.items()))
    stride = parallelism.strides["pipeline"]
    ranks = [
        (np.asarray(stages)[:, None] * stride + ranks_of_numbers(parallelism, numbers)).ravel()
        for stages, numbers in writers_of_stages.items()
    ]
    counts = _counts_by_node(np.concatenate(ranks), gpus_per_node)
    return WriterPlacement(len(counts), max(counts))


def nodes_of_writers(
    parallelism: Parallelism, numbers_of_stages: Sequence[tuple[range, npt.NDArray[np.int64]]], *, gpus_per_node: int
) -> list[npt.NDArray[np.int64]] | None:
    """List the node of each writer, as an array for each range of stages, in which each row is a stage.

    Ranks and nodes are numbered as in `place_writers`. If stages follow each other rank by rank, nodes within a range
    of equal stages repeat: the first period and both ends of a long range stand for all. None if there are still too
    many writers to walk over. Source: definition.

    >>> numbers = np.array([0, 1])
    >>> stages = [(range(1), numbers), (range(1, 4), numbers)]
    >>> [nodes.tolist() for nodes in nodes_of_writers(Parallelism(pipeline=4, data=2), stages, gpus_per_node=4)]
    [[[0, 0]], [[0, 0], [1, 1], [1, 1]]]
    """
    stride = parallelism.strides["pipeline"]
    period = gpus_per_node // math.gcd(stride, gpus_per_node)
    reach = -(-gpus_per_node // stride) + 1 if parallelism.rank_order[-1] == "pipeline" else parallelism.pipeline
    walked = []
    for some, numbers in numbers_of_stages:
        stages = np.asarray(some, np.int64)
        if len(stages) > period + 2 * reach:  # nodes touch at most `reach` stages and repeat after `period`
            stages = np.concatenate([stages[: period + reach], stages[-reach:]])
        walked.append((stages, numbers))
    if sum(len(stages) * len(numbers) for stages, numbers in walked) > MAX_WRITERS_WALKED:
        return None
    return [
        (stages[:, None] * stride + ranks_of_numbers(parallelism, numbers)) // gpus_per_node
        for stages, numbers in walked
    ]


def max_node_bytes(
    nodes: Sequence[npt.NDArray[np.int64]] | None,
    num_bytes: Sequence[npt.NDArray[np.int64] | int],
    *,
    max_writers_per_node: int,
) -> int:
    """Compute the bytes of the node that writes most: the exact sum over its ranks.

    `nodes` are those of `nodes_of_writers`; `num_bytes` has for each range of stages those of each number, or of all.
    With too many writers to walk over, the result is an upper estimate: the max writers of a node, each as large as
    the largest. Source: definition.

    >>> stages = [(range(1), np.array([0, 1])), (range(1, 4), np.array([0, 1]))]
    >>> nodes = nodes_of_writers(Parallelism(pipeline=4, data=2), stages, gpus_per_node=4)
    >>> max_node_bytes(nodes, [np.array([50, 10]), 10], max_writers_per_node=4)
    80
    """
    if nodes is None:
        return max_writers_per_node * max(int(np.max(each)) for each in num_bytes)
    weights = [np.broadcast_to(each, of_stages.shape).ravel() for each, of_stages in zip(num_bytes, nodes, strict=True)]
    # Sums in double precision are exact: no node has 2^53 bytes.
    all_nodes = np.concatenate([of_stages.ravel() for of_stages in nodes])
    return int(np.bincount(all_nodes, weights=np.concatenate(weights)).max())


def ranks_of_numbers(parallelism: Parallelism, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the ranks of stage 0 with these numbers in it."""
    strides = parallelism.strides
    replicas, tensor_ranks = np.divmod(numbers, parallelism.tensor)
    ranks: npt.NDArray[np.int64] = (
        tensor_ranks * strides["tensor"]
        + replicas % parallelism.context * strides["context"]
        + replicas // parallelism.context * strides["data"]
    )
    return ranks


def num_nodes_of_copies(parallelism: Parallelism, *, copies: int, apart: int, gpus_per_node: int) -> int:
    """Count the nodes with copies of one shard, on the ranks of a stage that are numbered 0, `apart`, 2 `apart`, ...

    Ranks and nodes are numbered as in `place_writers`. Where the ranks are as far apart as the numbers, or all are of
    one tensor rank and one context rank, a step within a node passes over no node. Else every rank is looked at, and
    too many copies raise InvalidInput. Source: Megatron-LM, core/parallel_state.py, RankGenerator.

    >>> degrees = Parallelism(tensor=2, data=16)
    >>> [num_nodes_of_copies(degrees, copies=n, apart=32 // n, gpus_per_node=8) for n in (16, 4, 1)]
    [4, 4, 1]
    """
    strides = parallelism.strides
    replicas_apart, of_tensor = divmod(apart, parallelism.tensor)
    data_ranks, of_context = divmod(replicas_apart, parallelism.context)
    contexts_follow = strides["data"] == strides["context"] * parallelism.context
    tensors_follow = contexts_follow and strides["context"] == strides["tensor"] * parallelism.tensor
    step = 0
    if not of_tensor and not of_context:
        step = data_ranks * strides["data"]
    elif not of_tensor and contexts_follow:
        step = replicas_apart * strides["context"]
    elif tensors_follow:
        step = apart * strides["tensor"]
    if step:
        return copies if step >= gpus_per_node else (copies - 1) * step // gpus_per_node + 1
    if copies > MAX_WRITERS_PLACED:
        raise InvalidInput.of(
            "parallelism",
            f"must have at most {MAX_WRITERS_PLACED:,} copies of the state to place on nodes in this rank_order",
            value=copies,
            remedy="lower a degree, or let tensor, context and data follow each other",
        )
    return len(np.unique(ranks_of_numbers(parallelism, np.arange(copies) * apart) // gpus_per_node))


def _count_writers(in_stage: npt.NDArray[np.int64], num_stages: int, stride: int, gpus_per_node: int) -> list[int]:
    """Count the writers on each node that has any.

    Raises InvalidInput for too many writers to walk over.
    """
    require_placeable(num_stages * len(in_stage))
    return _counts_by_node(np.arange(num_stages)[:, None] * stride + in_stage, gpus_per_node)


def _counts_by_node(ranks: npt.NDArray[np.int64], gpus_per_node: int) -> list[int]:
    counts: list[int] = np.unique(ranks // gpus_per_node, return_counts=True)[1].tolist()
    return counts


def require_placeable(num_writers: int) -> None:
    """Refuse too many writers to place on nodes, before their places are listed."""
    if num_writers > MAX_WRITERS_PLACED:
        rule = f"must have at most {MAX_WRITERS_PLACED:,} writers to place on nodes"
        raise InvalidInput.of("parallelism", rule, value=num_writers, remedy="lower a degree")


def require_walkable(parallelism: Parallelism, *, format_name: str) -> None:
    """Refuse too many ranks for a format that computes its files rank by rank."""
    if parallelism.num_gpus > MAX_RANKS_WALKED:
        raise InvalidInput.of(
            "parallelism",
            f"must have at most {MAX_RANKS_WALKED:,} ranks in format {format_name}, whose files differ rank by rank",
            value=parallelism.num_gpus,
            remedy="lower a degree",
        )
