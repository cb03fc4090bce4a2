"""What the ranks of a stage get where the shards of each tensor rank are dealt over its data and context ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sizing.layout.dealing import Counts, Deal, Sizes, deal, deal_to_equal, dealt_bytes, runs_of_equal
from sizing.layout.files import DealtTensors, File, PartBytes, Plan, WriterClass, shares
from sizing.layout.formats.megatron_shards import (
    WholeShards,
    main_dense_shards,
    main_expert_shards,
    num_parameters_of,
    num_whole_shards,
    whole_shards,
)
from sizing.layout.shards import Content, Shard, content_of, shard_of
from sizing.layout.stages import Holding, StageSpan, share
from sizing.state import StatePart


@dataclass(frozen=True, slots=True)
class Held:
    """What a rank was dealt, of dense tensors and of experts, and how many shards that are."""

    dense: tuple[DealtTensors, ...] = ()
    expert: tuple[DealtTensors, ...] = ()
    num_shards: int = 0


@dataclass(frozen=True, slots=True)
class Hands:
    """What each replica was dealt: the entry of `held` that `columns` names."""

    columns: Counts
    held: list[Held]


@dataclass(frozen=True, slots=True)
class Flat:
    """Bytes of each part, and tensors, that the replicas of a tensor rank divide evenly among them."""

    part_bytes: PartBytes
    num_tensors: int

    def with_bytes(self, other: PartBytes) -> Flat:
        """With the bytes of something else, whose tensors are counted elsewhere."""
        names = self.part_bytes | other
        part_bytes = {name: self.part_bytes.get(name, 0) + other.get(name, 0) for name in names}
        return Flat(part_bytes, self.num_tensors)

    def beside(self, content: Content) -> Flat:
        """With the bytes and the tensors of something else."""
        return Flat(self.with_bytes(content.part_bytes).part_bytes, self.num_tensors + content.num_tensors())


@dataclass(frozen=True, slots=True)
class DealtStage:
    """A stage of a span; `parts` of its tensors are dealt whole, `flat` and `once` of them divided evenly.

    `flat` are buffers of all that a tensor rank holds, in `once` each tensor counts on one of them. Parameters of a
    bare count have no tensors: they are divided evenly.
    """

    plan: Plan
    span: StageSpan
    parts: tuple[StatePart, ...]
    flat: tuple[StatePart, ...]
    once: tuple[StatePart, ...] = ()

    def writers(self, name: str) -> Iterator[WriterClass]:
        """The ranks that get something, in runs of equal ones."""
        for first, past in pairwise(sorted(self._tensor_edges())):
            yield from self._writers(name, range(first, past))

    def _writers(self, name: str, tensor_ranks: range) -> Iterator[WriterClass]:
        p, tensor_rank = self.plan.parallelism, tensor_ranks.start
        flat = self._flat_dense(tensor_rank), self._flat_expert(tensor_rank)
        dealt = self._dealt(tensor_rank) if self.parts else ()
        if self.once:
            even = self.once_dense(tensor_rank), self.once_expert(tensor_rank)
            dealt = (*dealt, _shared(sum(each.num_tensors for each in even), p.num_replicas))
            flat = flat[0].with_bytes(even[0].part_bytes), flat[1].with_bytes(even[1].part_bytes)
        edges = {num_bytes % p.num_replicas for each in flat for num_bytes in each.part_bytes.values()}
        for first, past in runs_of_equal([hands.columns for hands in dealt], edges):
            file = self._file(name, [hands.held[hands.columns[first]] for hands in dealt], flat, replica=first)
            if file.num_bytes:
                yield WriterClass(self.span, tensor_ranks, p.tensor, range(first, past), (file,))

    def _file(self, name: str, got: list[Held], flat: tuple[Flat, Flat], *, replica: int) -> File:
        num_replicas = self.plan.parallelism.num_replicas
        dense, expert = (tuple(each for held in got for each in getattr(held, of)) for of in ("dense", "expert"))
        even_dense, even_expert = (shares(even.part_bytes, num_replicas, replica) for even in flat)
        return File(
            name,
            _sum(even_dense, dense),
            _sum(even_expert, expert),
            sum(held.num_shards for held in got) + sum(-(-even.num_tensors // num_replicas) for even in flat),
            self.plan.files_per_rank,
            holds="dealt",
            dealt=dense + expert,
        )

    def _dealt(self, tensor_rank: int) -> tuple[Hands, ...]:
        """The shards of a tensor rank: those that fewer replicas hold first, then by size."""
        p = self.plan.parallelism
        dense = whole_shards(main_dense_shards(self.span, p, tensor_rank), self.parts)
        if not any(h.experts and not h.is_spread for h in self.span.holdings):
            return (_hands(dense, deal_to_equal(_sizes(dense), p.num_replicas)),)
        num_different = p.expert * p.expert_tensor_degree
        stride = num_different // math.gcd(p.tensor, num_different)
        if stride == 1:
            experts = self._expert_shards(tensor_rank) if tensor_rank < num_different else ()
            both = tuple(sorted((*dense, *experts), key=lambda each: -each.num_bytes))
            return (_hands(both, deal_to_equal(_sizes(both), p.num_replicas)),)
        of_experts, loads = self._dealt_experts(tensor_rank, num_different=num_different, stride=stride)
        return of_experts, _hands(dense, deal(_sizes(dense), loads))

    def _dealt_experts(self, tensor_rank: int, *, num_different: int, stride: int) -> tuple[Hands, Counts]:
        """Of the first `num_different` ranks of a stage, which hold all experts: each over those that hold the same.

        Rank t + T j of a stage holds what rank t + T (j + `stride`) does. The second is the bytes of each replica.
        """
        p = self.plan.parallelism
        columns, loads = np.zeros(p.num_replicas, np.int64), np.zeros(p.num_replicas, np.int64)
        held, dealt = [Held()], dict[int, tuple[Counts, Counts]]()
        for replica, rank in enumerate(range(tensor_rank, num_different, p.tensor)):
            part = rank % p.expert_tensor_degree
            if part not in dealt:
                whole = self._expert_shards(part)
                found = deal_to_equal(_sizes(whole), p.num_replicas // stride)
                own = np.where(found.columns > 0, found.columns + len(held) - 1, 0)
                dealt[part] = own, dealt_bytes(_sizes(whole), found)
                held += _hands(whole, found).held[1:]
            columns[replica::stride], loads[replica::stride] = dealt[part]
        return Hands(columns, held), loads

    def _expert_shards(self, rank_of_stage: int) -> tuple[WholeShards, ...]:
        """What rank i holds of the experts: part i mod ET of those of expert rank floor(i / ET) mod E."""
        p = self.plan.parallelism
        shards = main_expert_shards(self.span, p, rank_of_stage % p.expert_tensor_degree)
        return whole_shards(shards, self.parts, is_expert=True)

    def once_dense(self, tensor_rank: int) -> Flat:
        """A tensor rank's own shards."""
        return self._once(main_dense_shards(self.span, self.plan.parallelism, tensor_rank))

    def once_expert(self, tensor_rank: int) -> Flat:
        """The experts, divided by the tensor degree."""
        p = self.plan.parallelism
        shards = (
            shard.counted(shard.count * p.expert)
            for rank in range(p.expert_tensor_degree)
            for shard in main_expert_shards(self.span, p, rank)
        )
        everything = self._once(list(shards))
        num_tensors = share(everything.num_tensors, p.tensor, tensor_rank)
        return Flat(shares(everything.part_bytes, p.tensor, tensor_rank), num_tensors)

    def _once(self, some: list[Shard]) -> Flat:
        if not self.once:
            return Flat({}, 0)
        return Flat(content_of(some, self.once).part_bytes, num_whole_shards(some, self.once))

    def _flat_dense(self, tensor_rank: int) -> Flat:
        """The dense tensors of a tensor rank; each virtual stage has a buffer of its own."""
        p = self.plan.parallelism
        holdings = [h for h in self.span.holdings if not h.experts and self._has_flat(h)]
        held = [(h, shard_of(h, num_ranks=p.tensor, rank=tensor_rank)) for h in holdings]
        return self._flat(held, num_cuts=len(self.span.chunks) * (p.num_replicas - 1))

    def _flat_expert(self, tensor_rank: int) -> Flat:
        """The experts of the stage divided by the tensor degree: each of its ranks has the same share."""
        if not any(h.experts for h in self.span.holdings):
            return Flat({}, 0)
        tensor, whole = self.plan.parallelism.tensor, self._all_experts()
        return Flat(shares(whole.part_bytes, tensor, tensor_rank), -(-whole.num_tensors // tensor))

    def _all_experts(self) -> Flat:
        p = self.plan.parallelism
        num_ranks = p.expert_tensor_degree
        held = [
            (h, shard_of(h, num_ranks=num_ranks, rank=r))
            for h in self.span.holdings
            if h.experts and self._has_flat(h)
            for r in range(num_ranks)
        ]
        all_of_each = [(h, shard.counted(shard.count * h.experts)) for h, shard in held]
        return self._flat(all_of_each, num_cuts=max(0, p.ranks_per_stage - p.expert * num_ranks))

    def _has_flat(self, holding: Holding) -> bool:
        """Whether some of its bytes are divided evenly."""
        return holding.is_spread or bool(self.flat)

    def _flat(self, held: list[tuple[Holding, Shard]], *, num_cuts: int) -> Flat:
        """The buffers of some shards, cut so many times in all: a parameter on both sides of a cut is in two pieces."""
        spread = [shard for h, shard in held if h.is_spread]
        known = [shard for h, shard in held if not h.is_spread]
        found = Flat(content_of(known, self.flat).part_bytes, 0)
        if known:
            num_pieces = num_parameters_of(known) + num_cuts
            found = Flat(found.part_bytes, num_pieces * sum(part.num_statistics for part in self.flat))
        return found.beside(content_of(spread, self.plan.parts)) if spread else found

    def _tensor_edges(self) -> set[int]:
        """Tensor ranks that hold or save other shards than the one before, and both ends."""
        p = self.plan.parallelism
        edges, experts = {0, p.tensor}, [h for h in self.span.holdings if h.experts]
        for h in self.span.holdings:
            if not h.experts or p.expert_tensor_degree == p.tensor:
                edges |= _edges(h.pieces, p.tensor)
        if experts:
            edges.add(p.expert * p.expert_tensor_degree % p.tensor)
            edges |= {num_bytes % p.tensor for num_bytes in self._all_experts().part_bytes.values()}
        if any(h.pieces % p.expert_tensor_degree for h in experts):
            edges |= set(range(p.tensor))
        return edges


def _edges(pieces: int, num_ranks: int) -> set[int]:
    if pieces >= num_ranks:
        return {pieces % num_ranks}
    copies = num_ranks // pieces
    return {edge for rank in range(0, num_ranks, copies) for edge in (rank, rank + 1)}


def _sizes(whole: tuple[WholeShards, ...]) -> Sizes:
    return tuple((each.num_bytes, each.count) for each in whole)


def _hands(whole: tuple[WholeShards, ...], dealt: Deal) -> Hands:
    """What the columns of a deal stand for; the first is for those who got nothing."""
    held = [Held()]
    for counts in dealt.counts.T.tolist():
        got = [(each, count) for each, count in zip(whole, counts, strict=True) if count]
        dense, expert = (
            tuple(tensors for each, count in got if each.is_expert == is_expert for tensors in each.some(count))
            for is_expert in (False, True)
        )
        held.append(Held(dense, expert, sum(count for _, count in got)))
    return Hands(dealt.columns, held)


def _shared(num_shards: int, num_replicas: int) -> Hands:
    """So many shards, of which each replica has as many, but for those that do not divide: the first have one more."""
    each, rest = divmod(num_shards, num_replicas)
    columns = (np.arange(num_replicas) >= rest).astype(np.int64)
    return Hands(columns, [Held(num_shards=each + 1), Held(num_shards=each)])


def _sum(even: PartBytes, dealt: tuple[DealtTensors, ...]) -> PartBytes:
    total = dict(even)
    for tensors in dealt:
        total[tensors.part.name] = total.get(tensors.part.name, 0) + tensors.num_bytes
    return total
