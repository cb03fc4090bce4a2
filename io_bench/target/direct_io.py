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

_MAX_BYTES_PER_RECORD = ALIGNMENT_BYTES + 1024
"""Bytes of the zip container per tensor: header, padding to the alignment, and its lines in pickle and directory."""
_MAX_FIXED_BYTES = 8 * ALIGNMENT_BYTES
"""Bytes of a file beside its tensors: the records that are no tensors, each at a page, and the ends of pickle and
directory."""


def max_aligned_bytes(num_bytes: int, *, num_tensors: int, num_files: int = 1) -> int:
    """Compute the max bytes of torch files whose tensors, of `num_bytes` together, each lie at the alignment."""
    return num_bytes + num_tensors * _MAX_BYTES_PER_RECORD + num_files * _MAX_FIXED_BYTES


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
