"""What a worker process does: it ends with its parent, limits its memory, and computes the chunks that it is sent."""

from __future__ import annotations

import functools
import multiprocessing
import os
import pickle
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any, NamedTuple

from sizing.questions.chunks import ChunkedWork, ItemRange, Progress, WorkMaker, ignore_progress


class Computation(NamedTuple):
    """Which process computed a chunk, and when: in ns since 1970, by the clock of its host."""

    host: str
    pid: int
    started_ns: int
    ended_ns: int


class ComputedChunk(NamedTuple):
    """The JSON of a chunk's part, and where it comes from."""

    json: bytes
    computation: Computation


ComputationListener = Callable[[ItemRange, Computation], None]
"""Hears of each chunk where it was computed."""


def ignore_computation(_chunk: ItemRange, _computation: Computation) -> None:
    """Ignore where a chunk was computed."""


def end_with_parent() -> None:
    """Send this process SIGTERM when its parent is gone, for whatever reason."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait_for_end() -> None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait_for_end, daemon=True).start()


def limit_memory(max_bytes: int) -> None:
    """Limit the memory that this process can allocate. Beyond it allocations fail with MemoryError.

    It is the soft limit, which processes that this one starts inherit and may raise to their own.
    """
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (max_bytes if most < 0 else min(max_bytes, most), most))


def begin(max_bytes: int, maker: bytes) -> None:
    """Begin as a worker: end with its parent, limit the memory, load what chunks need before the first one's time."""
    end_with_parent()  # also in the middle of a chunk, for which nobody waits any more
    limit_memory(max_bytes)
    pickle.loads(maker)  # noqa: S301 - of the program that started this process


def pickle_maker(make: WorkMaker) -> bytes:
    """Pickle what makes the work, once for all of its chunks."""
    return pickle.dumps(make)


@functools.lru_cache(maxsize=1)
def make_work(maker: bytes) -> ChunkedWork[Any, Any]:
    """Make the work of a pickled maker, once in a process for all chunks that it gets."""
    work: ChunkedWork[Any, Any] = pickle.loads(maker)()  # noqa: S301 - of the program that started this process
    return work


def compute_chunk(maker: bytes, chunk: ItemRange) -> ComputedChunk:
    """Compute a chunk. Raises InvalidInput where the request has no answer."""
    part, computation = compute_timed(make_work(maker), chunk, ignore_progress)
    return ComputedChunk(part.model_dump_json().encode(), computation)


def compute_timed(work: ChunkedWork[Any, Any], chunk: ItemRange, progress: Progress) -> tuple[Any, Computation]:
    """Compute the part of a chunk in this process, and say so. Raises InvalidInput as the chunk does."""
    started_ns = time.time_ns()
    part = work.compute(chunk, progress)
    return part, computed_since(started_ns)


def computed_since(started_ns: int) -> Computation:
    """Return what this process did from a moment to now."""
    return Computation(socket.gethostname(), os.getpid(), started_ns, time.time_ns())


class WorkHeard:
    """Work of which a listener hears what this process computes itself."""

    def __init__(self, work: ChunkedWork[Any, Any], hear: ComputationListener) -> None:
        self.part, self.chunks, self.merge = work.part, work.chunks, work.merge
        self._work, self._hear = work, hear

    def compute(self, items: ItemRange, progress: Progress) -> Any:
        """Compute the part of a range. Raises InvalidInput as the work does."""
        part, computation = compute_timed(self._work, items, progress)
        self._hear(items, computation)
        return part
