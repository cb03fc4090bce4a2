"""Files of `torch.save`, written and read through a file whose errors wait outside until torch's C++ has returned.

`PyTorchFileReader` goes on with an exception that is set, so that the next call anywhere ends in a SystemError; the
destructor of `PyTorchFileWriter` writes the end of the file, and raises over what stopped the write.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

import torch
from safetensors import SafetensorError

from io_bench.errors import RunFailed
from io_bench.payload import State


class CallbackFile:
    """An open file that never raises. After its first error, which is `failure`, writes go nowhere and reads end.

    Args: `note` hears of the error too, from whichever thread it comes in.
    """

    def __init__(self, file: BinaryIO, note: Callable[[Exception], None] = lambda _: None) -> None:
        self._file = file
        self._note = note
        self.failure: Exception | None = None

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._file, attribute)

    def write(self, data: Any, /) -> int:
        """Write to the file; the bytes given."""
        num_bytes = memoryview(data).nbytes
        self._try(lambda: self._file.write(data), num_bytes)
        return num_bytes

    def readinto(self, buffer: Any, /) -> int:
        """Read from the file; 0 after an error, as at its end."""
        num_bytes: int = self._try(lambda: self._file.readinto(buffer), 0)  # type: ignore[attr-defined]  # as all files
        return num_bytes

    def read(self, size: int = -1, /) -> bytes:
        """Read from the file; nothing after an error, as at its end."""
        data: bytes = self._try(lambda: self._file.read(size), b"")
        return data

    def raise_failure(self) -> None:
        """Raise the first error, if there was one."""
        if self.failure is not None:
            raise self.failure

    def _try(self, request: Callable[[], Any], otherwise: Any) -> Any:
        if self.failure is not None:
            return otherwise
        try:
            return request()
        except Exception as error:  # noqa: BLE001 - raised by raise_failure, out of the callback
            self.failure = error
            self._note(error)
            return otherwise


def save(state: Mapping[Any, Any], file: BinaryIO) -> None:
    """Save to an open file. Raises OSError as it was."""
    called_back = CallbackFile(file)
    torch.save(state, cast(BinaryIO, called_back))
    called_back.raise_failure()


@contextmanager
def loading(file: BinaryIO, title: str) -> Iterator[BinaryIO]:
    """Turn errors of `torch.load` in the block into RunFailed; OSError stays as it is.

    Args: `title`, what is read, e.g. its path.
    """
    called_back = CallbackFile(file)
    try:
        yield cast(BinaryIO, called_back)
    except Exception as error:
        if called_back.failure is not None:
            raise called_back.failure from error
        if isinstance(error, (RuntimeError, EOFError, pickle.UnpicklingError)):
            raise RunFailed(f"{title} cannot be read back: {error}.") from error
        raise
    called_back.raise_failure()


def salvage(path: str) -> State | None:
    """Load what a file of torch.save still holds, whatever its checksums say; None where it is none any more."""
    try:
        return dict(torch.load(path, map_location="cpu", weights_only=True, mmap=True))
    except (RuntimeError, ValueError, EOFError, OSError, pickle.UnpicklingError, SafetensorError):
        return None
