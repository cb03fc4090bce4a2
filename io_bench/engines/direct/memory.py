"""Memory that O_DIRECT takes: aligned, touched before the clock, pinned where a GPU copies to it."""

from __future__ import annotations

import contextlib
import mmap

import numpy as np
import torch

from io_bench.byte_source import Bytes


def aligned_buffers(number: int, num_bytes: int, *, is_pinned: bool) -> list[Bytes]:
    """Zeroed buffers of equal size, each beginning at a page.

    Huge pages where the kernel gives them: a request to the disk is then of few pieces, which made direct
    reads a third faster where this was measured.
    """
    memory = _pinned(number * num_bytes) if is_pinned else _huge_pages(number * num_bytes)
    memory.fill(0)
    return [memory[start : start + num_bytes] for start in range(0, number * num_bytes, num_bytes)]


def _pinned(num_bytes: int) -> Bytes:
    return torch.empty(num_bytes, dtype=torch.uint8, pin_memory=True).numpy()


def _huge_pages(num_bytes: int) -> Bytes:
    memory = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without them
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=np.uint8)
