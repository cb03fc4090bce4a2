"""Room that clients share: in memory for bodies, questions of jobs and answers on their way, and places for jobs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from service.errors import busy
from service.settings import Settings


class FairRoom:
    """Limited number of bytes in memory, or of places, shared by the clients of a worker.

    A client may hold as much as is free: one alone half of the room, and of n each one part in n + 1 (dynamic
    queue length thresholds with factor 1: Choudhury and Hahne, IEEE/ACM Transactions on Networking 6 (2), 1998).
    """

    def __init__(self, size: int) -> None:
        self.num_free = size
        self._held: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def of(self, client: str) -> Iterator[Callable[[int], None]]:
        """Yield a function that takes room for a client until the block ends. It raises Busy without room."""
        num_taken = 0

        def take(number: int) -> None:
            nonlocal num_taken
            with self._lock:
                if self._held[client] + number > self.num_free - number:
                    raise busy()
                self._move(client, number)
                num_taken += number

        try:
            yield take
        finally:
            with self._lock:
                self._move(client, -num_taken)
                if not self._held[client]:
                    del self._held[client]

    def _move(self, client: str, number: int) -> None:
        self._held[client] += number
        self.num_free -= number


def room_for_questions(settings: Settings) -> FairRoom:
    """Make the room for what clients send: of the largest body twice, as it came and unpacked, for one client alone.

    What is made of a body takes ten times as much.
    """
    largest = max(settings.max_body_bytes, settings.max_result_bytes)
    return FairRoom(max(settings.worker_memory_bytes // 16, 4 * largest))


def room_for_answers(settings: Settings) -> FairRoom:
    """Make the room for answers on their way: with 1 GiB for one client alone two of a sweep's 200,000 rows."""
    return FairRoom(settings.worker_memory_bytes // 4)
