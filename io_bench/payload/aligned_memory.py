"""Memory that O_DIRECT takes: it begins at pages; pinned where a GPU copies to it."""

from __future__ import annotations

import contextlib
import itertools
import mmap
from collections.abc import Sequence

import numpy as np
import torch

from io_bench.payload.byte_source import Bytes
from io_bench.target.directory.direct_io import ALIGNMENT_BYTES


def padded(num_bytes: int) -> int:
    """Rounded up to whole units of alignment.

    >>> [padded(size) // ALIGNMENT_BYTES for size in (0, 1, ALIGNMENT_BYTES, ALIGNMENT_BYTES + 1)]
    [0, 1, 1, 2]
    """
    return -(-num_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def is_aligned(memory: Bytes) -> bool:
    """Whether it begins at a unit of alignment."""
    return memory.ctypes.data % ALIGNMENT_BYTES == 0


def aligned_memory(sizes: Sequence[int], *, is_pinned: bool = False) -> list[Bytes]:
    """Memory of these sizes in bytes, each beginning at a page, together in one allocation.

    Huge pages where the kernel gives them: a request to the disk is then of few pieces, which made direct
    reads a third faster where this was measured.
    """
    starts = list(itertools.accumulate(map(padded, sizes), initial=0))
    whole = _pinned(starts[-1]) if is_pinned else _huge_pages(starts[-1])
    return [whole[start : start + size] for start, size in zip(starts, sizes, strict=False)]


def touched(memory: Sequence[Bytes]) -> list[Bytes]:
    """The same memory, zeroed, so that the kernel has given every page of it."""
    for each in memory:
        each.fill(0)
    return list(memory)


def _pinned(num_bytes: int) -> Bytes:
    return torch.empty(num_bytes, dtype=torch.uint8, pin_memory=True).numpy()


def _huge_pages(num_bytes: int) -> Bytes:
    memory = mmap.mmap(-1, max(1, num_bytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without them
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=np.uint8)
