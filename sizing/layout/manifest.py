"""Every file of a checkpoint by its real name: which rank on which node writes it, and its bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from sizing.layout.files import File, WriterClass
from sizing.layout.layout import LaidOut
from sizing.layout.parallelism import Parallelism
from sizing.layout.saving_ranks import saving_ranks
from sizing.layout.stages import share

_PLACEHOLDER = re.compile(
    r"PPP|EEE|RANK|(?<=_rank_)(?:TT|MM|EE|D)(?![a-z])|(?<=model_)TT|(?<=layer_)LL?|(?<=expert_)E|(?<=_)N(?=\.)"
)


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
    for saving in saving_ranks(laid_out, parallelism, gpus_per_node=gpus_per_node):
        stage, inner, outer = saving.stage, saving.inner, saving.outer
        names = {
            "TT": f"{inner:02d}",
            "PPP": f"{stage:03d}",
            "EEE": f"{outer:03d}",
            "D": str(outer),
            "EE": str(outer),
            "RANK": str(saving.rank),
            "MM": f"{stage * parallelism.tensor + inner:02d}",
        }
        for file in saving.writer.files:
            for number in range(file.count):
                name = _name(file, saving.writer, names, number, parallelism, outer=outer, stage=stage)
                num_bytes = share(file.num_bytes, file.count, number)
                yield ManifestRow(name, num_bytes, saving.rank, saving.node, stage)


def _name(
    file: File,
    writer: WriterClass,
    names: dict[str, str],
    number: int,
    parallelism: Parallelism,
    *,
    outer: int,
    stage: int,
) -> str:
    """The file name with its placeholders filled in; `number` counts the rank's files of one pattern."""
    span = writer.span
    before = (stage - span.stages.start) * len(span.layers)
    numbered = {"N": str(number), "LL": f"{span.layers.start + before + number:02d}"}
    if "expert_" in file.name:
        experts = file.count // len(span.expert_layers)
        layer, expert = divmod(number, experts)
        numbered["L"] = str(span.expert_layers.start + before + layer)
        numbered["E"] = str(outer % parallelism.expert * experts + expert)
    filled = names | numbered
    return _PLACEHOLDER.sub(lambda match: filled[match[0]], file.name)
