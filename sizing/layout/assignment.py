"""Assignment of whole tensors to ranks: the largest first, each to the rank that has the least so far."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache, cached

Counts = npt.NDArray[np.int64]
"""Number of items for each rank; with a first axis, for each kind of item."""

MAX_KEPT_BYTES = 32 * 1024**2
"""Max bytes of the results of one function in the cache of a process. A million ranks take 8 MB, so a max number of
entries would not bound memory; the usual 10 to 1,000 ranks take kilobytes."""

_Given = ParamSpec("_Given")
_Arrays = TypeVar("_Arrays", bound=tuple[Counts, ...])


def bytes_of_arrays(arrays: tuple[Counts, ...]) -> int:
    """Count the bytes of arrays in memory.

    Source: definition.

    >>> bytes_of_arrays((np.zeros(10, np.int64), np.zeros((2, 3), np.int64)))
    128
    """
    return sum(array.nbytes for array in arrays)


def kept_by_bytes(function: Callable[_Given, _Arrays]) -> Callable[_Given, _Arrays]:
    """Cache the last results of a function up to MAX_KEPT_BYTES, for all threads."""
    return cached(LRUCache[object, _Arrays](MAX_KEPT_BYTES, getsizeof=bytes_of_arrays), lock=threading.Lock())(function)


Sizes = tuple[tuple[int, int], ...]
"""Kinds of equal items in the order of assignment: bytes of one item, and number of items."""


def counts_by_rank(loads: npt.NDArray[np.int64], *, num_bytes: int, count: int) -> Counts:
    """Count the items of each rank if each of `count` equal items goes to the least loaded rank, the first of several.

    A rank with load L takes its items at the loads L, L + s, L + 2 s ...; the `count` lowest of all ranks are assigned.
    With L = q s + r, each rank has one such load at every level Q >= q, in order of r. Levels up to the last full one
    are assigned whole, the rest of the next level by r. Args: `loads` in bytes, one per rank; s = `num_bytes` of one
    item. Source: Megatron-LM, core/dist_checkpointing/exchange_utils.py, distribute_shards_to_ranks, for items of one
    size.

    >>> counts_by_rank(np.array([30, 0, 10]), num_bytes=20, count=4).tolist()
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


class Assignment(NamedTuple):
    """Numbers of items that ranks were assigned.

    `counts` has a row for each kind of item and a column for each different rank. `columns` has a number for each rank:
    0 if it got nothing, c + 1 for column c of `counts`.
    """

    columns: Counts
    counts: Counts


@kept_by_bytes
def assign_to_empty(sizes: Sizes, num_ranks: int) -> Assignment:
    """Assign items to ranks that have nothing yet."""
    return assign(sizes, np.zeros(num_ranks, np.int64))


def assign(sizes: Sizes, loads: npt.NDArray[np.int64]) -> Assignment:
    """Assign items to ranks with these loads in bytes.

    At most as many ranks as items get one: the least loaded ranks.
    """
    num_items = sum(count for _, count in sizes)
    if not num_items:
        return Assignment(np.zeros(len(loads), np.int64), np.zeros((0, 0), np.int64))
    ranks = np.sort(np.argsort(loads, kind="stable")[:num_items])
    rank_loads, rows = loads[ranks], []
    for num_bytes, count in sizes:
        rows.append(counts_by_rank(rank_loads, num_bytes=num_bytes, count=count))
        rank_loads = rank_loads + rows[-1] * num_bytes
    different, which = _different_columns(rows)
    columns = np.zeros(len(loads), np.int64)
    columns[ranks] = which + 1
    return Assignment(columns, different)


def _different_columns(rows: Sequence[Counts]) -> tuple[Counts, Counts]:
    """Return the different columns of a table in lexicographic order, and the index of each column among them.

    The result is that of `np.unique` along an axis. Sorting numbers row by row takes a tenth of the time of sorting
    columns.
    """
    first, which = np.zeros(1, np.int64), np.zeros(len(rows[0]), np.int64)
    for row in rows:
        if row.min() < row.max():
            _, first, which = np.unique(which * (row.max() + 1) + row, return_index=True, return_inverse=True)
    return np.array([row[first] for row in rows]), which


def assigned_bytes(sizes: Sizes, assignment: Assignment) -> npt.NDArray[np.int64]:
    """Count the bytes assigned to each rank."""
    if not assignment.counts.size:
        return np.zeros(len(assignment.columns), np.int64)
    of_columns = np.array([num_bytes for num_bytes, _ in sizes], np.int64) @ assignment.counts
    of_ranks: npt.NDArray[np.int64] = np.concatenate(([0], of_columns))[assignment.columns]
    return of_ranks


def runs_of_equal(columns: Sequence[Counts], edges: set[int]) -> list[tuple[int, int]]:
    """Return runs of ranks with equal columns, also cut at `edges`, each as first and past.

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
