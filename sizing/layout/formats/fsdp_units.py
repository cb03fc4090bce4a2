"""Division of parameters by Megatron-FSDP: a unit is laid end to end and padded to equal shares of whole rows.

A unit is a transformer layer; the layer's experts are a unit of their own. Embeddings, last norm and head are outside.
Source: Megatron-Core 0.16.1, core/distributed/fsdp/src/megatron_fsdp/param_and_grad_buffer.py, _get_parameter_groups
and build_data_parallel_buffer_index.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sizing.layout.assignment import Counts, kept_by_bytes
from sizing.layout.formats.megatron_shards import fused_name, narrowed_name
from sizing.layout.holders import shard_of
from sizing.layout.parallelism import Parallelism
from sizing.layout.stages import Holding
from sizing.model import TensorGroup
from sizing.model.inventory import Inventory

MAX_OUTSIDE_VALUES = 40_000_000
"""Number of values after which parameters outside the layers begin another unit: `suggested_bucket_size`."""


class Parameter(NamedTuple):
    """A parameter on one rank: `size` values in rows of `width`.

    `saved`: number of values of each tensor that the rank saves of it, from its start on. Gate and up-projection are
    two such tensors; queries, keys and values are one. Tensors that another tensor rank saves are left out.
    """

    size: int
    width: int
    saved: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """Parameters that are sharded together, in `count` equal units."""

    parameters: tuple[Parameter, ...]
    count: int
    is_trained: bool


class UnitShares(NamedTuple):
    """Shares of a unit that the ranks of a shard group save: numbers of values, and of tensors or pieces of tensors."""

    values: Counts
    pieces: Counts


@kept_by_bytes
def shares_of(parameters: tuple[Parameter, ...], num_ranks: int) -> UnitShares:
    """Divide a unit's parameters over ranks.

    >>> values, pieces = shares_of((Parameter(4 * 10, 4, (40,)), Parameter(4, 1, (4,))), 3)
    >>> values.tolist(), pieces.tolist()
    ([16, 16, 12], [1, 1, 2])
    """
    in_order = sorted(parameters, key=lambda parameter: -parameter.width)
    grid = _grid_of(in_order)
    offsets, end = _lay_end_to_end([parameter.size for parameter in in_order], grid)
    size = -(-end // (num_ranks * grid)) * grid
    runs = [
        (offset + sum(parameter.saved[:number]), saved)
        for parameter, offset in zip(in_order, offsets, strict=True)
        for number, saved in enumerate(parameter.saved)
    ]
    starts, sizes = np.array(sorted(runs), np.int64).reshape(-1, 2).T
    first, past = starts // size, (starts + sizes - 1) // size + 1
    changes = np.bincount(first, minlength=num_ranks + 1) - np.bincount(past, minlength=num_ranks + 1)
    return UnitShares(_count_values(starts, sizes, size, num_ranks), np.cumsum(changes)[:num_ranks])


def _count_values(starts: Counts, sizes: Counts, size: int, num_ranks: int) -> Counts:
    """Count the values of some runs in each of equal shares; there are no runs if a rank saves nothing of a unit."""
    starts, sizes = (np.concatenate(([0], each)) for each in (starts, sizes))  # an empty run is before every edge
    edges = size * np.arange(num_ranks + 1, dtype=np.int64)
    last = np.searchsorted(starts, edges, side="right") - 1
    past_end = np.maximum(starts[last] + sizes[last] - edges, 0)
    values: Counts = np.diff(np.cumsum(sizes)[last] - past_end)
    return values


def _grid_of(parameters: Iterable[Parameter]) -> int:
    """Return the number of values of which shares are multiples: `chunk_size_factor`, the widest rows first."""
    grid = 1
    for size, width, _ in parameters:
        if not (size < grid or (grid % width == 0 and size % grid == 0)):
            grid = math.lcm(grid, width)
    return grid


def _lay_end_to_end(sizes: list[int], grid: int) -> tuple[list[int], int]:
    """Return the offset of each parameter, and the end of the last one.

    A parameter begins on the grid, or it ends on the grid and begins in the last cell of a parameter before it. Small
    parameters fill the rest of such cells.
    """
    offsets = [0] * len(sizes)
    whole = [number for number, size in enumerate(sizes) if size >= grid]
    small = [number for number, size in enumerate(sizes) if size < grid]
    at = 0
    while whole:
        number = whole.pop(0)
        offsets[number], rest, gap = at, sizes[number] % grid, at + sizes[number]
        at += -(-sizes[number] // grid) * grid
        if not rest:
            continue
        room = grid - rest
        other = next((each for each in whole if 0 < sizes[each] % grid <= room), None)
        if other is not None:
            whole.remove(other)
            offsets[other] = at - sizes[other] % grid
            room -= sizes[other] % grid
            at += sizes[other] // grid * grid
        for each in [*small]:
            if sizes[each] <= room:
                small.remove(each)
                offsets[each], gap, room = gap, gap + sizes[each], room - sizes[each]
    for each in small:
        offsets[each], at = at, at + sizes[each]
    return offsets, at


def units_of(inventory: Inventory, parallelism: Parallelism, *, rank: int, of_experts: bool) -> Iterator[Unit]:
    """List the units of a tensor rank, or with `of_experts` those of a rank that cuts experts."""
    groups = [group for group in inventory if bool(group.experts) == of_experts]
    for is_trained in (True, False):
        some = [group for group in groups if group.is_trained == is_trained]
        layers_of = [frozenset(group.layers) for group in some]
        units = Counter(
            tuple(number for number, layers in enumerate(layers_of) if layer in layers)
            for layer in frozenset[int]().union(*layers_of)
        )
        for numbers, count in units.items():
            in_layer = [some[number] for number in numbers]
            yield Unit(tuple(_parameters(in_layer, parallelism, rank=rank)), count, is_trained)
        outside = [group for group in some if group.placement != "layers"]
        bucket: list[Parameter] = []
        for parameter in _parameters(outside, parallelism, rank=rank):
            bucket.append(parameter)
            if sum(each.size for each in bucket) >= MAX_OUTSIDE_VALUES:
                yield Unit(tuple(bucket), 1, is_trained)
                bucket = []
        if bucket:
            yield Unit(tuple(bucket), 1, is_trained)


@dataclass(frozen=True, slots=True)
class _UnitTensors:
    """`count` equal tensors of a unit on a rank, which saves them or leaves that to another rank."""

    name: str
    size: int
    width: int
    count: int
    is_saved: bool

    def saved_sizes(self, count: int) -> tuple[int, ...]:
        """Return the sizes of `count` such tensors that the rank saves."""
        return (self.size,) * count if self.is_saved else ()


def _parameters(groups: Iterable[TensorGroup], parallelism: Parallelism, *, rank: int) -> Iterator[Parameter]:
    tensors_of_groups = [_tensors_on_rank(group, parallelism, rank=rank) for group in groups]
    downs = {each.name: each.count for each in tensors_of_groups}
    left = dict(enumerate(tensors_of_groups))
    numbers: dict[str, list[int]] = {}
    for number, tensors in left.items():
        numbers.setdefault(tensors.name, []).append(number)
    for number, first in enumerate(tensors_of_groups):
        if left.pop(number, None) is None:
            continue
        later = next((at for at in numbers.get(fused_name(first.name), ()) if at in left), None)
        if later is None:
            count = downs.get(narrowed_name(first.name), first.count)
            each = first.count // count
            parameter = Parameter(each * first.size, first.width, first.saved_sizes(each))
        else:
            other = left.pop(later)
            count, each = first.count, other.count // first.count
            num_saved = sum(first.saved_sizes(1)) + sum(other.saved_sizes(each))
            parameter = Parameter(first.size + each * other.size, first.width, (num_saved,) if num_saved else ())
        yield from (parameter for _ in range(count))


def _tensors_on_rank(group: TensorGroup, parallelism: Parallelism, *, rank: int) -> _UnitTensors:
    num_ranks = parallelism.expert_tensor_degree if group.experts else parallelism.tensor
    shape = shard_of(Holding(group.shape, group.pieces, 1, group.cut), num_ranks=num_ranks, rank=rank).shape
    num_experts = group.experts // parallelism.expert if group.experts else 1
    is_saved = rank % max(1, num_ranks // group.pieces) == 0
    return _UnitTensors(group.name, math.prod(shape), math.prod(shape[1:]), group.count * num_experts, is_saved)
