"""Runs that a storage system keeps no longer, by age and by number."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from sqlalchemy import Select, delete, exists, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from service.database.audit import Actor
from service.database.connection import Database
from service.database.storage_systems import storage_system, system_named
from service.database.tables import (
    CalibrationRunRow,
    MeasurementRow,
    RunDocumentRow,
    RunRow,
    StorageSystemRow,
    WithdrawalRow,
    now,
)
from service_client.terms import RunRetention

MAX_RETIRED = 100
"""At once, so that others need not wait for long: the rest goes with the next published runs."""


def retire_runs(database: Database, system_name: str, *, request_id: str | None) -> int:
    """How many runs were deleted that the retention of a storage system no longer keeps; the audit log names each.

    Runs that a calibration rests on stay. Raises NotFound for the storage system.
    """
    if storage_system(database, system_name).retention == RunRetention():
        return 0
    try:
        with database.writing() as session:
            system = system_named(session, system_name)
            found = [(row.id, row.run_id) for query in _queries(system) for row in session.execute(query)]
            retired = dict(found[:MAX_RETIRED])
            _delete(session, list(retired))
            for run_id in retired.values():
                Actor(request_id=request_id).record(session, "retire", f"run {run_id}")
    except IntegrityError:  # one of them has just been calibrated from: the next published run looks again
        return 0
    return len(retired)


def _queries(system: StorageSystemRow) -> list[Select[UUID, str]]:
    """Those that are too old, and those beyond the newest that are kept."""
    rests = exists().where(CalibrationRunRow.run_id == RunRow.id)
    query = select(RunRow.id, RunRow.run_id).where(RunRow.system_id == system.id)
    queries = []
    if system.keep_runs_seconds is not None:
        too_old = now() - timedelta(seconds=system.keep_runs_seconds)
        queries.append(query.where(RunRow.published_at < too_old, ~rests).order_by(RunRow.id))
    if system.keep_num_runs is not None:
        newest = query.with_only_columns(RunRow.id).order_by(RunRow.id.desc())
        last_kept = newest.offset(system.keep_num_runs - 1).limit(1).scalar_subquery()
        queries.append(query.where(RunRow.id < last_kept, ~rests).order_by(RunRow.id))
    return [query.limit(MAX_RETIRED) for query in queries]


def _delete(session: Session, ids: Sequence[object]) -> None:
    for table in (MeasurementRow, RunDocumentRow, WithdrawalRow):
        session.execute(delete(table).where(table.run_id.in_(ids)))
    session.execute(delete(RunRow).where(RunRow.id.in_(ids)))
