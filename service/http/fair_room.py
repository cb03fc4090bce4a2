"""Room in memory that clients share: for bodies of requests, questions of jobs that wait, and answers on their way."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from service.errors import busy
from service.settings import Settings


class FairRoom:
    """Limited number of bytes in memory, shared by the clients of a worker.

    A client may hold as many bytes as are free: one alone half of the room, and of n each one part in n + 1 (dynamic
    queue length thresholds with factor 1: Choudhury and Hahne, IEEE/ACM Transactions on Networking 6 (2), 1998).
    """

    def __init__(self, num_bytes: int) -> None:
        self.num_free = num_bytes
        self._held: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def of(self, client: str) -> Iterator[Callable[[int], None]]:
        """Yield a function that takes bytes for a client until the block ends. It raises Busy without room for them."""
        num_taken = 0

        def take(num_bytes: int) -> None:
            nonlocal num_taken
            with self._lock:
                if self._held[client] + num_bytes > self.num_free - num_bytes:
                    raise busy()
                self._move(client, num_bytes)
                num_taken += num_bytes

        try:
            yield take
        finally:
            with self._lock:
                self._move(client, -num_taken)
                if not self._held[client]:
                    del self._held[client]

    def _move(self, client: str, num_bytes: int) -> None:
        self._held[client] += num_bytes
        self.num_free -= num_bytes


def room_for_questions(settings: Settings) -> FairRoom:
    """Make the room for what clients send: of the largest body twice, as it came and unpacked, for one client alone.

    What is made of a body takes ten times as much.
    """
    largest = max(settings.max_body_bytes, settings.max_result_bytes)
    return FairRoom(max(settings.worker_memory_bytes // 16, 4 * largest))


def room_for_answers(settings: Settings) -> FairRoom:
    """Make the room for answers on their way: with 1 GiB for one client alone two of a sweep's 200,000 rows."""
    return FairRoom(settings.worker_memory_bytes // 4)
