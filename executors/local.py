"""Processes of this machine that compute chunks, within limits of time and memory. Needs the extra `workers`."""

from __future__ import annotations

import multiprocessing
import os
import resource
from collections import deque
from collections.abc import Iterator
from concurrent.futures import TimeoutError as TooLate
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from executors.chunk_task import compute_chunk, pickled_maker
from sizing.errors import InvalidInput, NotInstalled
from sizing.questions.chunks import ChunkedWork, ItemRange, Progress, WorkMaker, compute_here
from sizing.units import binary_bytes_text, seconds_text

if TYPE_CHECKING:
    from concurrent.futures import Future

    from pebble import ProcessPool

MAX_WORKERS = 256
_MAX_ATTEMPTS = 2
"""A chunk whose process was killed this often is at fault itself."""
_CHUNKS_AHEAD = 3
"""Chunks for each worker that are sent before the part that is merged next is there: parts wait in memory."""
_SECONDS_TO_END = 10.0


class ChunkLimits(NamedTuple):
    """What one chunk may take."""

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
        from pebble import ProcessPool  # noqa: PLC0415 - as above

        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([compute_chunk.__module__])
        pool = ProcessPool(self._num_workers, initializer=_begin, initargs=(self._limits.max_bytes,), context=context)
        try:
            yield from self._parts(pool, work, pickled_maker(make), progress)
        finally:
            pool.stop()
            pool.join(_SECONDS_TO_END)

    def _parts(self, pool: ProcessPool, work: ChunkedWork[Any, Any], make: bytes, progress: Progress) -> Iterator[Any]:
        def send(chunk: ItemRange) -> Future[bytes]:
            sent: Future[bytes] = pool.schedule(compute_chunk, args=(make, chunk), timeout=self._limits.max_seconds)
            return sent

        left, last = iter(work.chunks), work.chunks[-1].stop
        under_way = deque((chunk, send(chunk)) for chunk in islice(left, self._num_workers * _CHUNKS_AHEAD))
        while under_way:
            chunk, sent = under_way.popleft()
            num_attempts = 1
            while (part := self._received(chunk, sent, is_last=num_attempts == _MAX_ATTEMPTS)) is None:
                num_attempts += 1
                sent = send(chunk)
            under_way.extend((following, send(following)) for following in islice(left, 1))
            progress(chunk.stop / last)
            yield work.part.model_validate_json(part)

    def _received(self, chunk: ItemRange, sent: Future[bytes], *, is_last: bool) -> bytes | None:
        """Wait for the part of a chunk; None where its process was ended and another one may fare better."""
        from pebble import ProcessExpired  # noqa: PLC0415 - as above

        try:
            return sent.result()
        except TooLate:
            raise self._too_much(chunk, f"takes longer than {seconds_text(self._limits.max_seconds)}") from None
        except (MemoryError, ProcessExpired):
            if not is_last:
                return None
            rule = f"needs more than {binary_bytes_text(self._limits.max_bytes)} of memory, or its process was killed"
            raise self._too_much(chunk, rule) from None

    @staticmethod
    def _too_much(chunk: ItemRange, rule: str) -> InvalidInput:
        field = f"the part of items {chunk.start:,} to {chunk.stop:,}"
        return InvalidInput.of(field, rule, value=None, remedy="ask for less at once")


def _begin(max_bytes: int) -> None:
    """Limit the memory of a worker before its first chunk."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (max_bytes if most < 0 else min(max_bytes, most), most))
