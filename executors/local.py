"""Processes of this machine that compute chunks, within limits of time and memory. Needs the extra `workers`."""

from __future__ import annotations

import functools
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as TooLate
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from executors.window import CHUNKS_AHEAD, MAX_ATTEMPTS, ChunkLimits, receive_in_order, refused_chunk
from executors.worker import ComputedChunk, begin, compute_chunk, pickle_maker
from sizing.errors import InvalidInput, NotInstalled
from sizing.questions.chunks import ChunkedWork, ItemRange, Progress, WorkMaker, compute_here
from sizing.units import binary_bytes_text, seconds_text

if TYPE_CHECKING:
    from pebble import ProcessPool

MAX_WORKERS = 256
_SECONDS_TO_END = 10.0
_SECONDS_BETWEEN_LOOKS = 0.25
"""Pause between two looks at whether a part is still wanted."""


class LocalWorkers:
    """A number of processes. They start with a question of several chunks, and end with it.

    Raises NotInstalled without the extra `workers`, and InvalidInput for a number that is none.
    """

    def __init__(self, num_workers: int, limits: ChunkLimits | None = None) -> None:
        if not 1 <= num_workers <= MAX_WORKERS:
            remedy = f"give as many as this machine has cores, {os.cpu_count()}"
            raise InvalidInput.of("--workers", f"must be 1 to {MAX_WORKERS}", value=num_workers, remedy=remedy)
        try:
            import pebble  # noqa: F401, PLC0415 - an extra
        except ModuleNotFoundError:
            remedy = "pip install 'checkpoint-sizing[workers]'"
            raise NotInstalled.of("--workers", "needs the library pebble", value=None, remedy=remedy) from None
        self._num_workers, self._limits = num_workers, limits or ChunkLimits()

    def compute(self, work: ChunkedWork[Any, Any], make: WorkMaker, progress: Progress) -> Iterator[Any]:
        """Compute the parts of all chunks, in their order; those of one chunk here.

        Raises InvalidInput where a chunk does, and for one that takes too much time or memory.
        """
        if len(work.chunks) == 1:
            yield from compute_here(work, make, progress)
            return
        maker, num_ahead = pickle_maker(make), self._num_workers * CHUNKS_AHEAD
        with start_processes(self._num_workers, self._limits, maker) as pool:
            send = functools.partial(SentChunk, pool, maker, self._limits)
            yield from receive_in_order(work, send, lambda: num_ahead, progress)


@contextmanager
def start_processes(num_workers: int, limits: ChunkLimits, maker: bytes) -> Iterator[ProcessPool]:
    """Start processes for the chunks of one question. They end with the block, whatever they compute then."""
    from pebble import ProcessPool  # noqa: PLC0415 - an extra

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([compute_chunk.__module__])
    pool = ProcessPool(num_workers, initializer=begin, initargs=(limits.max_bytes, maker), context=context)
    try:
        yield pool
    finally:
        pool.stop()  # type: ignore[no-untyped-call]  # of pebble
        pool.join(_SECONDS_TO_END)


class SentChunk:
    """A chunk that a process computes."""

    def __init__(self, pool: ProcessPool, maker: bytes, limits: ChunkLimits, chunk: ItemRange) -> None:
        self._pool, self._maker, self._limits, self._chunk = pool, maker, limits, chunk
        self._part = self._send()

    def _send(self) -> Future[ComputedChunk]:
        arguments = (self._maker, self._chunk)
        timeout = self._limits.max_seconds
        sent: Future[ComputedChunk] = self._pool.schedule(compute_chunk, args=arguments, timeout=timeout)
        return sent

    def receive(self, is_wanted: Callable[[], bool] = lambda: True) -> ComputedChunk:
        """Wait for the part. What a process had begun that was killed is computed once more.

        Raises InvalidInput as the chunk does, and where it takes too much time or memory; CancelledError once it is
        wanted no more, whose process ends then.
        """
        from pebble import ProcessExpired  # noqa: PLC0415 - an extra

        for _ in range(MAX_ATTEMPTS):
            while not wait((self._part,), timeout=_SECONDS_BETWEEN_LOOKS).done:
                if not is_wanted():
                    self._part.cancel()
            try:
                return self._part.result()
            except TooLate:
                rule = f"takes longer than {seconds_text(self._limits.max_seconds)}"
                break
            except (MemoryError, ProcessExpired):
                most = binary_bytes_text(self._limits.max_bytes)
                rule = f"needs more than {most} of memory, or its process was killed"
                self._part = self._send()
        raise refused_chunk(self._chunk, rule)
