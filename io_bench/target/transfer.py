"""How a target moves files, where that is not up to the engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Transfer:
    """How objects are moved: in parts of `part_bytes`, `num_parallel` at a time."""

    part_bytes: int
    num_parallel: int

    def host_bytes(self, num_objects: int) -> int:
        """Memory for the parts of objects written at once, or of one that is read, which holds parts behind it too."""
        num_parts = max(num_objects * (self.num_parallel + 1), 2 * self.num_parallel + 1)
        return num_parts * self.part_bytes
