"""One configuration of a run or scan: which engine, how many writers where, how many bytes, in which blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

from io_bench.ranks.placement import Placement
from io_bench.workloads.restores import RowAssignment
from sizing.storage.workload_shape import Deletion
from sizing.strict_model import StrictModel
from sizing.units import binary_bytes_text


class Configuration(StrictModel):
    """One configuration that is measured: engine, ranks and sizes.

    `bytes_per_rank` is None where a scenario says it; other values that are None are the engine's choice.
    """

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
    stripe_count: int | None = Field(
        None, description="Storage targets over which Lustre stripes a file; -1 for all. Null for the directory's own."
    )
    stripe_bytes: int | None = Field(
        None, description="Bytes of a file on one storage target before the next. Null for the directory's own."
    )
    tensors_per_rank: int | None = Field(
        None, description="Tensors of equal size in the payload of a rank. Null for those of a model's layers."
    )
    restore: str | None = Field(
        None, description="Way to restore what replicas share. Null when each rank restores one shard for itself."
    )
    num_saving: int | None = Field(
        None, description="Ranks that save, where others restore than have saved. Null when all do both."
    )
    num_restoring: int | None = Field(
        None, description="Ranks that restore, where others restore than have saved. Null when all do both."
    )
    num_replicas: int = Field(1, description="Replicas among the ranks, of which the first writes.")
    retained_checkpoints: int | None = Field(
        None, description="Checkpoints that stay while the next is written. Null when none does."
    )
    deletion: Deletion | None = Field(None, description="When the oldest of them is removed. Null when none stays.")
    beside: str | None = Field(None, description="What runs beside the saves. Null for nothing.")
    batch_bytes: int | None = Field(None, description="Bytes of a batch that is read beside the saves. Null for none.")

    @property
    def resharding(self) -> RowAssignment | None:
        """Assignment of rows from the ranks that save to those that restore; None where the same ranks do both."""
        if self.num_saving is None or self.num_restoring is None:
            return None
        return RowAssignment(self.num_saving, self.num_restoring)

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
        return ", ".join([*parts, *self._shape])

    @property
    def _shape(self) -> Iterator[str]:
        if self.stripe_count is not None:
            yield f"stripe count {self.stripe_count}"
        if self.stripe_bytes is not None:
            yield f"stripes {binary_bytes_text(self.stripe_bytes)}"
        if self.tensors_per_rank is not None:
            yield f"{self.tensors_per_rank:,} tensors"
        if self.restore is not None:
            yield f"{self.restore} by {self.num_replicas} replicas"
        if self.resharding is not None:
            yield f"saved by {self.num_saving}, restored by {self.num_restoring}"
        if self.retained_checkpoints is not None:
            yield f"{self.retained_checkpoints} retained, deletion {self.deletion}"
        if self.beside is not None:
            yield f"beside {self.beside}"


def ranks_of(
    placements: Sequence[Placement], configuration: Configuration, *, max_writers: int | None = None
) -> tuple[int, ...]:
    """Choose the ranks that restore: the first `writers_per_node` on each of the first `num_nodes` nodes, node by node.

    Of these the first replica writes. Where a checkpoint has at most `max_writers`, there are no more in any replica.
    """
    of_node: dict[str, list[int]] = {}
    for placement in placements:
        of_node.setdefault(placement.node, []).append(placement.rank)
    nodes = list(of_node.values())[: configuration.num_nodes]
    ranks = tuple(rank for of_one in nodes for rank in of_one[: configuration.writers_per_node])
    return ranks[: max_writers and max_writers * configuration.num_replicas]
