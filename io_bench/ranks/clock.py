"""The clock of rank 0, as the other nodes know it: monotonic clocks of machines begin anywhere, and drift.

A node's leader asks rank 0 for its time and takes the answer for the middle of the round trip. So it errs by at most
half of the round trip, plus what the clocks have drifted since; of all its questions the one that bounds this closest
counts. Source: Cristian 1989, Probabilistic clock synchronization, Distributed Computing 3:146, section 3.

The ranks of a node share its monotonic clock.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from io_bench.ranks.bounded_store import wait_in_slices

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store as TorchStore

Now = Callable[[], float]
"""Seconds by a clock that only moves forward."""

MAX_DRIFT_FRACTION = 1e-4
"""Max drift, as a fraction of the time passed. Crystals of computers are good to 50 ppm: RFC 5905, NTP version 4,
section 4, and two of them."""
SECONDS_BETWEEN_QUESTIONS = 10.0
"""Pause between two comparisons of clocks: by then drift is a millisecond, and thousands of leaders together ask rank 0
little while it measures."""
_FIRST_QUESTIONS = 4
"""A pause of either process spoils one of them, rarely all."""
_MAX_FIRST_QUESTIONS = 32
"""On a busy machine most are spoiled."""
GOOD_ERROR_SECONDS = 0.002
"""A choice: two nodes that are known as well start within 4 ms of each other, whatever else delays them."""
_SECONDS_PER_LEADER = 0.002
"""Leaders ask first within this time of each other for each of them: a queue at rank 0 would make round trips long."""
_NUM_ASKED = "clock/asked"


@dataclass(frozen=True, slots=True)
class Offset:
    """Seconds to add to the time of this node to have that of rank 0, good to `error_seconds` at the moment `taken`."""

    seconds: float
    error_seconds: float
    taken: float

    def error_at(self, moment: float) -> float:
        """Max error of the offset at a later moment.

        >>> round(Offset(1.0, 0.001, taken=0.0).error_at(10.0), 6)
        0.002
        """
        return self.error_seconds + MAX_DRIFT_FRACTION * (moment - self.taken)


class NodeClock:
    """The clock of this node beside that of rank 0, which it follows in the background."""

    def __init__(self, *, num_leaders: int, now: Now = time.monotonic) -> None:
        """Args: `num_leaders` is the number of leaders that ask rank 0 at the same time."""
        self._now = now
        self._best: Offset | None = None
        self._turn_seconds = _SECONDS_PER_LEADER * num_leaders
        self.is_known = threading.Event()

    @property
    def offset(self) -> Offset:
        """The best offset so far, once `is_known`."""
        if self._best is None:
            raise RuntimeError("rank 0 has not told its time yet")
        return self._best

    def follow(self, store: TorchStore, is_over: threading.Event) -> None:
        """Ask rank 0 now and then, until it is over. Raises RuntimeError where the store is lost."""
        num_asked, pause_seconds = 0, random.uniform(0, self._turn_seconds)  # noqa: S311 - not to be guessed
        while not is_over.wait(pause_seconds):
            offset = ask_time(store, self._now, is_over)
            num_asked += 1
            if offset and (self._best is None or offset.error_seconds < self._best.error_at(offset.taken)):
                self._best = offset
                self.is_known.set()
            pause_seconds = self._pause_seconds(num_asked)

    def _pause_seconds(self, num_asked: int) -> float:
        """Pause until the next question: none before a few were asked; little while rank 0's clock is known badly."""
        if num_asked < _FIRST_QUESTIONS:
            return 0.0
        is_good = self._best is not None and self._best.error_seconds <= GOOD_ERROR_SECONDS
        if not is_good and num_asked < _MAX_FIRST_QUESTIONS:
            return random.uniform(0, self._turn_seconds)  # noqa: S311 - likewise
        return random.uniform(0.5, 1.5) * SECONDS_BETWEEN_QUESTIONS  # noqa: S311 - likewise


def ask_time(store: TorchStore, now: Now, is_over: threading.Event) -> Offset | None:
    """Ask rank 0 once for its time, and compute the offset; None where it is over before an answer comes."""
    number = store.add(_NUM_ASKED, 1)
    answer = _answer(number)
    sent = now()
    store.set(_question(number), "")
    if not wait_in_slices(store, [answer], is_over.is_set):
        return None
    received = now()
    there = float(store.get(answer))
    store.delete_key(answer)
    return Offset(there - (sent + received) / 2, (received - sent) / 2, taken=received)


def keep_answering(store: TorchStore, is_over: threading.Event, now: Now = time.monotonic) -> None:
    """On rank 0, answer questions until it is over. Raises RuntimeError where the store is lost."""
    number = 1
    while wait_in_slices(store, [_question(number)], is_over.is_set):
        store.set(_answer(number), repr(now()))
        store.delete_key(_question(number))
        number += 1


def _question(number: int) -> str:
    return f"clock/question/{number}"


def _answer(number: int) -> str:
    return f"clock/answer/{number}"
