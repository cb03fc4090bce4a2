"""Requests to an open file: space first, whole blocks, and no error lost."""

from __future__ import annotations

import errno
import os

from io_bench.allocation import allocate
from io_bench.engines.direct.layout import ALIGNMENT_BYTES


def preallocate(fd: int, num_bytes: int) -> None:
    """Give a new file its size, and its space where the file system can. Raises OSError, ENOSPC among others."""
    if not allocate(fd, num_bytes):
        os.ftruncate(fd, num_bytes)


def write_whole(fd: int, data: memoryview, offset: int) -> None:
    """Write all of `data`, aligned in memory, offset and length, in as many requests as it takes. Raises OSError."""
    done = 0
    while done < len(data):
        written = os.pwrite(fd, data[done:], offset + done)
        # What follows a short write must be aligned again.
        done += written if written == len(data) - done else _aligned_part(written)


def read_whole(fd: int, data: memoryview, offset: int) -> int:
    """Fill `data`, aligned like the file; the bytes read are fewer only where the file ends. Raises OSError."""
    done = 0
    while done < len(data):
        read = os.preadv(fd, [data[done:]], offset + done)
        done += read
        if read == 0 or read % ALIGNMENT_BYTES:
            break
    return done


def _aligned_part(num_bytes: int) -> int:
    if num_bytes < ALIGNMENT_BYTES:
        raise OSError(errno.EIO, f"only {num_bytes} bytes of a request were written")
    return num_bytes // ALIGNMENT_BYTES * ALIGNMENT_BYTES
