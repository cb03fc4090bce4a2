"""Pipeline stages in spans of equal stages, so that a thousand stages cost what three do."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sizing.layout.chunks import LayerSplit
from sizing.layout.parallelism import Parallelism
from sizing.model.inventory import Inventory, TensorGroup, layers_between

SPANS_KEPT = 8
"""Of the last models and splits: a few, as those of a thousand unlike stages are large."""


@dataclass(frozen=True, slots=True)
class Holding:
    """`count` equal tensors on a stage (for each of `experts`, if any), as in their TensorGroup.

    `is_copy`: another stage holds the same tensors and counts them. `is_spread`: parameters of a bare count, of which
    nobody knows the tensors. `is_in_layers`: it belongs to layers, not to what stands before or behind them.
    """

    shape: tuple[int, ...]
    pieces: int
    count: int
    cut: int = 0
    experts: int = 0
    is_hidden_matrix: bool = False
    is_trained: bool = True
    is_copy: bool = False
    is_spread: bool = False
    name: str = "tensor"
    is_in_layers: bool = True


@dataclass(frozen=True, slots=True)
class StageSpan:
    """Consecutive stages that hold tensors of the same shapes.

    `chunks` are the layers of the first of them, one range for each virtual stage; `expert_layers` those with routed
    experts; multi-token-prediction modules count as layers after the last. `has_head`: what follows the last layer
    stands there too.
    """

    stages: range
    chunks: tuple[range, ...]
    expert_layers: Sequence[int]
    holdings: tuple[Holding, ...]
    has_head: bool = False

    @property
    def layers(self) -> range:
        """The layers of a stage of one chunk, for formats of frameworks without virtual stages."""
        return self.chunks[0]

    @property
    def num_layers(self) -> int:
        """Layers of a stage, over all its chunks."""
        return sum(map(len, self.chunks))


def stage_spans(
    inventory: Inventory, parallelism: Parallelism, *, num_layers: int, is_folded: bool = False
) -> tuple[StageSpan, ...]:
    """The stages of a pipeline, consecutive equal ones together.

    `num_layers` is 0 where only a parameter count is known; `is_folded` as LayerSplit has it.
    """
    return _spans(inventory, LayerSplit.of(parallelism, num_layers, is_folded=is_folded))


@functools.lru_cache(maxsize=SPANS_KEPT)
def _spans(inventory: Inventory, split: LayerSplit) -> tuple[StageSpan, ...]:
    """Whatever the other degrees: alternatives of a layout hardly ever split it otherwise."""
    return tuple(_span(inventory, split, first, past) for first, past in pairwise(_edges(inventory, split)))


def num_unlike_stages(inventory: Inventory, parallelism: Parallelism, *, num_layers: int) -> int:
    """How many spans `stage_spans` has, without what they hold.

    Source: definition.

    >>> model = (TensorGroup("up", (6, 2), 6, layers=range(10)), TensorGroup("head", (9, 2), 9, "last-stage"))
    >>> num_unlike_stages(model, Parallelism(pipeline=5), num_layers=10)
    3
    """
    return len(_edges(inventory, LayerSplit.of(parallelism, num_layers))) - 1


def share(whole: int, num_parts: int, index: int) -> int:
    """What part `index` gets when `whole` is dealt out evenly and the first parts take the remainder.

    floor(w / n) + (i < w mod n).
    Source: MLPerf Storage, DLIO checkpointing, for layers over stages; torch.tensor_split for the rest.

    >>> [share(126, 16, stage) for stage in (0, 13, 14, 15)]
    [8, 8, 7, 7]
    """
    return whole // num_parts + (index < whole % num_parts)


def _edges(inventory: Inventory, split: LayerSplit) -> list[int]:
    """The first stage of every span, and the number of stages.

    A stage is like the one before where each of its chunks is like the chunk before.
    """
    count = split.num_stages
    edges = {0, 1, count - 1, count}
    for group in inventory:
        if group.placement == "spread":
            edges.add(group.tensor_parameters % count)
    chunks = split.unlike_chunks()
    for layers in {group.layers for group in inventory if group.layers}:
        chunks |= _edges_of_run(layers, split) if _is_run(layers) else _edges_of_pattern(layers, split)
    return sorted(edges | split.unlike_stages(chunks))


def _is_run(layers: Sequence[int]) -> bool:
    return layers[-1] - layers[0] == len(layers) - 1


def _edges_of_run(layers: Sequence[int], split: LayerSplit) -> set[int]:
    """Both ends of consecutive layers stand in chunks of their own."""
    ends = (split.chunk_of(layer) for layer in {layers[0], layers[-1] + 1} - {0, split.num_layers})
    return {edge for chunk in ends for edge in (chunk, chunk + 1)}


def _edges_of_pattern(layers: Sequence[int], split: LayerSplit) -> set[int]:
    """Chunks that differ from the one before in which of their layers belong to a pattern."""
    chunks = [split.layers_in(chunk) for chunk in range(split.num_chunks)]
    patterns = [[layer - chunk.start for layer in layers_between(layers, chunk.start, chunk.stop)] for chunk in chunks]
    return {chunk + 1 for chunk, (left, right) in enumerate(pairwise(patterns)) if left != right}


def _span(inventory: Inventory, split: LayerSplit, first: int, past: int) -> StageSpan:
    chunks = split.chunks_on(first)
    held = {layers: _num_among(layers, chunks) for layers in {group.layers for group in inventory}}
    holdings = tuple(
        holding for group in inventory for holding in _held(group, split, stage=first, num_layers=held[group.layers])
    )
    expert_layers = _expert_layers(inventory, split, first, chunks)
    return StageSpan(range(first, past), chunks, expert_layers, holdings, has_head=first == split.last_stage)


def _num_among(layers: Sequence[int], chunks: tuple[range, ...]) -> int:
    """How many of some sorted layers stand in some chunks."""
    return sum(len(layers_between(layers, chunk.start, chunk.stop)) for chunk in chunks)


def _expert_layers(inventory: Inventory, split: LayerSplit, stage: int, chunks: tuple[range, ...]) -> Sequence[int]:
    """The layers of a stage that hold routed experts; where only counts are known, the stage is one."""
    routed = [group for group in inventory if group.experts]
    if any(group.placement == "spread" for group in routed):
        return range(1)
    in_layers = {group.layers for group in routed if group.placement == "layers"}
    held = [layers_between(each, chunk.start, chunk.stop) for each in in_layers for chunk in chunks]
    found = held[0] if len(held) == 1 else sorted({layer for each in held for layer in each})
    num_modules = min((group.count for group in routed if group.placement == "last-stage"), default=0)
    if not num_modules or stage != split.last_stage:
        return found
    past = chunks[-1].stop
    return (*found, *range(past, past + num_modules))


def _held(group: TensorGroup, split: LayerSplit, *, stage: int, num_layers: int) -> Iterator[Holding]:
    """What a stage with so many of a group's layers holds of it: nothing, or one Holding."""
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
            group.is_hidden_matrix,
            group.is_trained,
            is_copy,
            group.placement == "spread",
            group.name,
            group.placement == "layers",
        )
