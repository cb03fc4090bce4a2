"""Assignment of the shards of a stage: those of each tensor rank go to its data and context ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sizing.layout.assignment import Assignment, Counts, Sizes, assign, assign_to_empty, assigned_bytes, runs_of_equal
from sizing.layout.files import AssignedTensors, File, PartBytes, Plan, WriterClass, shares
from sizing.layout.formats.megatron_shards import (
    WholeShards,
    main_dense_shards,
    main_expert_shards,
    num_parameters_of,
    num_whole_shards,
    whole_shards,
)
from sizing.layout.holders import Content, Shard, content_of, shard_of
from sizing.layout.stages import Holding, StageSpan, share
from sizing.state import StatePart


@dataclass(frozen=True, slots=True)
class RankShards:
    """Shards that a rank was assigned, of dense tensors and of experts, and their number."""

    dense: tuple[AssignedTensors, ...] = ()
    expert: tuple[AssignedTensors, ...] = ()
    num_shards: int = 0


@dataclass(frozen=True, slots=True)
class ReplicaShards:
    """Shards of every replica: `columns` has its index in `of_ranks`."""

    columns: Counts
    of_ranks: list[RankShards]


@dataclass(frozen=True, slots=True)
class Flat:
    """Bytes of each part, and number of tensors, that the replicas of a tensor rank divide evenly."""

    part_bytes: PartBytes
    num_tensors: int

    def with_bytes(self, other: PartBytes) -> Flat:
        """Add the bytes of other content, whose tensors are counted elsewhere."""
        names = self.part_bytes | other
        part_bytes = {name: self.part_bytes.get(name, 0) + other.get(name, 0) for name in names}
        return Flat(part_bytes, self.num_tensors)

    def beside(self, content: Content) -> Flat:
        """Add the bytes and the tensors of other content."""
        return Flat(self.with_bytes(content.part_bytes).part_bytes, self.num_tensors + content.num_tensors())


@dataclass(frozen=True, slots=True)
class AssignedStage:
    """A stage of a span. Its `parts` are assigned in whole tensors; `flat` and `once` are divided evenly.

    `flat` are buffers of all that a tensor rank holds; in `once`, each tensor counts on one tensor rank. Parameters of
    a bare count have no tensors: they are divided evenly.
    """

    plan: Plan
    span: StageSpan
    parts: tuple[StatePart, ...]
    flat: tuple[StatePart, ...]
    once: tuple[StatePart, ...] = ()

    def writers(self, name: str) -> Iterator[WriterClass]:
        """List the ranks that write something, in runs of equal ranks."""
        for first, past in pairwise(sorted(self._tensor_edges())):
            yield from self._writers(name, range(first, past))

    def _writers(self, name: str, tensor_ranks: range) -> Iterator[WriterClass]:
        p, tensor_rank = self.plan.parallelism, tensor_ranks.start
        flat = self._flat_dense(tensor_rank), self._flat_expert(tensor_rank)
        assigned = self._assign_shards(tensor_rank) if self.parts or not self.once else ()
        if self.once:
            even = self.once_dense(tensor_rank), self.once_expert(tensor_rank)
            assigned = (*assigned, _share_shards(sum(each.num_tensors for each in even), p.num_replicas))
            flat = flat[0].with_bytes(even[0].part_bytes), flat[1].with_bytes(even[1].part_bytes)
        edges = {num_bytes % p.num_replicas for each in flat for num_bytes in each.part_bytes.values()}
        for first, past in runs_of_equal([each.columns for each in assigned], edges):
            file = self._file(name, [each.of_ranks[each.columns[first]] for each in assigned], flat, replica=first)
            if file.num_bytes:
                yield WriterClass(self.span, tensor_ranks, p.tensor, range(first, past), (file,))

    def _file(self, name: str, assigned: list[RankShards], flat: tuple[Flat, Flat], *, replica: int) -> File:
        num_replicas = self.plan.parallelism.num_replicas
        dense = tuple(tensors for shards in assigned for tensors in shards.dense)
        expert = tuple(tensors for shards in assigned for tensors in shards.expert)
        even_dense, even_expert = (shares(even.part_bytes, num_replicas, replica) for even in flat)
        return File(
            name,
            _sum(even_dense, dense),
            _sum(even_expert, expert),
            sum(shards.num_shards for shards in assigned) + sum(-(-even.num_tensors // num_replicas) for even in flat),
            self.plan.files_per_rank,
            holds="assigned",
            assigned=dense + expert,
        )

    def _assign_shards(self, tensor_rank: int) -> tuple[ReplicaShards, ...]:
        """Assign the shards of a tensor rank: first those that fewer replicas hold, then by size."""
        p = self.plan.parallelism
        dense = whole_shards(main_dense_shards(self.span, p, tensor_rank), self.parts)
        if not any(h.experts and not h.is_spread for h in self.span.holdings):
            return (_replica_shards(dense, assign_to_empty(_sizes(dense), p.num_replicas)),)
        num_different = p.expert * p.expert_tensor_degree
        stride = num_different // math.gcd(p.tensor, num_different)
        if stride == 1:
            experts = self._expert_shards(tensor_rank) if tensor_rank < num_different else ()
            both = tuple(sorted((*dense, *experts), key=lambda each: -each.num_bytes))
            return (_replica_shards(both, assign_to_empty(_sizes(both), p.num_replicas)),)
        of_experts, loads = self._assign_experts(tensor_rank, num_different=num_different, stride=stride)
        return of_experts, _replica_shards(dense, assign(_sizes(dense), loads))

    def _assign_experts(self, tensor_rank: int, *, num_different: int, stride: int) -> tuple[ReplicaShards, Counts]:
        """Assign experts to the replicas that hold them; also return the bytes of each replica.

        The first `num_different` ranks of a stage hold all experts. Rank t + T j of a stage holds the same as rank t +
        T (j + `stride`).
        """
        p = self.plan.parallelism
        columns, loads = np.zeros(p.num_replicas, np.int64), np.zeros(p.num_replicas, np.int64)
        of_ranks, assigned = [RankShards()], dict[int, tuple[Counts, Counts]]()
        for replica, rank in enumerate(range(tensor_rank, num_different, p.tensor)):
            part = rank % p.expert_tensor_degree
            if part not in assigned:
                whole = self._expert_shards(part)
                assignment = assign_to_empty(_sizes(whole), p.num_replicas // stride)
                own = np.where(assignment.columns > 0, assignment.columns + len(of_ranks) - 1, 0)
                assigned[part] = own, assigned_bytes(_sizes(whole), assignment)
                of_ranks += _replica_shards(whole, assignment).of_ranks[1:]
            columns[replica::stride], loads[replica::stride] = assigned[part]
        return ReplicaShards(columns, of_ranks), loads

    def _expert_shards(self, rank_of_stage: int) -> tuple[WholeShards, ...]:
        """Return the experts of rank i: part i mod ET of those of expert rank floor(i / ET) mod E."""
        p = self.plan.parallelism
        shards = main_expert_shards(self.span, p, rank_of_stage % p.expert_tensor_degree)
        return whole_shards(shards, self.parts, is_expert=True)

    def once_dense(self, tensor_rank: int) -> Flat:
        """Sum up what is saved once of a tensor rank's own shards."""
        return self._once(main_dense_shards(self.span, self.plan.parallelism, tensor_rank))

    def once_expert(self, tensor_rank: int) -> Flat:
        """Sum up what is saved once of all experts, divided by the tensor degree."""
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
        """Sum up the dense tensors of a tensor rank; each virtual stage has a buffer of its own."""
        p = self.plan.parallelism
        holdings = [h for h in self.span.holdings if not h.experts and self._has_flat(h)]
        held = [(h, shard_of(h, num_ranks=p.tensor, rank=tensor_rank)) for h in holdings]
        return self._flat(held, num_cuts=len(self.span.chunks) * (p.num_replicas - 1))

    def _flat_expert(self, tensor_rank: int) -> Flat:
        """Divide the experts of the stage by the tensor degree: each tensor rank has the same share."""
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
        all_of_each = [(h, shard.counted(shard.count * h.num_experts_on(p.expert) * p.expert)) for h, shard in held]
        return self._flat(all_of_each, num_cuts=max(0, p.ranks_per_stage - p.expert * num_ranks))

    def _has_flat(self, holding: Holding) -> bool:
        """Return whether some of a holding's bytes are divided evenly."""
        return holding.is_spread or bool(self.flat)

    def _flat(self, held: list[tuple[Holding, Shard]], *, num_cuts: int) -> Flat:
        """Sum up the buffers of shards, with `num_cuts` cuts: a parameter on both sides of a cut is in two pieces."""
        spread = [shard for h, shard in held if h.is_spread]
        known = [shard for h, shard in held if not h.is_spread]
        num_pieces = num_parameters_of(known) + num_cuts if known else 0
        num_statistics = sum(part.num_statistics for part in self.flat)
        flat = Flat(content_of(known, self.flat).part_bytes, num_pieces * num_statistics)
        return flat.beside(content_of(spread, self.plan.parts)) if spread else flat

    def _tensor_edges(self) -> set[int]:
        """Return the tensor ranks that hold or save other shards than the rank before, and both ends."""
        p = self.plan.parallelism
        edges, experts = {0, p.tensor}, [h for h in self.span.holdings if h.experts]
        for h in self.span.holdings:
            if h.experts and p.expert_tensor_degree != p.tensor:
                continue
            if h.pieces >= p.tensor:
                edges.add(h.pieces % p.tensor)
            else:  # of the ranks that hold the same piece, the first saves it
                copies = p.tensor // h.pieces
                edges |= {edge for rank in range(0, p.tensor, copies) for edge in (rank, rank + 1)}
        if experts:
            edges.add(p.expert * p.expert_tensor_degree % p.tensor)
            edges |= {num_bytes % p.tensor for num_bytes in self._all_experts().part_bytes.values()}
        if any(h.pieces % p.expert_tensor_degree for h in experts):
            edges |= set(range(p.tensor))
        return edges


def _sizes(whole: tuple[WholeShards, ...]) -> Sizes:
    return tuple((each.num_bytes, each.count) for each in whole)


def _replica_shards(whole: tuple[WholeShards, ...], assignment: Assignment) -> ReplicaShards:
    """Return the shards for each column of an assignment; the first is for ranks that got nothing."""
    of_ranks = [RankShards()]
    for counts in assignment.counts.T:
        kinds = np.flatnonzero(counts)  # of thousands, a rank gets few
        own = [(whole[kind], count) for kind, count in zip(kinds.tolist(), counts[kinds].tolist(), strict=True)]
        dense, expert = (
            tuple(tensors for each, count in own if each.is_expert == is_expert for tensors in each.some(count))
            for is_expert in (False, True)
        )
        of_ranks.append(RankShards(dense, expert, sum(count for _, count in own)))
    return ReplicaShards(assignment.columns, of_ranks)


def _share_shards(num_shards: int, num_replicas: int) -> ReplicaShards:
    """Assign shards to replicas evenly; where the number does not divide, the first replicas have one more."""
    each, rest = divmod(num_shards, num_replicas)
    columns = (np.arange(num_replicas) >= rest).astype(np.int64)
    return ReplicaShards(columns, [RankShards(num_shards=each + 1), RankShards(num_shards=each)])


def _sum(even: PartBytes, assigned: tuple[AssignedTensors, ...]) -> PartBytes:
    total = dict(even)
    for tensors in assigned:
        total[tensors.part.name] = total.get(tensors.part.name, 0) + tensors.num_bytes
    return total
