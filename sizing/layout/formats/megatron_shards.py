"""The shards in which Megatron-LM saves a stage: parts of tensors on one tensor rank, or one rank of an expert."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sizing.layout.files import AssignedTensors, statistic_bytes
from sizing.layout.holders import Shard, shard_of
from sizing.layout.parallelism import Parallelism
from sizing.layout.stages import Holding, StageSpan
from sizing.state import StatePart
from sizing.state.optimizers import Moment

_FUSED = ("query", "key_value")
"""Projections that are one tensor, also of biases. Source: Megatron-LM, core/transformer/attention.py, linear_qkv."""
_GATED = (".up", ".down")
"""Suffixes of up- and down-projections. Gate and up-projection are one parameter, saved as two tensors. Source:
Megatron-LM, core/transformer/mlp.py, linear_fc1.
"""


@dataclass(frozen=True, slots=True)
class WholeShards:
    """`count` equal shards, each assigned whole: a statistic of a part, kept of the tensors in `shards`.

    `num_bytes` is the size of one of them.
    """

    part: StatePart
    moment: Moment
    shards: tuple[Shard, ...]
    count: int
    num_bytes: int
    is_expert: bool

    def some(self, count: int) -> Iterator[AssignedTensors]:
        """Yield the tensors of `count` of these shards."""
        for shard in self.shards:
            yield AssignedTensors(self.part, self.moment, shard.counted(count * shard.count))


def whole_shards(
    shards: Iterable[Shard], parts: tuple[StatePart, ...], *, is_expert: bool = False
) -> tuple[WholeShards, ...]:
    """List what the parts keep of some shards, in the order of assignment: the largest first."""
    kept = [
        each for together in _together(shards) for part in parts for each in _keep(part, together, is_expert=is_expert)
    ]
    return tuple(sorted(kept, key=lambda each: -each.num_bytes))


def num_whole_shards(shards: Iterable[Shard], parts: tuple[StatePart, ...]) -> int:
    """Count the `whole_shards`, without making them.

    Source: as `whole_shards`.

    >>> matrix = Shard((8, 4), count=3, role="hidden-matrix", is_trained=True)
    >>> num_whole_shards([matrix], (StatePart("weights", "bf16"), StatePart("master", "fp32")))
    6
    """
    return sum(each.count for together in _together(shards) for part in parts for each in _keep(part, together))


def num_parameters_of(shards: Iterable[Shard]) -> int:
    """Count Megatron's parameters for some shards: queries, keys and values are one, as are gate and up.

    Source: as `_FUSED` and `_GATED`.

    >>> up = Shard((8, 4), count=6, role="hidden-matrix", is_trained=True, name="ffn.up")
    >>> num_parameters_of([up, Shard((4, 8), count=3, role="hidden-matrix", is_trained=True, name="ffn.down")])
    6
    """
    counts = Counter[str]()
    for together, count in _together(shards):
        counts[together[0].name] += count
    return sum(counts[narrowed_name(name)] or count for name, count in counts.items())


@functools.lru_cache(maxsize=1024)
def fused_name(name: str) -> str:
    """Return the name of keys and values that are one tensor with these queries; empty for latent attention.

    Source: as `_FUSED`; Megatron-LM, core/transformer/multi_latent_attention.py, for latent ones.

    >>> fused_name("attention.query.bias"), fused_name("attention.query_down")
    ('attention.key_value.bias', '')
    """
    query, key_value = _FUSED
    parts = name.split(".")
    return ".".join(key_value if part == query else part for part in parts) if query in parts else ""


def narrowed_name(name: str) -> str:
    """Return the name of the down-projection of an up-projection; each has one parameter of gate and up.

    Source: as `_GATED`.

    >>> narrowed_name("expert.up")
    'expert.down'
    """
    up, down = _GATED
    return name.replace(up, down) if up in name else ""


def main_dense_shards(span: StageSpan, parallelism: Parallelism, tensor_rank: int) -> list[Shard]:
    """List the dense shards of a tensor rank that no tensor rank before it holds and no other stage counts."""
    held = (h for h in span.holdings if not h.experts and not h.is_copy and not h.is_spread)
    return list(_main(held, num_ranks=parallelism.tensor, rank=tensor_rank))


def main_expert_shards(span: StageSpan, parallelism: Parallelism, rank_of_expert: int) -> list[Shard]:
    """List the shards of experts on one of the ranks that cut them; each counts on one rank."""
    return [
        shard.counted(shard.count * h.experts // parallelism.expert)
        for h in span.holdings
        if h.experts and not h.is_spread
        for shard in _main([h], num_ranks=parallelism.expert_tensor_degree, rank=rank_of_expert)
    ]


def _main(holdings: Iterable[Holding], *, num_ranks: int, rank: int) -> Iterator[Shard]:
    """List the shards that a rank saves: if several ranks hold the same pieces, the first of them saves."""
    for h in holdings:
        if rank % max(1, num_ranks // h.pieces) == 0:
            yield shard_of(h, num_ranks=num_ranks, rank=rank)


def _together(shards: Iterable[Shard]) -> Iterator[tuple[tuple[Shard, ...], int]]:
    """Group shards that are one tensor in Megatron, each group with its count; skip shards without a value."""
    left = [shard for shard in shards if shard.parameters]
    numbers: dict[str, list[int]] = {}
    for number, shard in enumerate(left):
        numbers.setdefault(shard.name, []).append(number)
    fused = set[int]()
    for number, first in enumerate(left):
        if number in fused:
            continue
        later = (each for each in numbers.get(fused_name(first.name), ()) if each > number and each not in fused)
        other = next(
            (
                each
                for each in later
                if left[each].count % first.count == 0 and left[each].is_trained == first.is_trained
            ),
            None,
        )
        if other is None:
            yield (first.counted(1),), first.count
        else:
            fused.add(other)
            yield (first.counted(1), left[other].counted(left[other].count // first.count)), first.count


def _keep(
    part: StatePart, together: tuple[tuple[Shard, ...], int], *, is_expert: bool = False
) -> Iterator[WholeShards]:
    shards, count = together
    kept = part.of(is_trained=shards[0].is_trained)
    if kept is None:
        return
    for moment in kept.kept:
        num_bytes = sum(shard.count * statistic_bytes(kept, moment, shard) for shard in shards)
        if num_bytes:
            yield WholeShards(kept, moment, shards, count * moment.copies, num_bytes, is_expert)
