"""The files that a format writes: in classes of equal ranks, and rank by rank."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Self

from sizing.errors import InvalidInput
from sizing.layout.holders import HolderClass, Shard
from sizing.layout.parallelism import Parallelism
from sizing.layout.stages import StageSpan, share
from sizing.model.inventory import Inventory
from sizing.state import StatePart
from sizing.state.optimizers import Moment
from sizing.state.saved_state import RANK_PART, PartName
from sizing.state.training import Precision

WEIGHTS: tuple[PartName, ...] = ("weights",)
OPTIMIZER: tuple[PartName, ...] = ("master", "moments", "ema")
PartBytes = dict[PartName, int]
Holds = Literal["tensors", "flat-buffers", "share", "assigned"]
"""Form of the tensors in a file. `tensors`: each as its rank holds it. `flat-buffers`: the values of all tensors in a
row, one buffer per statistic. `share`: a run of the bytes of several ranks' tensors, cut at its begin and end.
`assigned`: some whole tensors of the stage, and the other bytes of each part as one flat buffer per statistic."""


@dataclass(frozen=True, slots=True)
class AssignedTensors:
    """Equal tensors that a rank was assigned: one statistic of a part, kept of `shard`."""

    part: StatePart
    moment: Moment
    shard: Shard

    @property
    def num_bytes(self) -> int:
        """Bytes of all of these tensors."""
        return self.shard.count * statistic_bytes(self.part, self.moment, self.shard)


def statistic_bytes(part: StatePart, moment: Moment, shard: Shard) -> int:
    """Count the bytes of one statistic of a part for one of equal shards: one copy of a moment.

    Source: as `moment_bytes`.

    >>> of_adam = StatePart("moments", "fp32", (Moment(copies=2),))
    >>> statistic_bytes(of_adam, of_adam.moments[0], Shard((8, 4), count=3, role="hidden-matrix", is_trained=True))
    128
    """
    return part.kept_bytes(moment, shard.shape, role=shard.role) // moment.copies


@dataclass(frozen=True, slots=True)
class File:
    """`count` files of one name pattern that a rank writes, and the bytes of all of them.

    Capitals in a pattern stand for what differs between files; the format's `name_parts` gives their values.

    `dense` and `expert` are the bytes of each part, of dense tensors and of routed experts. `num_tensors` counts the
    tensors of all these files together, and `holds` is their form. `assigned` are the tensors that were assigned whole.
    `repeats_dense` and `repeats_expert` are parts that another file also has, in addition to the copies of
    model-parallel ranks.
    """

    name: str
    dense: PartBytes
    expert: PartBytes
    num_tensors: int
    count: int = 1
    holds: Holds = "tensors"
    assigned: tuple[AssignedTensors, ...] = ()
    repeats_dense: tuple[PartName, ...] = ()
    repeats_expert: tuple[PartName, ...] = ()

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensors in all of the files."""
        return sum(self.dense.values()) + sum(self.expert.values())

    @property
    def repeated_bytes(self) -> int:
        """Bytes of this file that stand in another file too."""
        dense = sum(self.dense.get(name, 0) for name in self.repeats_dense)
        return dense + sum(self.expert.get(name, 0) for name in self.repeats_expert)

    def bytes_of(self, names: Iterable[PartName]) -> int:
        """Count the bytes of some parts in all of the files."""
        return sum(self.dense.get(name, 0) + self.expert.get(name, 0) for name in names)


@dataclass(frozen=True, slots=True)
class WriterClass:
    """Ranks of equal stages that write files of equal sizes.

    Within a stage they are the ranks i + `inner_size` o, with i in `positions` and o in `outer`. These are tensor ranks
    and data ranks, FSDP shards and their copies, or simply a run of ranks. `positions` are those in `inner`; if these
    are FSDP shards over `tensor` ranks, the `tensor_ranks` of each shard.
    """

    span: StageSpan
    inner: range
    inner_size: int
    outer: range
    files: tuple[File, ...]
    tensor: int = 1
    tensor_ranks: range = range(1)

    @property
    def positions(self) -> Iterator[int]:
        """Numbers i + `tensor` x shard, tensor ranks the fastest."""
        return (rank + self.tensor * shard for shard in self.inner for rank in self.tensor_ranks)

    @property
    def last_number(self) -> int:
        """Number in the stage of the last rank of the class."""
        return self.tensor_ranks[-1] + self.tensor * self.inner[-1] + self.inner_size * self.outer[-1]

    @property
    def ranks_per_stage(self) -> int:
        """Number of ranks of the class in one of its stages."""
        return len(self.inner) * len(self.tensor_ranks) * len(self.outer)

    @property
    def num_ranks(self) -> int:
        """Number of ranks of the class over all its stages."""
        return len(self.span.stages) * self.ranks_per_stage


def flat_file(name: str, dense: PartBytes, expert: PartBytes, parts: Iterable[StatePart]) -> File:
    """Make a file of flat buffers: one tensor per statistic of each part that it holds."""
    num_tensors = sum(part.num_statistics for part in parts if dense.get(part.name) or expert.get(part.name))
    return File(name, dense, expert, num_tensors, holds="flat-buffers")


@dataclass(frozen=True, slots=True)
class FileTotals:
    """Totals of all files of some writers, with the bytes of each part, of dense tensors and of routed experts.

    `num_shards`: the tensors for which the format plans, which are all except those that only one rank has.
    """

    num_writers: int
    num_files: int
    num_tensors: int
    num_shards: int
    dense_bytes: PartBytes
    expert_bytes: PartBytes
    repeated_bytes: int

    @classmethod
    def of(cls, writers: Sequence[WriterClass], parts: Iterable[StatePart]) -> Self:
        """Add up the files of writer classes, of which `parts` are what they hold."""
        files = count_files(writers)
        names = [part.name for part in parts]
        return cls(
            num_writers=sum(writer.num_ranks for writer in writers),
            num_files=sum(n * file.count for n, file in files),
            num_tensors=sum(n * file.num_tensors for n, file in files),
            num_shards=sum(n * file.num_tensors for n, file in files if RANK_PART not in file.dense),
            dense_bytes={name: sum(n * file.dense.get(name, 0) for n, file in files) for name in names},
            expert_bytes={name: sum(n * file.expert.get(name, 0) for n, file in files) for name in names},
            repeated_bytes=sum(n * file.repeated_bytes for n, file in files),
        )

    def bytes_of(self, part: PartName) -> int:
        """Count the bytes of a part in all files."""
        return self.dense_bytes[part] + self.expert_bytes[part]


def count_files(writers: Iterable[WriterClass]) -> list[tuple[int, File]]:
    """List every file of a rank of the classes, with the number of ranks that write one like it."""
    return [(writer.num_ranks, file) for writer in writers for file in writer.files]


@dataclass(frozen=True, slots=True)
class Plan:
    """Input of a format: the layout whose files it writes."""

    inventory: Inventory
    spans: tuple[StageSpan, ...]
    holders: tuple[HolderClass, ...]
    parallelism: Parallelism
    parts: tuple[StatePart, ...]
    precision: Precision
    files_per_rank: int
    experts_per_rank: int
    assigns_whole: bool = True
    """Whether whole shards are assigned one by one; otherwise ranks share them evenly, which takes less time to
    compute.
    """


def of_holder(plan: Plan, holder: HolderClass, files: tuple[File, ...], *, data_ranks: range) -> WriterClass:
    """Make the class of a holder's ranks that write these files."""
    return WriterClass(holder.span, holder.tensor_ranks, plan.parallelism.tensor, data_ranks, files)


def runs(num_ranks: int, *shared: tuple[PartBytes, int, int], extra: Iterable[int] = ()) -> Iterator[tuple[int, int]]:
    """Return runs of ranks with equal shares; each of `shared` is (bytes, number of shares, ranks per share)."""
    edges = {0, num_ranks, *(edge for edge in extra if edge < num_ranks)}
    for part_bytes, num_shares, ranks_per_share in shared:
        edges |= {num_bytes % num_shares * ranks_per_share for num_bytes in part_bytes.values()}
    return pairwise(sorted(edges))


def shares(part_bytes: PartBytes, num_shares: int, index: int) -> PartBytes:
    """Return share `index` of `num_shares` equal shares of each part."""
    return {name: share(num_bytes, num_shares, index) for name, num_bytes in part_bytes.items()}


MAX_RANKS = 100_000
"""Max ranks of a manifest, each with a row: 10 MB of CSV."""


@dataclass(frozen=True, slots=True)
class SavingRank:
    """A rank that writes, and its position in its stage: tensor rank or position `inner`, data rank or copy `outer`."""

    rank: int
    node: int
    stage: int
    inner: int
    outer: int
    writer: WriterClass
    parallelism: Parallelism

    @property
    def layers_before(self) -> int:
        """Number of layers on the stages of its class before its own."""
        span = self.writer.span
        return (self.stage - span.stages.start) * span.num_layers

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensors in all files of the rank."""
        return sum(file.num_bytes for file in self.writer.files)


def saving_ranks(
    writers: Iterable[WriterClass], parallelism: Parallelism, *, gpus_per_node: int
) -> Iterator[SavingRank]:
    """List every rank that writes, class by class.

    Raises InvalidInput for worlds of more than 100,000 ranks.
    """
    if parallelism.num_gpus > MAX_RANKS:
        raise InvalidInput.of(
            "the manifest",
            f"lists at most {MAX_RANKS:,} ranks",
            value=f"{parallelism.num_gpus:,}",
            remedy="read layout.rank_classes of the report",
        )
    for writer in writers:
        for stage, outer, inner in itertools.product(writer.span.stages, writer.outer, writer.positions):
            replica, tensor = divmod(writer.inner_size * outer + inner, parallelism.tensor)
            rank = parallelism.rank_of(tensor=tensor, replica=replica, stage=stage)
            yield SavingRank(rank, rank // gpus_per_node, stage, inner, outer, writer, parallelism)
