"""The file that blocks go to and come from: past the page cache, through it, or a stream to an object store."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Sequence
from typing import Any, BinaryIO, Protocol, Self

from io_bench.engines.direct.requests import preallocate, read_whole, write_whole
from io_bench.payload.aligned_memory import padded
from io_bench.payload.byte_source import Bytes
from io_bench.target.directory.direct_io import is_refusal
from io_bench.target.directory.run_directory import RunDirectory
from io_bench.target.run_files import RunFiles
from io_bench.timing.request_log import RequestLog


class BlockFile(Protocol):
    """An open file of `num_bytes`, closed by its context. Blocks are padded past its end. Methods raise OSError."""

    num_bytes: int
    is_direct: bool
    takes_any_order: bool
    notices: tuple[str, ...]

    def write(self, pieces: Sequence[Bytes], offset: int) -> None:
        """Write a block, all of it, from pieces that lie anywhere in memory; each is a whole number of pages."""

    def persist(self) -> None:
        """Cut off the padding and make the file durable, where closing it does not."""

    def read(self, block: Bytes, offset: int) -> int:
        """Fill a block; the bytes read are fewer only where the file ends."""

    def close(self) -> None:
        """Close it: what was written may fail only now."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: Any) -> None: ...


def created(files: RunFiles, name: str, num_bytes: int) -> BlockFile:
    """A new file to write to, its space taken. Raises OSError."""
    if not isinstance(files, RunDirectory):
        return StreamFile(files.create(name), num_bytes)
    try:
        file = LocalFile(files.create(name, flags=os.O_DIRECT), num_bytes, log=files.log)
    except OSError as error:
        notices = _notices_of_refusal(error, files)
        # Some file systems refuse only once the file is there.
        files.remove([name])
        file = LocalFile(files.create(name), num_bytes, log=files.log, notices=notices)
    try:
        file.allocate()
    except OSError:
        file.close()
        raise
    return file


def opened(files: RunFiles, name: str) -> BlockFile:
    """A file to read from. Raises OSError."""
    num_bytes = files.num_bytes(name)
    if not isinstance(files, RunDirectory):
        return StreamFile(files.open(name), num_bytes)
    try:
        return LocalFile(files.open(name, flags=os.O_DIRECT), num_bytes, log=files.log)
    except OSError as error:
        return LocalFile(files.open(name), num_bytes, log=files.log, notices=_notices_of_refusal(error, files))


class LocalFile:
    """A file of a mounted file system, read and written anywhere by several threads at once. `log` hears of it."""

    takes_any_order = True

    def __init__(
        self, file: BinaryIO, num_bytes: int, *, log: RequestLog | None = None, notices: tuple[str, ...] = ()
    ) -> None:
        self.num_bytes = num_bytes
        self.is_direct = not notices
        self.notices = notices
        self._log = log or RequestLog()
        self._file = file
        self._fd = file.fileno()

    def allocate(self) -> None:
        """Take the space of the padded file, so that no write extends it."""
        with self._log.step("create", self._file.name, 0):
            preallocate(self._fd, padded(self.num_bytes))

    def write(self, pieces: Sequence[Bytes], offset: int) -> None:
        """Padding and all."""
        begun = time.perf_counter()
        write_whole(self._fd, [piece.data for piece in pieces], offset)
        self._log.moved("write", self._file.name, offset, sum(map(len, pieces)), begun=begun)

    def persist(self) -> None:
        """By ftruncate and fsync. Cutting brings the last page into the page cache: it is dropped again."""
        with self._log.step("fsync", self._file.name, self.num_bytes):
            os.ftruncate(self._fd, self.num_bytes)
            os.fsync(self._fd)
        if self.is_direct:
            os.posix_fadvise(self._fd, self.num_bytes // mmap.PAGESIZE * mmap.PAGESIZE, 0, os.POSIX_FADV_DONTNEED)

    def read(self, block: Bytes, offset: int) -> int:
        """At its place, whatever others read."""
        begun = time.perf_counter()
        num_bytes = read_whole(self._fd, block.data, offset)
        self._log.moved("read", self._file.name, offset, num_bytes, begun=begun)
        return num_bytes

    def close(self) -> None:
        """Once; again does nothing."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class StreamFile:
    """An object: blocks go in order, and the stream sends and fetches several parts of it at once."""

    is_direct = False
    takes_any_order = False
    notices: tuple[str, ...] = ()

    def __init__(self, stream: BinaryIO, num_bytes: int) -> None:
        self.num_bytes = num_bytes
        self._stream = stream

    def write(self, pieces: Sequence[Bytes], offset: int) -> None:
        """Without the padding."""
        for piece in pieces:
            self._stream.write(piece[: max(0, self.num_bytes - offset)].data)
            offset += len(piece)

    def persist(self) -> None:
        """Nothing: closing makes the object."""

    def read(self, block: Bytes, offset: int) -> int:
        """From where the last block ended."""
        self._stream.seek(offset)
        return int(self._stream.readinto(block.data))  # type: ignore[attr-defined]  # BinaryIO has it, its stub does not

    def close(self) -> None:
        """Make the object out of its parts."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stream.__exit__(*error)


def _notices_of_refusal(error: OSError, files: RunFiles) -> tuple[str, ...]:
    """What to say where O_DIRECT is refused. Raises any other error again."""
    if not is_refusal(error):
        raise error
    return (f"The file system of {files.title} refuses O_DIRECT: the engine direct used the page cache.",)
