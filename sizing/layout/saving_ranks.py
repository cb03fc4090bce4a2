"""The ranks that write, one by one, and where each of them stands."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sizing.errors import InvalidInput
from sizing.layout.files import WriterClass
from sizing.layout.parallelism import Parallelism

MAX_RANKS = 100_000
"""A row for each: 10 MB of CSV."""


@dataclass(frozen=True, slots=True)
class SavingRank:
    """A rank that writes, and where in its stage: tensor rank or position `inner`, data rank or copy `outer`."""

    rank: int
    node: int
    stage: int
    inner: int
    outer: int
    writer: WriterClass
    parallelism: Parallelism

    @property
    def layers_before(self) -> int:
        """Layers on the stages of its class before its own."""
        span = self.writer.span
        return (self.stage - span.stages.start) * span.num_layers

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensors in all of its files."""
        return sum(file.num_bytes for file in self.writer.files)


def saving_ranks(
    writers: Iterable[WriterClass], parallelism: Parallelism, *, gpus_per_node: int
) -> Iterator[SavingRank]:
    """Every rank that writes, class by class.

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
