"""The rows of a sweep in blocks: what each block has in common, and the fields that vary inside it as arrays."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sizing.errors import InvalidInput
from sizing.explore.sweeps.axes import Axis
from sizing.explore.sweeps.sweep_request import Combination
from sizing.explore.sweeps.table import Column

MOST_ROWS = 10_000_000
"""Some seconds of one core for arrays alone; as CSV it is about two gigabytes."""
MOST_SCENARIOS = 20_000
"""Scenarios that differ in more than numbers of storage, run and failures, each of which is parsed and laid out."""

_ROWS_PER_BLOCK = 8_192
"""Arrays of 64 KiB stay in a core's cache; smaller blocks pay more for Python, larger ones for memory."""


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one scenario: `fixed` fields are the same for all, `arrays` differ."""

    fixed: dict[str, Any]
    arrays: dict[str, Column]
    num_rows: int


def num_rows_of(axes: Sequence[Axis], combine: Combination) -> int:
    """How many rows the axes make: the product of their lengths, or their common length.

    Source: definition.
    Raises InvalidInput where there are none, too many, or lists of unlike lengths to zip.

    >>> axes = [Axis("parallelism.data", [1, 2], is_array=False), Axis("costs.per_terabyte", [3, 4], is_array=True)]
    >>> num_rows_of(axes, "product"), num_rows_of(axes, "zip")
    (4, 2)
    """
    lengths = [len(axis.values) for axis in axes]
    if not lengths:
        raise InvalidInput.of(
            "the scenario", "must have a list or a range somewhere", value=None, remedy="give [1, 2] for a field"
        )
    if combine == "zip" and len(set(lengths)) > 1:
        found = ", ".join(f"{axis.path} {len(axis.values):,}" for axis in axes)
        raise InvalidInput.of("combine", "zip needs lists of one length", value=found, remedy="make them equally long")
    total = lengths[0] if combine == "zip" else math.prod(lengths)
    if total > MOST_ROWS:
        raise InvalidInput.of(
            "the sweep", f"must have at most {MOST_ROWS:,} rows", value=f"{total:,}", remedy="take fewer values"
        )
    return total


def blocks_of(axes: Sequence[Axis], combine: Combination) -> Iterator[Block]:
    """The rows, in their order: fields that change the scenario vary slowest, else as in the document, last fastest.

    Raises InvalidInput for more than 20,000 scenarios.
    """
    fixed = [axis for axis in axes if not axis.is_array]
    arrays = [axis for axis in axes if axis.is_array]
    return _zipped(fixed, arrays) if combine == "zip" else _product(fixed, arrays)


def _product(fixed: Sequence[Axis], arrays: Sequence[Axis]) -> Iterator[Block]:
    _require_few(math.prod(len(axis.values) for axis in fixed))
    columns = [np.array(axis.values, dtype=np.float64) for axis in arrays]
    shape = tuple(len(values) for values in columns)
    num_rows = math.prod(shape)
    for values in itertools.product(*(axis.values for axis in fixed)):
        common = dict(zip((axis.path for axis in fixed), values, strict=True))
        for start in range(0, num_rows, _ROWS_PER_BLOCK):
            rows = np.arange(start, min(start + _ROWS_PER_BLOCK, num_rows))
            places = np.unravel_index(rows, shape) if shape else ()
            taken = {axis.path: column[at] for axis, column, at in zip(arrays, columns, places, strict=True)}
            yield Block(common, taken, len(rows))


def _zipped(fixed: Sequence[Axis], arrays: Sequence[Axis]) -> Iterator[Block]:
    columns = {axis.path: np.array(axis.values, dtype=np.float64) for axis in arrays}
    num_rows = len((*fixed, *arrays)[0].values)
    combined = [tuple(axis.values[row] for axis in fixed) for row in range(num_rows)]
    changes = [row for row in range(1, num_rows) if combined[row] != combined[row - 1]]
    _require_few(len(changes) + 1)
    for first, last in itertools.pairwise([0, *changes, num_rows]):
        common = dict(zip((axis.path for axis in fixed), combined[first], strict=True))
        for start in range(first, last, _ROWS_PER_BLOCK):
            rows = slice(start, min(start + _ROWS_PER_BLOCK, last))
            yield Block(common, {path: values[rows] for path, values in columns.items()}, rows.stop - rows.start)


def _require_few(num_scenarios: int) -> None:
    if num_scenarios > MOST_SCENARIOS:
        raise InvalidInput.of(
            "the sweep",
            f"must have at most {MOST_SCENARIOS:,} scenarios that differ in more than numbers of storage, interval, "
            "failures, retention, targets and costs",
            value=f"{num_scenarios:,}",
            remedy="take fewer values of the other fields",
        )
