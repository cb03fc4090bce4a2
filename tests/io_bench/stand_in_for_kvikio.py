"""As much of kvikio as the engine uses, with its signatures, over plain requests of this process to host memory.

Source: kvikio 26.10, kvikio/cufile.py and kvikio/defaults.py.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self

_FLAGS = {"r": os.O_RDONLY, "r+": os.O_RDWR}
_POOL = ThreadPoolExecutor(2)


class IOFuture:
    """A request under way."""

    def __init__(self, future: Future[int]) -> None:
        self._future = future

    def get(self) -> int:
        """Wait for it; bytes moved."""
        return self._future.result()


class CuFile:
    """A file by its path. Errors of the system are RuntimeError, as Cython makes of a std::system_error."""

    fails = False

    def __init__(self, file: str, flags: str = "r") -> None:
        self._fd = os.open(file, _FLAGS[flags])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._fd)

    def pwrite(self, buf: Any, size: int | None, file_offset: int, task_size: int | None) -> IOFuture:
        """Write host memory; task_size may not be 0."""
        assert task_size

        def write() -> int:
            if self.fails:
                raise RuntimeError("KvikIO failure at: posix_io.hpp: No space left on device")
            return os.pwrite(self._fd, memoryview(buf)[:size], file_offset)

        return IOFuture(_POOL.submit(write))

    def pread(self, buf: Any, size: int | None, file_offset: int, task_size: int | None) -> IOFuture:
        """Read into host memory."""
        assert task_size
        return IOFuture(_POOL.submit(lambda: os.preadv(self._fd, [memoryview(buf)[:size]], file_offset)))


class Defaults:
    """Settings."""

    names = frozenset(
        {"compat_mode", "num_threads", "task_size", "gds_threshold", "bounce_buffer_size"}
        | {"auto_direct_io_read", "auto_direct_io_write"}
    )

    @classmethod
    def set(cls, config: dict[str, Any]) -> None:
        """Refuses names that kvikio does not have."""
        assert cls.names >= config.keys()

    @staticmethod
    def is_compat_mode_preferred() -> bool:
        """Without a driver, always."""
        return True


class StandInForKvikio:
    """The module."""

    CuFile = CuFile
    defaults = Defaults
