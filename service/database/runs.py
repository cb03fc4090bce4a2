"""Benchmark runs: kept as they were sent, once each, for good."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Select, and_, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import undefer

from service.database.audit import Actor
from service.database.connection import Database
from service.database.newest_first import newest_first
from service.database.storage_systems import storage_system, system_named
from service.database.tables import MeasurementRow, RunRow, StorageSystemRow, new_id, now
from service.errors import Conflict, NotFound
from sizing.errors import InvalidInput
from sizing.storage.measurement import BenchmarkResult, Measurement
from sizing.units import binary_bytes_text

MAX_RUNS = 1000
"""What a calibration may name, as MAX_POINTS bounds its rows."""
MAX_DOCUMENT_BYTES = 256 * 1024**2
"""Of the runs that are looked at together."""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are wanted; a run matches where one of its measurements has all that is asked of them."""

    engine: str | None = None
    min_num_nodes: int | None = None
    published_since: datetime | None = None
    published_before: datetime | None = None

    def of(self, query: Select[RunRow]) -> Select[RunRow]:
        """The query for those."""
        if self.published_since is not None:
            query = query.where(RunRow.published_at >= self.published_since)
        if self.published_before is not None:
            query = query.where(RunRow.published_at < self.published_before)
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
            row = _row(result, document, digest, system, by)
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
        row = session.scalar(query.options(undefer(RunRow.document)) if with_document else query)
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
    query = wanted.of(_of_system(storage_system(database, system_name)))
    with database.reading() as session:
        return newest_first(session, query, RunRow.id, limit=limit, before=before)


def runs_with_documents(database: Database, system_name: str, run_ids: Sequence[str] | None) -> Sequence[RunRow]:
    """The runs of those ids with their documents, or without ids all of a storage system.

    Raises NotFound where an id is not that of a run of the system, InvalidInput where they are too many.
    """
    query = _of_system(storage_system(database, system_name))
    if run_ids is not None:
        query = query.where(RunRow.run_id.in_(run_ids))
    with database.reading() as session:
        num_runs, num_characters = session.execute(
            query.with_only_columns(func.count(RunRow.id), func.sum(func.length(RunRow.document)))
        ).one()
        if num_runs > MAX_RUNS or (num_characters or 0) > MAX_DOCUMENT_BYTES:
            raise _too_many_runs(num_runs, num_characters)
        rows = newest_first(session, query.options(undefer(RunRow.document)), RunRow.id, limit=MAX_RUNS, before=None)
    missing = set(run_ids or ()) - {row.run_id for row in rows}
    if missing:
        raise NotFound.of(
            "run_ids",
            f"must be ids of runs of {system_name}",
            value=min(missing),
            remedy="list them with GET /v1/storage-systems/NAME/runs",
        )
    return rows


def digest_of(document: bytes) -> bytes:
    """A digest of what a JSON text says, whatever its blanks and the order of its fields.

    >>> digest_of(b'{"a": 1, "b": 2}') == digest_of(b'{"b":2,"a":1}')
    True
    """
    parsed: Any = json.loads(document)
    return hashlib.sha256(json.dumps(parsed, sort_keys=True, separators=(",", ":")).encode()).digest()


def _row(result: BenchmarkResult, document: bytes, digest: bytes, system: StorageSystemRow, by: Actor) -> RunRow:
    return RunRow(
        id=new_id(),
        run_id=result.run_id,
        system=system,
        document=document.decode(),
        digest=digest,
        published_at=now(),
        token_id=by.token_id,
        measurements=[_measurement(position, found) for position, found in enumerate(result.measurements)],
    )


def _measurement(position: int, measurement: Measurement) -> MeasurementRow:
    return MeasurementRow(
        position=position,
        **measurement.model_dump(
            include={"engine", "operation", "num_nodes", "num_ranks", "bytes_per_second", "verified"}
        ),
    )


def _too_many_runs(num_runs: int, num_characters: int) -> InvalidInput:
    return InvalidInput.of(
        "run_ids",
        f"must be at most {MAX_RUNS:,} runs with {binary_bytes_text(MAX_DOCUMENT_BYTES)} of documents",
        value=f"{num_runs:,} with {binary_bytes_text(num_characters)}",
        remedy="give fewer run_ids",
    )


def _of_system(system: StorageSystemRow) -> Select[RunRow]:
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
