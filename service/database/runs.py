"""Benchmark runs: kept as they were sent, once each.

A run that no longer speaks for its storage system is withdrawn: kept with the reason, and left out of what is made of
runs. Runs that the retention of a storage system keeps no longer, by age and by number, are deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import Select, and_, delete, exists, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, joinedload

from service.database.audit import Actor, require_owner
from service.database.connection import Database, list_newest
from service.database.idempotency import digest_of
from service.database.storage_systems import find_system, storage_system
from service.database.tables import (
    CalibrationRunRow,
    MeasurementRow,
    RunDocumentRow,
    RunRow,
    StorageSystemRow,
    TokenRow,
    WithdrawalRow,
    new_id,
    now,
)
from service.errors import Conflict, NotFound
from service_client.terms import RunRetention
from sizing.storage.measurement import BenchmarkResult, Measurement
from sizing.storage.rate_changes import series_of


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Filter of runs. A run matches where one of its measurements meets all conditions on measurements."""

    engine: str | None = None
    min_num_nodes: int | None = None
    published_since: datetime | None = None
    published_before: datetime | None = None
    withdrawn: bool | None = None

    def of(self, query: Select[RunRow]) -> Select[RunRow]:
        """Restrict a query to the matching runs."""
        if self.published_since is not None:
            query = query.where(RunRow.published_at >= self.published_since)
        if self.published_before is not None:
            query = query.where(RunRow.published_at < self.published_before)
        if self.withdrawn is not None:
            query = query.where(RunRow.withdrawal.has() if self.withdrawn else ~RunRow.withdrawal.has())
        conditions = []
        if self.engine is not None:
            conditions.append(MeasurementRow.engine == self.engine)
        if self.min_num_nodes is not None:
            conditions.append(MeasurementRow.num_nodes >= self.min_num_nodes)
        return query.where(RunRow.measurements.any(and_(*conditions))) if conditions else query


def publish_run(
    database: Database, system_name: str, result: BenchmarkResult, document: bytes, *, by: Actor
) -> tuple[RunRow, bool]:
    """Store a run, and tell whether it is new: a run that is sent again is found, not stored twice.

    Args: `document`, the JSON text that `result` was read from.
    Raises NotFound for the storage system, Conflict where the run id stands for something else.
    """
    digest = digest_of(document)
    try:
        with database.writing() as session:
            system = find_system(session, system_name)
            row = _run_row(result, document, digest, system, by.token_in(session))
            session.add(row)
            session.flush()
            by.record(session, "publish", f"run {result.run_id}")
    except IntegrityError:
        storage_system(database, system_name)  # it may have been deleted at this moment
        row = read_run(database, system_name, result.run_id)
        if row.digest != digest:
            raise Conflict.of(
                "run_id",
                "was already published with different content",
                value=row.run_id,
                remedy="measure again: a new run has a new id",
            ) from None
        return row, False
    return row, True


def read_run(database: Database, system_name: str, run_id: str, *, with_document: bool = False) -> RunRow:
    """Read a run by its id.

    Raises NotFound, or Conflict where it was published for another storage system.
    """
    query = select(RunRow).filter_by(run_id=run_id)
    with database.reading() as session:
        row = session.scalar(query.options(joinedload(RunRow.stored)) if with_document else query)
    return require_run(row, system_name, run_id)


def require_run(row: RunRow | None, system_name: str, run_id: str) -> RunRow:
    """Check the run found under an id. Raises NotFound, or Conflict where it belongs to another storage system."""
    if row is None:
        raise NotFound.of(
            "run_id",
            "must be the id of a published run",
            value=run_id,
            remedy="list them with GET /v1/storage-systems/NAME/runs",
        )
    if row.system.name != system_name:
        rule = f"was published for the storage system {row.system.name}"
        raise Conflict.of("run_id", rule, value=run_id, remedy="a run belongs to one storage system")
    return row


def list_runs(
    database: Database, system_name: str, wanted: RunFilter, *, limit: int, before: UUID | None
) -> Sequence[RunRow]:
    """List at most `limit` runs of a storage system, the newest first, from those before the row id `before`.

    Raises NotFound for the storage system.
    """
    query = wanted.of(of_system(storage_system(database, system_name)))
    with database.reading() as session:
        return list_newest(session, query, RunRow.id, limit=limit, before=before)


def _run_row(
    result: BenchmarkResult, document: bytes, digest: bytes, system: StorageSystemRow, token: TokenRow
) -> RunRow:
    return RunRow(
        id=new_id(),
        run_id=result.run_id,
        system=system,
        stored=RunDocumentRow(document=document.decode()),
        digest=digest,
        published_at=now(),
        token=token,
        withdrawal=None,
        measurements=[_measurement_row(position, each) for position, each in enumerate(result.measurements)],
    )


def _measurement_row(position: int, measurement: Measurement) -> MeasurementRow:
    return MeasurementRow(
        position=position,
        series=series_of(measurement),
        bytes_per_second=measurement.headline_bytes_per_second,
        **measurement.model_dump(include={"engine", "operation", "num_nodes", "num_ranks", "verified"}),
    )


def of_system(system: StorageSystemRow) -> Select[RunRow]:
    """Return the query for the runs of a storage system."""
    return select(RunRow).where(RunRow.system_id == system.id)


def withdraw_run(database: Database, system_name: str, run_id: str, reason: str, *, by: Actor) -> RunRow:
    """Withdraw a run for a reason, which replaces an earlier one.

    Raises NotFound, Conflict for a run of another storage system, or MissingScope.
    """
    with database.writing() as session:
        row = _lock_own_run(session, system_name, run_id, by)
        withdrawal = row.withdrawal or WithdrawalRow(run_id=row.id)
        withdrawal.reason, withdrawal.at, withdrawal.token = reason, now(), by.token_in(session)
        row.withdrawal = withdrawal
        by.record(session, "withdraw", f"run {run_id}")
    return row


def reinstate_run(database: Database, system_name: str, run_id: str, *, by: Actor) -> None:
    """Reinstate a withdrawn run. Raises as `withdraw_run` does."""
    with database.writing() as session:
        row = _lock_own_run(session, system_name, run_id, by)
        if row.withdrawal is not None:
            session.delete(row.withdrawal)
            by.record(session, "reinstate", f"run {run_id}")


def _lock_own_run(session: Session, system_name: str, run_id: str, by: Actor) -> RunRow:
    query = select(RunRow).filter_by(run_id=run_id).with_for_update(of=RunRow)
    row = require_run(session.scalar(query), system_name, run_id)
    require_owner(row.system, by, publisher=row)
    return row


MAX_RETIRED = 100
"""Max runs that are retired at once, so that others need not wait for long: the rest goes with the next published
runs."""


def retire_runs(database: Database, system_name: str, *, request_id: str | None) -> int:
    """Delete the runs that the retention of a storage system no longer keeps, and count them; the audit log names each.

    Runs that a calibration rests on stay. Raises NotFound for the storage system.
    """
    if storage_system(database, system_name).retention == RunRetention():
        return 0
    try:
        with database.writing() as session:
            system = find_system(session, system_name)
            rows = [(row.id, row.run_id) for query in _queries_to_retire(system) for row in session.execute(query)]
            run_ids = dict(rows[:MAX_RETIRED])
            for table in (MeasurementRow, RunDocumentRow, WithdrawalRow):
                session.execute(delete(table).where(table.run_id.in_(run_ids)))
            session.execute(delete(RunRow).where(RunRow.id.in_(run_ids)))
            for run_id in run_ids.values():
                Actor(request_id=request_id).record(session, "retire", f"run {run_id}")
    except IntegrityError:  # one of them has just been calibrated from: the next published run looks again
        return 0
    return len(run_ids)


def _queries_to_retire(system: StorageSystemRow) -> list[Select[UUID, str]]:
    """Make the queries of runs that are too old, and of those beyond the newest that are kept."""
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
