"""Ranks in classes of equal holdings, each with its multiplicity: 100,000 GPUs cost what 8 do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from sizing.layout.stages import Holding, StageSpan, share


@dataclass(frozen=True, slots=True)
class HolderClass:
    """Ranks of one replica that hold tensors of equal shapes: `num_ranks` of them, `parameters` on each."""

    first_stage: int
    num_stages: int
    first_tensor_rank: int
    num_tensor_ranks: int
    num_layers: int
    parameters: int

    @property
    def num_ranks(self) -> int:
        """Ranks of the class in one replica."""
        return self.num_stages * self.num_tensor_ranks


def holder_classes(spans: tuple[StageSpan, ...], *, tensor: int) -> tuple[HolderClass, ...]:
    """The model-parallel ranks of one replica, in stage order, equal ones together."""
    return tuple(holder for span in spans for holder in _classes_of(span, tensor))


def held_parameters(holding: Holding, *, tensor: int, rank: int) -> int:
    """Parameters that tensor rank `rank` of `tensor` holds of a stage's tensors.

    With p pieces and t ranks: rank r holds floor(p/t) pieces, plus one where r < p mod t; where p < t,
    each piece stands on t/p ranks (the whole tensor on every rank for p = 1).
    Source: Shoeybi et al. 2019, arXiv 1909.08053, section 3; Megatron-LM, core/tensor_parallel/layers.py.

    >>> [held_parameters(Holding(parameters=30, pieces=3, count=2), tensor=2, rank=r) for r in (0, 1)]
    [40, 20]
    >>> held_parameters(Holding(parameters=30, pieces=1, count=1), tensor=8, rank=7)
    30
    """
    pieces = max(1, share(holding.pieces, tensor, rank))
    return holding.count * pieces * (holding.parameters // holding.pieces)


def _classes_of(span: StageSpan, tensor: int) -> Iterator[HolderClass]:
    edges = {0, tensor, *(h.pieces % tensor for h in span.holdings if h.pieces >= tensor)}
    for first, past in pairwise(sorted(edges)):
        parameters = sum(held_parameters(h, tensor=tensor, rank=first) for h in span.holdings)
        yield HolderClass(span.first, span.num_stages, first, past - first, span.num_layers, parameters)
