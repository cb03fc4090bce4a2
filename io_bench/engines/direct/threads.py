"""Blocks moved by several threads, each with a buffer of its own, whoever is free taking the next."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from io_bench.byte_source import Bytes
from io_bench.engines.direct.files import BlockFile
from io_bench.engines.direct.layout import padded
from io_bench.engines.direct.memory import aligned_buffers

Move = Callable[[int, Bytes], None]
"""What is done with one block: its offset in the file, and a buffer of its length."""


class Threads:
    """`num_threads` buffers of `block_bytes`, for as many threads."""

    def __init__(self, num_threads: int, *, block_bytes: int, is_pinned: bool) -> None:
        self._buffers = aligned_buffers(num_threads, block_bytes, is_pinned=is_pinned)
        self._block_bytes = block_bytes

    def move(self, file: BlockFile, move: Move) -> None:
        """Run `move` for every block of a file, padding included. The first error ends all, and is raised."""
        buffers = self._buffers if file.takes_any_order else self._buffers[:1]
        end = padded(file.num_bytes)
        offsets, stopped = iter(range(0, end, self._block_bytes)), threading.Event()

        def work(buffer: Bytes) -> None:
            try:
                # One iterator for all threads: taking the next of a range is one step of the interpreter.
                for offset in offsets:
                    if stopped.is_set():
                        return
                    move(offset, buffer[: end - offset])
            except BaseException:
                stopped.set()
                raise

        with ThreadPoolExecutor(len(buffers)) as pool:
            try:
                for future in [pool.submit(work, buffer) for buffer in buffers]:
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
