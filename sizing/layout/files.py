"""What a format writes: files of ranks, in classes of equal ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from sizing.layout.cells import Cell
from sizing.layout.parallelism import Parallelism
from sizing.layout.stages import StageSpan, share
from sizing.state import StatePart
from sizing.state.saved_state import PartName
from sizing.state.training import Precision

WEIGHTS: tuple[PartName, ...] = ("weights",)
OPTIMIZER: tuple[PartName, ...] = ("master", "moments", "ema")
PartBytes = dict[PartName, int]
Holds = Literal["tensors", "flat-buffers", "share"]
"""`tensors`: each as its rank holds it. `flat-buffers`: the values of all in a row, one buffer per statistic. `share`:
a run of the bytes of several ranks' tensors, cut where the run begins and ends."""


@dataclass(frozen=True, slots=True)
class File:
    """`count` files of one name pattern that a rank writes, and the bytes of them all.

    In a pattern, capitals stand for what differs between files; the format's `name_parts` says what.

    `dense` and `expert` are the bytes of each part, of dense tensors and of routed experts; `num_tensors` the
    tensors that all of the files hold together, `holds` in which form.
    """

    name: str
    dense: PartBytes
    expert: PartBytes
    num_tensors: int
    count: int = 1
    holds: Holds = "tensors"

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensors in all of the files."""
        return sum(self.dense.values()) + sum(self.expert.values())

    def bytes_of(self, names: Iterable[PartName]) -> int:
        """Bytes of the tensors of some parts in all of the files."""
        return sum(self.dense.get(name, 0) + self.expert.get(name, 0) for name in names)


@dataclass(frozen=True, slots=True)
class WriterClass:
    """Ranks of equal stages that write files of equal sizes.

    Within a stage they are the ranks i + `inner_size` o for i in `inner` and o in `outer`: tensor ranks and
    data ranks, FSDP shards and their copies, or simply a run of ranks.
    """

    span: StageSpan
    inner: range
    inner_size: int
    outer: range
    files: tuple[File, ...]

    @property
    def num_ranks(self) -> int:
        """Ranks of the class over all its stages."""
        return len(self.span.stages) * len(self.inner) * len(self.outer)


def flat_file(name: str, dense: PartBytes, expert: PartBytes, parts: Iterable[StatePart]) -> File:
    """A file of flat buffers: one tensor per statistic of each part that it holds."""
    num_tensors = sum(part.num_statistics for part in parts if dense.get(part.name) or expert.get(part.name))
    return File(name, dense, expert, num_tensors, holds="flat-buffers")


def written_files(writers: Iterable[WriterClass]) -> list[tuple[int, File]]:
    """Every file of a rank of the classes, and how many ranks write one like it."""
    return [(writer.num_ranks, file) for writer in writers for file in writer.files]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the formats need to know of a layout."""

    spans: tuple[StageSpan, ...]
    cells: tuple[Cell, ...]
    parallelism: Parallelism
    parts: tuple[StatePart, ...]
    precision: Precision
    files_per_rank: int
    experts_per_rank: int


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
