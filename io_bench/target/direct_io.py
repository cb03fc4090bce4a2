"""O_DIRECT and fallocate: what they ask for, and how a file system says no."""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os

from sizing.units import parse_bytes

ALIGNMENT_BYTES: int = max(parse_bytes("4 KiB"), mmap.PAGESIZE)
"""Alignment of memory, of requests, and of storages in a file: no disk in use asks for more, some file systems for
whole pages, which have 64 KiB on some Arm hosts."""

_REFUSALS = (errno.EINVAL, errno.EOPNOTSUPP)


def is_refusal(error: OSError) -> bool:
    """Whether a file system does not take O_DIRECT, or a request of this alignment; any other error is one."""
    return error.errno in _REFUSALS


_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOSYS)


def allocate(fd: int, num_bytes: int) -> bool:
    """Take the space of a new file; False where the file system cannot. Raises OSError, ENOSPC among others.

    By fallocate(2) itself: the C library's posix_fallocate would write zeros where it is not supported.
    """
    if _libc().fallocate(fd, 0, 0, num_bytes) == 0:
        return True
    reason = ctypes.get_errno()
    if reason in _UNSUPPORTED:
        return False
    raise OSError(reason, os.strerror(reason))


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
    return libc


def share_bytes(num_bytes: int, num_replicas: int) -> int:
    """An equal share of a file for each of the replicas, of whole pages, so that each can be read directly.

    >>> share_bytes(100_000, 3)
    36864
    """
    return -(-num_bytes // (num_replicas * ALIGNMENT_BYTES)) * ALIGNMENT_BYTES
