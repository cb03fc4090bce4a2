"""Whole tensors dealt to ranks, the largest first, each to the rank that has the least so far."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
"""So many of something, per rank; with a first axis, of each kind of item."""

Sizes = tuple[tuple[int, int], ...]
"""Kinds of equal items in the order in which they are dealt: bytes of one, and how many."""


def dealt(loads: npt.NDArray[np.int64], *, num_bytes: int, count: int) -> Counts:
    """How many of `count` equal items each rank gets where each goes to the least loaded rank, the first of several.

    A rank with load L takes its items at the loads L, L + s, L + 2 s ...; dealt are the `count` lowest of all ranks.
    With L = q s + r there is one of each rank at every level Q >= q, in order of r: levels up to the last full one
    are dealt whole, the rest of the next one by r.
    Args: `loads` in bytes, one per rank; s = `num_bytes` of one item.
    Source: Megatron-LM, core/dist_checkpointing/exchange_utils.py, distribute_shards_to_ranks, for items of one size.

    >>> dealt(np.array([30, 0, 10]), num_bytes=20, count=4).tolist()
    [1, 2, 1]
    """
    levels, rests = np.divmod(loads, num_bytes)
    ordered = np.sort(levels)
    before = np.concatenate(([0], np.cumsum(ordered)))
    num_active = int(np.searchsorted(np.arange(len(loads)) * ordered - before[:-1], count, side="right"))
    level = (count + int(before[num_active])) // num_active
    counts: Counts = np.maximum(level - levels, 0)
    next_ones = np.flatnonzero(levels <= level)
    next_ones = next_ones[np.argsort(rests[next_ones], kind="stable")]
    counts[next_ones[: count - int(counts.sum())]] += 1
    return counts


class Deal(NamedTuple):
    """Who got how many: `counts` of each kind of item (kinds x ranks) at the `ranks`; others got none.

    Ranks with equal columns have the same number in `columns`, of all ranks: 0 where they got nothing, c + 1 for
    column c of `counts`.
    """

    columns: Counts
    counts: Counts


@functools.lru_cache(maxsize=256)
def deal_to_equal(sizes: Sizes, num_ranks: int) -> Deal:
    """The deal among ranks that have nothing yet."""
    return deal(sizes, np.zeros(num_ranks, np.int64))


def deal(sizes: Sizes, loads: npt.NDArray[np.int64]) -> Deal:
    """The deal among ranks that have these bytes already. No more ranks than items get one: the least loaded."""
    num_items = sum(count for _, count in sizes)
    if not num_items:
        return Deal(np.zeros(len(loads), np.int64), np.zeros((0, 0), np.int64))
    ranks = np.sort(np.argsort(loads, kind="stable")[:num_items])
    held, rows = loads[ranks], []
    for num_bytes, count in sizes:
        rows.append(dealt(held, num_bytes=num_bytes, count=count))
        held = held + rows[-1] * num_bytes
    different, which = _different_columns(rows)
    columns = np.zeros(len(loads), np.int64)
    columns[ranks] = which + 1
    return Deal(columns, different)


def _different_columns(rows: Sequence[Counts]) -> tuple[Counts, Counts]:
    """The different columns of a table in lexicographic order, and which of them each column is.

    As `np.unique` gives them along an axis, row by row: to sort numbers takes a tenth of sorting whole columns.
    """
    first, which = np.zeros(1, np.int64), np.zeros(len(rows[0]), np.int64)
    for row in rows:
        if row.min() < row.max():
            _, first, which = np.unique(which * (row.max() + 1) + row, return_index=True, return_inverse=True)
    return np.array([row[first] for row in rows]), which


def dealt_bytes(sizes: Sizes, deal: Deal) -> npt.NDArray[np.int64]:
    """The bytes that each rank got."""
    if not deal.counts.size:
        return np.zeros(len(deal.columns), np.int64)
    of_columns = np.array([num_bytes for num_bytes, _ in sizes], np.int64) @ deal.counts
    found: npt.NDArray[np.int64] = np.concatenate(([0], of_columns))[deal.columns]
    return found


def runs_of_equal(columns: Sequence[Counts], edges: set[int]) -> list[tuple[int, int]]:
    """Runs of ranks with equal columns, cut at `edges` too: first and past.

    Source: definition.

    >>> runs_of_equal([np.array([1, 1, 2, 2])], {3})
    [(0, 2), (2, 3), (3, 4)]
    """
    num_ranks = len(columns[0])
    changes = np.zeros(num_ranks - 1, bool)
    for each in columns:
        changes |= each[1:] != each[:-1]
    cuts = sorted(
        {0, num_ranks, *(np.flatnonzero(changes) + 1).tolist(), *(edge for edge in edges if edge < num_ranks)}
    )
    return list(pairwise(cuts))
