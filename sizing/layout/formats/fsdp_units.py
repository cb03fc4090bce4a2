"""How Megatron-FSDP shares parameters: those of a unit laid end to end, padded to equal shares of whole rows.

A unit is a transformer layer, whose experts are one of their own; embeddings, last norm and head stand outside.
Source: Megatron-Core 0.16.1, core/distributed/fsdp/src/megatron_fsdp/param_and_grad_buffer.py, _get_parameter_groups
and build_data_parallel_buffer_index.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sizing.layout.dealing import Counts
from sizing.layout.formats.megatron_shards import fused_name, narrowed_name
from sizing.layout.parallelism import Parallelism
from sizing.layout.shards import shard_of
from sizing.layout.stages import Holding
from sizing.model import TensorGroup
from sizing.model.inventory import Inventory

MAX_OUTSIDE_VALUES = 40_000_000
"""Values after which parameters outside of layers begin another unit: `suggested_bucket_size`."""


class Parameter(NamedTuple):
    """A parameter on one rank: so many values in rows of `width`.

    `saved`: values of each tensor that the rank saves of it, from its start on. Gate and up-projection are two of them,
    queries, keys and values are one; none of what another tensor rank saves.
    """

    size: int
    width: int
    saved: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """Parameters that are shared together, in `count` equal units."""

    parameters: tuple[Parameter, ...]
    count: int
    is_trained: bool


class Shares(NamedTuple):
    """What each rank of a shard group saves of a unit: values, and tensors or pieces of tensors."""

    values: Counts
    pieces: Counts


@functools.lru_cache(maxsize=256)
def shares_of(parameters: tuple[Parameter, ...], num_ranks: int) -> Shares:
    """The shares of a unit's parameters.

    >>> values, pieces = shares_of((Parameter(4 * 10, 4, (40,)), Parameter(4, 1, (4,))), 3)
    >>> values.tolist(), pieces.tolist()
    ([16, 16, 12], [1, 1, 2])
    """
    in_order = sorted(parameters, key=lambda parameter: -parameter.width)
    grid = _grid(in_order)
    offsets, end = _offsets([parameter.size for parameter in in_order], grid)
    size = -(-end // (num_ranks * grid)) * grid
    placed = [
        (offset + sum(parameter.saved[:number]), saved)
        for parameter, offset in zip(in_order, offsets, strict=True)
        for number, saved in enumerate(parameter.saved)
    ]
    starts, sizes = np.array(sorted(placed), np.int64).reshape(-1, 2).T
    return Shares(_values_between(starts, sizes, size, num_ranks), _pieces_of(starts, sizes, size, num_ranks))


def _values_between(starts: Counts, sizes: Counts, size: int, num_ranks: int) -> Counts:
    """The values of some runs in each of equal shares; none of them where a rank saves nothing of a unit."""
    starts, sizes = (np.concatenate(([0], each)) for each in (starts, sizes))  # an empty run is before every edge
    edges = size * np.arange(num_ranks + 1, dtype=np.int64)
    last = np.searchsorted(starts, edges, side="right") - 1
    past_end = np.maximum(starts[last] + sizes[last] - edges, 0)
    values: Counts = np.diff(np.cumsum(sizes)[last] - past_end)
    return values


def _pieces_of(starts: Counts, sizes: Counts, size: int, num_ranks: int) -> Counts:
    """How many of some runs have values in each of equal shares."""
    first, past = starts // size, (starts + sizes - 1) // size + 1
    changes = np.bincount(first, minlength=num_ranks + 1) - np.bincount(past, minlength=num_ranks + 1)
    pieces: Counts = np.cumsum(changes)[:num_ranks]
    return pieces


def _grid(parameters: Iterable[Parameter]) -> int:
    """Values of which shares are multiples: `chunk_size_factor`, of parameters with the widest rows first."""
    grid = 1
    for size, width, _ in parameters:
        if not (size < grid or (grid % width == 0 and size % grid == 0)):
            grid = math.lcm(grid, width)
    return grid


def _offsets(sizes: list[int], grid: int) -> tuple[list[int], int]:
    """Where each parameter begins, and where the last one ends.

    Each begins on the grid. What one leaves of a cell of it goes to the end of another before that other's start, and
    to small parameters.
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
    """The units that a tensor rank has of dense tensors, or a rank that cuts experts has of these."""
    groups = [group for group in inventory if bool(group.experts) == of_experts]
    for is_trained in (True, False):
        some = [group for group in groups if group.is_trained == is_trained]
        held_by = [frozenset(group.layers) for group in some]
        units = Counter(
            tuple(number for number, layers in enumerate(held_by) if layer in layers)
            for layer in frozenset[int]().union(*held_by)
        )
        for numbers, count in units.items():
            in_layer = [some[number] for number in numbers]
            yield Unit(tuple(_parameters(in_layer, parallelism, rank=rank)), count, is_trained)
        outside = [group for group in some if group.placement != "layers"]
        for parameters in _in_buckets(_parameters(outside, parallelism, rank=rank)):
            yield Unit(parameters, 1, is_trained)


def _in_buckets(parameters: Iterable[Parameter]) -> Iterator[tuple[Parameter, ...]]:
    bucket: list[Parameter] = []
    for parameter in parameters:
        bucket.append(parameter)
        if sum(each.size for each in bucket) >= MAX_OUTSIDE_VALUES:
            yield tuple(bucket)
            bucket = []
    if bucket:
        yield tuple(bucket)


@dataclass(frozen=True, slots=True)
class _Held:
    """`count` equal tensors of a unit on a rank, which saves them or leaves that to another."""

    name: str
    size: int
    width: int
    count: int
    is_saved: bool

    def saved(self, count: int) -> tuple[int, ...]:
        """The values that the rank saves of so many of them."""
        return (self.size,) * count if self.is_saved else ()


def _parameters(groups: Iterable[TensorGroup], parallelism: Parallelism, *, rank: int) -> Iterator[Parameter]:
    held = [_held(group, parallelism, rank=rank) for group in groups]
    downs = {each.name: each.count for each in held}
    while held:
        first = held.pop(0)
        other = next((each for each in held if each.name == fused_name(first.name)), None)
        if other is None:
            count = downs.get(narrowed_name(first.name), first.count)
            each = first.count // count
            parameter = Parameter(each * first.size, first.width, first.saved(each))
        else:
            held.remove(other)
            count, each = first.count, other.count // first.count
            saved = sum(first.saved(1)) + sum(other.saved(each))
            parameter = Parameter(first.size + each * other.size, first.width, (saved,) if saved else ())
        yield from (parameter for _ in range(count))


def _held(group: TensorGroup, parallelism: Parallelism, *, rank: int) -> _Held:
    num_ranks = parallelism.expert_tensor_degree if group.experts else parallelism.tensor
    shape = shard_of(Holding(group.shape, group.pieces, 1, group.cut), num_ranks=num_ranks, rank=rank).shape
    num_experts = group.experts // parallelism.expert if group.experts else 1
    is_saved = rank % max(1, num_ranks // group.pieces) == 0
    return _Held(group.name, math.prod(shape), math.prod(shape[1:]), group.count * num_experts, is_saved)
