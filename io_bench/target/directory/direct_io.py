"""What O_DIRECT asks for, and how a file system says no."""

from __future__ import annotations

import errno
import mmap

from sizing.units import parse_bytes

ALIGNMENT_BYTES: int = max(parse_bytes("4 KiB"), mmap.PAGESIZE)
"""Of memory, of requests, and of storages in a file: no disk in use asks for more, some file systems for whole pages,
which have 64 KiB on some Arm hosts."""

_REFUSALS = (errno.EINVAL, errno.EOPNOTSUPP)


def is_refusal(error: OSError) -> bool:
    """Whether a file system does not take O_DIRECT, or a request of this alignment; any other error is one."""
    return error.errno in _REFUSALS
