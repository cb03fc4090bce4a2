"""Shards of a rank under FSDP, with or without tensor and expert ranks: its rows of its part of every tensor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Self

from sizing.layout.assignment import Assignment, Sizes, assign_to_empty, assigned_bytes, runs_of_equal
from sizing.layout.holders import Shard, Shards
from sizing.layout.parallelism import Parallelism, TableSharding
from sizing.layout.stages import Holding, StageSpan

MIN_BLOCK_COLUMNS = 128
"""Min columns of a block of a table. Source: TorchRec, distributed/planner/constants.py, MIN_CW_DIM."""


def num_column_blocks(num_columns: int) -> int:
    """Count the equal blocks of columns into which TorchRec cuts a table.

    A block has the fewest columns, 128 or more and a multiple of 4, that divide those of the table; a table without
    such a divisor is one block. Source: TorchRec, distributed/sharding_plan.py, _get_block_size_for_cw_shard.

    >>> [num_column_blocks(columns) for columns in (64, 128, 192, 256, 512)]
    [1, 1, 1, 2, 4]
    """
    sizes = range(MIN_BLOCK_COLUMNS, num_columns, 4)
    return num_columns // next((size for size in sizes if num_columns % size == 0), num_columns)


@dataclass(frozen=True, slots=True)
class FsdpMesh:
    """Ranks of a stage: `copies` of the state, each over `shards` x `tensor` ranks, tensor ranks the fastest.

    Routed experts are on the same ranks of a copy as `expert_shards` x `expert` x `expert_tensor`. Source: torchtitan,
    distributed/parallel_dims.py, whose meshes are (dp_replicate, fsdp, tp) and (dp_replicate, efsdp, ep, etp), with
    context parallelism in fsdp.
    """

    tensor: int
    shards: int
    copies: int
    expert: int
    expert_tensor: int
    table_sharding: TableSharding = "row-wise"

    @classmethod
    def of(cls, parallelism: Parallelism) -> Self:
        """Lay the ranks of a stage out by the degrees of the parallelism."""
        p, shards = parallelism, parallelism.shard_ranks
        tables = p.table_sharding or "row-wise"
        return cls(p.tensor, shards, p.num_replicas // shards, p.expert, p.expert_tensor_degree, tables)

    @property
    def expert_shards(self) -> int:
        """Number of FSDP ranks that share the experts of one expert rank."""
        return self.tensor * self.shards // (self.expert * self.expert_tensor)

    def num_cuts(self, holding: Holding) -> tuple[int, ...]:
        """Return into how many runs the ranks of a copy cut each dimension of a tensor; experts are the first one.

        FSDP cuts the rows that a tensor rank has, or the experts that an expert rank has. Where tensor ranks cut rows
        as well, both together cut them into equal runs. A tensor that is not cut by tensor ranks is cut by FSDP alone.
        Of R rows n ranks have ceil(R / n) each, so that ceil(R / ceil(R / n)) of them have any. Source: as `FsdpSpan`.

        >>> mesh = FsdpMesh.of(Parallelism(tensor=2, data=4))
        >>> mesh.num_cuts(Holding((64, 32), pieces=8, count=1)), mesh.num_cuts(Holding((64, 32), 8, count=1, cut=1))
        ((8, 1), (4, 2))
        """
        if self.table_sharding != "row-wise":  # there are no tensor ranks, and what is not a table is small
            return (1,)
        if holding.is_spread:
            return (self.tensor * self.shards,)
        sizes = (holding.experts, *holding.shape) if holding.experts else holding.shape
        cuts, of_tensor = [1] * len(sizes), self.expert_tensor if holding.experts else self.tensor
        cuts[holding.cut + bool(holding.experts)] = of_tensor if holding.pieces > 1 else 1
        if not holding.experts:
            cuts[0] *= self.shards
        else:
            cuts[0] *= self.expert
            cuts[self.shards_over_width(holding)] *= self.expert_shards
        return tuple(-(-size // -(-size // ranks)) for size, ranks in zip(sizes, cuts, strict=True))

    def shards_over_width(self, holding: Holding) -> bool:
        """Return whether FSDP cuts experts along their own first dimension, as there are more ranks than experts."""
        too_few = self.expert > 1 and self.expert * self.expert_shards > holding.experts
        width = _cut_shape(holding, self.expert_tensor, 0)[0]
        return too_few and width % self.expert_shards == 0


@dataclass(frozen=True, slots=True)
class Portion:
    """Shards of dense tensors or of experts that `sharers` ranks in each copy write; this rank has share `index`."""

    shards: list[Shard]
    is_of_experts: bool
    index: int = 0
    sharers: int = 1


@dataclass(frozen=True, slots=True)
class FsdpSpan:
    """Stages of a span over a mesh.

    A tensor is first cut over the tensor ranks, or is whole on each of them. FSDP2 then cuts the rows on each rank; the
    experts of a layer are one tensor there. Both cut into equal chunks, the last ones smaller or empty. Repeated
    tensors are written by all tensor ranks except the first, which has planned its own tensors before. Source: PyTorch,
    torch/distributed/fsdp/_fully_shard/_fsdp_param.py and torch/distributed/tensor, chunks as torch.chunk makes them;
    torch/distributed/checkpoint/_dedup_save_plans.py, where of the ranks that have a tensor the one with the smallest
    plan writes it; torchtitan, distributed/fsdp.py, for experts along their width.

    `tables` are embedding tables that are not cut by rows, or equal blocks of their columns, the largest first. Each
    stands on one of the shards, that with the fewest columns of them so far. So does TorchRec's planner where every
    table is read equally often, as it takes by default: the computed time of a table on one rank follows from its
    columns and from how often it is read, not from its rows. Source: TorchRec, distributed/planner/partitioners.py,
    GreedyPerfPartitioner; planner/shard_estimators.py, _get_tw_sharding_perf; planner/constants.py, POOLING_FACTOR.
    """

    mesh: FsdpMesh
    dense: tuple[Holding, ...]
    repeated: tuple[Holding, ...]
    experts: tuple[Holding, ...]
    repeated_experts: tuple[Holding, ...]
    tables: tuple[Holding, ...]
    placed: Assignment | None
    """Where the tables stand; None without any, as it has a number for each rank."""

    @classmethod
    def of(cls, span: StageSpan, mesh: FsdpMesh) -> Self:
        """Divide the stages' tensors into those that tensor ranks cut, those that they repeat, and placed tables."""
        tables, dense = list[Holding](), list[Holding]()
        for h in (each for each in span.holdings if not each.experts):
            if mesh.table_sharding == "row-wise" or h.role != "embedding":
                dense.append(h)
                continue
            num_rows, num_columns = h.shape
            num_blocks = num_column_blocks(num_columns) if mesh.table_sharding == "column-wise" else 1
            tables.append(replace(h, shape=(num_rows, num_columns // num_blocks), count=h.count * num_blocks))
        tables.sort(key=lambda h: math.prod(h.shape), reverse=True)
        experts = [h for h in span.holdings if h.experts]
        cut = (*_by_repetition(dense, mesh.tensor), *_by_repetition(experts, mesh.expert_tensor))
        costs = tuple((h.shape[1], h.count) for h in tables)
        return cls(mesh, *cut, tuple(tables), assign_to_empty(costs, mesh.shards) if tables else None)

    @property
    def fullest_over_mean(self) -> float:
        """Parameters of the fullest rank over those of the mean rank, where tables stand on one; without tables 1."""
        if self.placed is None:
            return 1.0
        of_tables = assigned_bytes(_sizes(self.tables), self.placed)
        of_rest = sum(h.count * math.prod(h.shape) for h in (*self.dense, *self.repeated)) / self.mesh.shards
        return float((of_tables.max() + of_rest) / (of_tables.mean() + of_rest))

    @property
    def least_over_placed(self) -> float:
        """Parameters of tables on the fullest rank if bytes were balanced, over those that it has; without tables 1."""
        if self.placed is None:
            return 1.0
        sizes = _sizes(self.tables)
        by_size = assigned_bytes(sizes, assign_to_empty(sizes, self.mesh.shards))
        return float(by_size.max() / assigned_bytes(sizes, self.placed).max())

    def portions(self, *, shard: int, tensor_rank: int) -> Iterator[Portion]:
        """List what a rank alone holds in its copy, and its share of what the tensor ranks of its shard repeat."""
        mesh, expert_tensor_rank = self.mesh, tensor_rank % self.mesh.expert_tensor
        expert_shard = self.expert_shard(shard=shard, tensor_rank=tensor_rank)
        yield Portion(self.dense_shards(shard, tensor_rank), is_of_experts=False)
        yield Portion(self.expert_shards(expert_shard, expert_tensor_rank), is_of_experts=True)
        if tensor_rank and self.repeated:
            yield Portion(self.repeated_shards(shard), False, tensor_rank - 1, mesh.tensor - 1)
        if expert_tensor_rank and self.repeated_experts:
            shards = self.repeated_expert_shards(expert_shard)
            yield Portion(shards, True, expert_tensor_rank - 1, mesh.expert_tensor - 1)

    def expert_shard(self, *, shard: int, tensor_rank: int) -> int:
        """Return the number of a rank among the FSDP ranks of its expert rank."""
        return (shard * self.mesh.tensor + tensor_rank) // (self.mesh.expert * self.mesh.expert_tensor)

    def dense_shards(self, shard: int, tensor_rank: int) -> list[Shard]:
        """List the shards of dense tensors that tensor ranks cut, or of all if there is one tensor rank, and tables."""
        cut = [self._dense(h, shard, tensor_rank) for h in self.dense]
        if self.placed is None:
            return cut
        column = int(self.placed.columns[shard])
        counts = self.placed.counts[:, column - 1].tolist() if column else []
        return cut + [_shard(h, h.shape).counted(num) for h, num in zip(self.tables, counts, strict=False) if num]

    def repeated_shards(self, shard: int) -> list[Shard]:
        """List the shards of dense tensors that each tensor rank has whole."""
        return [self._dense(h, shard, 0) for h in self.repeated]

    def expert_shards(self, shard: int, tensor_rank: int) -> list[Shard]:
        """List the shards of experts that expert-tensor ranks cut, or of all if there is one such rank."""
        return [self._expert(h, shard, tensor_rank) for h in self.experts]

    def repeated_expert_shards(self, shard: int) -> list[Shard]:
        """List the shards of expert tensors that each expert-tensor rank has whole."""
        return [self._expert(h, shard, 0) for h in self.repeated_experts]

    def fullest_shards(self, tensor_rank: int) -> Shards:
        """List the dense and the expert shards of the shard of a tensor rank that has most of them.

        The first has the most rows of every tensor. Where tables are placed, that with the most bytes of them counts.
        """
        shard = 0 if self.placed is None else int(assigned_bytes(_sizes(self.tables), self.placed).argmax())
        first = self.expert_shard(shard=0, tensor_rank=tensor_rank)
        experts = self.expert_shards(first, tensor_rank % self.mesh.expert_tensor)
        return (
            self.dense_shards(shard, tensor_rank) + self.repeated_shards(shard),
            experts + self.repeated_expert_shards(first),
        )

    def cut_edges(self) -> list[int]:
        """List the tensor ranks at which chunks of cut tensors become smaller, and the first."""
        edges = {0}
        for holding in self.dense if self.mesh.tensor > 1 else ():
            edges |= _chunk_edges(holding.shape[holding.cut], self.mesh.tensor)
        return sorted(edges)

    def expert_edges(self) -> list[int]:
        """List the FSDP ranks of an expert rank at which the rows of experts become fewer, and the first."""
        edges = {0}
        for h in (*self.experts, *self.repeated_experts):
            if not self.mesh.shards_over_width(h):
                edges |= _chunk_edges(h.experts // self.mesh.expert, self.mesh.expert_shards)
        return sorted(edges)

    def shard_edges(self) -> list[int]:
        """List the shards at which the rows of a tensor become fewer, and both ends.

        With R rows on n ranks, floor(R / ceil(R / n)) ranks have ceil(R / n) each, and one more may have the rest.
        Source: as the class.

        >>> from sizing.layout.stages import stage_spans
        >>> from sizing.model import TensorGroup
        >>> matrix = TensorGroup("mlp.in.weight", (10, 4), 1, layers=range(1))
        >>> (span,) = stage_spans((matrix,), Parallelism(data=4), num_layers=1)
        >>> FsdpSpan.of(span, FsdpMesh.of(Parallelism(data=4))).shard_edges()
        [0, 3, 4]
        """
        edges = {0, self.mesh.shards}
        for num_rows in {
            num_rows for h in (*self.dense, *self.repeated) for num_rows in _numbers_of_rows(h, self.mesh)
        }:
            edges |= _chunk_edges(num_rows, self.mesh.shards)
        for rank in self._ranks_of_expert_edges():
            edges |= {rank // self.mesh.tensor, -(-rank // self.mesh.tensor)}
        if self.placed is not None:
            edges.update(first for first, _ in runs_of_equal([self.placed.columns], set()))
        return sorted(edges)

    def tensor_edges(self) -> list[int]:
        """List the tensor ranks at which a rank's content or files change, and both ends."""
        mesh = self.mesh
        if 1 < mesh.expert_tensor < mesh.tensor:
            return list(range(mesh.tensor + 1))
        edges = {mesh.tensor, *self.cut_edges()}
        if self.repeated or self.repeated_experts:
            edges.add(1)
        for holding in self.experts if mesh.expert_tensor > 1 else ():
            edges |= _chunk_edges(holding.shape[holding.cut], mesh.expert_tensor)
        return sorted(edges | {rank % mesh.tensor for rank in self._ranks_of_expert_edges()})

    def _ranks_of_expert_edges(self) -> Iterator[int]:
        """List the ranks of a copy, tensor ranks the fastest, at which the rows of experts become fewer."""
        return (edge * self.mesh.expert * self.mesh.expert_tensor for edge in self.expert_edges())

    def _dense(self, h: Holding, shard: int, tensor_rank: int) -> Shard:
        num_rows, *others = _cut_shape(h, self.mesh.tensor, tensor_rank)
        return _shard(h, (_chunk(num_rows, self.mesh.shards, shard), *others))

    def _expert(self, h: Holding, shard: int, tensor_rank: int) -> Shard:
        mesh, num_experts = self.mesh, h.experts // self.mesh.expert
        width, *others = _cut_shape(h, mesh.expert_tensor, tensor_rank)
        if mesh.shards_over_width(h):
            return _shard(h, (num_experts, width // mesh.expert_shards, *others))
        return _shard(h, (_chunk(num_experts, mesh.expert_shards, shard), width, *others))


def _sizes(tables: Iterable[Holding]) -> Sizes:
    return tuple((math.prod(h.shape), h.count) for h in tables)


def _by_repetition(holdings: list[Holding], degree: int) -> tuple[tuple[Holding, ...], tuple[Holding, ...]]:
    """Part holdings into those that tensor ranks cut, and those that stand whole on each of several."""
    repeated = [degree > 1 and h.pieces == 1 for h in holdings]
    cut = tuple(h for h, each in zip(holdings, repeated, strict=True) if not each)
    return cut, tuple(h for h, each in zip(holdings, repeated, strict=True) if each)


def _shard(h: Holding, shape: tuple[int, ...]) -> Shard:
    return Shard(shape, h.count, h.role, h.is_trained, h.name)


def _cut_shape(h: Holding, degree: int, tensor_rank: int) -> tuple[int, ...]:
    """Return the shape that a tensor rank holds of a tensor, or of one expert's."""
    if h.pieces == 1 or degree == 1:
        return h.shape
    return (*h.shape[: h.cut], _chunk(h.shape[h.cut], degree, tensor_rank), *h.shape[h.cut + 1 :])


def _numbers_of_rows(h: Holding, mesh: FsdpMesh) -> Iterable[int]:
    """Return the numbers of rows that tensor ranks hold of a tensor: several if a cut along rows leaves a remainder."""
    if h.pieces == 1 or h.cut or mesh.tensor == 1:
        return (h.shape[0],)
    return {_chunk(h.shape[0], mesh.tensor, rank) for rank in _chunk_edges(h.shape[0], mesh.tensor) | {0}}


def _chunk_edges(rows: int, num_ranks: int) -> set[int]:
    """Return the ranks at which chunks get fewer rows or none."""
    size = max(1, -(-rows // num_ranks))
    return {min(num_ranks, rows // size), min(num_ranks, -(-rows // size))}


def _chunk(rows: int, num_ranks: int, rank: int) -> int:
    """Count the rows of chunk `rank`; every chunk except the last ones has ceil(rows / ranks).

    >>> [_chunk(10, 4, rank) for rank in range(4)], [_chunk(5, 4, rank) for rank in range(4)]
    ([3, 3, 3, 1], [2, 2, 1, 0])
    """
    size = -(-rows // num_ranks)
    return max(0, min(size, rows - rank * size))
