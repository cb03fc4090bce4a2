"""Fair queue: clients get turns in rotation, so that a client with many questions delays only its own.

Fair queuing (Nagle, RFC 970) with a queue for each client. Where the number that may wait is limited, the longest queue
is pushed out when all are full (McKenney, Stochastic Fairness Queueing, 1990).
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.errors import busy

_LEAST_UNFAIR = 2
"""The longest queue with so many more questions than a newcomer's loses one to it. Less would only exchange the two."""


class FairTurns:
    """Limited number of simultaneous turns, given to clients in rotation; `max_asked`: turns and waiting together."""

    def __init__(self, num_turns: int, *, max_asked: float = math.inf) -> None:
        self._num_turns = num_turns
        self._num_held = 0
        self._max_asked = max_asked
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, client: str, *, max_seconds: float | None) -> AsyncIterator[None]:
        """Take a turn for a client. Raises Busy where too many wait, or its turn does not come in time; None is any."""
        await self._take(client, max_seconds)
        try:
            yield
        finally:
            self._pass_on()

    @asynccontextmanager
    async def step(self, client: str, *, max_seconds: float) -> AsyncIterator[None]:
        """Take a turn for work beside the event loop, which looks at what else is there before the next turn.

        Of many requests that arrive together, the loop would else take one after the other, whoever sent them.
        """
        async with self.turn(client, max_seconds=max_seconds):
            try:
                yield
            finally:
                await asyncio.sleep(0)

    @property
    def has_free_turn(self) -> bool:
        """Whether a turn would come at once; then nobody waits for one."""
        return self._num_held < self._num_turns

    def num_waiting_beside(self, client: str) -> int:
        """Count the waiting questions of other clients."""
        return sum(len(queue) for other, queue in self._queues.items() if other != client)

    async def _take(self, client: str, max_seconds: float | None) -> None:
        if self._num_held + sum(map(len, self._queues.values())) >= self._max_asked:
            longest = max(self._queues.values(), key=len, default=deque())
            if len(longest) - len(self._queues.get(client, ())) < _LEAST_UNFAIR:
                raise busy()
            pushed_out = longest.pop()
            if not pushed_out.done():
                pushed_out.set_exception(busy())
        if self.has_free_turn:
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

    def _leave(self, client: str, place: asyncio.Future[None]) -> None:
        """Give up a place in the queue, or the turn that just came."""
        queue = self._queues.get(client, deque())
        if place in queue:
            queue.remove(place)
            self._drop_if_empty(client)
        elif place.done() and not place.cancelled() and place.exception() is None:
            self._pass_on()

    def _pass_on(self) -> None:
        """Pass a finished turn to the client that has waited longest for one."""
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
