"""Chunks that others compute: the limits of each, few of them under way at once, and their parts in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple, Protocol

from executors.worker import ComputationListener, ComputedChunk, ignore_computation
from sizing.errors import InvalidInput
from sizing.questions.chunks import ChunkedWork, ItemRange, Progress

MAX_ATTEMPTS = 2
"""A chunk whose process was killed this often is at fault itself."""
CHUNKS_AHEAD = 3
"""Chunks for each process that are sent before the part that is merged next is there: parts wait in memory."""


class ChunkLimits(NamedTuple):
    """Time and memory beyond which a chunk is refused, and the question with it."""

    max_seconds: float = 600.0
    max_bytes: int = 4 << 30


class ClusterFailed(InvalidInput):
    """Raised where a scheduler or its workers are not there, or do not what they must."""


class SentPart(Protocol):
    """A chunk that is computed elsewhere."""

    def receive(self) -> ComputedChunk:
        """Wait for the part. Raises InvalidInput as the chunk does, and where it takes too much."""


def receive_in_order(
    work: ChunkedWork[Any, Any],
    send: Callable[[ItemRange], SentPart],
    num_ahead: Callable[[], int],
    progress: Progress,
    hear: ComputationListener = ignore_computation,
) -> Iterator[Any]:
    """Send the chunks of a question, at most `num_ahead()` at once, and receive each part once, in their order."""
    left, last = iter(work.chunks), work.chunks[-1].stop
    under_way = deque((chunk, send(chunk)) for chunk in islice(left, num_ahead()))
    while under_way:
        chunk, sent = under_way.popleft()
        json, computation = sent.receive()
        hear(chunk, computation)
        under_way.extend((each, send(each)) for each in islice(left, max(0, num_ahead() - len(under_way))))
        progress(chunk.stop / last)
        yield work.part.model_validate_json(json)


def refused_chunk(chunk: ItemRange, rule: str) -> InvalidInput:
    """Return the refusal of a chunk that takes too much, which names its items."""
    field = f"the part of items {chunk.start:,} to {chunk.stop:,}"
    return InvalidInput.of(field, rule, value=None, remedy="ask for less at once")
