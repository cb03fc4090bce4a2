"""O_DIRECT, really tried: which alignment it takes, and whether it passes by the page cache."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from io_bench.target.directory import page_cache
from io_bench.target.directory.direct_io import is_refusal

_ALIGNMENTS_BYTES = (1, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
"""Sectors of drives, pages, and blocks of file systems up to 64 KiB; 1 where O_DIRECT is ignored."""


def smallest_alignment_bytes(path: Path) -> int | None:
    """The min number of which memory address, file offset and length may be multiples; None without O_DIRECT.

    Each candidate is written, synced and read back: some file systems refuse it only in fsync.
    Raises OSError for what is no refusal.
    """
    return next((size for size in _ALIGNMENTS_BYTES if _works(path, size)), None)


def is_refused(path: Path) -> bool:
    """Whether a file cannot even be opened for direct I/O. Raises OSError for what is no refusal."""
    try:
        os.close(_opened(path))
    except OSError as error:
        _raise_unless_refusal(error)
        return True
    return False


def num_cached_pages(path: Path, *, alignment_bytes: int) -> int:
    """Pages in memory after a direct write: 0, unless the file system writes through the page cache after all."""
    with mmap.mmap(-1, max(_ALIGNMENTS_BYTES)) as block:
        fd = _opened(path)
        try:
            os.pwrite(fd, memoryview(block)[: max(alignment_bytes, mmap.PAGESIZE)], 0)
            os.fsync(fd)
            return page_cache.num_resident_pages(fd)
        finally:
            os.close(fd)


def _works(path: Path, size: int) -> bool:
    try:
        fd = _opened(path)
    except OSError as error:
        _raise_unless_refusal(error)
        return False
    try:
        return _round_trip(fd, size)
    except OSError as error:
        _raise_unless_refusal(error)
        return False
    finally:
        os.close(fd)


def _round_trip(fd: int, size: int) -> bool:
    """Write and read `size` bytes at offset `size`, from and to memory that is `size` past a page."""
    with mmap.mmap(-1, 4 * max(_ALIGNMENTS_BYTES)) as memory:
        memory[size : 2 * size] = b"\xa5" * size
        buffers = memoryview(memory)
        out, back = buffers[size : 2 * size], buffers[3 * size : 4 * size]
        try:
            written = os.pwrite(fd, out, size)
            os.fsync(fd)
            return written == size and os.preadv(fd, [back], size) == size and back == out
        finally:
            for view in (out, back, buffers):
                view.release()


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_DIRECT | os.O_CLOEXEC, 0o600)


def _raise_unless_refusal(error: OSError) -> None:
    if not is_refusal(error):
        raise error
