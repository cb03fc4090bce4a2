"""Rows of a sweep as columns of numpy arrays, and the Pareto front: the rows that no other row beats."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]
Table = dict[str, Column]

_MAX_EXACT = 2**62
"""Whole numbers above become floats, as numpy's 64 bits end at 2^63."""


def column(value: Any, num_rows: int) -> Column:
    """Make a column of a value of all rows, or of an array of them; None becomes NaN."""
    if isinstance(value, np.ndarray):
        return np.broadcast_to(value, num_rows)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return np.full(num_rows, np.nan)
    if isinstance(value, bool | int | float):
        return np.full(num_rows, value if not isinstance(value, int) or value < _MAX_EXACT else float(value))
    return np.full(num_rows, value if isinstance(value, str) else json.dumps(value), dtype=object)


def num_rows(table: Mapping[str, Column]) -> int:
    """Count the rows of a table.

    Source: definition.

    >>> num_rows({"write.seconds": np.zeros(3)}), num_rows({})
    (3, 0)
    """
    return len(next(iter(table.values()))) if table else 0


def take_rows(table: Mapping[str, Column], index: npt.NDArray[Any]) -> Table:
    """Take the rows of an index or a mask."""
    return {name: values[index] for name, values in table.items()}


def stack_tables(tables: Sequence[Mapping[str, Column]]) -> Table:
    """Stack tables of the same columns below each other."""
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]} if tables else {}


def cells(values: Column) -> list[Any]:
    """List the plain values of a column, None for NaN."""
    listed: list[Any] = values.tolist()
    if values.dtype.kind == "f" and np.isnan(values).any():
        return [None if value != value else value for value in listed]  # noqa: PLR0124  only NaN differs from itself
    return listed


def column_of_cells(values: Sequence[Any]) -> Column:
    """Make the column that `cells` lists.

    >>> column_of_cells([1, 2]), column_of_cells([1.5, None]), column_of_cells(["zero-1"])
    (array([1, 2]), array([1.5, nan]), array(['zero-1'], dtype=object))
    """
    if any(isinstance(value, str) for value in values):
        return np.array(values, dtype=object)
    return np.array([np.nan if value is None else value for value in values])


def pareto_front(objectives: npt.NDArray[np.float64]) -> npt.NDArray[np.int_]:
    """Find the indices of the rows that no other row beats, of (rows, objectives) where less is better, in their order.

    A row beats another if it is as good in every objective and better in one. Of equal rows the first stays; rows with
    NaN, an unknown objective, are left out. Rows are taken by their first objective, and each that is still in strikes
    out all that it beats, so the cost is rows x size of the front; of two objectives those stay in which the second
    reaches a new minimum.
    Source: definition of Pareto efficiency; Kung, Luccio and Preparata 1975, JACM 22(4), for the ordering.

    >>> pareto_front(np.array([[1.0, 5.0], [2.0, 2.0], [3.0, 3.0], [2.0, 2.0], [np.nan, 0.0]])).tolist()
    [0, 1]
    """
    index = np.flatnonzero(~np.isnan(objectives).any(axis=1))
    index = index[np.lexsort([index, *objectives[index].T[::-1]])]
    if objectives.shape[1] == 2:
        second = objectives[index, 1]
        min_before = np.concatenate([[np.nan], np.minimum.accumulate(second)[:-1]])
        return np.sort(index[~(second >= min_before)])
    left, kept = objectives[index], []
    while len(index):
        kept.append(index[0])
        better_somewhere = (left < left[0]).any(axis=1)
        index, left = index[better_somewhere], left[better_somewhere]
    return np.sort(np.array(kept, dtype=np.int_))
