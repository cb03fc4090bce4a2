"""Jobs in the database: their questions, their state and, for a while, their results. Any process tells of all of them.

The server process that has a job, its owner, says so every few seconds (`heartbeat_at`). Where it no longer does, or
has given the job back, another one takes it. What an owner writes counts only while the job is its own, so that one
that was stopped for a while and goes on changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple, cast
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, CursorResult, and_, case, delete, func, or_, select, tuple_, update
from sqlalchemy.orm import Session

from service.database.audit import Actor
from service.database.connection import Database
from service.database.tables import JobPartRow, JobQuestionRow, JobResultRow, JobRow, now
from service.errors import NotFound, TakesTooLong
from service_client.terms import JobState, ReportForm
from sizing import __version__
from sizing.errors import InvalidInput, Problem
from sizing.questions.chunks import ItemRange

KEPT = timedelta(days=1)
"""Time for which a job is kept after its end: who asked comes back on the same day."""
MAX_ENDED_JOBS = 1000
MAX_KEPT_BYTES = 256 * 1024**2
"""Max bytes of all results together: the newest of each token in turn, so that none drives out all of another's.
Reports are some 100 KB, sweeps some MB."""
MAX_RESULT_BYTES = 64 * 1024**2
"""Max bytes of one result, so that it does not drive out all others."""
HEARTBEAT_MISSED = timedelta(seconds=30)
"""Age of a missed heartbeat: longer than a worker waits for a locked database, and many times the usual interval."""
SHARED_AFTER = timedelta(seconds=3)
"""Time for which a job waits for its turn in one process before others may take it."""
MAX_PART_BYTES = 16 * 1024**2
MAX_PARTS_BYTES = 256 * 1024**2
"""Max bytes of one part that is kept, and of all of a job. Others are computed again: most have less than 1 MB."""
MAX_ATTEMPTS = 3
"""Attempts that may end with the process: a question that takes its process with it ends no further one."""

_MAX_TRIES_TO_TAKE = 8
"""Oldest jobs that are tried one after the other, as another process may be faster."""
NONE_TOLD: Mapping[UUID, float] = {}
"""The progress of jobs of which none tells any."""

_ACTIVE: tuple[JobState, ...] = ("queued", "running")
_INTERRUPTED = Problem("the job", "was interrupted, as the process that answered it has ended", "", "ask it again")
COSTS_PROCESSES = TakesTooLong.of(
    "the job",
    f"was begun {MAX_ATTEMPTS} times, and each time its process ended before it had an answer",
    value=None,
    remedy="split the question into smaller ones, or see the log of the service for the cause",
)


@dataclass(frozen=True, slots=True)
class NewJob:
    """Question that becomes a job, as stored."""

    kind: str
    form: ReportForm
    question: str
    """JSON of its request."""
    token_id: int | None = None
    """Id of the token of who asks; None where that is not known."""
    traceparent: str | None = None
    """Span of the request that it comes from; None where requests are not traced."""


class Owner(NamedTuple):
    """A server process that has jobs, and the versions on which the bits of their parts depend."""

    id: UUID
    versions: str


class TakenJob(NamedTuple):
    """A job that its owner computes."""

    id: UUID
    kind: str
    form: ReportForm
    question: str
    parts: dict[ItemRange, int]
    """The chunks whose parts are there, with the bytes of each."""
    traceparent: str | None


def add_job(database: Database, new: NewJob, owner: UUID, *, max_seconds: float) -> JobRow:
    """Add a queued job of an owner, and delete jobs that are too old or too many (see KEPT and the limits after it)."""
    moment = now()
    row = JobRow(
        id=uuid4(),  # none of its 122 random bits can be guessed from a time, as in others' ids
        kind=new.kind,
        form=new.form,
        token_id=new.token_id,
        state="queued",
        code_version=__version__,
        created_at=moment,
        heartbeat_at=moment,
        owner=owner,
        attempts=0,
        max_seconds=max_seconds,
    )
    with database.writing() as session:
        _forget(session)
        session.add(row)
        session.flush()
        session.add(JobQuestionRow(job_id=row.id, question=new.question, traceparent=new.traceparent))
    return row


def job_of_id(database: Database, job_id: UUID) -> JobRow:
    """Return a job by its id. Raises NotFound."""
    with database.reading() as session:
        return _require_kept(session.get(JobRow, job_id), job_id)


def list_jobs(database: Database, by: Actor, *, limit: int, before: UUID | None) -> Sequence[JobRow]:
    """List at most `limit` jobs of the holder of a token, the newest first: from those asked before the job `before`.

    Raises NotFound where that one is not kept any more.
    """
    order = tuple_(JobRow.created_at, JobRow.id)
    is_kept = JobRow.ended_at.is_(None) | (JobRow.ended_at >= now() - KEPT)
    with database.reading() as session:
        query = select(JobRow).where(JobRow.token_id == by.token_in(session).id, is_kept)
        if before is not None:
            last = _require_kept(session.get(JobRow, before), before)
            query = query.where(order < (last.created_at, last.id))
        return session.scalars(query.order_by(JobRow.created_at.desc(), JobRow.id.desc()).limit(limit)).all()


def result_of(database: Database, job_id: UUID) -> bytes:
    """Return the result of a job that is done. Raises NotFound where it is no longer kept."""
    with database.reading() as session:
        row = session.get(JobResultRow, job_id)
    if row is None:
        raise no_job(job_id)
    return row.content


def begin_job(database: Database, job_id: UUID, owner: Owner) -> TakenJob | None:
    """Begin a job that its owner has, or begin it again after its process has ended; None where it has it no longer.

    Raises TakesTooLong where too many processes have ended with it.
    """
    with database.writing() as session:
        is_own = and_(JobRow.id == job_id, JobRow.owner == owner.id)
        if session.scalar(select(JobRow.attempts).where(is_own)) == MAX_ATTEMPTS:
            raise COSTS_PROCESSES
        return _take(session, job_id, is_own, owner)


def take_over(database: Database, owner: Owner, *, beside: Collection[UUID] = ()) -> TakenJob | None:
    """Take and begin the oldest job that nobody computes and that is none of those `beside`; None where there is none.

    That is one whose owner is gone or has given it back, and one that has waited for its turn elsewhere for a while.
    """
    is_free = and_(_is_free(), JobRow.attempts < MAX_ATTEMPTS, JobRow.id.not_in(beside))
    oldest = select(JobRow.id).where(JobRow.state.in_(_ACTIVE), is_free).order_by(JobRow.created_at, JobRow.id)
    with database.reading() as session:
        job_ids = session.scalars(oldest.limit(_MAX_TRIES_TO_TAKE)).all()
    for job_id in job_ids:
        with database.writing() as session:
            taken = _take(session, job_id, and_(JobRow.id == job_id, is_free), owner)
        if taken is not None:
            return taken
    return None


def end_lost(database: Database, *, code: str) -> dict[JobState, int]:
    """End the jobs that nobody can go on with, and count them by what they become.

    Args: `code`, of the error of jobs that lost their process too often. Those of a version that stored no question are
    interrupted.
    """
    is_lost = JobRow.heartbeat_at < now() - HEARTBEAT_MISSED
    too_often = and_(is_lost, JobRow.attempts >= MAX_ATTEMPTS)
    unknown = and_(is_lost, JobRow.id.not_in(select(JobQuestionRow.job_id)))
    with database.reading() as session:
        if session.scalar(select(JobRow.id).where(JobRow.state.in_(_ACTIVE), or_(too_often, unknown)).limit(1)) is None:
            return {}
    failed, interrupted = _end_with(code, COSTS_PROCESSES.problems), _end_with("interrupted", [_INTERRUPTED])
    with database.writing() as session:
        return {
            "failed": _end(session, too_often, state="failed", **failed),
            "interrupted": _end(session, unknown, state="interrupted", **interrupted),
        }


def give_back(database: Database, owner: UUID) -> int:
    """Give back the jobs of an owner that stops, for anyone to take at once, and count them. It costs no attempt."""
    with database.writing() as session:
        began = case((JobRow.state == "running", 1), else_=0)
        values = {"state": "queued", "owner": None, "attempts": JobRow.attempts - began, "heartbeat_at": now()}
        return _update(session, JobRow.owner == owner, **values, started_at=None)


def find_part(database: Database, job_id: UUID, chunk: ItemRange) -> bytes | None:
    """Find the part of a chunk of a job; None where it is not there."""
    with database.reading() as session:
        row = session.get(JobPartRow, (job_id, chunk.start))
        return row.content if row and row.stop == chunk.stop else None


def store_part(database: Database, job_id: UUID, owner: Owner, chunk: ItemRange, content: bytes) -> bool:
    """Store the part of a chunk, once; False where the owner has the job no longer."""
    is_own = select(JobRow.id).where(JobRow.id == job_id, JobRow.owner == owner.id, JobRow.state.in_(_ACTIVE))
    with database.writing() as session:
        if session.scalar(is_own.with_for_update()) is None:  # who takes the job meanwhile waits for this
            return False
        session.merge(JobPartRow(job_id=job_id, **chunk._asdict(), versions=owner.versions, content=content))
    return True


def finish_job(database: Database, job_id: UUID, owner: UUID, content: bytes) -> bool:
    """Store the result of a job; False where its owner has it no longer."""
    with database.writing() as session:
        end = {"state": "done", "ended_at": now(), "result_bytes": len(content), "progress_fraction": 1.0}
        is_done = _end(session, and_(JobRow.id == job_id, JobRow.owner == owner), **end) == 1
        if is_done:
            session.add(JobResultRow(job_id=job_id, content=content))
            session.flush()
            _forget(session)
    return is_done


def fail_job(database: Database, job_id: UUID, owner: UUID, code: str, problems: Collection[Problem]) -> bool:
    """Store why a job has no result; False where its owner has it no longer."""
    with database.writing() as session:
        is_own = and_(JobRow.id == job_id, JobRow.owner == owner)
        return _end(session, is_own, state="failed", **_end_with(code, problems)) == 1


def beat(
    database: Database, owner: UUID, job_ids: Collection[UUID], progress: Mapping[UUID, float] = NONE_TOLD
) -> set[UUID]:
    """Store a heartbeat for jobs of an owner, and return those that it still has.

    Args: `progress`, the fraction that is done of those whose questions tell it.
    """
    with database.writing() as session:
        is_own = JobRow.owner == owner
        _update(session, and_(JobRow.id.in_(job_ids), is_own), heartbeat_at=now())
        for job_id, fraction in progress.items():
            _update(session, and_(JobRow.id == job_id, is_own), progress_fraction=fraction)
        kept = select(JobRow.id).where(JobRow.id.in_(job_ids), is_own, JobRow.state.in_(_ACTIVE))
        return set(session.scalars(kept))


def cancel_job(database: Database, job_id: UUID) -> bool:
    """Cancel an active job and return True, or forget an ended one and return False. Raises NotFound."""
    with database.writing() as session:
        if _end(session, JobRow.id == job_id, state="cancelled", ended_at=now()):
            return True
        _require_kept(session.get(JobRow, job_id), job_id)
        _delete(session, [job_id])
    return False


def no_job(job_id: object) -> InvalidInput:
    """Return the error for an id without a job."""
    remedy = f"ask again; a job is kept for {KEPT.total_seconds() / 3600:.0f} hours after its end at most"
    return NotFound.of("id", "must be the id of a job that is kept", value=job_id, remedy=remedy)


def _require_kept(row: JobRow | None, job_id: UUID) -> JobRow:
    if row is None or (row.ended_at is not None and row.ended_at < now() - KEPT):
        raise no_job(job_id)
    return row


def _end_with(code: str, problems: Collection[Problem]) -> dict[str, Any]:
    """Return the values of a job that ends now for these problems."""
    rows = [[problem.field, problem.rule, problem.value, problem.remedy] for problem in problems]
    return {"ended_at": now(), "problem_code": code, "problems": rows}


def _is_free() -> ColumnElement[bool]:
    """Return the condition of an active job that another process may take."""
    moment = now()
    waits = and_(
        JobRow.state == "queued", JobRow.created_at < moment - SHARED_AFTER, JobRow.code_version == __version__
    )
    has_question = JobRow.id.in_(select(JobQuestionRow.job_id))
    return and_(has_question, or_(JobRow.owner.is_(None), JobRow.heartbeat_at < moment - HEARTBEAT_MISSED, waits))


def _take(session: Session, job_id: UUID, which: ColumnElement[bool], owner: Owner) -> TakenJob | None:
    """Begin a job for an owner where a condition still holds: of several who try, this statement lets one."""
    values = {"state": "running", "owner": owner.id, "attempts": JobRow.attempts + 1, "code_version": __version__}
    moment = now()
    if not _update(session, which, **values, started_at=moment, heartbeat_at=moment, progress_fraction=None):
        return None
    row = session.get_one(JobRow, job_id)
    of_job = JobPartRow.job_id == job_id
    session.execute(delete(JobPartRow).where(of_job, JobPartRow.versions != owner.versions))
    found = session.execute(select(JobPartRow.start, JobPartRow.stop, func.length(JobPartRow.content)).where(of_job))
    parts = {ItemRange(start, stop): num_bytes for start, stop, num_bytes in found}
    stored = session.get_one(JobQuestionRow, job_id)
    return TakenJob(job_id, row.kind, row.form, stored.question, parts, stored.traceparent)


def _end(session: Session, which: ColumnElement[bool], **values: object) -> int:
    """End those of some jobs that have not ended, delete their questions and parts, and count them."""
    num_ended = _update(session, which, **values)
    if num_ended:
        ended = select(JobRow.id).where(JobRow.state.not_in(_ACTIVE))
        session.execute(delete(JobQuestionRow).where(JobQuestionRow.job_id.in_(ended)))
        session.execute(delete(JobPartRow).where(JobPartRow.job_id.in_(ended)))
    return num_ended


def _update(session: Session, which: Any, **values: object) -> int:
    """Set values of those of some jobs that have not ended, and count them."""
    statement = update(JobRow).where(which, JobRow.state.in_(_ACTIVE)).values(**values)
    result = session.execute(statement.execution_options(synchronize_session=False))
    return cast("CursorResult[Any]", result).rowcount


def _forget(session: Session) -> None:
    """Delete ended jobs that are too old, or beyond the number or bytes that are kept: each token's newest in turn."""
    columns = (JobRow.id, JobRow.ended_at, func.coalesce(JobRow.result_bytes, 0))
    newest = (JobRow.ended_at.desc(), JobRow.id)
    turn = func.row_number().over(partition_by=JobRow.token_id, order_by=newest)
    newest_first = select(*columns).where(JobRow.state.not_in(_ACTIVE)).order_by(turn, *newest)
    oldest, total = now() - KEPT, 0
    to_delete: list[UUID] = []
    for place, (job_id, ended_at, num_bytes) in enumerate(session.execute(newest_first)):
        total += num_bytes
        if place >= MAX_ENDED_JOBS or total > MAX_KEPT_BYTES or ended_at is None or ended_at < oldest:
            to_delete.append(job_id)
    _delete(session, to_delete)


def _delete(session: Session, job_ids: Collection[UUID]) -> None:
    if job_ids:
        session.execute(delete(JobResultRow).where(JobResultRow.job_id.in_(job_ids)))
        session.execute(delete(JobRow).where(JobRow.id.in_(job_ids)))
