"""What of a save passes the links of the GPUs, where some of the state lies on the host already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sizing.layout import LaidOut
from sizing.layout.files import WriterClass
from sizing.run.demands.demands import Demands
from sizing.state.saved_state import PartName


def with_offload(demands: Demands, laid_out: LaidOut, off_gpu: Mapping[PartName, float]) -> Demands:
    """The demands where so much of each saved part lies off the GPU: the copy from it has the rest alone.

    Saves of less than everything are taken to leave out both alike.
    """
    if not any(off_gpu.values()):
        return demands
    total, largest = laid_out.size.total_bytes, max(map(_written_bytes, laid_out.writers))
    linked = [(writer.num_ranks, linked_bytes(writer, off_gpu)) for writer in laid_out.writers]
    write = replace(
        demands.write,
        linked_over_copied=sum(ranks * num_bytes for ranks, num_bytes in linked) / total,
        largest_linked_over_copied=max(num_bytes for _, num_bytes in linked) / largest,
    )
    return replace(demands, write=write)


def linked_bytes(writer: WriterClass, off_gpu: Mapping[PartName, float]) -> float:
    """Bytes that a rank of the class copies from its GPU: of each part what does not lie on the host.

    Source: definition.

    >>> from sizing.layout.files import File
    >>> from sizing.layout.stages import StageSpan
    >>> files = (File("all", {"weights": 2, "master": 4, "moments": 8}, {}, 3),)
    >>> span = StageSpan.__new__(StageSpan)
    >>> linked_bytes(WriterClass(span, range(1), 1, range(1), files), {"master": 1.0, "moments": 0.5})
    6.0
    """
    return sum(
        num_bytes * (1.0 - off_gpu.get(name, 0.0))
        for file in writer.files
        for part_bytes in (file.dense, file.expert)
        for name, num_bytes in part_bytes.items()
    )


def _written_bytes(writer: WriterClass) -> float:
    return linked_bytes(writer, {})
