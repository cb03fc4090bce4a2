"""Audit log: who changed what and when, written in the same transaction as the change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from service.database.connection import Database, list_newest
from service.database.tables import AuditRow, RunRow, ScenarioRow, StorageSystemRow, TokenRow, new_id, now
from service.errors import MissingScope
from sizing.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Actor:
    """Author of a change: the holder of a token in a request, or without both whoever is at the terminal."""

    token: TokenRow | None = None
    request_id: str | None = None
    session_ends_at: datetime | None = None
    """End of the session of a person who logged in."""

    @property
    def token_id(self) -> int | None:
        """Id of the token; None without one."""
        return self.token.id if self.token else None

    @property
    def name(self) -> str | None:
        """Name of the token; None without one."""
        return self.token.name if self.token else None

    @property
    def is_admin(self) -> bool:
        """Whether the actor may change what others have saved."""
        return self.token is None or self.token.scope == "admin"

    def token_in(self, session: Session) -> TokenRow:
        """Return the token as a row of a transaction, for a request that has one."""
        return session.get_one(TokenRow, self.token_id)

    def require_system(self, name: str) -> None:
        """Refuse a storage system that the token is not for. Raises MissingScope."""
        systems = self.token.systems if self.token else None
        if systems is not None and name not in systems:
            raise MissingScope.of(
                "scope",
                f"is limited to the storage systems {', '.join(systems)}",
                value=name,
                remedy="use a token for this storage system",
            )

    def record(self, session: Session, action: str, subject: object) -> None:
        """Write to the audit log what the transaction of `session` does, such as `save` to `scenario ID`."""
        row = AuditRow(
            id=new_id(),
            at=now(),
            token_id=self.token_id,
            action=action,
            subject=str(subject),
            request_id=self.request_id,
        )
        session.add(row)


TERMINAL = Actor()


def require_own(row: ScenarioRow, by: Actor, *, to: str = "delete") -> None:
    """Refuse to delete or share (`to`) what another token saved, unless an admin asks.

    Raises MissingScope.
    """
    if row.token_id != by.token_id and not by.is_admin:
        raise not_own(by, f"must be admin to {to} an entry of another token", "use the token that saved it")


def require_owner(system: StorageSystemRow, by: Actor, *, publisher: RunRow | None = None) -> None:
    """Refuse changes of a storage system, or of its run `publisher`, to who neither owns it nor published the run.

    Raises MissingScope.
    """
    is_publisher = publisher is not None and publisher.token_id == by.token_id
    if not (by.is_admin or is_publisher or by.name in system.owners):
        raise not_own(
            by,
            f"must be admin to change a storage system of {', '.join(system.owners)}",
            "use a token of an owner" + (", or the one that published the run" if publisher else ""),
        )


def not_own(by: Actor, rule: str, remedy: str) -> InvalidInput:
    """Return the error for a token without a right to what others saved."""
    held = by.token.scope if by.token else None
    return MissingScope.of("scope", rule, value=held, remedy=f"{remedy}, or a token with scope admin")


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Filter of the audit log. An entry matches where it meets all given conditions."""

    token: str | None = None
    action: str | None = None
    subject: str | None = None
    since: datetime | None = None
    before: datetime | None = None

    def of(self, query: Select[AuditRow]) -> Select[AuditRow]:
        """Restrict a query to the matching entries."""
        conditions = []
        if self.token is not None:
            conditions.append(AuditRow.token.has(TokenRow.name == self.token))
        for column, start in ((AuditRow.action, self.action), (AuditRow.subject, self.subject)):
            if start is not None:
                conditions.append(column.startswith(start, autoescape=True))
        if self.since is not None:
            conditions.append(AuditRow.at >= self.since)
        if self.before is not None:
            conditions.append(AuditRow.at < self.before)
        return query.where(*conditions)


def list_audit_log(database: Database, wanted: AuditFilter, *, limit: int, before: UUID | None) -> Sequence[AuditRow]:
    """List at most `limit` wanted entries, the newest first, from those before the one with the id `before`."""
    with database.reading() as session:
        return list_newest(session, wanted.of(select(AuditRow)), AuditRow.id, limit=limit, before=before)
