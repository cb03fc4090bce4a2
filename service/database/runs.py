"""Benchmark runs: kept as they were sent, once each, for good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Select, and_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import joinedload

from service.database.audit import Actor
from service.database.connection import Database
from service.database.digests import digest_of
from service.database.newest_first import newest_first
from service.database.storage_systems import storage_system, system_named
from service.database.tables import MeasurementRow, RunDocumentRow, RunRow, StorageSystemRow, TokenRow, new_id, now
from service.errors import Conflict, NotFound
from sizing.storage.measurement import BenchmarkResult, Measurement
from sizing.storage.rate_changes import series_of


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are wanted; a run matches where one of its measurements has all that is asked of them."""

    engine: str | None = None
    min_num_nodes: int | None = None
    published_since: datetime | None = None
    published_before: datetime | None = None
    withdrawn: bool | None = None

    def of(self, query: Select[RunRow]) -> Select[RunRow]:
        """The query for those."""
        if self.published_since is not None:
            query = query.where(RunRow.published_at >= self.published_since)
        if self.published_before is not None:
            query = query.where(RunRow.published_at < self.published_before)
        if self.withdrawn is not None:
            query = query.where(RunRow.withdrawal.has() if self.withdrawn else ~RunRow.withdrawal.has())
        asked = []
        if self.engine is not None:
            asked.append(MeasurementRow.engine == self.engine)
        if self.min_num_nodes is not None:
            asked.append(MeasurementRow.num_nodes >= self.min_num_nodes)
        return query.where(RunRow.measurements.any(and_(*asked))) if asked else query


def publish_run(
    database: Database, system_name: str, result: BenchmarkResult, document: bytes, *, by: Actor
) -> tuple[RunRow, bool]:
    """The row of a run, and whether it is new: the same run sent again is found, not kept twice.

    Args: `document`, the JSON text that `result` was read from.
    Raises NotFound for the storage system, Conflict where the run id stands for something else.
    """
    digest = digest_of(document)
    try:
        with database.writing() as session:
            system = system_named(session, system_name)
            row = _row(result, document, digest, system, by.token_in(session))
            session.add(row)
            session.flush()
            by.record(session, "publish", f"run {result.run_id}")
    except IntegrityError:
        storage_system(database, system_name)  # it may have been deleted at this moment
        return _same(published_run(database, system_name, result.run_id), digest), False
    return row, True


def published_run(database: Database, system_name: str, run_id: str, *, with_document: bool = False) -> RunRow:
    """The run of that id.

    Raises NotFound, or Conflict where it was published for another storage system.
    """
    query = select(RunRow).filter_by(run_id=run_id)
    with database.reading() as session:
        row = session.scalar(query.options(joinedload(RunRow.stored)) if with_document else query)
    return found_run(row, system_name, run_id)


def found_run(row: RunRow | None, system_name: str, run_id: str) -> RunRow:
    """The run that was found under an id. Raises NotFound, or Conflict where it is of another storage system."""
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
    """At most `limit` runs of a storage system, the newest first, from those before the row id `before`.

    Raises NotFound for the storage system.
    """
    query = wanted.of(of_system(storage_system(database, system_name)))
    with database.reading() as session:
        return newest_first(session, query, RunRow.id, limit=limit, before=before)


def _row(result: BenchmarkResult, document: bytes, digest: bytes, system: StorageSystemRow, token: TokenRow) -> RunRow:
    return RunRow(
        id=new_id(),
        run_id=result.run_id,
        system=system,
        stored=RunDocumentRow(document=document.decode()),
        digest=digest,
        published_at=now(),
        token=token,
        withdrawal=None,
        measurements=[_measurement(position, found) for position, found in enumerate(result.measurements)],
    )


def _measurement(position: int, measurement: Measurement) -> MeasurementRow:
    return MeasurementRow(
        position=position,
        series=series_of(measurement),
        **measurement.model_dump(
            include={"engine", "operation", "num_nodes", "num_ranks", "bytes_per_second", "verified"}
        ),
    )


def of_system(system: StorageSystemRow) -> Select[RunRow]:
    """The query for the runs of a storage system."""
    return select(RunRow).where(RunRow.system_id == system.id)


def _same(row: RunRow, digest: bytes) -> RunRow:
    if row.digest != digest:
        raise Conflict.of(
            "run_id",
            "was already published with different content",
            value=row.run_id,
            remedy="measure again: a new run has a new id",
        )
    return row
