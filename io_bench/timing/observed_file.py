"""A file that tells a log of its requests; for the rest it is the file that it stands before."""

from __future__ import annotations

import time
from typing import Any, BinaryIO, Self, cast

from io_bench.timing.request_log import RequestLog


class ObservedFile:
    """An open file under its name in the run. Offsets are counted here: asking the file costs a system call."""

    def __init__(self, file: BinaryIO, name: str, log: RequestLog) -> None:
        self._file, self.name, self._log = file, name, log
        self._offset = 0

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._file, attribute)

    def write(self, data: Any, /) -> int:
        """Write as the file does."""
        begun = time.perf_counter()
        return self._moved("write", self._file.write(data), begun)

    def readinto(self, buffer: Any, /) -> int:
        """Read as the file does."""
        begun = time.perf_counter()
        return self._moved("read", cast(Any, self._file).readinto(buffer), begun)

    def read(self, size: int = -1, /) -> bytes:
        """Read as the file does."""
        begun = time.perf_counter()
        data = self._file.read(size)
        self._moved("read", len(data), begun)
        return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move as the file does."""
        self._offset = self._file.seek(offset, whence)
        return self._offset

    def close(self) -> None:
        """Close the file; again does nothing."""
        if not self._file.closed:
            with self._log.step("close", self.name, self._offset):
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is None:
            self.close()
        else:
            self._file.__exit__(kind, error, traceback)

    def _moved(self, phase: str, num_bytes: int, begun: float) -> int:
        self._log.moved(phase, self.name, self._offset, num_bytes, begun=begun)
        self._offset += num_bytes
        return num_bytes


def observed(file: BinaryIO, name: str, log: RequestLog) -> BinaryIO:
    """The file, with the log told of its requests."""
    return cast(BinaryIO, ObservedFile(file, name, log))
