"""Pipeline stages in spans of equal stages, so that a thousand stages cost what three do."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sizing.layout.parallelism import Parallelism
from sizing.model.inventory import Inventory, TensorGroup, layers_between


@dataclass(frozen=True, slots=True)
class Holding:
    """`count` equal tensors on a stage (for each of `experts`, if any), as in their TensorGroup.

    `is_copy`: another stage holds the same tensors and counts them.
    """

    shape: tuple[int, ...]
    pieces: int
    count: int
    cut: int = 0
    experts: int = 0
    is_hidden_matrix: bool = False
    is_trained: bool = True
    is_copy: bool = False
    name: str = "tensor"


@dataclass(frozen=True, slots=True)
class StageSpan:
    """Consecutive stages that hold tensors of the same shapes.

    `layers` are those of the first of them, `expert_layers` those with routed experts; multi-token-prediction
    modules count as layers after the last.
    """

    stages: range
    layers: range
    expert_layers: Sequence[int]
    holdings: tuple[Holding, ...]


def stage_spans(inventory: Inventory, parallelism: Parallelism, *, num_layers: int) -> tuple[StageSpan, ...]:
    """The stages of a pipeline, consecutive equal ones together.

    Where `layers_per_stage` is not given, the layers that do not divide evenly go one each to the first
    stages. `num_layers` is 0 where only a parameter count is known.
    """
    stages = _LayerSplit(parallelism.pipeline, num_layers, parallelism.layers_per_stage)
    return tuple(_span(inventory, stages, first, past) for first, past in pairwise(_edges(inventory, stages)))


def share(whole: int, num_parts: int, index: int) -> int:
    """What part `index` gets when `whole` is dealt out evenly and the first parts take the remainder.

    floor(w / n) + (i < w mod n).
    Source: MLPerf Storage, DLIO checkpointing, for layers over stages; torch.tensor_split for the rest.

    >>> [share(126, 16, stage) for stage in (0, 13, 14, 15)]
    [8, 8, 7, 7]
    """
    return whole // num_parts + (index < whole % num_parts)


@dataclass(frozen=True, slots=True)
class _LayerSplit:
    """Which layers stand on which of `count` stages."""

    count: int
    num_layers: int
    given: tuple[int, ...] | None

    def layers_on(self, stage: int) -> range:
        """The layers of a stage."""
        if self.given is not None:
            first = sum(self.given[:stage])
            return range(first, first + self.given[stage])
        first = stage * (self.num_layers // self.count) + min(stage, self.num_layers % self.count)
        return range(first, first + share(self.num_layers, self.count, stage))

    def stage_of(self, layer: int) -> int:
        """The stage that holds a layer."""
        return bisect_right(range(self.count), layer, key=lambda stage: self.layers_on(stage).start) - 1

    def edges(self) -> Iterable[int]:
        """Stages at which the number of layers changes."""
        if self.given is None:
            return [self.num_layers % self.count]
        return [i + 1 for i, (left, right) in enumerate(pairwise(self.given)) if left != right]


def _edges(inventory: Inventory, stages: _LayerSplit) -> list[int]:
    """The first stage of every span, and the number of stages."""
    edges = {0, 1, stages.count - 1, stages.count, *stages.edges()}
    for group in inventory:
        if group.placement == "spread":
            edges.add(group.tensor_parameters % stages.count)
    for layers in {group.layers for group in inventory if group.layers}:
        edges |= _edges_of_run(layers, stages) if _is_run(layers) else _edges_of_pattern(layers, stages)
    return sorted(edges)


def _is_run(layers: Sequence[int]) -> bool:
    return layers[-1] - layers[0] == len(layers) - 1


def _edges_of_run(layers: Sequence[int], stages: _LayerSplit) -> set[int]:
    """Both ends of consecutive layers stand on stages of their own."""
    ends = (stages.stage_of(layer) for layer in {layers[0], layers[-1] + 1} - {0, stages.num_layers})
    return {edge for stage in ends for edge in (stage, stage + 1)}


def _edges_of_pattern(layers: Sequence[int], stages: _LayerSplit) -> set[int]:
    """Stages that differ from the one before in which of their layers belong to a pattern."""
    chunks = [stages.layers_on(stage) for stage in range(stages.count)]
    patterns = [[layer - chunk.start for layer in layers_between(layers, chunk.start, chunk.stop)] for chunk in chunks]
    return {stage + 1 for stage, (left, right) in enumerate(pairwise(patterns)) if left != right}


def _span(inventory: Inventory, stages: _LayerSplit, first: int, past: int) -> StageSpan:
    layers = stages.layers_on(first)
    holdings = tuple(
        holding for group in inventory for holding in _held(group, stage=first, num_stages=stages.count, layers=layers)
    )
    return StageSpan(range(first, past), layers, _expert_layers(inventory, stages, first, layers), holdings)


def _expert_layers(inventory: Inventory, stages: _LayerSplit, stage: int, layers: range) -> Sequence[int]:
    """The layers of a stage that hold routed experts; where only counts are known, the stage is one."""
    routed = [group for group in inventory if group.experts]
    if any(group.placement == "spread" for group in routed):
        return range(1)
    in_layers = {group.layers for group in routed if group.placement == "layers"}
    held = [layers_between(each, layers.start, layers.stop) for each in in_layers]
    found = held[0] if len(held) == 1 else sorted({layer for each in held for layer in each})
    num_modules = min((group.count for group in routed if group.placement == "last-stage"), default=0)
    if not num_modules or stage < stages.count - 1:
        return found
    return (*found, *range(layers.stop, layers.stop + num_modules))


def _held(group: TensorGroup, *, stage: int, num_stages: int, layers: range) -> Iterator[Holding]:
    """What a stage holds of a group: nothing, or one Holding."""
    is_first, is_last = stage == 0, stage == num_stages - 1
    shape, pieces, count, is_copy = group.shape, group.pieces, group.count, False
    match group.placement:
        case "layers":
            count *= len(layers_between(group.layers, layers.start, layers.stop))
        case "first-stage":
            count *= is_first
        case "last-stage":
            count *= is_last
        case "first-and-last-stage":
            count *= is_first or is_last
            is_copy = not is_first
        case "spread":
            pieces = share(group.tensor_parameters, num_stages, stage)
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
            group.name,
        )
