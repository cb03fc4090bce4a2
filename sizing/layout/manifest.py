"""Every file of a checkpoint by its real name: which rank on which node writes it, and its bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sizing.layout.files import File
from sizing.layout.layout import LaidOut
from sizing.layout.parallelism import Parallelism
from sizing.layout.saving_ranks import saving_ranks
from sizing.layout.stages import share

_STANDS_FOR_A_NUMBER = re.compile(r"[A-Z]+")


class ManifestRow(NamedTuple):
    """One file of the checkpoint; `bytes` are those of its tensors, without the container's."""

    file: str
    bytes: int
    rank: int
    node: int
    stage: int


def manifest(laid_out: LaidOut, parallelism: Parallelism, *, gpus_per_node: int) -> Iterator[ManifestRow]:
    """Every file, rank class by rank class.

    Raises InvalidInput for worlds of more than 100,000 ranks.
    """
    for saving in saving_ranks(laid_out.writers, parallelism, gpus_per_node=gpus_per_node):
        for file in saving.writer.files:
            for number in range(file.count):
                parts = {"RANK": str(saving.rank)} | laid_out.saved_as.name_parts(file, number, saving)
                num_bytes = share(file.num_bytes, file.count, number)
                yield ManifestRow(_name(file, parts), num_bytes, saving.rank, saving.node, saving.stage)


def _name(file: File, parts: Mapping[str, str]) -> str:
    return _STANDS_FOR_A_NUMBER.sub(lambda capitals: parts[capitals[0]], file.name)
