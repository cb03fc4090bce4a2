"""Taking a file's space before it is written."""

from __future__ import annotations

import ctypes
import errno
import functools
import os

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
