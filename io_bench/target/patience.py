"""Requests that a file system answers with EAGAIN: they are tried again for a while, and the time counts as its own.

Clients of network file systems and FUSE give it while a server or a queue is full. Python's buffers would take it for
a file that does not block, and lose count.
"""

from __future__ import annotations

import errno
import io
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from io_bench import interruption

_Answer = TypeVar("_Answer")

MAX_SECONDS = 10.0
"""A choice: longer than a queue is full, and short enough that a failed write is named while somebody looks."""
_PAUSE_SECONDS = 0.01
"""A choice: a queue is asked a hundred times a second, which costs next to nothing."""


def patiently(request: Callable[[], _Answer]) -> _Answer:
    """Make a request, and again where it was EAGAIN. Raises BlockingIOError after `MAX_SECONDS` of that."""
    deadline = None
    while True:
        try:
            return request()
        except BlockingIOError:
            deadline = deadline or time.monotonic() + MAX_SECONDS
            if time.monotonic() > deadline:
                raise
            interruption.fail_requests()
            time.sleep(_PAUSE_SECONDS)


class PatientFile(io.FileIO):
    """An open file without a buffer, whose requests are tried again."""

    def write(self, data: Any, /) -> int:
        """Write as much as one request takes. Raises OSError."""
        return patiently(lambda: _told(super(PatientFile, self).write(data)))

    def readinto(self, buffer: Any, /) -> int:
        """Read as much as one request gives. Raises OSError."""
        return patiently(lambda: _told(super(PatientFile, self).readinto(buffer)))

    def readall(self) -> bytes:
        """Read to the end of the file. Raises OSError."""
        parts = list[bytes]()
        while True:
            rest = os.fstat(self.fileno()).st_size - self.tell()
            buffer = bytearray(max(1, rest))
            num_bytes = self.readinto(buffer)
            if not num_bytes:
                return b"".join(parts)
            parts.append(bytes(buffer[:num_bytes]))


def open_buffered(fd: int, mode: str) -> io.BufferedReader | io.BufferedWriter:
    """An open file as `os.fdopen` gives it, whose requests are tried again. `mode` is rb or wb."""
    size = max(os.fstat(fd).st_blksize, io.DEFAULT_BUFFER_SIZE)
    raw = PatientFile(fd, mode)
    return io.BufferedReader(raw, size) if mode == "rb" else io.BufferedWriter(raw, size)


def _told(num_bytes: int | None) -> int:
    """Turn None, by which Python says EAGAIN, into BlockingIOError."""
    if num_bytes is None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return num_bytes
