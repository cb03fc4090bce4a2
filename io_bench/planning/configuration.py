"""One point of a campaign: which engine, how many writers where, how many bytes, in which blocks."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from io_bench.ranks.placement import Placement
from sizing.units import binary_bytes_text


class Configuration(BaseModel):
    """What is measured at once. `bytes_per_rank` is None where a scenario says it; other Nones are the engine's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    engine: str = Field(description="Engine that writes; `ckpt-bench engines` lists them.")
    num_nodes: int = Field(description="Nodes that write at the same time.")
    writers_per_node: int = Field(description="Ranks on each of these nodes that write at the same time.")
    bytes_per_rank: int | None = Field(
        None, description="Bytes of tensors that each rank writes. Null when a scenario gives the payload."
    )
    block_bytes: int | None = Field(
        None, description="Bytes of one request to the file system. Null when the engine decides."
    )
    threads_per_rank: int | None = Field(None, description="I/O threads of one rank. Null when the engine decides.")
    is_streamed: bool = Field(False, description="Whether the payload is generated during the write.")

    @property
    def title(self) -> str:
        """The configuration in a line."""
        nodes = "1 node" if self.num_nodes == 1 else f"{self.num_nodes} nodes"
        parts = [self.engine, f"{nodes} x {self.writers_per_node}"]
        if self.bytes_per_rank is not None:
            parts.append(binary_bytes_text(self.bytes_per_rank))
        if self.block_bytes is not None:
            parts.append(f"blocks {binary_bytes_text(self.block_bytes)}")
        if self.threads_per_rank is not None:
            parts.append(f"{self.threads_per_rank} threads")
        if self.is_streamed:
            parts.append("streamed")
        return ", ".join(parts)


def writing_ranks(
    placements: Sequence[Placement], configuration: Configuration, *, max_writers: int | None = None
) -> tuple[int, ...]:
    """The ranks that write: the first so many on each of the first so many nodes, node by node; max `max_writers`."""
    of_node: dict[str, list[int]] = {}
    for placement in placements:
        of_node.setdefault(placement.node, []).append(placement.rank)
    nodes = list(of_node.values())[: configuration.num_nodes]
    return tuple(rank for ranks in nodes for rank in ranks[: configuration.writers_per_node])[:max_writers]
