"""What a format writes: files of ranks, in classes of equal ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Self

from sizing.layout.cells import Cell
from sizing.layout.parallelism import Parallelism
from sizing.layout.shards import Shard
from sizing.layout.stages import StageSpan, share
from sizing.model.inventory import Inventory
from sizing.state import StatePart
from sizing.state.optimizers import Moment
from sizing.state.saved_state import RANK_PART, PartName
from sizing.state.training import Precision

WEIGHTS: tuple[PartName, ...] = ("weights",)
OPTIMIZER: tuple[PartName, ...] = ("master", "moments", "ema")
PartBytes = dict[PartName, int]
Holds = Literal["tensors", "flat-buffers", "share", "dealt"]
"""`tensors`: each as its rank holds it. `flat-buffers`: the values of all in a row, one buffer per statistic. `share`:
a run of the bytes of several ranks' tensors, cut where the run begins and ends. `dealt`: some whole tensors of the
rank's stage, and the other bytes of each part as one flat buffer per statistic."""


@dataclass(frozen=True, slots=True)
class DealtTensors:
    """Equal tensors that a rank was dealt: one statistic of a part, kept of `shard`."""

    part: StatePart
    moment: Moment
    shard: Shard

    @property
    def num_bytes(self) -> int:
        """Bytes of them all."""
        return self.shard.count * statistic_bytes(self.part, self.moment, self.shard)


def statistic_bytes(part: StatePart, moment: Moment, shard: Shard) -> int:
    """Bytes of one statistic of a part, kept of one of equal shards: of a moment's copies one.

    Source: as `moment_bytes`.

    >>> of_adam = StatePart("moments", "fp32", (Moment(copies=2),))
    >>> statistic_bytes(of_adam, of_adam.moments[0], Shard((8, 4), count=3, is_hidden_matrix=True, is_trained=True))
    128
    """
    return part.kept_bytes(moment, shard.shape, is_hidden_matrix=shard.is_hidden_matrix) // moment.copies


@dataclass(frozen=True, slots=True)
class File:
    """`count` files of one name pattern that a rank writes, and the bytes of them all.

    In a pattern, capitals stand for what differs between files; the format's `name_parts` says what.

    `dense` and `expert` are the bytes of each part, of dense tensors and of routed experts; `num_tensors` the
    tensors that all of the files hold together, `holds` in which form; `dealt` are those that were dealt whole.
    `repeats_dense` and `repeats_expert` are the parts that stand in another file too, beyond the copies that
    model-parallel ranks hold.
    """

    name: str
    dense: PartBytes
    expert: PartBytes
    num_tensors: int
    count: int = 1
    holds: Holds = "tensors"
    dealt: tuple[DealtTensors, ...] = ()
    repeats_dense: tuple[PartName, ...] = ()
    repeats_expert: tuple[PartName, ...] = ()

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensors in all of the files."""
        return sum(self.dense.values()) + sum(self.expert.values())

    @property
    def repeated_bytes(self) -> int:
        """Bytes that stand in another file too."""
        dense = sum(self.dense.get(name, 0) for name in self.repeats_dense)
        return dense + sum(self.expert.get(name, 0) for name in self.repeats_expert)

    def bytes_of(self, names: Iterable[PartName]) -> int:
        """Bytes of the tensors of some parts in all of the files."""
        return sum(self.dense.get(name, 0) + self.expert.get(name, 0) for name in names)


@dataclass(frozen=True, slots=True)
class WriterClass:
    """Ranks of equal stages that write files of equal sizes.

    Within a stage they are the ranks i + `inner_size` o for i in `positions` and o in `outer`: tensor ranks and
    data ranks, FSDP shards and their copies, or simply a run of ranks. `positions` are those in `inner`; where these
    are FSDP shards over `tensor` ranks, the `tensor_ranks` of each.
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
        """The numbers i + `tensor` x shard, tensor ranks the fastest."""
        return (rank + self.tensor * shard for shard in self.inner for rank in self.tensor_ranks)

    @property
    def last_number(self) -> int:
        """The number in the stage of its last rank."""
        return self.tensor_ranks[-1] + self.tensor * self.inner[-1] + self.inner_size * self.outer[-1]

    @property
    def ranks_per_stage(self) -> int:
        """Ranks of the class in one of its stages."""
        return len(self.inner) * len(self.tensor_ranks) * len(self.outer)

    @property
    def num_ranks(self) -> int:
        """Ranks of the class over all its stages."""
        return len(self.span.stages) * self.ranks_per_stage


def flat_file(name: str, dense: PartBytes, expert: PartBytes, parts: Iterable[StatePart]) -> File:
    """A file of flat buffers: one tensor per statistic of each part that it holds."""
    num_tensors = sum(part.num_statistics for part in parts if dense.get(part.name) or expert.get(part.name))
    return File(name, dense, expert, num_tensors, holds="flat-buffers")


@dataclass(frozen=True, slots=True)
class Written:
    """All files of some writers together; of each part the bytes of dense tensors and of routed experts.

    `num_shards`: tensors in files of tensors that the format plans for, which are all but those of a rank's own.
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
        """Those of the classes, of which the parts are what their files hold."""
        files = written_files(writers)
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
        """Bytes of a part in all files."""
        return self.dense_bytes[part] + self.expert_bytes[part]


def written_files(writers: Iterable[WriterClass]) -> list[tuple[int, File]]:
    """Every file of a rank of the classes, and how many ranks write one like it."""
    return [(writer.num_ranks, file) for writer in writers for file in writer.files]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the formats need to know of a layout."""

    inventory: Inventory
    spans: tuple[StageSpan, ...]
    cells: tuple[Cell, ...]
    parallelism: Parallelism
    parts: tuple[StatePart, ...]
    precision: Precision
    files_per_rank: int
    experts_per_rank: int
    deals_whole: bool = True
    """Whether whole shards are dealt one by one; else ranks share them evenly, which takes a fraction of the time."""


def of_cell(plan: Plan, cell: Cell, files: tuple[File, ...], *, data_ranks: range) -> WriterClass:
    """The ranks of a cell that write these files."""
    return WriterClass(cell.span, cell.tensor_ranks, plan.parallelism.tensor, data_ranks, files)


def runs(num_ranks: int, *dealt: tuple[PartBytes, int, int], extra: Iterable[int] = ()) -> Iterator[tuple[int, int]]:
    """Runs of ranks with equal shares; each of `dealt` is (bytes, number of shares, ranks per share)."""
    edges = {0, num_ranks, *(edge for edge in extra if edge < num_ranks)}
    for part_bytes, num_shares, ranks_per_share in dealt:
        edges |= {num_bytes % num_shares * ranks_per_share for num_bytes in part_bytes.values()}
    return pairwise(sorted(edges))


def shares(part_bytes: PartBytes, num_shares: int, index: int) -> PartBytes:
    """What share `index` of so many equal ones holds of each part."""
    return {name: share(num_bytes, num_shares, index) for name, num_bytes in part_bytes.items()}
