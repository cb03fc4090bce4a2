"""Heavy questions run beside the server, in a few processes that it can stop: the rest stays as fast as before."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Unpack

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Request

from service.access.client import client_of
from service.answers.progress import Heard, unheard
from service.compute.fair_turns import FairTurns
from service.compute.worker import SMALLER_QUESTIONS, ComputeLimits, ComputeWorker
from service.http.connected import while_connected
from service.settings import Settings
from service.telemetry.metrics import Metrics

MAX_WAITING_PER_WORKER = 8
"""Of questions of 2.5 s each the last one's turn still comes within SECONDS_TO_WAIT; more are refused at once."""
SECONDS_TO_WAIT = 20.0
"""For a turn; with the time to compute it is less than clients and proxies wait (60 s), who would be gone."""
SECONDS_TO_LET_END = 3.0
"""Before a question that nobody waits for is ended: a new process takes as long to start."""
_WHEN_TOO_SLOW = f"{SMALLER_QUESTIONS}, or send a sizing or what-if question as a job (header Prefer: respond-async)"


class ComputeProcesses:
    """Processes that compute, each one question at a time; no more questions are asked at once than there are."""

    def __init__(self, num_workers: int, **limits: Unpack[ComputeLimits]) -> None:
        self._workers = [ComputeWorker(**limits) for _ in range(num_workers)]
        self._idle = list(self._workers)
        self._threads = CapacityLimiter(num_workers)

    async def computed(self, function: Callable[..., bytes], *arguments: object, progress: Heard = unheard) -> bytes:
        """What a function returns in one of them; `progress` hears in a thread which fraction is done.

        Who cancels ends the question. Raises as `ComputePool.run`.
        """
        worker = self._idle.pop()
        ask = functools.partial(worker.ask, function, arguments, progress=progress)
        asked = asyncio.ensure_future(to_thread.run_sync(ask, limiter=self._threads))
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            await _ended(asked, worker)
            raise
        finally:
            self._idle.append(worker)

    def close(self) -> None:
        """Stop the processes."""
        for worker in self._workers:
            worker.stop()


class ComputePool:
    """Processes that compute, and the questions that wait for them."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        num_workers = settings.compute_workers
        self._processes = ComputeProcesses(
            num_workers,
            max_seconds=settings.compute_seconds,
            max_bytes=settings.compute_memory_bytes,
            when_too_slow=_WHEN_TOO_SLOW,
            is_estimated=True,
        )
        self._turns = FairTurns(num_workers, max_asked=MAX_WAITING_PER_WORKER * num_workers)
        self._metrics = metrics

    async def run(self, function: Callable[..., bytes], *arguments: object, client: str = "") -> bytes:
        """What a function returns, run in another process; function and arguments must be picklable.

        Raises what the function refuses with InvalidInput, OutOfTime or TakesTooLong beyond the limits of time or
        memory, or Busy.
        """
        async with self.turn(client) as ask:
            return await ask(function, *arguments)

    @asynccontextmanager
    async def turn(self, client: str = "") -> AsyncIterator[Callable[..., Awaitable[bytes]]]:
        """A client's turn to ask a question: for one that is large, and is better read when it is its turn.

        Raises Busy where too many wait already, or the turn does not come in time.
        """
        start, outcome = time.perf_counter(), "failed"
        try:
            with self._metrics.compute_waiting.track_inprogress():
                async with self._turns.turn(client, max_seconds=SECONDS_TO_WAIT):
                    yield self._computed
            outcome = "answered"
        finally:
            self._metrics.compute_seconds.labels(outcome).observe(time.perf_counter() - start)

    async def _computed(self, function: Callable[..., bytes], *arguments: object) -> bytes:
        with self._metrics.compute_running.track_inprogress():
            return await self._processes.computed(function, *arguments)

    def close(self) -> None:
        """Stop the processes."""
        self._processes.close()


async def _ended(asked: asyncio.Future[bytes], worker: ComputeWorker) -> None:
    """See a question to its end that nobody waits for any more."""
    await asyncio.wait((asked,), timeout=SECONDS_TO_LET_END)
    if not asked.done():
        worker.give_up()
    with contextlib.suppress(Exception):  # whatever it was, nobody asks
        await asked


@dataclass(frozen=True, slots=True)
class ClientCompute:
    """The processes as the client of a request has them: in its turn, and no longer than it is there."""

    pool: ComputePool
    request: Request

    async def run(self, function: Callable[..., bytes], *arguments: object) -> bytes:
        """As `ComputePool.run`. Raises ClientGone too."""
        asking = self.pool.run(function, *arguments, client=client_of(self.request.scope))
        return await while_connected(self.request, asking)

    def turn(self) -> contextlib.AbstractAsyncContextManager[Callable[..., Awaitable[bytes]]]:
        """As `ComputePool.turn`."""
        return self.pool.turn(client_of(self.request.scope))


async def compute_of(request: Request) -> ClientCompute:
    """The processes for heavy questions."""
    return ClientCompute(request.app.state.compute, request)


Compute = Annotated[ClientCompute, Depends(compute_of)]
