"""Host memory that saving needs: what is gathered there before it is written."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

from sizing.cluster import ResolvedNode
from sizing.layout import LaidOut
from sizing.layout.formats import FORMATS
from sizing.units import decimal_bytes_text


class HostMemory(BaseModel):
    """The `host_memory` block of the report, of the fullest writing node."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gathered_bytes: int = Field(description="of other ranks' state that the node's writers gather, at most")
    node_bytes: int | None
    fits: bool | None


def host_memory(laid_out: LaidOut, *, node: ResolvedNode) -> HostMemory:
    """What the writers of one node gather: the largest file that is gathered x the most writers on a node.

    Source: the formats' own, `layout/formats.py`; an upper estimate where the writers' files differ.
    """
    gathered = max(
        (file.num_bytes for w in laid_out.writers for file in w.files if _is_gathered(laid_out, file.name)), default=0
    )
    total, capacity = gathered * laid_out.layout.max_writers_per_node, node.spec.host_memory_bytes
    return HostMemory(gathered_bytes=total, node_bytes=capacity, fits=None if capacity is None else total <= capacity)


def host_memory_warnings(memory: HostMemory) -> Iterator[str]:
    """What a reader must know before believing that the state can be gathered."""
    if memory.fits is False:
        yield (
            f"saving gathers {decimal_bytes_text(memory.gathered_bytes)} in the host memory of a node, which has "
            f"{decimal_bytes_text(memory.node_bytes or 0)}: choose a format in which every rank writes its share"
        )


def _is_gathered(laid_out: LaidOut, file_name: str) -> bool:
    gathers = FORMATS[laid_out.size.format].gathers
    return gathers == "everything" or (gathers == "optimizer" and file_name.endswith("distrib_optim.pt"))
