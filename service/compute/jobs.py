"""Jobs: questions that are answered later, in processes of their own, so that nobody who waits is behind them.

Each is in the database with its question, and belongs to one server process. It survives that one: who stops gives its
jobs back, and who has an idle process looks every few seconds for those that nobody computes.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Collection
from typing import NamedTuple, TypeVar
from uuid import UUID, uuid4

from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool

from executors.dask_worker import find_versions
from executors.window import ChunkLimits
from service.answers.heavy import heavy_kind
from service.compute.fair_turns import FairTurns
from service.compute.parts import PartsInDatabase
from service.compute.pool import SECONDS_TO_LET_END, ComputeProcesses
from service.compute.worker import JobQuestion, answer_job
from service.database import Database, jobs
from service.database.jobs import NewJob, Owner, TakenJob
from service.database.tables import JobRow
from service.errors import Busy, ProcessEnded, TakesTooLong
from service.http.fair_room import FairRoom, room_for_questions
from service.http.problems import INTERNAL_ERROR, KINDS, in_words_of_rest, kind_of
from service.settings import Settings
from service.telemetry import Metrics
from service.tracing import Tracing, context_of
from sizing.errors import InvalidInput, Problem
from sizing.units import binary_bytes_text

MAX_JOBS_OF_A_CLIENT = 16
"""Max jobs for each process of a client that is alone, running or waiting; of ten minutes each, the last one's turn
comes within three hours. There are twice as many places, and of n clients each has one part in n + 1."""
SECONDS_BETWEEN_BEATS = 2.0
"""Time in which a worker hears that another has cancelled its job."""
SECONDS_BETWEEN_LOOKS = 3.0
"""Pause between two looks at what nobody computes, where nothing has ended here."""
SECONDS_OF_DOUBT = 15.0
"""Pause after the database was away: who has a job says so again before it is taken for lost."""
_TRIES = 15
"""Attempts to store a result, SECONDS_BETWEEN_BEATS apart: a database that is away for half a minute costs nobody a
result."""
_OTHERS = ""
"""The client of jobs that another process has taken from clients."""
_TAKES_TOO_LONG = KINDS[TakesTooLong].code
_FAILED = Problem("the service", "failed", "", "try again; see the log of the service for the cause")

_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)


class Jobs:
    """Jobs that this process answers. The database tells it about those of others."""

    def __init__(self, database: Database, settings: Settings, metrics: Metrics, tracing: Tracing) -> None:
        num_workers = settings.job_workers
        versions = ", ".join(f"{name} {version}" for name, version in find_versions().items())
        self._owner = Owner(uuid4(), versions)
        self._database, self._metrics, self._max_seconds = database, metrics, settings.job_seconds
        self._tracing = tracing
        self._processes = ComputeProcesses(
            num_workers, max_seconds=settings.job_seconds, max_bytes=settings.compute_memory_bytes
        )
        limits = ChunkLimits(settings.job_seconds, settings.compute_memory_bytes)
        self._computed_by = settings.dask, limits, tracing.is_on
        self._turns = FairTurns(num_workers)
        self._places = FairRoom(2 * MAX_JOBS_OF_A_CLIENT * num_workers)
        self.room = room_for_questions(settings)
        self._own: dict[UUID, asyncio.Task[None]] = {}
        self._progress: dict[UUID, float] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._beating: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._taking: asyncio.Task[None] | None = None
        """Task that looks for a job, until it has one."""
        self._news = asyncio.Event()
        """Set where a job was taken or has ended, so that there may be a process for another one."""

    def start(self) -> None:
        """Begin to look for jobs that nobody computes."""
        self._looking = asyncio.create_task(self._look())

    async def submit(self, client: str, new: NewJob) -> JobRow:
        """Submit a job of a client, which keeps its place until it ends. Raises Busy where too much waits."""
        with contextlib.ExitStack() as held:
            held.enter_context(self._places.of(client))(1)
            held.enter_context(self.room.of(client))(len(new.question.encode()))
            row = await run_in_threadpool(
                jobs.add_job, self._database, new, self._owner.id, max_seconds=self._max_seconds
            )
            task = asyncio.create_task(self._answer_in_turn(row.id, client))
            release = held.pop_all().close
        task.add_done_callback(lambda _: release())
        self._hold(row.id, task)
        return row

    async def cancel(self, job_id: UUID) -> None:
        """Cancel a job, or forget one that has ended. Its process ends, at once or with the next beat elsewhere.

        Raises NotFound.
        """
        if await run_in_threadpool(jobs.cancel_job, self._database, job_id):
            self._metrics.jobs_ended.labels("cancelled").inc()
        self._end(job_id)

    async def close(self) -> None:
        """Stop what computes the jobs of this process, and give them back for another one to go on with."""
        if self._looking is not None:
            self._looking.cancel()
        if self._taking is not None:
            await asyncio.wait((self._taking,), timeout=SECONDS_TO_LET_END)
        own = tuple(self._own)
        for job_id in own:
            self._end(job_id)
        self._processes.close()  # first, so that no chunk is computed here and there
        if self._ending:
            await asyncio.wait(self._ending, timeout=SECONDS_TO_LET_END)
        if own:
            try:
                await run_in_threadpool(jobs.give_back, self._database, self._owner.id)
            except SQLAlchemyError:
                _log.exception("Jobs could not be given back; who looks at them half a minute later goes on.")
        if self._beating is not None:
            self._beating.cancel()

    def _hold(self, job_id: UUID, task: asyncio.Task[None]) -> None:
        """Hold a job while a task answers it, and send heartbeats for it."""
        self._own[job_id] = task
        self._metrics.jobs_active.inc()

        def release(_: object) -> None:
            if self._own.get(job_id) is task:
                del self._own[job_id]
            self._progress.pop(job_id, None)
            self._metrics.jobs_active.dec()
            self._news.set()

        task.add_done_callback(release)
        if self._beating is None or self._beating.done():
            self._beating = asyncio.create_task(self._beat())

    def _end(self, job_id: UUID) -> None:
        """Cancel the task of a job, once: a second time would end the wait for its process."""
        task = self._own.pop(job_id, None)
        if task is not None:
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
            task.cancel()

    async def _answer_in_turn(self, job_id: UUID, client: str) -> None:
        """Answer a job that was submitted here, unless another process takes it before its turn comes."""
        try:
            async with self._turns.turn(client, max_seconds=None):
                taken = await self._begin(job_id)
                end = await self._compute(taken) if taken else None
        except InvalidInput as error:  # too many processes have ended with it
            end = _failed(kind_of(error).code, error.problems)
        await self._store(job_id, end)

    async def _take_over(self) -> None:
        """Go on with a job that nobody computes, in a turn that is free now."""
        own = asyncio.current_task()
        try:
            async with self._turns.turn(_OTHERS, max_seconds=SECONDS_BETWEEN_LOOKS):
                beside = tuple(self._own)
                taken = await run_in_threadpool(jobs.take_over, self._database, self._owner, beside=beside)
                if taken is None or own is None:
                    return
                self._hold(taken.id, own)
                self._taking = None
                self._news.set()
                self._metrics.jobs_taken_over.inc()
                end = await self._compute(taken)
        except Busy:  # somebody who was asked here was faster
            return
        except SQLAlchemyError as error:
            _log_waiting("A look at the jobs of others failed", error)
            return
        finally:
            if self._taking is own:
                self._taking = None
        await self._store(taken.id, end)

    async def _compute(self, taken: TakenJob) -> JobEnd | None:
        """Compute a job, again where its process was ended, whatever happens; None where it is another's meanwhile."""
        progress = functools.partial(self._progress.__setitem__, taken.id)
        with self._tracing.span(f"job {taken.kind}", context_of(taken.traceparent)) as span:
            try:
                question = JobQuestion(heavy_kind(taken.kind), taken.form, taken.question)
                while True:
                    parts = PartsInDatabase(self._database, self._owner, taken)
                    try:
                        with self._tracing.computing() as hear:
                            arguments = question, tuple(taken.parts), *self._computed_by
                            content = await self._processes.run(
                                answer_job, *arguments, progress=progress, parts=parts, hear=hear
                            )
                        break
                    except ProcessEnded as error:
                        _log.warning("A job begins again: %s", error)
                        again = await self._begin(taken.id)
                        if again is None:
                            return None
                        taken = again
                _require_moderate(content)
                end = JobEnd("done", jobs.finish_job, (content,))
            except InvalidInput as error:
                end = _failed(kind_of(error).code, error.problems)
            except Exception:  # noqa: BLE001 - whatever it was, who asks for the job is told
                _log.exception("A job failed.")
                end = _failed(INTERNAL_ERROR.code, [_FAILED])
            span.set_attribute("ckpt.job.state", end.state)
            return end

    async def _begin(self, job_id: UUID) -> TakenJob | None:
        """Begin a job that this process has; None where it has it no longer, or the database stays away.

        Raises TakesTooLong where too many processes have ended with it.
        """
        return await self._patiently(jobs.begin_job, job_id, self._owner)

    async def _store(self, job_id: UUID, end: JobEnd | None) -> None:
        """Store how a job ended, where it is still that of this process."""
        if end is not None and await self._patiently(end.store, job_id, self._owner.id, *end.what):
            self._metrics.jobs_ended.labels(end.state).inc()

    async def _patiently(self, use: Callable[..., _Result], *what: object) -> _Result | None:
        """Use the database as soon as it is available; None where it stays away, and others will go on with the job."""
        for _ in range(_TRIES):
            try:
                return await run_in_threadpool(use, self._database, *what)
            except SQLAlchemyError as error:
                _log_waiting("A job waits for the database", error)
                await asyncio.sleep(SECONDS_BETWEEN_BEATS)
        return None

    async def _beat(self) -> None:
        """Send heartbeats for the jobs of this process, and end those that others have cancelled or taken."""
        while self._own:
            await asyncio.sleep(SECONDS_BETWEEN_BEATS)
            own = list(self._own)
            try:
                kept = await run_in_threadpool(jobs.beat, self._database, self._owner.id, own, dict(self._progress))
            except SQLAlchemyError as error:
                _log_waiting("A heartbeat of jobs failed", error)
                continue
            for job_id in set(own) - kept:
                self._end(job_id)

    async def _look(self) -> None:
        """Look every few seconds, and where a job has ended here, for jobs that nobody computes."""
        while True:
            self._news.clear()
            try:
                ended = await run_in_threadpool(jobs.end_lost, self._database, code=_TAKES_TOO_LONG)
            except SQLAlchemyError as error:
                _log_waiting("A look at the jobs of others failed", error)
                await asyncio.sleep(SECONDS_OF_DOUBT)
                continue
            for state, number in ended.items():
                self._metrics.jobs_ended.labels(state).inc(number)
            if self._taking is None and self._turns.has_free_turn:
                self._taking = asyncio.create_task(self._take_over())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SECONDS_BETWEEN_LOOKS):
                    await self._news.wait()


class JobEnd(NamedTuple):
    """How a job ends: its state, what stores it, and the result or the problems."""

    state: str
    store: Callable[..., bool]
    what: tuple[object, ...]


def _failed(code: str, problems: Collection[Problem]) -> JobEnd:
    return JobEnd("failed", jobs.fail_job, (code, [in_words_of_rest(problem) for problem in problems]))


def _log_waiting(what: str, error: SQLAlchemyError) -> None:
    _log.warning("%s: %s", what, str(error).partition("\n")[0])


def _require_moderate(content: bytes) -> None:
    """Refuse a result that is too large to be kept. Raises TakesTooLong."""
    if len(content) > jobs.MAX_RESULT_BYTES:
        most = binary_bytes_text(jobs.MAX_RESULT_BYTES)
        raise TakesTooLong.of(
            "the result", f"must have at most {most}", value=len(content), remedy="ask for fewer rows, or as CSV"
        )
