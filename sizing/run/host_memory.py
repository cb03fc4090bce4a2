"""Host memory that saving needs: what is gathered or staged there before it is written."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

from sizing.cluster import ResolvedNode
from sizing.layout import LaidOut
from sizing.layout.formats import FORMATS, Mode
from sizing.units import decimal_bytes_text


class HostMemory(BaseModel):
    """The `host_memory` block of the report, of the fullest writing node."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gathered_bytes: int = Field(description="of other ranks' state that the node's writers gather, at most")
    staged_bytes: int = Field(description="copied from the GPUs and kept until drained, at most")
    node_bytes: int | None
    fits: bool | None

    @property
    def needed_bytes(self) -> int:
        """Beside what the training itself takes."""
        return self.gathered_bytes + self.staged_bytes


def host_memory(laid_out: LaidOut, *, node: ResolvedNode, mode: Mode) -> HostMemory:
    """What one node's writers gather (the largest file that is gathered x the most writers on a node) and stage.

    Asynchronous saving stages what each of them writes, once: the next save waits until the last one has drained.
    Source: the formats' own, `layout/formats.py`; an upper estimate where the writers' files differ.
    """
    most_writers = laid_out.layout.max_writers_per_node
    largest = max(
        (file.num_bytes for w in laid_out.writers for file in w.files if _is_gathered(laid_out, file.name)), default=0
    )
    gathered, capacity = largest * most_writers, node.spec.host_memory_bytes
    staged = most_writers * laid_out.layout.max_rank_bytes if mode == "async" else 0
    return HostMemory(
        gathered_bytes=gathered,
        staged_bytes=staged,
        node_bytes=capacity,
        fits=None if capacity is None else gathered + staged <= capacity,
    )


def host_memory_warnings(memory: HostMemory) -> Iterator[str]:
    """What a reader must know before believing that the state can be gathered or staged."""
    if memory.fits is False:
        remedy = (
            "spread the writing over more nodes, or save synchronously"
            if memory.staged_bytes
            else "choose a format in which every rank writes its share"
        )
        yield (
            f"saving needs {decimal_bytes_text(memory.needed_bytes)} of the host memory of a node, which has "
            f"{decimal_bytes_text(memory.node_bytes or 0)}: {remedy}"
        )


def _is_gathered(laid_out: LaidOut, file_name: str) -> bool:
    gathers = FORMATS[laid_out.size.format].gathers
    return gathers == "everything" or (gathers == "optimizer" and file_name.endswith("distrib_optim.pt"))
