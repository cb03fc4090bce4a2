"""Workloads: the tensors that each writer saves, of a given size or those of a scenario's ranks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from io_bench.payload.inventory import BYTES_PER_DTYPE, TORCH_DTYPES, Inventory, TensorSpec, equal_tensors, inventory_of
from sizing.layout.manifest import SavedByRank, SavedTensor
from sizing.scenario import Scenario
from sizing.sized_layout import saved_by_rank_of
from sizing.units import bytes_text, counted_text

_RANKS_NAMED = 4
"""Max ranks that a sentence names; the others are dots."""


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes that `num_writers` save, without containers; `largest_bytes` is the max of one writer."""

    num_writers: int
    total_bytes: int
    largest_bytes: int


class WriterWorkload(Protocol):
    """The tensors that the writers of a checkpoint save, by their index among the writers."""

    @property
    def max_writers(self) -> int | None:
        """The max number of writers; None where any number may write."""

    def inventory(self, index: int) -> Inventory:
        """The tensors of one writer."""

    def size(self, num_ranks: int) -> Size:
        """Bytes that the first ranks save together."""

    def describe(self, num_writers: int) -> str:
        """Describe the workload in a sentence; empty where there is nothing to say."""


@dataclass(frozen=True)
class SizedWorkload:
    """A workload of the same bytes for every writer, in tensors of a model's layers or in equal ones."""

    bytes_per_rank: int
    num_tensors: int | None = None

    @property
    def max_writers(self) -> int | None:
        """Give no max: any number of ranks may write."""
        return None

    def inventory(self, index: int) -> Inventory:  # noqa: ARG002 - all are equal
        """Make transformer layers of that many bytes, or equal tensors."""
        if self.num_tensors is None:
            return inventory_of(self.bytes_per_rank)
        return equal_tensors(self.bytes_per_rank, self.num_tensors)

    def size(self, num_ranks: int) -> Size:
        """Bytes of equal writers, one on each rank."""
        return Size(num_ranks, num_ranks * self.bytes_per_rank, self.bytes_per_rank)

    def count_tensors(self, num_ranks: int) -> int:
        """Count the tensors of equal writers, one on each rank."""
        return num_ranks * self.inventory(0).num_tensors

    def describe(self, num_writers: int) -> str:  # noqa: ARG002 - all are equal
        """Give no sentence: the plan says it all."""
        return ""


@dataclass(frozen=True)
class ScenarioWorkload:
    """The tensors that the writing ranks of a scenario save, in the order of their ranks, scaled."""

    saved: SavedByRank
    scale: float

    @property
    def max_writers(self) -> int | None:
        """Number of ranks that write in the scenario."""
        return len(self.saved.ranks)

    def inventory(self, index: int) -> Inventory:
        """The tensors of the scenario's writer of that index, each scaled."""
        tensors = map(_spec_of, self.saved.tensors(self.saved.ranks[index]))
        return Inventory(tuple(scale_tensors(tensors, self.scale)))

    def size(self, num_ranks: int) -> Size:
        """Bytes of the scenario's first writers, to within what scaling rounds."""
        sizes = [round(saving.num_bytes * self.scale) for saving in self.saved.ranks[:num_ranks]]
        return Size(len(sizes), sum(sizes), max(sizes))

    def count_tensors(self, num_ranks: int) -> int:
        """Count the tensors of the scenario's first writers: of each class of them as many as its first has."""
        of_class: dict[int, int] = {}
        for index, saving in enumerate(self.saved.ranks[:num_ranks]):
            if id(saving.writer) not in of_class:
                of_class[id(saving.writer)] = self.inventory(index).num_tensors
        return sum(of_class[id(saving.writer)] for saving in self.saved.ranks[:num_ranks])

    def describe(self, num_writers: int) -> str:
        """Say which of the scenario's writers write here, and how much of its checkpoint that is."""
        first = self.saved.ranks[:num_writers]
        who = "all of them" if len(first) == len(self.saved.ranks) else f"the first {len(first)} of them"
        numbers = ", ".join(str(saving.rank) for saving in first[:_RANKS_NAMED])
        numbers += ", ..." if len(first) > _RANKS_NAMED else ""
        return (
            f"The scenario's checkpoint has {bytes_text(sum(s.num_bytes for s in self.saved.ranks))}, from "
            f"{counted_text(len(self.saved.ranks), 'writer')} on "
            f"{counted_text(len({s.node for s in self.saved.ranks}), 'node')}. "
            f"This run writes {who} (ranks {numbers} of the scenario): "
            f"{bytes_text(sum(s.num_bytes for s in first))} scaled by {self.scale:g}."
        )


def workload_of(
    scenario: Scenario | None, *, scale: float | None, bytes_per_rank: int, tensors_per_rank: int | None = None
) -> SizedWorkload | ScenarioWorkload:
    """Choose the workload: a scenario's tensors, where there is one. Raises InvalidInput as `answer` does for it."""
    if scenario is None:
        return SizedWorkload(bytes_per_rank, tensors_per_rank)
    return ScenarioWorkload(saved_by_rank_of(scenario), scale or 1.0)


def scale_tensors(tensors: Iterable[TensorSpec], scale: float) -> Iterator[TensorSpec]:
    """Scale tensors to `scale` of their rows each, so that bytes are `scale` of theirs to within a row.

    What a tensor loses or gains by whole rows, the next makes good. A tensor of which less than half a row is left
    becomes a flat one of a value or more.

    >>> w = TensorSpec("weights", "w", (8, 4), "float32")
    >>> [tensor.shape for tensor in scale_tensors([w, w, w], 0.3)], next(scale_tensors([w], 0.01)).shape
    ([(2, 4), (3, 4), (2, 4)], (1,))
    """
    owed = 0.0
    for tensor in tensors:
        owed += tensor.num_bytes * scale
        smaller = _shrink(tensor, owed) if scale != 1 else tensor
        owed -= smaller.num_bytes
        yield smaller


def _shrink(tensor: TensorSpec, num_bytes: float) -> TensorSpec:
    """Reduce the rows of a tensor until it has about `num_bytes`; less than half a row becomes single values."""
    if not tensor.num_bytes:
        return tensor
    rows, *others = tensor.shape or (1,)
    row_bytes = tensor.num_bytes // rows
    num_rows = min(rows, round(num_bytes / row_bytes))
    if num_rows > 0:
        return replace(tensor, shape=(num_rows, *others))
    value_bytes = BYTES_PER_DTYPE[tensor.dtype]
    return replace(tensor, shape=(max(1, math.floor(num_bytes / value_bytes)),))


def _spec_of(tensor: SavedTensor) -> TensorSpec:
    dtype = "uint8" if tensor.dtype == "uint8" else TORCH_DTYPES[tensor.dtype]
    return TensorSpec(tensor.part, tensor.name, tensor.shape, dtype)
