"""Heavy questions run beside the server, in a few processes that it can stop: the rest stays as fast as before."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated

from anyio import CapacityLimiter, move_on_after, to_thread
from fastapi import Depends, Request

from service.compute.worker import ComputeWorker, busy
from service.settings import Settings
from service.telemetry.metrics import Metrics

MAX_WAITING_PER_WORKER = 8
"""Of questions of 2.5 s each the last one's turn still comes within SECONDS_TO_WAIT; more are refused at once."""
SECONDS_TO_WAIT = 20.0
"""For a turn; with the time to compute it is less than clients and proxies wait (60 s), who would be gone."""


class ComputePool:
    """Processes that compute, and the questions that wait for them."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._workers = [
            ComputeWorker(max_seconds=settings.compute_seconds, max_bytes=settings.compute_memory_bytes)
            for _ in range(settings.compute_workers)
        ]
        self._idle = list(self._workers)
        self._turns = CapacityLimiter(len(self._workers))
        self._threads = CapacityLimiter(len(self._workers))
        self._max_waiting = MAX_WAITING_PER_WORKER * len(self._workers)
        self._num_waiting = 0
        self._metrics = metrics

    async def run(self, function: Callable[..., bytes], *arguments: object) -> bytes:
        """What a function returns, run in another process; function and arguments must be picklable.

        Raises what the function refuses with InvalidInput, TakesTooLong beyond the limits of time or memory, or Busy.
        """
        async with self.turn() as ask:
            return await ask(function, *arguments)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Callable[..., Awaitable[bytes]]]:
        """A turn to ask a question: for one that is large, and is better read when it is its turn.

        Raises Busy where too many wait already, or the turn does not come in time.
        """
        if self._num_waiting >= self._max_waiting:
            raise busy()
        start, outcome = time.perf_counter(), "failed"
        self._count_waiting(1)
        try:
            async with self._held():
                yield self._computed
            outcome = "answered"
        finally:
            self._count_waiting(-1)
            self._metrics.compute_seconds.labels(outcome).observe(time.perf_counter() - start)

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[None]:
        holder = object()
        with move_on_after(SECONDS_TO_WAIT) as waiting:
            await self._turns.acquire_on_behalf_of(holder)
        if waiting.cancelled_caught:
            raise busy()
        try:
            yield
        finally:
            self._turns.release_on_behalf_of(holder)

    async def _computed(self, function: Callable[..., bytes], *arguments: object) -> bytes:
        return await to_thread.run_sync(self._ask, function, arguments, limiter=self._threads)

    def close(self) -> None:
        """Stop the processes."""
        for worker in self._workers:
            worker.stop()

    def _ask(self, function: Callable[..., bytes], arguments: tuple[object, ...]) -> bytes:
        worker = self._idle.pop()
        try:
            with self._metrics.compute_running.track_inprogress():
                return worker.ask(function, arguments)
        finally:
            self._idle.append(worker)

    def _count_waiting(self, change: int) -> None:
        self._num_waiting += change
        self._metrics.compute_waiting.inc(change)


async def compute_of(request: Request) -> ComputePool:
    """The processes for heavy questions."""
    pool: ComputePool = request.app.state.compute
    return pool


Compute = Annotated[ComputePool, Depends(compute_of)]
