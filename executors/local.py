"""Processes of this machine that compute chunks, within limits of time and memory. Needs the extra `workers`."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from executors.worker import begin, compute_chunk, pickle_maker
from sizing.errors import InvalidInput, NotInstalled
from sizing.questions.chunks import ChunkedWork, ItemRange, Progress, WorkMaker, compute_here
from sizing.units import binary_bytes_text, seconds_text

if TYPE_CHECKING:
    from pebble import ProcessPool

MAX_WORKERS = 256
_MAX_ATTEMPTS = 2
"""A chunk whose process was killed this often is at fault itself."""
_CHUNKS_AHEAD = 3
"""Chunks for each worker that are sent before the part that is merged next is there: parts wait in memory."""
_SECONDS_TO_END = 10.0


class ChunkLimits(NamedTuple):
    """Time and memory beyond which a chunk is refused, and the question with it."""

    max_seconds: float = 600.0
    max_bytes: int = 4 << 30


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
        if len(work.chunks) == 1 or self._num_workers == 1:
            yield from compute_here(work, make, progress)
            return
        maker, left, last = pickle_maker(make), iter(work.chunks), work.chunks[-1].stop
        with start_processes(self._num_workers, self._limits, maker) as pool:
            ahead = islice(left, self._num_workers * _CHUNKS_AHEAD)
            under_way = deque((chunk, SentChunk(pool, maker, chunk, self._limits)) for chunk in ahead)
            while under_way:
                chunk, sent = under_way.popleft()
                part = sent.receive()
                under_way.extend((each, SentChunk(pool, maker, each, self._limits)) for each in islice(left, 1))
                progress(chunk.stop / last)
                yield work.part.model_validate_json(part)


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

    def __init__(self, pool: ProcessPool, maker: bytes, chunk: ItemRange, limits: ChunkLimits) -> None:
        self._pool, self._maker, self._chunk, self._limits = pool, maker, chunk, limits
        self._part = self._send()

    def _send(self) -> Future[bytes]:
        arguments = (self._maker, self._chunk)
        sent: Future[bytes] = self._pool.schedule(compute_chunk, args=arguments, timeout=self._limits.max_seconds)
        return sent

    def receive(self) -> bytes:
        """Wait for the JSON of the part. What a process had begun that was killed is computed once more.

        Raises InvalidInput as the chunk does, and where it takes too much time or memory.
        """
        from pebble import ProcessExpired  # noqa: PLC0415 - an extra

        for _ in range(_MAX_ATTEMPTS):
            try:
                return self._part.result()
            except TooLate:
                rule = f"takes longer than {seconds_text(self._limits.max_seconds)}"
                break
            except (MemoryError, ProcessExpired):
                most = binary_bytes_text(self._limits.max_bytes)
                rule = f"needs more than {most} of memory, or its process was killed"
                self._part = self._send()
        field = f"the part of items {self._chunk.start:,} to {self._chunk.stop:,}"
        raise InvalidInput.of(field, rule, value=None, remedy="ask for less at once")
