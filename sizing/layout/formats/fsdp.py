"""The sharded format of FSDP2 and HSDP: every rank writes its rows, and ranks that hold the same divide the writing.

Under FSDP there may be tensor, expert and pipeline ranks, as torchtitan lays them out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Self

from sizing.errors import InvalidInput
from sizing.layout.cells import Shards
from sizing.layout.containers import CONTAINERS
from sizing.layout.files import File, PartBytes, Plan, WriterClass
from sizing.layout.formats.base import CheckpointFormat, RankShare
from sizing.layout.formats.planning import OF_EVERY_TENSOR
from sizing.layout.formats.readers import Readers, every_shard_copy
from sizing.layout.fsdp_shards import FsdpMesh, FsdpSpan, Portion
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.saving_ranks import SavingRank
from sizing.layout.sharding import Sharding
from sizing.layout.shards import Content, Shard, content_of
from sizing.layout.stages import StageSpan
from sizing.model import TensorGroup
from sizing.state import StatePart
from sizing.state.saved_state import PartName


class FsdpSharded(CheckpointFormat):
    """PyTorch's distributed checkpoint of tensors that FSDP2 shards by rows, alone or after tensor and expert ranks."""

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """Ranks with equal rows write equal shares of what they hold with their copies and other tensor ranks."""
        mesh = _mesh(plan.parallelism)
        for span in plan.spans:
            held = _Held.of(FsdpSpan.of(span, mesh), plan.parts)
            tensor_edges = held.span.tensor_edges()
            for shards in pairwise(held.span.shard_edges()):
                for tensor_ranks in pairwise(tensor_edges):
                    cell = _Cell(mesh, range(*shards), range(*tensor_ranks), held.dealt(shards[0], tensor_ranks[0]))
                    yield from cell.writer_classes(span)

    def rank_share(self, saving: SavingRank) -> RankShare:
        """A share of the rank's shard, and of what its tensor ranks repeat."""
        mesh = _mesh(saving.parallelism)
        shard, tensor_rank = divmod(saving.inner, mesh.tensor)
        portions = FsdpSpan.of(saving.writer.span, mesh).portions(shard=shard, tensor_rank=tensor_rank)
        first, *more = (_share_of(portion, mesh.copies, copy=saving.outer) for portion in portions)
        return replace(first, more=tuple(more))

    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        """Rank in the world."""
        return {"RANK": str(saving.rank)}

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        """One; of an embedding that is the head too, one for each of the two stages that train it."""
        return 2 if group.placement == "first-and-last-stage" and parallelism.pipeline > 1 else 1

    def has_weights_beside_master(self, parallelism: Parallelism) -> bool:
        """Whatever is kept is saved."""
        return True

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """Every rank its shard."""
        return every_shard_copy(parallelism)

    def num_shards(self, parallelism: Parallelism) -> Ranks:
        """Tensors are cut by tensor ranks and the shard group; its copies cut nothing."""
        num_ranks = parallelism.tensor * parallelism.shard_ranks
        return Ranks(num_ranks, num_ranks)


def _share_of(portion: Portion, copies: int, *, copy: int) -> RankShare:
    """What a sharer of a portion writes in one of its copies."""
    shards: Shards = ([], portion.shards) if portion.is_of_experts else (portion.shards, [])
    index, count = portion.index + portion.sharers * copy, portion.sharers * copies
    return RankShare(shards, index, count, rest_to_last=True)


@dataclass(frozen=True, slots=True)
class _Dealt:
    """What tensor ranks from one on hold of dense tensors or of experts, and divide with their copies.

    Each of `sharers` in a copy has a share, the first of these ranks that of `index`; the last takes the rest.
    """

    content: Content
    is_of_experts: bool
    copies: int
    index: int = 0
    sharers: int = 1

    @property
    def count(self) -> int:
        """Ranks that divide it."""
        return self.sharers * self.copies

    @property
    def has_rest(self) -> bool:
        """Whether shares are not all equal."""
        return any(num_bytes % self.count for num_bytes in self.content.part_bytes.values())

    def share(self, *, copy: int, offset: int) -> PartBytes:
        """What the tensor rank `offset` after the first writes in a copy; where none share, each does its own."""
        if self.count == 1:
            return self.content.part_bytes
        is_last = copy == self.copies - 1 and (self.sharers == 1 or self.index + offset == self.sharers - 1)
        each = {name: divmod(num_bytes, self.count) for name, num_bytes in self.content.part_bytes.items()}
        return {name: part + is_last * rest for name, (part, rest) in each.items()}

    @property
    def num_tensors(self) -> int:
        """Of one sharer, at most."""
        return -(-self.content.num_tensors() // self.count)


@dataclass(frozen=True, slots=True)
class _Held:
    """What the ranks of a span hold, each different content counted once."""

    span: FsdpSpan
    parts: tuple[StatePart, ...]
    cut_edges: list[int]
    expert_edges: list[int]
    known: dict[tuple[str, int, int], Content] = field(default_factory=dict)

    @classmethod
    def of(cls, span: FsdpSpan, parts: tuple[StatePart, ...]) -> Self:
        """Of the stages of a span."""
        return cls(span, parts, span.cut_edges(), span.expert_edges())

    def dealt(self, shard: int, tensor_rank: int) -> list[_Dealt]:
        """The portions of a rank, and of those like it."""
        span, mesh = self.span, self.span.mesh
        expert_shard = _run_of(self.expert_edges, span.expert_shard(shard=shard, tensor_rank=tensor_rank))
        expert_tensor_rank = tensor_rank % mesh.expert_tensor
        first = _run_of(self.cut_edges, tensor_rank)
        found = [_Dealt(self._content("dense", span.dense_shards, shard, first), False, mesh.copies)]
        if span.experts:
            content = self._content("experts", span.expert_shards, expert_shard, expert_tensor_rank)
            found.append(_Dealt(content, True, mesh.copies))
        if tensor_rank and span.repeated:
            content = self._content("repeated", lambda shard, _: span.repeated_shards(shard), shard, 0)
            found.append(_Dealt(content, False, mesh.copies, tensor_rank - 1, mesh.tensor - 1))
        if expert_tensor_rank and span.repeated_experts:
            content = self._content("repeated experts", lambda e, _: span.repeated_expert_shards(e), expert_shard, 0)
            found.append(_Dealt(content, True, mesh.copies, expert_tensor_rank - 1, mesh.expert_tensor - 1))
        return found

    def _content(self, kind: str, shards: Callable[[int, int], list[Shard]], shard: int, tensor_rank: int) -> Content:
        key = kind, shard, tensor_rank
        if key not in self.known:
            self.known[key] = content_of(shards(shard, tensor_rank), self.parts)
        return self.known[key]


@dataclass(frozen=True, slots=True)
class _Cell:
    """Ranks of a stage that hold shards of equal shapes: some shards, of some tensor ranks each, in every copy."""

    mesh: FsdpMesh
    shards: range
    tensor_ranks: range
    dealt: list[_Dealt]

    def writer_classes(self, span: StageSpan) -> Iterator[WriterClass]:
        """The ranks with equal shares: of equal copies, and of equal tensor ranks where these divide something."""
        tensor, copies = self.mesh.tensor, self.mesh.copies
        copy_edges, tensor_edges = {0, copies}, {self.tensor_ranks.start, self.tensor_ranks.stop}
        for dealt in self.dealt:
            if dealt.has_rest:
                copy_edges.add(copies - 1)
                last = self.tensor_ranks.start - dealt.index + dealt.sharers - 1
                tensor_edges |= {last} if last in self.tensor_ranks else set()
        for copy, past_copy in pairwise(sorted(copy_edges)):
            for first, past in pairwise(sorted(tensor_edges)):
                files = (self._file(copy=copy, offset=first - self.tensor_ranks.start),)
                outer, tensor_ranks = range(copy, past_copy), range(first, past)
                yield WriterClass(span, self.shards, tensor * self.mesh.shards, outer, files, tensor, tensor_ranks)

    def _file(self, *, copy: int, offset: int) -> File:
        dense, expert = (
            _sum([each.share(copy=copy, offset=offset) for each in self.dealt if each.is_of_experts == is_of_experts])
            for is_of_experts in (False, True)
        )
        num_tensors = sum(each.num_tensors for each in self.dealt)
        return File("__RANK_0.distcp", dense, expert, num_tensors, holds="share")


def _sum(several: list[PartBytes]) -> PartBytes:
    """The bytes of each part in all of several that have the same parts."""
    return {name: sum(each[name] for each in several) for name in several[0]} if several else {}


def _run_of(edges: list[int], rank: int) -> int:
    """The first rank of the run that a rank is in, between sorted edges."""
    return edges[bisect_right(edges, rank) - 1]


def _mesh(parallelism: Parallelism) -> FsdpMesh:
    """The mesh of a stage.

    Raises InvalidInput where experts are cut over some of the tensor ranks that do not divide them.
    """
    if parallelism.tensor % parallelism.expert_tensor_degree:
        raise InvalidInput.of(
            "parallelism.expert_tensor",
            f"must divide tensor {parallelism.tensor} with format {FSDP_SHARDED.name}",
            value=parallelism.expert_tensor_degree,
            remedy="use 1 or the tensor degree",
        )
    return FsdpMesh.of(parallelism)


FSDP_SHARDED = FsdpSharded(
    name="fsdp-sharded",
    frameworks=("fsdp2", "torchtitan"),
    modes=("sync", "async"),
    takes=frozenset({"tensor", "pipeline", "virtual_pipeline", "expert", "expert_tensor", "shard_group"}),
    files="__RANK_0.distcp per rank, .metadata on rank 0",
    writers="every rank; ranks that hold the same share its writing",
    gathers="nothing",
    reshards="everything",
    needs_distributed_optimizer=False,
    container=CONTAINERS["distcp"],
    planning=OF_EVERY_TENSOR,
    assumptions=(),
    source="PyTorch, torch/distributed/checkpoint with FSDP2; torchtitan, distributed/parallel_dims.py; measured in "
    "published/framework_checkpoints.json",
)
