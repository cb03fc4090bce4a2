"""Storage systems: the names under which runs are published."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from service.database.audit import Actor, require_own
from service.database.connection import Database
from service.database.tables import StorageSystemRow, now
from service.errors import Conflict, NotFound


def save_storage_system(database: Database, name: str, description: str, *, by: Actor) -> tuple[StorageSystemRow, bool]:
    """The row of a storage system, and whether it is new.

    Raises Conflict where the name stands for one with another description.
    """
    row = StorageSystemRow(name=name, description=description, created_at=now(), token_id=by.token_id)
    try:
        with database.writing() as session:
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
    """The storage system of that name.

    Raises NotFound.
    """
    with database.reading() as session:
        return system_named(session, name)


def system_named(session: Session, name: str) -> StorageSystemRow:
    """The same, within a transaction."""
    row = session.scalar(select(StorageSystemRow).filter_by(name=name))
    if row is None:
        raise NotFound.of(
            "name", "must be the name of a storage system", value=name, remedy="list them with GET /v1/storage-systems"
        )
    return row


def list_storage_systems(database: Database, *, limit: int, after: str | None) -> Sequence[StorageSystemRow]:
    """At most `limit` storage systems by name, from those whose name comes after `after`."""
    query = select(StorageSystemRow).order_by(StorageSystemRow.name).limit(limit)
    if after is not None:
        query = query.where(StorageSystemRow.name > after)
    with database.reading() as session:
        return session.scalars(query).all()


def delete_storage_system(database: Database, name: str, *, by: Actor) -> None:
    """Delete a storage system that has no runs: its own with any token, everybody's with the scope admin.

    Raises NotFound, MissingScope, or Conflict where runs or calibrations would lose it.
    """
    try:
        with database.writing() as session:
            row = system_named(session, name)
            require_own(row, by)
            session.delete(row)
            by.record(session, "delete", f"storage system {name}")
    except IntegrityError:  # its runs refer to it, also one that arrived this moment
        remedy = "keep it: published runs cannot be deleted"
        raise Conflict.of("name", "must be a storage system without runs", value=name, remedy=remedy) from None
