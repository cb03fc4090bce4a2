"""Jobs: questions that are answered later, in processes of their own, so that nobody who waits is behind them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import pickle
from collections.abc import Callable
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool

from executors.window import ChunkLimits
from service.compute.fair_turns import FairTurns
from service.compute.pool import SECONDS_TO_LET_END, ComputeProcesses
from service.compute.worker import answer_pickled
from service.database import Database, jobs
from service.database.jobs import NewJob
from service.database.tables import JobRow
from service.errors import TakesTooLong
from service.http.fair_room import room_for_questions
from service.http.problems import INTERNAL_ERROR, kind_of
from service.settings import Settings
from service.telemetry import Metrics
from sizing.errors import InvalidInput, Problem
from sizing.units import binary_bytes_text

MAX_JOBS_PER_PROCESS = 16
"""Max jobs that run or wait; of ten minutes each, the last one's turn comes within three hours."""
SECONDS_BETWEEN_BEATS = 2.0
"""Time in which a worker hears that another has cancelled its job."""
_TRIES_TO_STORE = 15
"""Attempts to store a result, SECONDS_BETWEEN_BEATS apart: a database that is away for half a minute costs nobody a
result."""
_FAILED = Problem("the service", "failed", "", "try again; see the log of the service for the cause")

_log = logging.getLogger(__name__)


class Jobs:
    """Jobs that this worker answers. The database tells it about the jobs of other workers."""

    def __init__(self, database: Database, settings: Settings, metrics: Metrics) -> None:
        num_workers = settings.job_workers
        self._database, self._metrics, self._max_seconds = database, metrics, settings.job_seconds
        self._processes = ComputeProcesses(
            num_workers, max_seconds=settings.job_seconds, max_bytes=settings.compute_memory_bytes
        )
        self._computed_by = settings.dask, ChunkLimits(settings.job_seconds, settings.compute_memory_bytes)
        self._turns = FairTurns(num_workers, max_asked=MAX_JOBS_PER_PROCESS * num_workers)
        self.room = room_for_questions(settings)
        self._own: dict[UUID, asyncio.Task[None]] = {}
        self._progress: dict[UUID, float] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._beating: asyncio.Task[None] | None = None

    async def submit(self, client: str, new: NewJob, function: Callable[..., bytes], *arguments: object) -> JobRow:
        """Submit a job of a client whose result a function returns. Raises Busy where too much waits."""
        self._turns.require_room(client)
        question = await run_in_threadpool(pickle.dumps, (function, arguments))
        with contextlib.ExitStack() as held:
            held.enter_context(self.room.of(client))(len(question))
            row = await run_in_threadpool(jobs.add_job, self._database, new, max_seconds=self._max_seconds)
            task = asyncio.create_task(self._answer(row.id, client, question))
            release = held.pop_all().close
        self._own[row.id] = task
        task.add_done_callback(lambda _: (self._own.pop(row.id, None), self._progress.pop(row.id, None), release()))
        if self._beating is None or self._beating.done():
            self._beating = asyncio.create_task(self._beat())
        return row

    async def cancel(self, job_id: UUID) -> None:
        """Cancel a job, or forget one that has ended. Its process ends, at once or with the next beat elsewhere.

        Raises NotFound.
        """
        if await run_in_threadpool(jobs.cancel_job, self._database, job_id):
            self._metrics.jobs_ended.labels("cancelled").inc()
        self._end(job_id)

    async def close(self) -> None:
        """Mark the jobs of this worker as interrupted, and stop its processes."""
        own = dict(self._own)
        if own:
            try:
                await run_in_threadpool(jobs.interrupt_jobs, self._database, list(own))
            except SQLAlchemyError:
                _log.exception("Jobs could not be marked as interrupted; whoever looks at them next does so.")
        for job_id in own:
            self._end(job_id)
        if self._ending:
            await asyncio.wait(self._ending, timeout=SECONDS_TO_LET_END + 1)
        self._processes.close()
        if self._beating is not None:
            self._beating.cancel()

    def _end(self, job_id: UUID) -> None:
        """Cancel the task of a job, once: a second time would end the wait for its process."""
        task = self._own.pop(job_id, None)
        if task is not None:
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
            task.cancel()

    async def _answer(self, job_id: UUID, client: str, question: bytes) -> None:
        """Run a job from its turn to its stored end, whatever happens."""
        with self._metrics.jobs_active.track_inprogress():
            try:
                max_wait = MAX_JOBS_PER_PROCESS * self._max_seconds  # in which any turn comes
                async with self._turns.turn(client, max_seconds=max_wait):
                    if not await run_in_threadpool(jobs.begin_job, self._database, job_id):
                        return
                    hear = functools.partial(self._progress.__setitem__, job_id)
                    content = await self._processes.run(answer_pickled, question, *self._computed_by, progress=hear)
                _require_moderate(content)
                await self._store("done", jobs.finish_job, job_id, content)
            except InvalidInput as error:
                await self._store("failed", jobs.fail_job, job_id, kind_of(error).code, error.problems)
            except Exception:  # noqa: BLE001 - whatever it was, who asks for the job is told
                _log.exception("A job failed.")
                await self._store("failed", jobs.fail_job, job_id, INTERNAL_ERROR.code, [_FAILED])

    async def _store(self, state: str, store: Callable[..., bool], job_id: UUID, *what: object) -> None:
        """Store how a job ended, as soon as the database is available."""
        for _ in range(_TRIES_TO_STORE):
            try:
                if await run_in_threadpool(store, self._database, job_id, *what):
                    self._metrics.jobs_ended.labels(state).inc()
            except SQLAlchemyError as error:
                _log.warning("The end of a job waits for the database: %s", str(error).partition("\n")[0])
                await asyncio.sleep(SECONDS_BETWEEN_BEATS)
            else:
                return

    async def _beat(self) -> None:
        """Send heartbeats for this worker's jobs, and end those that other workers have cancelled."""
        while self._own:
            await asyncio.sleep(SECONDS_BETWEEN_BEATS)
            own = list(self._own)
            try:
                active = await run_in_threadpool(jobs.beat, self._database, own, dict(self._progress))
            except SQLAlchemyError as error:
                _log.warning("A heartbeat of jobs failed: %s", str(error).partition("\n")[0])
                continue
            for job_id in set(own) - active:
                self._end(job_id)


def _require_moderate(content: bytes) -> None:
    """Refuse a result that is too large to be kept. Raises TakesTooLong."""
    if len(content) > jobs.MAX_RESULT_BYTES:
        most = binary_bytes_text(jobs.MAX_RESULT_BYTES)
        raise TakesTooLong.of(
            "the result", f"must have at most {most}", value=len(content), remedy="ask for fewer rows, or as CSV"
        )
