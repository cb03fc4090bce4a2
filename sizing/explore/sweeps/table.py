"""Rows of a sweep as columns of numpy arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]
Table = dict[str, Column]

_MOST_EXACT = 2**62
"""Whole numbers above become floats, as numpy's 64 bits end at 2^63."""


def column(value: Any, num_rows: int) -> Column:
    """A value of all rows, or an array of them, as a column; what is None is NaN."""
    if isinstance(value, np.ndarray):
        return np.broadcast_to(value, num_rows)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return np.full(num_rows, np.nan)
    if isinstance(value, bool | int | float):
        return np.full(num_rows, value if not isinstance(value, int) or value < _MOST_EXACT else float(value))
    return np.full(num_rows, value if isinstance(value, str) else json.dumps(value), dtype=object)


def num_rows(table: Mapping[str, Column]) -> int:
    """How many rows a table has.

    Source: definition.

    >>> num_rows({"write.seconds": np.zeros(3)}), num_rows({})
    (3, 0)
    """
    return len(next(iter(table.values()))) if table else 0


def rows_at(table: Mapping[str, Column], index: npt.NDArray[Any]) -> Table:
    """The rows of an index or a mask."""
    return {name: values[index] for name, values in table.items()}


def stacked(tables: Sequence[Mapping[str, Column]]) -> Table:
    """Tables of the same columns below each other."""
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]} if tables else {}


def cells(values: Column) -> list[Any]:
    """A column as plain values, None for NaN."""
    listed: list[Any] = values.tolist()
    if values.dtype.kind == "f" and np.isnan(values).any():
        return [None if value != value else value for value in listed]  # noqa: PLR0124  only NaN differs from itself
    return listed
