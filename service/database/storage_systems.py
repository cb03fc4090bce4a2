"""Storage systems: the names under which runs are published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from service.database.audit import Actor, require_owner
from service.database.connection import Database
from service.database.tables import StorageSystemRow, TokenRow, now
from service.errors import Conflict, NotFound
from service_client.terms import RunRetention
from sizing.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class SystemChange:
    """What becomes of a storage system; what is absent stays."""

    description: str | None = None
    owners: tuple[str, ...] | None = None
    retention: RunRetention | None = None


def save_storage_system(database: Database, name: str, description: str, *, by: Actor) -> tuple[StorageSystemRow, bool]:
    """The row of a storage system, and whether it is new.

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
    """The storage system of that name.

    Raises NotFound.
    """
    with database.reading() as session:
        return system_named(session, name)


def system_named(session: Session, name: str, *, for_update: bool = False) -> StorageSystemRow:
    """The same, within a transaction; `for_update` where nobody may change it until that ends."""
    query = select(StorageSystemRow).filter_by(name=name)
    row = session.scalar(query.with_for_update(of=StorageSystemRow) if for_update else query)
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


def change_storage_system(
    database: Database, name: str, change: SystemChange, *, by: Actor, check: Callable[[StorageSystemRow], None]
) -> StorageSystemRow:
    """The row of a storage system that was changed, unless `check` raises for what it is at that moment.

    Raises NotFound, MissingScope, or InvalidInput where an owner is no token.
    """
    with database.writing() as session:
        row = system_named(session, name, for_update=True)
        require_owner(row, by)
        check(row)
        if change.description is not None:
            row.description = change.description
        if change.owners is not None:
            row.named_owners = _tokens_named(session, change.owners)
        if change.retention is not None:
            row.keep_runs_seconds, row.keep_num_runs = change.retention.max_age_seconds, change.retention.max_runs
        by.record(session, "change", f"storage system {name}")
    return row


def _tokens_named(session: Session, names: Sequence[str]) -> list[TokenRow]:
    found = session.scalars(select(TokenRow).where(TokenRow.name.in_(names)).order_by(TokenRow.name)).all()
    missing = set(names) - {token.name for token in found}
    if missing:
        raise InvalidInput.of(
            "owners", "must be names of tokens", value=min(missing), remedy="list them with ckpt-serve token list"
        )
    return list(found)


def delete_storage_system(database: Database, name: str, *, by: Actor) -> None:
    """Delete a storage system that has no runs: its own with the token of an owner, everybody's with the scope admin.

    Raises NotFound, MissingScope, or Conflict where runs or calibrations would lose it.
    """
    try:
        with database.writing() as session:
            row = system_named(session, name)
            require_owner(row, by)
            session.delete(row)
            by.record(session, "delete", f"storage system {name}")
    except IntegrityError:  # its runs refer to it, also one that arrived this moment
        remedy = "keep it: published runs cannot be deleted"
        raise Conflict.of("name", "must be a storage system without runs", value=name, remedy=remedy) from None
