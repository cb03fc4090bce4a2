"""The shards in which Megatron-LM saves a stage: what one tensor rank or one rank of an expert holds of each tensor."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sizing.layout.files import DealtTensors, statistic_bytes
from sizing.layout.parallelism import Parallelism
from sizing.layout.shards import Shard, shard_of
from sizing.layout.stages import Holding, StageSpan
from sizing.state import StatePart
from sizing.state.optimizers import Moment

_FUSED = ("query", "key_value")
"""Megatron-LM, core/transformer/attention.py, linear_qkv: one tensor, also of the biases."""
_GATED = (".up", ".down")
"""Megatron-LM, core/transformer/mlp.py, linear_fc1: gate and up-projection are one parameter, which is saved as two."""


@dataclass(frozen=True, slots=True)
class WholeShards:
    """`count` equal shards, each dealt whole: a statistic of a part, kept of the tensors in `shards`.

    `num_bytes`: of one of them.
    """

    part: StatePart
    moment: Moment
    shards: tuple[Shard, ...]
    count: int
    num_bytes: int
    is_expert: bool

    def some(self, count: int) -> Iterator[DealtTensors]:
        """So many of them."""
        for shard in self.shards:
            yield DealtTensors(self.part, self.moment, shard.counted(count * shard.count))


def whole_shards(
    shards: Iterable[Shard], parts: tuple[StatePart, ...], *, is_expert: bool = False
) -> tuple[WholeShards, ...]:
    """What the parts keep of some shards, in the order in which it is dealt: the largest first."""
    found = [
        each for together in _together(shards) for part in parts for each in _kept(part, together, is_expert=is_expert)
    ]
    return tuple(sorted(found, key=lambda each: -each.num_bytes))


def num_whole_shards(shards: Iterable[Shard], parts: tuple[StatePart, ...]) -> int:
    """How many there are of `whole_shards`.

    Source: as `whole_shards`.

    >>> matrix = Shard((8, 4), count=3, is_hidden_matrix=True, is_trained=True)
    >>> num_whole_shards([matrix], (StatePart("weights", "bf16"), StatePart("master", "fp32")))
    6
    """
    return sum(each.count for together in _together(shards) for part in parts for each in _kept(part, together))


def num_parameters_of(shards: Iterable[Shard]) -> int:
    """The parameters that Megatron has in place of some shards: queries, keys and values are one, as are gate and up.

    Source: as `_FUSED` and `_GATED`.

    >>> up = Shard((8, 4), count=6, is_hidden_matrix=True, is_trained=True, name="ffn.up")
    >>> num_parameters_of([up, Shard((4, 8), count=3, is_hidden_matrix=True, is_trained=True, name="ffn.down")])
    6
    """
    counts = Counter[str]()
    for together, count in _together(shards):
        counts[together[0].name] += count
    return sum(counts[narrowed_name(name)] or count for name, count in counts.items())


@functools.lru_cache(maxsize=1024)
def fused_name(name: str) -> str:
    """The keys and values that are one tensor with queries of that name; nothing is with latent ones.

    Source: as `_FUSED`; Megatron-LM, core/transformer/multi_latent_attention.py, for latent ones.

    >>> fused_name("attention.query.bias"), fused_name("attention.query_down")
    ('attention.key_value.bias', '')
    """
    query, key_value = _FUSED
    parts = name.split(".")
    return ".".join(key_value if part == query else part for part in parts) if query in parts else ""


def narrowed_name(name: str) -> str:
    """The down-projection of an up-projection of that name: for each there is one parameter of gate and up.

    Source: as `_GATED`.

    >>> narrowed_name("expert.up")
    'expert.down'
    """
    up, down = _GATED
    return name.replace(up, down) if up in name else ""


def main_dense_shards(span: StageSpan, parallelism: Parallelism, tensor_rank: int) -> list[Shard]:
    """The dense shards of a tensor rank of a stage that no tensor rank before it holds, nor another stage counts."""
    held = (h for h in span.holdings if not h.experts and not h.is_copy and not h.is_spread)
    return list(_main(held, num_ranks=parallelism.tensor, rank=tensor_rank))


def main_expert_shards(span: StageSpan, parallelism: Parallelism, rank_of_expert: int) -> list[Shard]:
    """The same of the experts on one of the ranks that cut them."""
    return [
        shard.counted(shard.count * h.experts // parallelism.expert)
        for h in span.holdings
        if h.experts and not h.is_spread
        for shard in _main([h], num_ranks=parallelism.expert_tensor_degree, rank=rank_of_expert)
    ]


def _main(holdings: Iterable[Holding], *, num_ranks: int, rank: int) -> Iterator[Shard]:
    """Of pieces that several ranks hold, the first of these saves."""
    for h in holdings:
        if rank % max(1, num_ranks // h.pieces) == 0:
            yield shard_of(h, num_ranks=num_ranks, rank=rank)


def _together(shards: Iterable[Shard]) -> Iterator[tuple[tuple[Shard, ...], int]]:
    """Shards that are one tensor in Megatron, and how many of it there are; shards without a value are none."""
    left = [shard for shard in shards if shard.parameters]
    while left:
        first = left.pop(0)
        other = next((shard for shard in left if _is_fused(first, shard)), None)
        if other is None:
            yield (first.counted(1),), first.count
            continue
        left.remove(other)
        yield (first.counted(1), other.counted(other.count // first.count)), first.count


def _is_fused(first: Shard, other: Shard) -> bool:
    is_pair = other.name == fused_name(first.name)
    return is_pair and other.count % first.count == 0 and other.is_trained == first.is_trained


def _kept(
    part: StatePart, together: tuple[tuple[Shard, ...], int], *, is_expert: bool = False
) -> Iterator[WholeShards]:
    shards, count = together
    if not part.is_kept_of(is_trained=shards[0].is_trained):
        return
    for moment in part.kept:
        num_bytes = sum(shard.count * statistic_bytes(part, moment, shard) for shard in shards)
        if num_bytes:
            yield WholeShards(part, moment, shards, count * moment.copies, num_bytes, is_expert)
