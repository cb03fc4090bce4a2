"""The audit log: who changed what and when, written in the same transaction as the change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.database.connection import Database
from service.database.newest_first import newest_first
from service.database.tables import AuditRow, ScenarioRow, StorageSystemRow, TokenRow, new_id, now
from service.errors import MissingScope


@dataclass(frozen=True, slots=True)
class Actor:
    """Who makes a change: the holder of a token by a request, or with neither whoever is at the terminal."""

    token: TokenRow | None = None
    request_id: str | None = None

    @property
    def token_id(self) -> int | None:
        """The id of the token, where there is one."""
        return self.token.id if self.token else None

    @property
    def is_admin(self) -> bool:
        """Whether the actor may change what others have saved."""
        return self.token is None or self.token.scope == "admin"

    def record(self, session: Session, action: str, subject: object) -> None:
        """Note in the audit log what the transaction of `session` does, such as `save` to `scenario ID`."""
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


def require_own(row: ScenarioRow | StorageSystemRow, by: Actor) -> None:
    """Refuse to delete what another token saved, unless by an admin.

    Raises MissingScope.
    """
    if row.token_id != by.token_id and not by.is_admin:
        raise MissingScope.of(
            "scope",
            "must be admin to delete an entry of another token",
            value=by.token.scope if by.token else None,
            remedy="use the token that saved it, or a token with scope admin",
        )


def list_audit_log(database: Database, *, limit: int, before: UUID | None) -> Sequence[AuditRow]:
    """At most `limit` entries, the newest first, from those before the one that has the id `before`."""
    with database.reading() as session:
        return newest_first(session, select(AuditRow), AuditRow.id, limit=limit, before=before)
