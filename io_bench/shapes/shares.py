"""How a file is divided among those that read it together."""

from __future__ import annotations

from io_bench.target.directory.direct_io import ALIGNMENT_BYTES


def share_bytes(num_bytes: int, num_replicas: int) -> int:
    """An equal share of a file for each of the replicas, of whole pages, so that each can be read directly.

    >>> share_bytes(100_000, 3)
    36864
    """
    return -(-num_bytes // (num_replicas * ALIGNMENT_BYTES)) * ALIGNMENT_BYTES
