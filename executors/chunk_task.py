"""The task that a worker is sent: a chunk of a question, and what makes the question's work."""

from __future__ import annotations

import functools
import pickle
from typing import Any

from sizing.questions.chunks import ChunkedWork, ItemRange, WorkMaker, ignore_progress


def pickled_maker(make: WorkMaker) -> bytes:
    """Pickle what makes the work, once for all of its chunks."""
    return pickle.dumps(make)


def compute_chunk(make: bytes, chunk: ItemRange) -> bytes:
    """Compute a chunk, and return the JSON of its part. Raises InvalidInput where the request has no answer."""
    return bytes(_work(make).compute(chunk, ignore_progress).model_dump_json().encode())


@functools.lru_cache(maxsize=1)
def _work(make: bytes) -> ChunkedWork[Any, Any]:
    """Make the work that was pickled, once in a process for all chunks that it gets."""
    work: ChunkedWork[Any, Any] = pickle.loads(make)()  # noqa: S301 - of the program that started this process
    return work
