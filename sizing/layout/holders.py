"""Contents of one replica's model-parallel ranks, in classes of equal ranks, so that 100,000 GPUs cost what 8 do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from sizing.layout.parallelism import Parallelism
from sizing.layout.stages import Holding, StageSpan, share
from sizing.model.inventory import COPY, TensorRole
from sizing.state import StatePart
from sizing.state.saved_state import PartName


@dataclass(frozen=True, slots=True)
class Shard:
    """`count` equal parts of tensors, each of `shape`."""

    shape: tuple[int, ...]
    count: int
    role: TensorRole
    is_trained: bool
    name: str = "tensor"

    @property
    def parameters(self) -> int:
        """Number of parameters of all `count` parts."""
        return self.count * math.prod(self.shape)

    def counted(self, count: int) -> Shard:
        """Copy the shard with another count; `dataclasses.replace` takes three times as long, in thousands of calls."""
        return Shard(self.shape, count, self.role, self.is_trained, self.name)


def shard_of(holding: Holding, *, num_ranks: int, rank: int) -> Shard:
    """Cut a stage's tensors to the shard of tensor rank `rank` of `num_ranks`.

    With p pieces and t ranks, rank r holds floor(p/t) pieces, plus one if r < p mod t. If p < t, each piece is on t/p
    ranks (the whole tensor on every rank for p = 1). Source: Shoeybi et al. 2019, arXiv 1909.08053, section 3;
    Megatron-LM, core/tensor_parallel/layers.py.

    >>> [shard_of(Holding((30,), pieces=3, count=2), num_ranks=2, rank=r).parameters for r in (0, 1)]
    [40, 20]
    >>> shard_of(Holding((4, 30), pieces=3, count=1, cut=1), num_ranks=3, rank=0).shape
    (4, 10)
    """
    pieces = max(1, share(holding.pieces, num_ranks, rank))
    cut = holding.shape[holding.cut] // holding.pieces * pieces
    shape = (*holding.shape[: holding.cut], cut, *holding.shape[holding.cut + 1 :])
    return Shard(shape, holding.count, holding.role, holding.is_trained, holding.name)


@dataclass(frozen=True, slots=True)
class Content:
    """Number of parameters, and the bytes and tensors that each part of the state keeps of them.

    `frozen_matrix_parameters` are those of matrices of layers that are not trained, `copied_parameters` those of copies
    that are trained whole beside adapters. `statistics_bytes` are those of the optimizer's statistics that training
    keeps, where they follow from shapes. `fullest` is what the fullest of the ranks has over which FSDP cuts these
    tensors by rows; without it, ranks that divide them have equal shares.
    """

    parameters: int
    trained_parameters: int
    part_bytes: dict[PartName, int]
    part_tensors: dict[PartName, int]
    frozen_matrix_parameters: int = 0
    copied_parameters: int = 0
    statistics_bytes: int = 0
    fullest: Content | None = None

    def share_of_fullest(self, num_ranks: int) -> float:
        """Return what the fullest of the ranks that divide the content has, as a fraction of it; 1 / ranks if equal."""
        if self.fullest is None or num_ranks == 1 or not self.parameters:
            return 1 / num_ranks
        return self.fullest.parameters / self.parameters

    def of(self, names: Iterable[PartName]) -> dict[PartName, int]:
        """Return the bytes of some of the parts, by name."""
        return {name: self.part_bytes[name] for name in names if name in self.part_bytes}

    def num_tensors(self, names: Iterable[PartName] | None = None) -> int:
        """Count the tensors of some of the parts, or of all."""
        return sum(self.part_tensors.get(name, 0) for name in names or self.part_tensors)


def content_of(shards: Iterable[Shard], parts: tuple[StatePart, ...]) -> Content:
    """Sum up the content of some shards; those without a parameter do not count."""
    held = [shard for shard in shards if shard.parameters]
    trained, frozen = ([shard for shard in held if shard.is_trained == is_trained] for is_trained in (True, False))
    copies = [shard for shard in trained if shard.name.endswith(COPY)]
    if copies:
        trained = [shard for shard in trained if not shard.name.endswith(COPY)]
    kinds = (trained, copies, frozen)
    num_trained, num_copied, num_frozen = (sum(shard.parameters for shard in kind) for kind in kinds)
    part_bytes, part_tensors = {}, {}
    for part in parts:
        kept = [
            (part.of_trained, trained, num_trained * part.is_kept_of_trained),
            (part.of_copies, copies, num_copied * part.is_kept_of_trained),
            (part.of_frozen, frozen, num_frozen * part.is_kept_of_frozen),
        ]
        part_bytes[part.name] = sum(
            number * of_kind.bytes_per_parameter
            if of_kind.bytes_per_parameter is not None
            else sum(shard.count * of_kind.tensor_bytes(shard.shape, role=shard.role) for shard in some)
            for of_kind, some, number in kept
            if number
        )
        part_tensors[part.name] = part.num_statistics * sum(
            shard.count for _, some, number in kept if number for shard in some
        )
    num_matrix = sum(shard.parameters for shard in frozen if shard.role == "hidden-matrix")
    num_trained += num_copied
    return Content(num_trained + num_frozen, num_trained, part_bytes, part_tensors, num_matrix, num_copied)


Shards = tuple[list[Shard], list[Shard]]
"""Shards of dense tensors, and of routed experts."""


@dataclass(frozen=True, slots=True)
class HolderClass:
    """Tensor ranks, on the stages of a span, that hold shards of equal shapes.

    `dense` is the content of each tensor rank without routed experts, `expert` that of routed experts on each expert
    rank.
    """

    span: StageSpan
    tensor_ranks: range
    dense: Content
    expert: Content

    @property
    def num_ranks(self) -> int:
        """Number of tensor ranks of the class over all its stages."""
        return len(self.span.stages) * len(self.tensor_ranks)


def holder_classes(
    spans: Iterable[StageSpan], parallelism: Parallelism, parts: tuple[StatePart, ...]
) -> tuple[HolderClass, ...]:
    """Group the ranks of one replica into classes, in stage order.

    Routed experts are assigned whole over the expert degree, and each is cut like dense tensors, by the expert tensor
    degree. Ranks with one number in both cuts make a class.
    """
    tensor, expert_tensor = parallelism.tensor, parallelism.expert_tensor_degree
    classes = []
    for span in spans:
        dense = [h for h in span.holdings if not h.experts]
        experts = [h for h in span.holdings if h.experts]
        edges = _edges(dense, tensor) | (_edges(experts, tensor) if expert_tensor == tensor else set())
        for first, past in pairwise(sorted(edges)):
            of_dense, of_experts = rank_shards(span, parallelism, first)
            content = content_of(of_dense, parts), content_of(of_experts, parts)
            classes.append(HolderClass(span, range(first, past), *content))
    return tuple(classes)


def unique_content(span: StageSpan, parallelism: Parallelism, parts: tuple[StatePart, ...]) -> tuple[Content, Content]:
    """Sum up the dense and the expert content of one stage of a span; each tensor counts once in the whole model."""
    dense, expert = unique_shards(span, parallelism)
    return content_of(dense, parts), content_of(expert, parts)


def unique_shards(span: StageSpan, parallelism: Parallelism) -> Shards:
    """List the different shards of one stage of a span, without those that another stage counts."""
    once = [holding for holding in span.holdings if not holding.is_copy]
    return (
        list(_whole((h for h in once if not h.experts), parallelism.tensor)),
        list(_whole((h for h in once if h.experts), parallelism.expert_tensor_degree)),
    )


def rank_shards(span: StageSpan, parallelism: Parallelism, tensor_rank: int) -> Shards:
    """List the shards of a tensor rank of a stage of a span; all its expert ranks hold equally many experts."""
    tensor, expert_tensor = parallelism.tensor, parallelism.expert_tensor_degree
    rank_of_expert = tensor_rank if expert_tensor == tensor else 0
    return (
        [shard_of(h, num_ranks=tensor, rank=tensor_rank) for h in span.holdings if not h.experts],
        [
            shard.counted(shard.count * h.num_experts_on(parallelism.expert))
            for h in span.holdings
            if h.experts
            for shard in [shard_of(h, num_ranks=expert_tensor, rank=rank_of_expert)]
        ],
    )


def _edges(holdings: list[Holding], num_ranks: int) -> set[int]:
    """Return the ranks at which the number of pieces changes, and both ends."""
    return {0, num_ranks, *(h.pieces % num_ranks for h in holdings if h.pieces >= num_ranks)}


def _whole(holdings: Iterable[Holding], num_ranks: int) -> Iterator[Shard]:
    """Yield every shard that `num_ranks` ranks cut the holdings into, each copy once."""
    for h in holdings:
        edges = sorted(_edges([h], num_ranks)) if h.pieces >= num_ranks else [0, h.pieces]
        for first, past in pairwise(edges):
            shard = shard_of(h, num_ranks=num_ranks, rank=first)
            yield shard.counted(shard.count * (past - first) * max(1, h.experts))
