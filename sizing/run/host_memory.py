"""Host memory that saving needs: what is gathered or staged there before it is written."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

from sizing.cluster import ResolvedNode
from sizing.layout import LaidOut
from sizing.run.checkpoint import Checkpoint
from sizing.run.tier import MEMORY_KINDS
from sizing.units import decimal_bytes_text


class HostMemory(BaseModel):
    """The `host_memory` block of the report, of the fullest writing node."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gathered_bytes: int = Field(
        description="Max bytes of other ranks' state that the node's writers gather before they write."
    )
    staged_bytes: int = Field(
        description="Max bytes copied from the node's GPUs and kept until they have drained: for each of its writers "
        "the whole share, or checkpoint.staging_bytes where that is less."
    )
    tier_bytes: int = Field(
        0, description="Bytes that tiers in memory keep on the node, copies from its peers included."
    )
    node_bytes: int | None = Field(description="Host memory of one node, in bytes. Null when the node does not say.")
    fits: bool | None = Field(description="Whether all of it together fits the host memory. Null when that is unknown.")

    @property
    def needed_bytes(self) -> int:
        """Beside what the training itself takes."""
        return self.gathered_bytes + self.staged_bytes + self.tier_bytes


def host_memory(laid_out: LaidOut, *, node: ResolvedNode, checkpoint: Checkpoint) -> HostMemory:
    """What one node's writers gather (the largest file that is gathered x the max writers on a node), stage and keep.

    Asynchronous saving stages what each of them writes, once, up to its budget: the next save waits until the last one
    has drained. A tier in memory keeps its checkpoints, of which one is in flight, and is drained from.
    Source: the formats' own, `layout/formats`; a node holds the budget once per local process, marin-community/marin
    pull request 8469; an upper estimate where the writers' files differ.
    """
    max_writers = laid_out.layout.max_writers_per_node
    parts = laid_out.saved_as.gathered_parts
    largest = max(file.bytes_of(parts) for writer in laid_out.writers for file in writer.files)
    gathered, capacity = largest * max_writers, node.spec.host_memory_bytes
    written = max_writers * laid_out.layout.max_rank_bytes
    kept = sum(written * tier.num_copies * (tier.keep + 1) for tier in checkpoint.tiers if tier.kind in MEMORY_KINDS)
    staged = _staged_bytes(laid_out, checkpoint) if checkpoint.mode == "async" and not kept else 0
    return HostMemory(
        gathered_bytes=gathered,
        staged_bytes=staged,
        tier_bytes=kept,
        node_bytes=capacity,
        fits=None if capacity is None else gathered + staged + kept <= capacity,
    )


def _staged_bytes(laid_out: LaidOut, checkpoint: Checkpoint) -> int:
    share = laid_out.layout.max_rank_bytes
    budget = share if checkpoint.staging_bytes is None else checkpoint.staging_bytes
    return laid_out.layout.max_writers_per_node * min(share, budget)


def host_memory_warnings(memory: HostMemory) -> Iterator[str]:
    """What a reader must know before believing that the state can be gathered or staged."""
    if memory.fits is False:
        remedy = (
            "Spread the writers over more nodes, lower checkpoint.staging_bytes, keep less in memory tiers, or save "
            "with mode sync"
            if memory.staged_bytes or memory.tier_bytes
            else "Choose a format in which every rank writes its own share"
        )
        yield (
            f"A save needs {decimal_bytes_text(memory.needed_bytes)} of host memory per node, and a node has "
            f"{decimal_bytes_text(memory.node_bytes or 0)}. {remedy}"
        )
