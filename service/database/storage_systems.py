"""Storage systems: the names under which runs are published."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from service.database.audit import Actor, require_owner
from service.database.connection import Database
from service.database.tables import CalibrationRow, RunRow, StorageSystemRow, TokenRow, now
from service.errors import Conflict, NotFound
from service_client.documents import LatestCalibration
from service_client.terms import RunRetention
from sizing.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class SystemChange:
    """Change of a storage system. Fields that are None stay as they are."""

    description: str | None = None
    owners: tuple[str, ...] | None = None
    retention: RunRetention | None = None


def save_storage_system(database: Database, name: str, description: str, *, by: Actor) -> tuple[StorageSystemRow, bool]:
    """Save a storage system, and tell whether it is new.

    Raises Conflict where the name stands for one with another description.
    """
    try:
        with database.writing() as session:
            row = StorageSystemRow(
                name=name, description=description, created_at=now(), token=by.token_in(session), named_owners=[]
            )
            session.add(row)
            session.flush()
            by.record(session, "create", f"storage system {name}")
    except IntegrityError:
        known = storage_system(database, name)
        if known.description != description:
            rule = "is already the name of a storage system with another description"
            raise Conflict.of("name", rule, value=name, remedy="choose another name") from None
        return known, False
    return row, True


def storage_system(database: Database, name: str) -> StorageSystemRow:
    """Return a storage system by its name.

    Raises NotFound.
    """
    with database.reading() as session:
        return find_system(session, name)


def find_system(session: Session, name: str, *, for_update: bool = False) -> StorageSystemRow:
    """Find a storage system within a transaction; `for_update` where nobody may change it until that ends."""
    query = select(StorageSystemRow).filter_by(name=name)
    row = session.scalar(query.with_for_update(of=StorageSystemRow) if for_update else query)
    if row is None:
        raise NotFound.of(
            "name", "must be the name of a storage system", value=name, remedy="list them with GET /v1/storage-systems"
        )
    return row


def change_storage_system(
    database: Database, name: str, change: SystemChange, *, by: Actor, check: Callable[[StorageSystemRow], None]
) -> StorageSystemRow:
    """Change a storage system, unless `check` raises for its state at that moment.

    Raises NotFound, MissingScope, or InvalidInput where an owner is no token.
    """
    with database.writing() as session:
        row = find_system(session, name, for_update=True)
        require_owner(row, by)
        check(row)
        if change.description is not None:
            row.description = change.description
        if change.owners is not None:
            row.named_owners = _find_tokens(session, change.owners)
        if change.retention is not None:
            row.keep_runs_seconds, row.keep_num_runs = change.retention.max_age_seconds, change.retention.max_runs
        by.record(session, "change", f"storage system {name}")
    return row


def _find_tokens(session: Session, names: Sequence[str]) -> list[TokenRow]:
    """Find the tokens of these names. Raises InvalidInput where one is missing."""
    tokens = session.scalars(select(TokenRow).where(TokenRow.name.in_(names)).order_by(TokenRow.name)).all()
    missing = set(names) - {token.name for token in tokens}
    if missing:
        raise InvalidInput.of(
            "owners",
            "must be names of tokens",
            value=min(missing),
            remedy="take the `name` that GET /v1/whoami tells each",
        )
    return list(tokens)


def delete_storage_system(database: Database, name: str, *, by: Actor) -> None:
    """Delete a storage system without runs: an owner's own, or any with the scope admin.

    Raises NotFound, MissingScope, or Conflict where runs or calibrations would lose it.
    """
    try:
        with database.writing() as session:
            row = find_system(session, name)
            require_owner(row, by)
            session.delete(row)
            by.record(session, "delete", f"storage system {name}")
    except IntegrityError:  # its runs refer to it, also one that arrived this moment
        remedy = "keep it: published runs cannot be deleted"
        raise Conflict.of("name", "must be a storage system without runs", value=name, remedy=remedy) from None


class SystemOverview(NamedTuple):
    """Storage system, with the number and the newest of its runs and calibrations."""

    system: StorageSystemRow
    num_runs: int
    latest_run_at: datetime | None
    num_calibrations: int
    latest_calibration: LatestCalibration | None


def list_overviews(
    database: Database, *, limit: int, after: str | None, among: Collection[str] | None = None
) -> list[SystemOverview]:
    """List at most `limit` storage systems by name, with what they have: all, or those `among` some names.

    From those whose name comes after `after`.
    """
    query = select(StorageSystemRow).order_by(StorageSystemRow.name).limit(limit)
    if after is not None:
        query = query.where(StorageSystemRow.name > after)
    if among is not None:
        query = query.where(StorageSystemRow.name.in_(among))
    with database.reading() as session:
        rows = session.scalars(query).all()
        ids = [row.id for row in rows]
        runs, calibrations = _count_runs(session, ids), _count_calibrations(session, ids)
    return [SystemOverview(row, *runs.get(row.id, (0, None)), *calibrations.get(row.id, (0, None))) for row in rows]


def _count_runs(session: Session, ids: Sequence[int]) -> dict[int, tuple[int, datetime | None]]:
    """Count the runs of each system, withdrawn ones too, and tell when the newest was published."""
    query = (
        select(RunRow.system_id, func.count(), func.max(RunRow.published_at))
        .where(RunRow.system_id.in_(ids))
        .group_by(RunRow.system_id)
    )
    return {system_id: (num, latest) for system_id, num, latest in session.execute(query)}


def _count_calibrations(session: Session, ids: Sequence[int]) -> dict[int, tuple[int, LatestCalibration | None]]:
    """Count the calibrations of each calibrated system, and read the newest."""
    row, document = CalibrationRow, CalibrationRow.calibration
    place = func.row_number().over(partition_by=row.system_id, order_by=row.id.desc()).label("place")
    ranked = select(
        row.system_id,
        row.id,
        row.created_at,
        document["engine"].as_string().label("engine"),
        document["grade"].as_string().label("grade"),
        document[("inside", "grade")].as_string().label("inside_grade"),
        document[("beyond", "grade")].as_string().label("beyond_grade"),
        func.count().over(partition_by=row.system_id).label("num"),
        place,
    ).where(row.system_id.in_(ids))
    rows = ranked.subquery()
    newest = session.execute(select(rows).where(rows.c.place == 1))
    return {each.system_id: (each.num, LatestCalibration.model_validate(each)) for each in newest}
