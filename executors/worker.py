"""What a worker process does: it ends with its parent, limits its memory, and computes the chunks that it is sent."""

from __future__ import annotations

import functools
import multiprocessing
import os
import pickle
import resource
import signal
import threading
from multiprocessing.connection import wait
from typing import Any

from sizing.questions.chunks import ChunkedWork, ItemRange, WorkMaker, ignore_progress


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


def compute_chunk(maker: bytes, chunk: ItemRange) -> bytes:
    """Compute a chunk, and return the JSON of its part. Raises InvalidInput where the request has no answer."""
    return bytes(make_work(maker).compute(chunk, ignore_progress).model_dump_json().encode())
