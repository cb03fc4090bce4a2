"""Requests to an open file: space first, whole blocks, and no error lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence

from io_bench.target.directory.allocation import allocate
from io_bench.target.directory.direct_io import ALIGNMENT_BYTES

_MAX_PIECES: int = os.sysconf("SC_IOV_MAX")


def preallocate(fd: int, num_bytes: int) -> None:
    """Give a new file its size, and its space where the file system can. Raises OSError, ENOSPC among others."""
    if not allocate(fd, num_bytes):
        os.ftruncate(fd, num_bytes)


def write_whole(fd: int, pieces: Sequence[memoryview], offset: int) -> None:
    """Write all pieces one after another, in as many requests as it takes. Raises OSError.

    Offset, and address and length of each piece, are aligned; none is empty.
    """
    while pieces:
        request = pieces[:_MAX_PIECES]
        written = os.pwritev(fd, request, offset)
        if written < sum(map(len, request)):
            # What follows a short write must be aligned again.
            written = _aligned_part(written)
        pieces = list(_after(pieces, written))
        offset += written


def read_whole(fd: int, data: memoryview, offset: int) -> int:
    """Fill `data`, aligned like the file; the bytes read are fewer only where the file ends. Raises OSError."""
    done = 0
    while done < len(data):
        read = os.preadv(fd, [data[done:]], offset + done)
        done += read
        if read == 0 or read % ALIGNMENT_BYTES:
            break
    return done


def _after(pieces: Sequence[memoryview], num_bytes: int) -> Iterator[memoryview]:
    """What is left of them without the first bytes."""
    for piece in pieces:
        if num_bytes < len(piece):
            yield piece[num_bytes:]
        num_bytes = max(0, num_bytes - len(piece))


def _aligned_part(num_bytes: int) -> int:
    if num_bytes < ALIGNMENT_BYTES:
        raise OSError(errno.EIO, f"short write: only {num_bytes} bytes of a request were written")
    return num_bytes // ALIGNMENT_BYTES * ALIGNMENT_BYTES
