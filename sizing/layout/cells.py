"""The model-parallel ranks of one replica, equal ones together: 100,000 GPUs cost what 8 do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from sizing.layout.parallelism import Parallelism
from sizing.layout.shards import Content, Shard, content_of, shard_of
from sizing.layout.stages import Holding, StageSpan
from sizing.state import StatePart

Shards = tuple[list[Shard], list[Shard]]
"""Of dense tensors, and of routed experts."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Tensor ranks, of the stages of a span, that hold shards of equal shapes.

    `dense` is what each of them holds beside routed experts, `expert` what each expert rank holds of those.
    """

    span: StageSpan
    tensor_ranks: range
    dense: Content
    expert: Content

    @property
    def num_ranks(self) -> int:
        """Tensor ranks of the cell over all its stages."""
        return len(self.span.stages) * len(self.tensor_ranks)


def cells_of(spans: Iterable[StageSpan], parallelism: Parallelism, parts: tuple[StatePart, ...]) -> tuple[Cell, ...]:
    """The ranks of one replica, in stage order.

    Routed experts are dealt out whole over the expert degree, and each is cut as the dense tensors are, by the
    expert tensor degree. Ranks of one number in both cuts make a cell.
    """
    return tuple(cell for span in spans for cell in _cells_of(span, parallelism, parts))


def unique_content(span: StageSpan, parallelism: Parallelism, parts: tuple[StatePart, ...]) -> tuple[Content, Content]:
    """What one stage of a span holds, dense and of experts, counting each tensor once in the whole model."""
    dense, expert = unique_shards(span, parallelism)
    return content_of(dense, parts), content_of(expert, parts)


def unique_shards(span: StageSpan, parallelism: Parallelism) -> Shards:
    """The different shards of one stage of a span, those counted on another stage left out."""
    once = [holding for holding in span.holdings if not holding.is_copy]
    return (
        list(_whole((h for h in once if not h.experts), parallelism.tensor)),
        list(_whole((h for h in once if h.experts), parallelism.expert_tensor_degree)),
    )


def rank_shards(span: StageSpan, parallelism: Parallelism, tensor_rank: int) -> Shards:
    """What a tensor rank of a stage of a span holds: each of its expert ranks the same number of experts."""
    tensor, expert_tensor = parallelism.tensor, parallelism.expert_tensor_degree
    rank_of_expert = tensor_rank if expert_tensor == tensor else 0
    return (
        [shard_of(h, num_ranks=tensor, rank=tensor_rank) for h in span.holdings if not h.experts],
        [
            _of_experts(h, shard_of(h, num_ranks=expert_tensor, rank=rank_of_expert), parallelism)
            for h in span.holdings
            if h.experts
        ],
    )


def _cells_of(span: StageSpan, parallelism: Parallelism, parts: tuple[StatePart, ...]) -> Iterator[Cell]:
    tensor, expert_tensor = parallelism.tensor, parallelism.expert_tensor_degree
    dense = [h for h in span.holdings if not h.experts]
    experts = [h for h in span.holdings if h.experts]
    edges = _edges(dense, tensor) | (_edges(experts, tensor) if expert_tensor == tensor else set())
    for first, past in pairwise(sorted(edges)):
        of_dense, of_experts = rank_shards(span, parallelism, first)
        yield Cell(span, range(first, past), content_of(of_dense, parts), content_of(of_experts, parts))


def _edges(holdings: list[Holding], num_ranks: int) -> set[int]:
    """Ranks at which the number of pieces changes, and both ends."""
    return {0, num_ranks, *(h.pieces % num_ranks for h in holdings if h.pieces >= num_ranks)}


def _of_experts(holding: Holding, shard: Shard, parallelism: Parallelism) -> Shard:
    """A shard of every expert that one expert rank holds."""
    return shard.counted(shard.count * holding.experts // parallelism.expert)


def _whole(holdings: Iterable[Holding], num_ranks: int) -> Iterator[Shard]:
    """All different shards of the holdings: those of `num_ranks` ranks, each copy once."""
    for h in holdings:
        edges = sorted(_edges([h], num_ranks)) if h.pieces >= num_ranks else [0, h.pieces]
        for first, past in pairwise(edges):
            shard = shard_of(h, num_ranks=num_ranks, rank=first)
            yield shard.counted(shard.count * (past - first) * max(1, h.experts))
