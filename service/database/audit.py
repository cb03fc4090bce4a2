"""The audit log: who changed what and when, written in the same transaction as the change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.database.connection import Database
from service.database.newest_first import newest_first
from service.database.tables import AuditRow, RunRow, ScenarioRow, StorageSystemRow, TokenRow, new_id, now
from service.errors import MissingScope
from sizing.errors import InvalidInput


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
    def name(self) -> str | None:
        """The name of the token, where there is one."""
        return self.token.name if self.token else None

    @property
    def is_admin(self) -> bool:
        """Whether the actor may change what others have saved."""
        return self.token is None or self.token.scope == "admin"

    def token_in(self, session: Session) -> TokenRow:
        """The token, as a row of a transaction; of a request that needs one."""
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


def require_own(row: ScenarioRow, by: Actor) -> None:
    """Refuse to delete what another token saved, unless by an admin.

    Raises MissingScope.
    """
    if row.token_id != by.token_id and not by.is_admin:
        raise not_own(by, "must be admin to delete an entry of another token", "use the token that saved it")


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
    """The error for a token without a right to what others saved."""
    held = by.token.scope if by.token else None
    return MissingScope.of("scope", rule, value=held, remedy=f"{remedy}, or a token with scope admin")


def list_audit_log(database: Database, *, limit: int, before: UUID | None) -> Sequence[AuditRow]:
    """At most `limit` entries, the newest first, from those before the one that has the id `before`."""
    with database.reading() as session:
        return newest_first(session, select(AuditRow), AuditRow.id, limit=limit, before=before)
