"""Bytes by range, wherever they come from, and the memory that takes them.

Seeded bytes are made at memory speed, nothing compresses them, and they are made again where they are compared.
Aligned memory begins at pages, as O_DIRECT requires, and is pinned where a GPU copies to it.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import xxhash

from io_bench.target.direct_io import ALIGNMENT_BYTES

Bytes = npt.NDArray[np.uint8]
"""Host memory to be filled or read: one dimension, without gaps."""


@dataclass(frozen=True, slots=True)
class ByteSource:
    """Bytes that can be copied from any place on.

    `copy` copies them, from a start on, into host memory: as many as that holds. `memory` is where they are, if
    host memory holds them already.
    """

    copy: Callable[[int, Bytes], None]
    memory: Bytes | None = None


def source_of(data: torch.Tensor) -> ByteSource:
    """Make a source of a uint8 tensor's bytes. Copies release the interpreter, and take one thread each."""

    def copy_from_gpu(start: int, out: Bytes) -> None:
        torch.from_numpy(out).copy_(data[start : start + len(out)])

    if data.is_cuda:
        return ByteSource(copy_from_gpu)
    host = data.numpy()

    def copy(start: int, out: Bytes) -> None:
        out[:] = host[start : start + len(out)]

    return ByteSource(copy, host)


ZEROS = ByteSource(lambda _start, out: out.fill(0))
"""Source of zeros, as many as are wanted."""


POOL_BYTES = 4 << 20
"""It stays in the cache of a CPU, and is half a block of the direct engine. Larger, it fills from memory; smaller, keys
are drawn more often."""
_BYTES_PER_WORD = 8
"""Bytes of an int64."""
_INT64 = np.iinfo(np.int64)


class SeededBytes:
    """Chunks that differ by label, repetition, name and number: one pool of random words, XORed with a key each.

    About ten times as fast as drawing every word.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        generator = np.random.default_rng(xxhash.xxh3_64_intdigest(f"{label}/pool".encode()))
        self.pool = generator.integers(_INT64.min, _INT64.max, POOL_BYTES // _BYTES_PER_WORD, dtype=np.int64)

    def key(self, repetition: int, name: str, chunk: int) -> int:
        """The key of one chunk of one name: a word."""
        digest = xxhash.xxh3_64_intdigest(f"{self._label}/{repetition}/{name}/{chunk}".encode())
        return digest + int(_INT64.min)

    def fill(self, out: Bytes, *, key: int, at: int = 0) -> None:
        """Fill `out` with the chunk of this key from `at` on, a multiple of 8."""
        pool = self.pool[at // _BYTES_PER_WORD :]
        num_words, rest = divmod(len(out), _BYTES_PER_WORD)
        np.bitwise_xor(pool[:num_words], key, out=out[: len(out) - rest].view(np.int64))
        if rest:
            out[-rest:] = np.bitwise_xor(pool[num_words : num_words + 1], key).view(np.uint8)[:rest]


def pad_bytes(num_bytes: int) -> int:
    """Round a number of bytes up to whole units of alignment.

    >>> [pad_bytes(size) // ALIGNMENT_BYTES for size in (0, 1, ALIGNMENT_BYTES, ALIGNMENT_BYTES + 1)]
    [0, 1, 1, 2]
    """
    return -(-num_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def is_aligned(memory: Bytes) -> bool:
    """Whether memory begins at a unit of alignment."""
    return memory.ctypes.data % ALIGNMENT_BYTES == 0


def aligned_memory(sizes: Sequence[int], *, is_pinned: bool = False) -> list[Bytes]:
    """Allocate memory of these sizes in bytes, each beginning at a page, together in one allocation.

    Huge pages where the kernel gives them: a request to the disk is then of few pieces, which made direct
    reads a third faster where this was measured.
    """
    starts = list(itertools.accumulate(map(pad_bytes, sizes), initial=0))
    if is_pinned:
        whole: Bytes = torch.empty(starts[-1], dtype=torch.uint8, pin_memory=True).numpy()
    else:
        memory = mmap.mmap(-1, max(1, starts[-1]), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with contextlib.suppress(OSError):  # a kernel without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
        whole = np.frombuffer(memory, dtype=np.uint8)
    return [whole[start : start + size] for start, size in zip(starts, sizes, strict=False)]


def touch(memory: Sequence[Bytes]) -> list[Bytes]:
    """Zero memory, so that the kernel has given every page of it."""
    for each in memory:
        each.fill(0)
    return list(memory)
