"""Pipeline stages in spans of equal stages, so that a thousand stages cost what three do."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from sizing.layout.parallelism import Parallelism
from sizing.model.inventory import Inventory, TensorGroup


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
    expert_layers: range
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
        for layer in {group.layers.start, group.layers.stop} - {0, stages.num_layers}:
            edges |= {stages.stage_of(layer), stages.stage_of(layer) + 1}
    return sorted(edges)


def _span(inventory: Inventory, stages: _LayerSplit, first: int, past: int) -> StageSpan:
    layers = stages.layers_on(first)
    holdings = tuple(
        holding for group in inventory for holding in _held(group, stage=first, num_stages=stages.count, layers=layers)
    )
    return StageSpan(range(first, past), layers, _expert_layers(inventory, stages, first, layers), holdings)


def _expert_layers(inventory: Inventory, stages: _LayerSplit, stage: int, layers: range) -> range:
    """The layers of a stage that hold routed experts; they are its last ones."""
    routed = [group for group in inventory if group.experts]
    first = min((group.layers.start for group in routed if group.placement == "layers"), default=layers.stop)
    num_modules = min((group.count for group in routed if group.placement == "last-stage"), default=0)
    past = layers.stop + (num_modules if stage == stages.count - 1 else 0)
    return range(max(layers.start, min(first, layers.stop)), past) if routed else range(layers.stop, layers.stop)


def _held(group: TensorGroup, *, stage: int, num_stages: int, layers: range) -> Iterator[Holding]:
    """What a stage holds of a group: nothing, or one Holding."""
    is_first, is_last = stage == 0, stage == num_stages - 1
    shape, pieces, count, is_copy = group.shape, group.pieces, group.count, False
    match group.placement:
        case "layers":
            common = range(max(layers.start, group.layers.start), min(layers.stop, group.layers.stop))
            count *= len(common)
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
