"""Pipeline stages in spans of equal stages, so that a thousand stages take no longer to compute than three."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sizing.layout.chunks import LayerSplit
from sizing.layout.parallelism import Parallelism
from sizing.model.inventory import Inventory, TensorGroup, TensorRole, layers_between

SPANS_KEPT = 8
"""Models and splits in the cache: only a few, as those of a thousand unlike stages are large."""


@dataclass(frozen=True, slots=True)
class Holding:
    """`count` equal tensors on a stage (for each of `experts`, if any), as in their TensorGroup.

    `is_copy`: another stage holds the same tensors and counts them. `is_spread`: parameters of a model of which only
    the count is known. `is_in_layers`: the tensors belong to layers, not to what comes before or after them.
    `is_shared`: as in the TensorGroup.
    """

    shape: tuple[int, ...]
    pieces: int
    count: int
    cut: int = 0
    experts: int = 0
    role: TensorRole = "other"
    is_trained: bool = True
    is_copy: bool = False
    is_spread: bool = False
    name: str = "tensor"
    is_in_layers: bool = True
    is_shared: bool = False

    def num_experts_on(self, num_ranks: int) -> int:
        """Count the tensors of a rank that has its part of the experts: one for each of them, or one for all."""
        return 1 if self.is_shared else self.experts // num_ranks


@dataclass(frozen=True, slots=True)
class StageSpan:
    """Consecutive stages that hold tensors of the same shapes.

    `chunks` are the layers of the first of these stages, one range for each virtual stage. `expert_layers` are those
    with routed experts; multi-token-prediction modules count as layers after the last. `has_head`: the stage also has
    the tensors after the last layer.
    """

    stages: range
    chunks: tuple[range, ...]
    expert_layers: Sequence[int]
    holdings: tuple[Holding, ...]
    has_head: bool = False

    @property
    def layers(self) -> range:
        """Layers of a stage with one chunk, for formats of frameworks without virtual stages."""
        return self.chunks[0]

    @property
    def num_layers(self) -> int:
        """Number of layers of a stage, over all its chunks."""
        return sum(map(len, self.chunks))


def stage_spans(
    inventory: Inventory, parallelism: Parallelism, *, num_layers: int, is_folded: bool = False
) -> tuple[StageSpan, ...]:
    """Group the stages of a pipeline into spans of consecutive equal stages.

    `num_layers` is 0 if only a parameter count is known. `is_folded` is that of LayerSplit.
    """
    return _spans(inventory, LayerSplit.of(parallelism, num_layers, is_folded=is_folded))


@functools.lru_cache(maxsize=SPANS_KEPT)
def _spans(inventory: Inventory, split: LayerSplit) -> tuple[StageSpan, ...]:
    """Group the stages of a split; the cache serves alternatives of a layout, which hardly ever split it otherwise."""
    return tuple(_span(inventory, split, first, past) for first, past in pairwise(_edges(inventory, split)))


def num_unlike_stages(inventory: Inventory, parallelism: Parallelism, *, num_layers: int) -> int:
    """Count the spans of `stage_spans`, without their tensors.

    Source: definition.

    >>> model = (TensorGroup("up", (6, 2), 6, layers=range(10)), TensorGroup("head", (9, 2), 9, "last-stage"))
    >>> num_unlike_stages(model, Parallelism(pipeline=5), num_layers=10)
    3
    """
    return len(_edges(inventory, LayerSplit.of(parallelism, num_layers))) - 1


def num_layers_in(chunks: Iterable[range], layers: Sequence[int]) -> int:
    """Count the layers of some chunks that are among given sorted layers.

    Source: definition.

    >>> num_layers_in([range(2), range(6, 8)], [1, 3, 6])
    2
    """
    return sum(len(layers_between(layers, chunk.start, chunk.stop)) for chunk in chunks)


def share(whole: int, num_parts: int, index: int) -> int:
    """Return the size of part `index` if `whole` is divided evenly and the first parts take the remainder.

    floor(w / n) + (i < w mod n).
    Source: MLPerf Storage, DLIO checkpointing, for layers over stages; torch.tensor_split for the rest.

    >>> [share(126, 16, stage) for stage in (0, 13, 14, 15)]
    [8, 8, 7, 7]
    """
    return whole // num_parts + (index < whole % num_parts)


def _edges(inventory: Inventory, split: LayerSplit) -> list[int]:
    """Return the first stage of every span, and the number of stages.

    A stage is like the one before if each of its chunks is like the chunk before.
    """
    count = split.num_stages
    edges = {0, 1, count - 1, count}
    for group in inventory:
        if group.placement == "spread":
            edges.add(group.tensor_parameters % count)
    chunks = split.unlike_chunks()
    for layers in {group.layers for group in inventory if group.layers}:
        if layers[-1] - layers[0] == len(layers) - 1:
            # Consecutive layers: other chunks than the one before are those where they begin or end, and the next.
            ends = (split.chunk_of(layer) for layer in {layers[0], layers[-1] + 1} - {0, split.num_layers})
            chunks |= {edge for chunk in ends for edge in (chunk, chunk + 1)}
        else:
            ranges = map(split.layers_in, range(split.num_chunks))
            patterns = [[layer - r.start for layer in layers_between(layers, r.start, r.stop)] for r in ranges]
            chunks |= {chunk + 1 for chunk, (left, right) in enumerate(pairwise(patterns)) if left != right}
    return sorted(edges | split.unlike_stages(chunks))


def _span(inventory: Inventory, split: LayerSplit, first: int, past: int) -> StageSpan:
    chunks = split.chunks_on(first)
    num_layers = {layers: num_layers_in(chunks, layers) for layers in {group.layers for group in inventory}}
    holdings = tuple(
        holding
        for group in inventory
        for holding in _hold(group, split, stage=first, num_layers=num_layers[group.layers])
    )
    expert_layers = _expert_layers(inventory, split, first, chunks)
    return StageSpan(range(first, past), chunks, expert_layers, holdings, has_head=first == split.last_stage)


def _expert_layers(inventory: Inventory, split: LayerSplit, stage: int, chunks: tuple[range, ...]) -> Sequence[int]:
    """List the layers of a stage with routed experts; if only counts are known, the stage counts as one layer."""
    routed = [group for group in inventory if group.experts]
    if any(group.placement == "spread" for group in routed):
        return range(1)
    in_layers = {group.layers for group in routed if group.placement == "layers"}
    by_chunk = [layers_between(each, chunk.start, chunk.stop) for each in in_layers for chunk in chunks]
    layers = by_chunk[0] if len(by_chunk) == 1 else sorted({layer for each in by_chunk for layer in each})
    num_modules = min((group.count for group in routed if group.placement == "last-stage"), default=0)
    if not num_modules or stage != split.last_stage:
        return layers
    past = chunks[-1].stop
    return (*layers, *range(past, past + num_modules))


def _hold(group: TensorGroup, split: LayerSplit, *, stage: int, num_layers: int) -> Iterator[Holding]:
    """Yield the Holding of a stage with this number of a group's layers, if it holds any of its tensors."""
    is_first, is_last = stage == 0, stage == split.last_stage
    shape, pieces, count, is_copy = group.shape, group.pieces, group.count, False
    match group.placement:
        case "layers":
            count *= num_layers
        case "first-stage":
            count *= is_first
        case "last-stage":
            count *= is_last
        case "first-and-last-stage":
            count *= is_first or is_last
            is_copy = not is_first
        case "spread":
            pieces = share(group.tensor_parameters, split.num_stages, stage)
            shape = (pieces,)
    if count and pieces:
        yield Holding(
            shape,
            pieces,
            count,
            group.cut,
            group.experts,
            group.role,
            group.is_trained,
            is_copy,
            group.placement == "spread",
            group.name,
            group.placement == "layers",
            group.is_shared,
        )
