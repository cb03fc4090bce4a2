"""The sharded format of FSDP2 and HSDP: every rank writes its rows, and ranks that hold the same divide the writing.

Under FSDP there may be tensor, expert and pipeline ranks, as torchtitan lays them out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import Self

from sizing.errors import InvalidInput
from sizing.layout.containers import CONTAINERS, METADATA
from sizing.layout.files import OPTIMIZER, WEIGHTS, File, PartBytes, Plan, SavingRank, WriterClass
from sizing.layout.formats.base import (
    OF_EVERY_TENSOR,
    TENSOR_BY_TENSOR,
    CheckpointFormat,
    RankShare,
    Readers,
    every_shard_copy,
)
from sizing.layout.fsdp_shards import FsdpMesh, FsdpSpan
from sizing.layout.holders import Content, Shard, content_of
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.sharding import Sharding, shard_by_fsdp
from sizing.layout.stages import Holding, StageSpan
from sizing.model import TensorGroup
from sizing.state import StatePart, Training
from sizing.state.saved_state import PartName


class FsdpSharded(CheckpointFormat):
    """PyTorch's distributed checkpoint of tensors that FSDP2 shards by rows, after any tensor and expert ranks."""

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """List the ranks, those with equal rows together.

        They write equal shares of what they hold with their copies and other tensor ranks.
        """
        mesh = _mesh(plan.parallelism)
        for span in plan.spans:
            contents = _SpanContents.of(FsdpSpan.of(span, mesh), plan.parts)
            tensor_edges = contents.span.tensor_edges()
            for shards in pairwise(contents.span.shard_edges()):
                for tensor_ranks in pairwise(tensor_edges):
                    portions = contents.portions(shards[0], tensor_ranks[0])
                    equal = _EqualRanks(mesh, range(*shards), range(*tensor_ranks), portions)
                    yield from equal.writer_classes(span)

    def rank_share(self, saving: SavingRank) -> RankShare:
        """A rank writes a share of its shard, and of what its tensor ranks repeat."""
        mesh = _mesh(saving.parallelism)
        shard, tensor_rank = divmod(saving.inner, mesh.tensor)
        portions = FsdpSpan.of(saving.writer.span, mesh).portions(shard=shard, tensor_rank=tensor_rank)
        first, *more = (
            RankShare(
                ([], portion.shards) if portion.is_of_experts else (portion.shards, []),
                index=portion.index + portion.sharers * saving.outer,
                count=portion.sharers * mesh.copies,
                rest_to_last=True,
            )
            for portion in portions
        )
        return replace(first, more=tuple(more))

    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        return {"RANK": str(saving.rank)}

    def refused_degrees(self, parallelism: Parallelism) -> InvalidInput | None:
        """Tensor ranks cut tables by rows, so that no table stands on one rank."""
        if not parallelism.places_tables or parallelism.tensor == 1:
            return None
        rule, remedy = "must be row-wise with tensor ranks, which cut tables by rows", "remove it, or set tensor to 1"
        return InvalidInput.of("parallelism.table_sharding", rule, value=parallelism.table_sharding, remedy=remedy)

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        """A tensor is saved once, and an embedding that is the head too by each of the two stages that train it."""
        return 2 if group.placement == "first-and-last-stage" and parallelism.pipeline > 1 else 1

    def has_weights_beside_master(self, parallelism: Parallelism) -> bool:
        return True

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        return every_shard_copy(parallelism)

    def sharding(self, training: Training, parallelism: Parallelism) -> Sharding:
        """Shards are FSDP's, also of a trainer that without them takes DDP."""
        return shard_by_fsdp(parallelism)

    def num_shards(self, parallelism: Parallelism) -> Ranks:
        """Count the ranks that cut tensors: tensor ranks x shard group. Copies, and tables on one rank, cut nothing."""
        num_ranks = 1 if parallelism.places_tables else parallelism.tensor * parallelism.shard_ranks
        return Ranks(num_ranks, num_ranks)

    def num_cuts(self, holding: Holding, parallelism: Parallelism) -> tuple[int, ...]:
        return FsdpMesh.of(parallelism).num_cuts(holding)


class FsdpFolders(FsdpSharded):
    """Two checkpoints of `FsdpSharded`, as accelerate saves: a folder of the weights and one of the optimizer."""

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """List the same ranks, each with a file in each folder."""
        for writer in super().writer_classes(plan):
            yield replace(writer, files=tuple(chain.from_iterable(map(_in_folders, writer.files))))

    def small_files(self, *, files_per_rank: int) -> tuple[str, ...]:
        """Return the index of each folder."""
        return tuple(f"{folder}/{METADATA}" for folder in _FOLDERS)


_FOLDERS: dict[str, tuple[PartName, ...]] = {"pytorch_model_fsdp_0": WEIGHTS, "optimizer_0": OPTIMIZER}


def _in_folders(file: File) -> Iterator[File]:
    """Cut a rank's file into those of the two folders; each has its parts' share of the tensors."""
    num_parts = len(file.dense.keys() | file.expert.keys())
    for folder, names in _FOLDERS.items():
        dense, expert = ({name: some[name] for name in names if name in some} for some in (file.dense, file.expert))
        num_tensors = round(file.num_tensors * len(dense.keys() | expert.keys()) / max(1, num_parts))
        if dense or expert:
            yield replace(file, name=f"{folder}/{file.name}", dense=dense, expert=expert, num_tensors=num_tensors)


@dataclass(frozen=True, slots=True)
class _SharedContent:
    """Dense or expert content of consecutive tensor ranks, which they divide with their copies.

    Each of `sharers` in a copy has a share; the first of these ranks has that of `index`, the last takes the remainder.
    """

    content: Content
    is_of_experts: bool
    copies: int
    index: int = 0
    sharers: int = 1

    @property
    def count(self) -> int:
        """Ranks that divide the content."""
        return self.sharers * self.copies

    @property
    def has_rest(self) -> bool:
        """Whether the shares differ."""
        return any(num_bytes % self.count for num_bytes in self.content.part_bytes.values())

    def share(self, *, copy: int, offset: int) -> PartBytes:
        """Return the share of tensor rank `offset` after the first in a copy; without sharers, all of the content."""
        if self.count == 1:
            return self.content.part_bytes
        is_last = copy == self.copies - 1 and (self.sharers == 1 or self.index + offset == self.sharers - 1)
        each = {name: divmod(num_bytes, self.count) for name, num_bytes in self.content.part_bytes.items()}
        return {name: part + is_last * rest for name, (part, rest) in each.items()}

    @property
    def num_tensors(self) -> int:
        """Max number of tensors that one sharer writes."""
        return -(-self.content.num_tensors() // self.count)


@dataclass(frozen=True, slots=True)
class _SpanContents:
    """Contents of the ranks of a span, each different one counted once."""

    span: FsdpSpan
    parts: tuple[StatePart, ...]
    cut_edges: list[int]
    expert_edges: list[int]
    known: dict[tuple[str, int, int], Content] = field(default_factory=dict)

    @classmethod
    def of(cls, span: FsdpSpan, parts: tuple[StatePart, ...]) -> Self:
        """Find where the contents of the ranks of a span change, with no content counted yet."""
        return cls(span, parts, span.cut_edges(), span.expert_edges())

    def portions(self, shard: int, tensor_rank: int) -> list[_SharedContent]:
        """List the portions of a rank, which equal ranks share."""
        span, mesh = self.span, self.span.mesh
        expert_shard = _run_of(self.expert_edges, span.expert_shard(shard=shard, tensor_rank=tensor_rank))
        expert_tensor_rank = tensor_rank % mesh.expert_tensor
        first = _run_of(self.cut_edges, tensor_rank)
        portions = [_SharedContent(self._content("dense", span.dense_shards, shard, first), False, mesh.copies)]
        if span.experts:
            content = self._content("experts", span.expert_shards, expert_shard, expert_tensor_rank)
            portions.append(_SharedContent(content, True, mesh.copies))
        if tensor_rank and span.repeated:
            content = self._content("repeated", lambda shard, _: span.repeated_shards(shard), shard, 0)
            portions.append(_SharedContent(content, False, mesh.copies, tensor_rank - 1, mesh.tensor - 1))
        if expert_tensor_rank and span.repeated_experts:
            content = self._content("repeated experts", lambda e, _: span.repeated_expert_shards(e), expert_shard, 0)
            portions.append(_SharedContent(content, True, mesh.copies, expert_tensor_rank - 1, mesh.expert_tensor - 1))
        return portions

    def _content(self, kind: str, shards: Callable[[int, int], list[Shard]], shard: int, tensor_rank: int) -> Content:
        key = kind, shard, tensor_rank
        if key not in self.known:
            self.known[key] = content_of(shards(shard, tensor_rank), self.parts)
        return self.known[key]


@dataclass(frozen=True, slots=True)
class _EqualRanks:
    """Ranks of a stage with shards of equal shapes: some shards on some tensor ranks, in every copy."""

    mesh: FsdpMesh
    shards: range
    tensor_ranks: range
    portions: list[_SharedContent]

    def writer_classes(self, span: StageSpan) -> Iterator[WriterClass]:
        """List the ranks in classes of equal shares: by copy, and by tensor rank if tensor ranks share."""
        tensor, copies = self.mesh.tensor, self.mesh.copies
        copy_edges, tensor_edges = {0, copies}, {self.tensor_ranks.start, self.tensor_ranks.stop}
        for each in self.portions:
            if each.has_rest:
                copy_edges.add(copies - 1)
                last = self.tensor_ranks.start - each.index + each.sharers - 1
                tensor_edges |= {last} if last in self.tensor_ranks else set()
        for copy, past_copy in pairwise(sorted(copy_edges)):
            for first, past in pairwise(sorted(tensor_edges)):
                files = (self._file(copy=copy, offset=first - self.tensor_ranks.start),)
                outer, tensor_ranks = range(copy, past_copy), range(first, past)
                yield WriterClass(span, self.shards, tensor * self.mesh.shards, outer, files, tensor, tensor_ranks)

    def _file(self, *, copy: int, offset: int) -> File:
        dense, expert = Counter[PartName](), Counter[PartName]()
        for each in self.portions:
            (expert if each.is_of_experts else dense).update(each.share(copy=copy, offset=offset))
        num_tensors = sum(each.num_tensors for each in self.portions)
        return File("__RANK_0.distcp", dict(dense), dict(expert), num_tensors, holds="share")


def _run_of(edges: list[int], rank: int) -> int:
    """Return the first rank of the run that contains a rank, between sorted edges."""
    return edges[bisect_right(edges, rank) - 1]


def _mesh(parallelism: Parallelism) -> FsdpMesh:
    """Lay the ranks of a stage out as FSDP's mesh.

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
    frameworks=("fsdp2", "torchtitan", "lightning"),
    modes=("sync", "async"),
    takes=frozenset(
        {"tensor", "pipeline", "virtual_pipeline", "expert", "expert_tensor", "shard_group", "table_sharding"}
    ),
    files="__RANK_0.distcp per rank, .metadata on rank 0",
    writers="every rank; ranks that hold the same share its writing",
    gathers="nothing",
    reshards="everything",
    needs_distributed_optimizer=False,
    container=CONTAINERS["distcp"],
    host_loading=replace(TENSOR_BY_TENSOR, stacks_experts=True),
    planning=OF_EVERY_TENSOR,
    assumptions=(),
    source="PyTorch, torch/distributed/checkpoint with FSDP2; torchtitan, distributed/parallel_dims.py; measured in "
    "published/framework_checkpoints.json",
)

ACCELERATE_FSDP = FsdpFolders(
    name="accelerate-fsdp",
    frameworks=("transformers", "accelerate"),
    modes=("sync",),
    takes=frozenset({"shard_group"}),
    files="__RANK_0.distcp per rank in pytorch_model_fsdp_0 and in optimizer_0, .metadata of each on rank 0",
    writers=FSDP_SHARDED.writers,
    gathers="nothing",
    reshards="everything",
    needs_distributed_optimizer=False,
    container=CONTAINERS["distcp"],
    planning=OF_EVERY_TENSOR,
    assumptions=(),
    source="accelerate 1.15, utils/fsdp_utils.py, save_fsdp_model and save_fsdp_optimizer with SHARDED_STATE_DICT, the "
    "default of FSDP2; transformers 5.23, trainer.py, which saves by them",
)
