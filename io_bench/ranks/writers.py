"""The ranks that write in one configuration, among all that were started: the others wait for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from io_bench.ranks.process_group import ProcessGroup


@dataclass(frozen=True, slots=True)
class Writers:
    """Writers in order; `ranks` are their numbers in the group, in which all ranks go through every barrier."""

    ranks: tuple[int, ...]
    group: ProcessGroup

    @property
    def index(self) -> int | None:
        """Which of the writers this rank is; None where it waits."""
        return self.ranks.index(self.group.rank) if self.group.rank in self.ranks else None

    @property
    def is_first_of_node(self) -> bool:
        """Whether this rank is the first writer of its node, which speaks for it."""
        here = self.group.placement.node
        first = next((rank for rank, node in zip(self.ranks, self.nodes, strict=True) if node == here), None)
        return self.group.rank == first

    @property
    def nodes(self) -> tuple[str, ...]:
        """The node of each writer."""
        return tuple(self.group.placements[rank].node for rank in self.ranks)

    @property
    def num_nodes(self) -> int:
        """Nodes that hold a writer."""
        return len(set(self.nodes))

    def gathered(self, value: Any, *, doing: str) -> list[Any]:
        """On rank 0 every writer's value, in their order; what the others give is left out. Raises as the group's."""
        values = self.group.gathered(value, doing=doing)
        return [values[rank] for rank in self.ranks] if values else []

    def title(self, index: int) -> str:
        """A writer as people can find it: by rank and host, and by node where nodes have the same host name."""
        placement = self.group.placements[self.ranks[index]]
        namesakes = {peer.node for peer in self.group.placements if peer.hostname == placement.hostname}
        node = f" ({placement.node})" if len(namesakes) > 1 else ""
        return f"rank {placement.rank} on {placement.hostname}{node}"
