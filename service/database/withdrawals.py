"""Runs that no longer speak for their storage system: kept with the reason, and left out of what is made of runs."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.database.audit import Actor, require_owner
from service.database.connection import Database
from service.database.runs import found_run
from service.database.tables import RunRow, WithdrawalRow, now


def withdraw_run(database: Database, system_name: str, run_id: str, reason: str, *, by: Actor) -> RunRow:
    """The run, withdrawn for a reason; a reason that was given before is replaced.

    Raises NotFound, Conflict for a run of another storage system, or MissingScope.
    """
    with database.writing() as session:
        row = _own_run(session, system_name, run_id, by)
        withdrawal = row.withdrawal or WithdrawalRow(run_id=row.id)
        withdrawal.reason, withdrawal.at, withdrawal.token = reason, now(), by.token_in(session)
        row.withdrawal = withdrawal
        by.record(session, "withdraw", f"run {run_id}")
    return row


def reinstate_run(database: Database, system_name: str, run_id: str, *, by: Actor) -> None:
    """Let a run speak again. Raises as `withdraw_run`."""
    with database.writing() as session:
        row = _own_run(session, system_name, run_id, by)
        if row.withdrawal is not None:
            session.delete(row.withdrawal)
            by.record(session, "reinstate", f"run {run_id}")


def _own_run(session: Session, system_name: str, run_id: str, by: Actor) -> RunRow:
    query = select(RunRow).filter_by(run_id=run_id).with_for_update(of=RunRow)
    row = found_run(session.scalar(query), system_name, run_id)
    require_owner(row.system, by, publisher=row)
    return row
