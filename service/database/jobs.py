"""Jobs in the database: their state and, for a while, their results. Any worker answers for all of them.

The worker that answers a job says so every few seconds (`heartbeat_at`). Where it no longer does, it is gone, and
whichever worker looks next says that the job was interrupted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast
from uuid import UUID, uuid4

from sqlalchemy import CursorResult, delete, func, select, tuple_, update
from sqlalchemy.orm import Session

from service.database.audit import Actor
from service.database.connection import Database
from service.database.tables import JobResultRow, JobRow, now
from service.errors import NotFound
from service_client.terms import JobState, ReportForm
from sizing import __version__
from sizing.errors import InvalidInput, Problem

KEPT = timedelta(days=1)
"""Time for which a job is kept after its end: who asked comes back on the same day."""
MAX_ENDED_JOBS = 1000
MAX_KEPT_BYTES = 256 * 1024**2
"""Max bytes of all results together; the oldest go first. Reports are some 100 KB, sweeps some MB."""
MAX_RESULT_BYTES = 64 * 1024**2
"""Max bytes of one result, so that it does not drive out all others."""
HEARTBEAT_MISSED = timedelta(seconds=30)
"""Age of a missed heartbeat: longer than a worker waits for a locked database, and many times the usual interval."""

NONE_TOLD: Mapping[UUID, float] = {}
"""The progress of jobs of which none tells any."""

_ACTIVE: tuple[JobState, ...] = ("queued", "running")
_INTERRUPTED = Problem("the job", "was interrupted, as the process that answered it has ended", "", "ask it again")


@dataclass(frozen=True, slots=True)
class NewJob:
    """Question that becomes a job, as stored."""

    kind: str
    form: ReportForm
    token_id: int | None = None
    """Id of the token of who asks; None where that is not known."""


def add_job(database: Database, new: NewJob, *, max_seconds: float) -> JobRow:
    """Add a queued job, and delete jobs that are too old or too many (see KEPT and the limits after it)."""
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
        max_seconds=max_seconds,
    )
    with database.writing() as session:
        _interrupt_abandoned(session)
        _forget(session)
        session.add(row)
    return row


def job_of_id(database: Database, job_id: UUID) -> JobRow:
    """Return a job by its id. Raises NotFound."""
    with database.reading() as session:
        row = _require_kept(session.get(JobRow, job_id), job_id)
    if not _is_abandoned(row):
        return row
    with database.writing() as session:
        _interrupt_abandoned(session)
        return _require_kept(session.get(JobRow, job_id), job_id)


def list_jobs(database: Database, by: Actor, *, limit: int, before: UUID | None) -> Sequence[JobRow]:
    """List at most `limit` jobs of the holder of a token, the newest first: from those asked before the job `before`.

    Raises NotFound where that one is not kept any more.
    """
    with database.reading() as session:
        rows = _list_of_token(session, by, limit, before)
    if not any(map(_is_abandoned, rows)):
        return rows
    with database.writing() as session:
        _interrupt_abandoned(session)
        return _list_of_token(session, by, limit, before)


def result_of(database: Database, job_id: UUID) -> bytes:
    """Return the result of a job that is done. Raises NotFound where it is no longer kept."""
    with database.reading() as session:
        row = session.get(JobResultRow, job_id)
    if row is None:
        raise no_job(job_id)
    return row.content


def begin_job(database: Database, job_id: UUID) -> bool:
    """Mark a job as running; False where it has been cancelled meanwhile."""
    with database.writing() as session:
        return _change(session, [job_id], state="running", started_at=now(), heartbeat_at=now()) == 1


def finish_job(database: Database, job_id: UUID, content: bytes) -> bool:
    """Store the result of a job; False where it has been cancelled meanwhile."""
    with database.writing() as session:
        end = {"state": "done", "ended_at": now(), "result_bytes": len(content), "progress_fraction": 1.0}
        is_done = _change(session, [job_id], **end) == 1
        if is_done:
            session.add(JobResultRow(job_id=job_id, content=content))
            session.flush()
            _forget(session)
    return is_done


def fail_job(database: Database, job_id: UUID, code: str, problems: Collection[Problem]) -> bool:
    """Store why a job has no result; False where it has been cancelled meanwhile."""
    with database.writing() as session:
        return _change(session, [job_id], state="failed", **_end_with(code, problems)) == 1


def beat(database: Database, job_ids: Collection[UUID], progress: Mapping[UUID, float] = NONE_TOLD) -> set[UUID]:
    """Store a heartbeat for jobs, and return those that are still active: others may have been cancelled.

    Args: `progress`, the fraction that is done of those whose questions tell it.
    """
    with database.writing() as session:
        _change(session, job_ids, heartbeat_at=now())
        for job_id, fraction in progress.items():
            _change(session, [job_id], progress_fraction=fraction)
        return set(session.scalars(select(JobRow.id).where(JobRow.id.in_(job_ids), JobRow.state.in_(_ACTIVE))))


def interrupt_jobs(database: Database, job_ids: Collection[UUID]) -> int:
    """Mark jobs as interrupted, as their worker stops, and count those that were active."""
    with database.writing() as session:
        return _change(session, job_ids, state="interrupted", **_end_with("interrupted", [_INTERRUPTED]))


def cancel_job(database: Database, job_id: UUID) -> bool:
    """Cancel an active job and return True, or forget an ended one and return False. Raises NotFound."""
    with database.writing() as session:
        if _change(session, [job_id], state="cancelled", ended_at=now()):
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


def _change(session: Session, job_ids: Collection[UUID], **values: object) -> int:
    """Set values of those of the jobs that have not ended, and count them."""
    return _update(session, JobRow.id.in_(job_ids), **values)


def _list_of_token(session: Session, by: Actor, limit: int, before: UUID | None) -> Sequence[JobRow]:
    order = tuple_(JobRow.created_at, JobRow.id)
    is_kept = JobRow.ended_at.is_(None) | (JobRow.ended_at >= now() - KEPT)
    query = select(JobRow).where(JobRow.token_id == by.token_in(session).id, is_kept)
    if before is not None:
        last = _require_kept(session.get(JobRow, before), before)
        query = query.where(order < (last.created_at, last.id))
    return session.scalars(query.order_by(JobRow.created_at.desc(), JobRow.id.desc()).limit(limit)).all()


def _is_abandoned(row: JobRow) -> bool:
    """Tell whether the worker of a job is gone."""
    return row.state in _ACTIVE and row.heartbeat_at < now() - HEARTBEAT_MISSED


def _interrupt_abandoned(session: Session) -> None:
    """Mark the jobs whose worker is gone as interrupted."""
    end = _end_with("interrupted", [_INTERRUPTED])
    _update(session, JobRow.heartbeat_at < now() - HEARTBEAT_MISSED, state="interrupted", **end)


def _update(session: Session, which: Any, **values: object) -> int:
    """Set values of those of some jobs that have not ended, and count them."""
    statement = update(JobRow).where(which, JobRow.state.in_(_ACTIVE)).values(**values)
    result = session.execute(statement.execution_options(synchronize_session=False))
    return cast("CursorResult[Any]", result).rowcount


def _forget(session: Session) -> None:
    """Delete ended jobs that are too old, or beyond the number or the bytes that are kept of the newest."""
    columns = (JobRow.id, JobRow.ended_at, func.coalesce(JobRow.result_bytes, 0))
    newest_first = select(*columns).where(JobRow.state.not_in(_ACTIVE)).order_by(JobRow.ended_at.desc(), JobRow.id)
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
