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
    delta_base_bytes: int = Field(
        0,
        description="Bytes of the state before, one whole share for each of the node's writers, that "
        "checkpoint.reduction.delta makes deltas from; 0 without deltas.",
    )
    offloaded_bytes: int = Field(
        0,
        description="Bytes of state and activations that training.offload keeps there all the time; 0 without offload.",
    )
    node_bytes: int | None = Field(description="Host memory of one node, in bytes. Null when the node does not say.")
    fits: bool | None = Field(description="Whether all of it together fits the host memory. Null when that is unknown.")

    @property
    def needed_bytes(self) -> int:
        """Beside what the training itself takes, but for what it offloads."""
        return self.saving_bytes + self.offloaded_bytes

    @property
    def saving_bytes(self) -> int:
        """Of saves alone."""
        return self.gathered_bytes + self.staged_bytes + self.tier_bytes + self.delta_base_bytes


def host_memory(
    laid_out: LaidOut, *, node: ResolvedNode, checkpoint: Checkpoint, offloaded_bytes: int = 0
) -> HostMemory:
    """What one node's ranks gather, stage and keep, beside what training keeps there.

    What lies there already is staged all the same: the next step changes it while a save drains.

    Gathered is the largest file that is gathered x the max writers on a node; where each rank gathers what its replicas
    divide, the state of the fullest rank x the ranks of a node.

    Asynchronous saving stages what each of them writes, once, up to its budget: the next save waits until the last one
    has drained. A tier in memory keeps its checkpoints, of which one is in flight, and is drained from. Deltas are made
    from the whole state of an earlier save to the main storage, which each writer keeps beside all this.
    Source: the formats' own, `layout/formats`; a node holds the budget once per local process, marin-community/marin
    pull request 8469; an upper estimate where the writers' files differ.
    """
    max_writers = laid_out.on_nodes.max_writers_per_node
    gathered, capacity = _gathered_bytes(laid_out), node.spec.host_memory_bytes
    written = max_writers * laid_out.on_nodes.max_rank_bytes
    kept = sum(written * tier.num_copies * (tier.keep + 1) for tier in checkpoint.tiers if tier.kind in MEMORY_KINDS)
    staged = _staged_bytes(laid_out, checkpoint) if checkpoint.mode == "async" and not kept else 0
    base = written if checkpoint.reduction is not None and checkpoint.reduction.delta is not None else 0
    return HostMemory(
        gathered_bytes=gathered,
        staged_bytes=staged,
        tier_bytes=kept,
        delta_base_bytes=base,
        offloaded_bytes=offloaded_bytes,
        node_bytes=capacity,
        fits=None if capacity is None else gathered + staged + kept + base + offloaded_bytes <= capacity,
    )


def _gathered_bytes(laid_out: LaidOut) -> int:
    layout, parts = laid_out.on_nodes, laid_out.saved_as.gathered_parts
    if laid_out.saved_as.gathers_on_every_rank:
        held = sum(sum(content.of(parts).values()) for content in (laid_out.max_dense, laid_out.max_expert))
        return held * min(layout.gpus_per_node, layout.num_gpus)
    largest = max(file.bytes_of(parts) for writer in laid_out.writers for file in writer.files)
    return largest * layout.max_writers_per_node


def _staged_bytes(laid_out: LaidOut, checkpoint: Checkpoint) -> int:
    share = laid_out.on_nodes.max_rank_bytes
    budget = share if checkpoint.staging_bytes is None else checkpoint.staging_bytes
    return laid_out.on_nodes.max_writers_per_node * min(share, budget)


def host_memory_warnings(memory: HostMemory) -> Iterator[str]:
    """What a reader must know before believing that the state can be gathered or staged."""
    if memory.fits is False:
        remedy = _remedy(memory) if memory.saving_bytes else "Offload less (training.offload), or use more nodes"
        offloaded = decimal_bytes_text(memory.offloaded_bytes)
        kept = f"{offloaded} of it for training.offload, " if memory.offloaded_bytes else ""
        yield (
            f"A save needs {decimal_bytes_text(memory.needed_bytes)} of host memory per node, {kept}and a node has "
            f"{decimal_bytes_text(memory.node_bytes or 0)}. {remedy}"
        )


def _remedy(memory: HostMemory) -> str:
    if memory.staged_bytes or memory.tier_bytes:
        return (
            "Spread the writers over more nodes, lower checkpoint.staging_bytes, keep less in memory tiers, or save "
            "with mode sync"
        )
    if memory.delta_base_bytes:
        return "Spread the writers over more nodes, or save without checkpoint.reduction.delta"
    return "Choose a format in which every rank writes its own share"
