"""Turns that clients get in rotation: who asks much waits for itself, and others pass.

Fair queuing (Nagle, RFC 970) with a queue for each client, and the longest queue pushed out where all are full
(McKenney, Stochastic Fairness Queueing, 1990).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.errors import busy

_LEAST_UNFAIR = 2
"""By so many more questions of the longest queue, one of them gives way to a newcomer: less would only change seats."""


class FairTurns:
    """A number of turns at a time, dealt to clients in rotation; `max_asked` are those that have a turn or wait."""

    def __init__(self, num_turns: int, *, max_asked: int) -> None:
        self._num_turns = num_turns
        self._num_held = 0
        self._max_asked = max_asked
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, client: str, *, max_seconds: float) -> AsyncIterator[None]:
        """A turn of a client. Raises Busy where too many wait, or its turn does not come in time."""
        await self._take(client, max_seconds)
        try:
            yield
        finally:
            self._pass_on()

    def require_room(self, client: str) -> None:
        """Raise Busy where a turn of a client would be refused at once."""
        if self._num_asked >= self._max_asked:
            self._longest_to_give_way(client)

    async def _take(self, client: str, max_seconds: float) -> None:
        if self._num_asked >= self._max_asked:
            self._make_room(client)
        if self._num_held < self._num_turns:  # then nobody waits
            self._num_held += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(client, deque()).append(place)
        try:
            async with asyncio.timeout(max_seconds):
                await place
        except BaseException as error:
            self._leave(client, place)
            if isinstance(error, TimeoutError):
                raise busy() from None
            raise

    @property
    def _num_asked(self) -> int:
        return self._num_held + sum(map(len, self._queues.values()))

    def _make_room(self, client: str) -> None:
        """Let the newest question of the longest queue give way, where that is fair. Raises Busy where it is not."""
        given_up = self._longest_to_give_way(client).pop()
        if not given_up.done():
            given_up.set_exception(busy())

    def _longest_to_give_way(self, client: str) -> deque[asyncio.Future[None]]:
        longest = max(self._queues.values(), key=len, default=deque())
        if len(longest) - len(self._queues.get(client, ())) < _LEAST_UNFAIR:
            raise busy()
        return longest

    def _leave(self, client: str, place: asyncio.Future[None]) -> None:
        """Give up a place, or the turn that just came."""
        queue = self._queues.get(client, deque())
        if place in queue:
            queue.remove(place)
            self._drop_if_empty(client)
        elif place.done() and not place.cancelled() and place.exception() is None:
            self._pass_on()

    def _pass_on(self) -> None:
        """A turn is over: the next is of the client whose turn is longest ago."""
        while self._queues:
            client, queue = next(iter(self._queues.items()))
            place = queue.popleft()
            self._queues.move_to_end(client)
            self._drop_if_empty(client)
            if not place.done():  # or it is being left
                place.set_result(None)
                return
        self._num_held -= 1

    def _drop_if_empty(self, client: str) -> None:
        if not self._queues[client]:
            del self._queues[client]
