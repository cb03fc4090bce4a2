"""What one rank holds of the tensors of its stage, and the bytes of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from sizing.layout.stages import Holding, share
from sizing.state import StatePart
from sizing.state.saved_state import PartName


@dataclass(frozen=True, slots=True)
class Shard:
    """`count` equal parts of tensors, each of `shape`."""

    shape: tuple[int, ...]
    count: int
    is_hidden_matrix: bool
    is_trained: bool
    name: str = "tensor"

    @property
    def parameters(self) -> int:
        """Parameters of all of them."""
        return self.count * math.prod(self.shape)

    def counted(self, count: int) -> Shard:
        """So many of them; `dataclasses.replace` takes three times as long, and layouts ask thousands of times."""
        return Shard(self.shape, count, self.is_hidden_matrix, self.is_trained, self.name)


def shard_of(holding: Holding, *, num_ranks: int, rank: int) -> Shard:
    """What tensor rank `rank` of `num_ranks` holds of a stage's tensors.

    With p pieces and t ranks: rank r holds floor(p/t) pieces, plus one where r < p mod t; where p < t, each
    piece stands on t/p ranks (the whole tensor on every rank for p = 1).
    Source: Shoeybi et al. 2019, arXiv 1909.08053, section 3; Megatron-LM, core/tensor_parallel/layers.py.

    >>> [shard_of(Holding((30,), pieces=3, count=2), num_ranks=2, rank=r).parameters for r in (0, 1)]
    [40, 20]
    >>> shard_of(Holding((4, 30), pieces=3, count=1, cut=1), num_ranks=3, rank=0).shape
    (4, 10)
    """
    pieces = max(1, share(holding.pieces, num_ranks, rank))
    cut = holding.shape[holding.cut] // holding.pieces * pieces
    shape = (*holding.shape[: holding.cut], cut, *holding.shape[holding.cut + 1 :])
    return Shard(shape, holding.count, holding.is_hidden_matrix, holding.is_trained, holding.name)


@dataclass(frozen=True, slots=True)
class Content:
    """Parameters, and the bytes and tensors that each part of the state keeps of them."""

    parameters: int
    trained_parameters: int
    part_bytes: dict[PartName, int]
    part_tensors: dict[PartName, int]

    def of(self, names: Iterable[PartName]) -> dict[PartName, int]:
        """The bytes of some of the parts."""
        return {name: self.part_bytes[name] for name in names if name in self.part_bytes}

    def num_tensors(self, names: Iterable[PartName] | None = None) -> int:
        """The tensors of some of the parts, or of all."""
        return sum(self.part_tensors.get(name, 0) for name in names or self.part_tensors)


def content_of(shards: Iterable[Shard], parts: tuple[StatePart, ...]) -> Content:
    """The content of some shards; those without a parameter do not count."""
    held = [shard for shard in shards if shard.parameters]
    trained, frozen = ([shard for shard in held if shard.is_trained == is_trained] for is_trained in (True, False))
    num_trained, num_frozen = (sum(shard.parameters for shard in some) for some in (trained, frozen))
    part_bytes, part_tensors = {}, {}
    for part in parts:
        kept = trained * part.is_kept_of_trained + frozen * part.is_kept_of_frozen
        num_kept = num_trained * part.is_kept_of_trained + num_frozen * part.is_kept_of_frozen
        part_bytes[part.name] = _part_bytes(part, kept, num_kept)
        part_tensors[part.name] = part.num_statistics * sum(shard.count for shard in kept)
    return Content(num_trained + num_frozen, num_trained, part_bytes, part_tensors)


def _part_bytes(part: StatePart, shards: list[Shard], parameters: int) -> int:
    per_parameter = part.bytes_per_parameter
    if per_parameter is not None:
        return parameters * per_parameter
    return sum(
        shard.count * part.tensor_bytes(shard.shape, is_hidden_matrix=shard.is_hidden_matrix) for shard in shards
    )
