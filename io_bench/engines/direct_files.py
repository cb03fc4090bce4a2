"""The files that blocks go to and come from, and the threads that move the blocks.

A file is reached past the page cache, through it, or as a stream to an object store. Space is taken first, blocks are
whole, and no error is lost. Whichever thread is free takes the next block; one is filled while another is written.
"""

from __future__ import annotations

import errno
import functools
import itertools
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, BinaryIO, Protocol, Self

from io_bench import interruption
from io_bench.payload.byte_source import Bytes, aligned_memory, pad_bytes, touch
from io_bench.target.direct_io import ALIGNMENT_BYTES, allocate, is_refusal
from io_bench.target.directory import RunDirectory
from io_bench.target.patience import patiently
from io_bench.target.request_log import RequestLog
from io_bench.target.target import RunFiles

_MAX_PIECES: int = os.sysconf("SC_IOV_MAX")


def preallocate(fd: int, num_bytes: int) -> None:
    """Give a new file its size, and its space where the file system can. Raises OSError, ENOSPC among others."""
    if not allocate(fd, num_bytes):
        os.ftruncate(fd, num_bytes)


def write_whole(fd: int, pieces: Sequence[memoryview], offset: int) -> None:
    """Write all pieces one after another, in as many requests as it takes. Raises OSError.

    Offset, and address and length of each piece, are aligned; none is empty.
    """
    while pieces:
        request = pieces[:_MAX_PIECES]
        num_written = patiently(functools.partial(os.pwritev, fd, request, offset))
        if num_written < sum(map(len, request)):
            if num_written < ALIGNMENT_BYTES:
                raise OSError(errno.EIO, f"short write: only {num_written} bytes of a request were written")
            # What follows a short write must be aligned again.
            num_written = num_written // ALIGNMENT_BYTES * ALIGNMENT_BYTES
        offset += num_written
        remaining: list[memoryview] = []
        for piece in pieces:
            if num_written < len(piece):
                remaining.append(piece[num_written:])
            num_written = max(0, num_written - len(piece))
        pieces = remaining


def read_whole(fd: int, data: memoryview, offset: int) -> int:
    """Fill `data`, aligned like the file; the bytes read are fewer only where the file ends. Raises OSError."""
    done = 0
    while done < len(data):
        read = patiently(functools.partial(os.preadv, fd, [data[done:]], offset + done))
        done += read
        if read == 0 or read % ALIGNMENT_BYTES:
            break
    return done


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


def create_file(files: RunFiles, name: str, num_bytes: int) -> BlockFile:
    """Create a file to write to, and take its space. Raises OSError."""
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


def open_file(files: RunFiles, name: str) -> BlockFile:
    """Open a file to read from. Raises OSError."""
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
            preallocate(self._fd, pad_bytes(self.num_bytes))

    def write(self, pieces: Sequence[Bytes], offset: int) -> None:
        """Write a block with its padding."""
        interruption.fail_requests()
        begun = time.perf_counter()
        write_whole(self._fd, [piece.data for piece in pieces], offset)
        self._log.moved("write", self._file.name, offset, sum(map(len, pieces)), begun=begun)

    def persist(self) -> None:
        """Cut by ftruncate and fsync. That brings the last page into the page cache: it is dropped again."""
        with self._log.step("fsync", self._file.name, self.num_bytes):
            os.ftruncate(self._fd, self.num_bytes)
            os.fsync(self._fd)
        if self.is_direct:
            os.posix_fadvise(self._fd, self.num_bytes // mmap.PAGESIZE * mmap.PAGESIZE, 0, os.POSIX_FADV_DONTNEED)

    def read(self, block: Bytes, offset: int) -> int:
        """Read at a place, whatever other threads read."""
        interruption.fail_requests()
        begun = time.perf_counter()
        num_bytes = read_whole(self._fd, block.data, offset)
        self._log.moved("read", self._file.name, offset, num_bytes, begun=begun)
        return num_bytes

    def close(self) -> None:
        """Close the file; again does nothing."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class StreamFile:
    """The object of an object store: blocks go in order, and several parts of it move at once."""

    is_direct = False
    takes_any_order = False
    notices: tuple[str, ...] = ()

    def __init__(self, stream: BinaryIO, num_bytes: int) -> None:
        self.num_bytes = num_bytes
        self._stream = stream

    def write(self, pieces: Sequence[Bytes], offset: int) -> None:
        """Write a block without its padding."""
        for piece in pieces:
            self._stream.write(piece[: max(0, self.num_bytes - offset)].data)
            offset += len(piece)

    def persist(self) -> None:
        """Do nothing: closing makes the object."""

    def read(self, block: Bytes, offset: int) -> int:
        """Read on from where the last block ended."""
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
    """Say that O_DIRECT is refused. Raises any other error again."""
    if not is_refusal(error):
        raise error
    return (f"The file system of {files.title} refuses O_DIRECT: the engine direct used the page cache.",)


_WRITERS_PER_FILLER = 4
"""A thread fills a block from memory several times as fast as storage takes it; where it does not, the time that
writers wait is measured (`generator_wait_fraction`)."""

Use = Callable[[int, Bytes], None]
"""What is done with one block: its offset in the file, and a buffer of its length, padding included."""

Fill = Callable[[int, Bytes], Sequence[Bytes]]
"""A source of blocks that gives the pieces of memory that make the block: parts of the buffer, or what is there
already."""


class Threads:
    """Threads that read or write, each with two buffers of `block_bytes`, and some that fill for them.

    The first error in any thread ends all, and is raised.
    """

    def __init__(self, num_threads: int, *, block_bytes: int, is_pinned: bool) -> None:
        buffers = touch(aligned_memory([block_bytes] * (2 * num_threads), is_pinned=is_pinned))
        self._pairs = list(itertools.pairwise(buffers))[::2]
        self._num_fillers = -(-num_threads // _WRITERS_PER_FILLER)
        self._block_bytes = block_bytes

    def write(self, file: BlockFile, fill: Fill, waiting: TimeSpent) -> None:
        """Fill and write every block of a file; `waiting` is what threads wait for filled blocks."""
        with ThreadPoolExecutor(self._num_fillers) as fillers:

            def write(blocks: Iterator[tuple[int, Bytes]]) -> None:
                ahead: tuple[int, Future[Sequence[Bytes]]] | None = None
                for offset, block in blocks:
                    coming = offset, fillers.submit(fill, offset, block)
                    if ahead is not None:
                        finish(*ahead)
                    ahead = coming
                if ahead is not None:
                    finish(*ahead)

            def finish(offset: int, filled: Future[Sequence[Bytes]]) -> None:
                with waiting.counted():
                    pieces = filled.result()
                file.write(pieces, offset)

            self._run(file, write)

    def read(self, file: BlockFile, read: Use) -> None:
        """Have every block of a file read."""

        def work(blocks: Iterator[tuple[int, Bytes]]) -> None:
            for offset, block in blocks:
                read(offset, block)

        self._run(file, work)

    def _run(self, file: BlockFile, work: Callable[[Iterator[tuple[int, Bytes]]], None]) -> None:
        """Run `work` in every thread, on the blocks that fall to it and its buffers by turns."""
        end, stopped = pad_bytes(file.num_bytes), threading.Event()
        # One iterator for all threads: taking the next of a range is one step of the interpreter.
        offsets = iter(range(0, end, self._block_bytes))

        def blocks(pair: tuple[Bytes, Bytes]) -> Iterator[tuple[int, Bytes]]:
            for offset, buffer in zip(offsets, itertools.cycle(pair), strict=False):
                if stopped.is_set():
                    return
                yield offset, buffer[: end - offset]

        def worked(pair: tuple[Bytes, Bytes]) -> None:
            try:
                work(blocks(pair))
            except BaseException:
                stopped.set()
                raise

        pairs = self._pairs if file.takes_any_order else self._pairs[:1]
        with ThreadPoolExecutor(len(pairs)) as pool:
            try:
                for future in [pool.submit(worked, pair) for pair in pairs]:
                    future.result()
            finally:
                stopped.set()


class TimeSpent:
    """Seconds that threads together spent in something."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._lock = threading.Lock()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what one thread runs within."""
        started = time.perf_counter()
        yield
        with self._lock:
            self.seconds += time.perf_counter() - started
