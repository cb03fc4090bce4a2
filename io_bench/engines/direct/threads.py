"""Blocks moved by several threads, whoever is free taking the next; each is filled while another is written."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from io_bench.engines.direct.files import BlockFile
from io_bench.payload.aligned_memory import aligned_memory, padded, touched
from io_bench.payload.byte_source import Bytes

_WRITERS_PER_FILLER = 4
"""A thread fills a block from memory several times as fast as storage takes it; where it does not, the time that
writers wait is measured (`generator_wait_fraction`)."""

Use = Callable[[int, Bytes], None]
"""What is done with one block: its offset in the file, and a buffer of its length, padding included."""

Fill = Callable[[int, Bytes], Sequence[Bytes]]
"""The same, which gives the pieces of memory that make the block: parts of the buffer, or what is there already."""


class Threads:
    """`num_threads` that read or write, each with two buffers of `block_bytes`, and some that fill for them.

    The first error in any thread ends all, and is raised.
    """

    def __init__(self, num_threads: int, *, block_bytes: int, is_pinned: bool) -> None:
        buffers = touched(aligned_memory([block_bytes] * (2 * num_threads), is_pinned=is_pinned))
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
        end, stopped = padded(file.num_bytes), threading.Event()
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
