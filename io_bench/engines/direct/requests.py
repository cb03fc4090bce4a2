"""Requests to an open file: space first, whole blocks, and no error lost."""

from __future__ import annotations

import ctypes
import errno
import functools
import os

from io_bench.engines.direct.layout import ALIGNMENT_BYTES

_NO_FALLOCATE = (errno.EOPNOTSUPP, errno.ENOSYS)


def preallocate(fd: int, num_bytes: int) -> None:
    """Give a new file its size, and its space where the file system can. Raises OSError, ENOSPC among others.

    By fallocate(2) itself: the C library's posix_fallocate would write zeros where it is not supported.
    """
    if _libc().fallocate(fd, 0, 0, num_bytes) != 0:
        reason = ctypes.get_errno()
        if reason not in _NO_FALLOCATE:
            raise OSError(reason, os.strerror(reason))
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


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    return libc
