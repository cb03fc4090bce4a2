"""Compute processes for heavy questions. They can be stopped, so that the rest of the service stays fast."""

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

from service.access.scopes import client_by_token
from service.answers.progress import ProgressListener, ignore_progress
from service.compute.fair_turns import FairTurns
from service.compute.parts import PartsInDatabase
from service.compute.worker import SMALLER_QUESTIONS, ComputeLimits, ComputeWorker, ProcessListener, ignore_process
from service.http.connected import while_connected
from service.settings import Settings
from service.telemetry import Metrics

MAX_WAITING_PER_WORKER = 8
"""Max questions that wait for a worker: of 2.5 s each, the last one's turn still comes within SECONDS_TO_WAIT; more are
refused at once."""
SECONDS_TO_WAIT = 20.0
"""Max wait for a turn; with the time to compute it is less than clients and proxies wait (60 s), who would be gone."""
SECONDS_OF_A_TURN = SECONDS_TO_WAIT / MAX_WAITING_PER_WORKER
"""Turn of a question that can become a job, where other clients wait: all that may wait get their turn in time."""
_SECONDS_BETWEEN_LOOKS = 0.25
"""Pause between two looks at whether others wait."""
SECONDS_TO_LET_END = 3.0
"""Seconds before a question that nobody waits for is ended, and its process with what that keeps of other questions."""
_WHEN_TOO_SLOW = f"{SMALLER_QUESTIONS}, or send a sizing or what-if question as a job (header Prefer: respond-async)"


class ComputeProcesses:
    """Processes that compute, one question each. No more questions may be asked at once than there are processes."""

    def __init__(self, num_workers: int, **limits: Unpack[ComputeLimits]) -> None:
        self._workers = [ComputeWorker(**limits) for _ in range(num_workers)]
        self._idle = list(self._workers)
        self._threads = CapacityLimiter(num_workers)
        self._num_giving_way = 0

    async def run(
        self,
        function: Callable[..., bytes],
        *arguments: object,
        progress: ProgressListener = ignore_progress,
        parts: PartsInDatabase | None = None,
        hear: ProcessListener = ignore_process,
        num_waiting: Callable[[], int] = int,
    ) -> bytes:
        """Run a function in one of the processes; `progress` is called in a thread with the fraction that is done.

        Args: `parts`, which a job keeps and asks for. `hear`, who hears where it is computed, if it is traced.

        A question that has had its turn ends with OutOfTime for one of the others of `num_waiting`, by default none.
        Who cancels ends the question. Raises as `ComputePool.run`.
        """
        worker = self._idle.pop()
        ask = functools.partial(worker.ask, function, arguments, progress=progress, parts=parts, hear=hear)
        answer = asyncio.ensure_future(to_thread.run_sync(ask, limiter=self._threads))
        gives_way = False
        try:
            while not answer.done():
                await asyncio.wait((answer,), timeout=_SECONDS_BETWEEN_LOOKS)
                if worker.seconds_asked > SECONDS_OF_A_TURN and num_waiting() > self._num_giving_way:
                    gives_way = True
                    self._num_giving_way += 1
                    num_waiting = int
                if gives_way and not answer.done():
                    worker.give_way()
            return answer.result()
        except asyncio.CancelledError:
            await _await_end(answer, worker)
            raise
        finally:
            self._num_giving_way -= gives_way
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

    async def run(
        self, function: Callable[..., bytes], *arguments: object, client: str = "", may_be_job: bool = False
    ) -> bytes:
        """Run a function in another process. Function and arguments must be picklable.

        A question that `may_be_job` raises OutOfTime once it has had its turn and other clients wait.
        Raises what the function refuses with InvalidInput, OutOfTime or TakesTooLong beyond the limits of time or
        memory, or Busy.
        """
        async with self.turn(client) as ask:
            if not may_be_job:
                return await ask(function, *arguments)
            return await ask(function, *arguments, num_waiting=lambda: self._turns.num_waiting_beside(client))

    @asynccontextmanager
    async def turn(self, client: str = "") -> AsyncIterator[Callable[..., Awaitable[bytes]]]:
        """Take a client's turn before the question is read, for a large one.

        Raises Busy where too many wait already, or the turn does not come in time.
        """
        start, outcome = time.perf_counter(), "failed"
        try:
            with self._metrics.compute_waiting.track_inprogress():
                async with self._turns.turn(client, max_seconds=SECONDS_TO_WAIT):
                    yield self._run_counted
            outcome = "answered"
        finally:
            self._metrics.compute_seconds.labels(outcome).observe(time.perf_counter() - start)

    async def _run_counted(
        self, function: Callable[..., bytes], *arguments: object, num_waiting: Callable[[], int] = int
    ) -> bytes:
        with self._metrics.compute_running.track_inprogress():
            return await self._processes.run(function, *arguments, num_waiting=num_waiting)

    def close(self) -> None:
        """Stop the processes."""
        self._processes.close()


async def _await_end(answer: asyncio.Future[bytes], worker: ComputeWorker) -> None:
    """Wait for the end of a question that nobody waits for any more, and end it by force after a while."""
    await asyncio.wait((answer,), timeout=SECONDS_TO_LET_END)
    if not answer.done():
        worker.give_up()
    with contextlib.suppress(Exception):  # whatever it was, nobody asks
        await answer


@dataclass(frozen=True, slots=True)
class ClientCompute:
    """Compute pool of a request's client: in its turn, and only while the client is connected."""

    pool: ComputePool
    request: Request

    async def run(self, function: Callable[..., bytes], *arguments: object, may_be_job: bool = False) -> bytes:
        """Run as `ComputePool.run` does. Raises ClientGone too."""
        client = await client_by_token(self.request)
        asking = self.pool.run(function, *arguments, client=client, may_be_job=may_be_job)
        return await while_connected(self.request, asking)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Callable[..., Awaitable[bytes]]]:
        """Wait for a turn as `ComputePool.turn` does."""
        async with self.pool.turn(await client_by_token(self.request)) as ask:
            yield ask


async def compute_of(request: Request) -> ClientCompute:
    """Return the compute pool for the client of a request."""
    return ClientCompute(request.app.state.compute, request)


Compute = Annotated[ClientCompute, Depends(compute_of)]
