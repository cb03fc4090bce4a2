"""People who log in at a provider. Each has a token that only their sessions use: it owns what they store."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, joinedload

from service.database.audit import Actor
from service.database.connection import Database
from service.database.names import MAX_NAME_CHARACTERS
from service.database.tables import PersonRow, Scope, TokenRow, now
from service.database.tokens import hash_of, new_secret
from service.errors import LoginFailed

_QUERY = select(PersonRow).options(joinedload(PersonRow.token).selectinload(TokenRow.limits))


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity that a provider confirms, and the scope that its groups allow."""

    issuer: str
    subject: str
    """Unique at the issuer, and never given to another person."""
    name: str
    scope: Scope


def log_in(database: Database, who: Identity, *, request_id: str | None) -> PersonRow:
    """Log a person in with the scope of today. Raises LoginFailed where the person's token has been revoked."""
    try:
        return _store_login(database, who, request_id)
    except IntegrityError:  # the same person, or a name, at the same moment: it is there now
        return _store_login(database, who, request_id)


def find_person(database: Database, token_id: int, *, sessions: int) -> PersonRow | None:
    """Find the person of a session; None where it has ended."""
    with database.reading() as session:
        row = session.scalar(_QUERY.filter_by(token_id=token_id))
    return row if row is not None and row.sessions == sessions and row.token.state == "active" else None


def log_out(database: Database, token_id: int, *, request_id: str | None) -> None:
    """End all sessions of a person."""
    with database.writing() as session:
        row = session.get_one(PersonRow, token_id, with_for_update={"of": PersonRow})
        row.sessions += 1
        Actor(row.token, request_id).record(session, "log out", row.token.name)


def _store_login(database: Database, who: Identity, request_id: str | None) -> PersonRow:
    with database.writing() as session:
        row = session.scalar(_QUERY.filter_by(subject=who.subject, issuer=who.issuer))
        if row is None:
            row = PersonRow(issuer=who.issuer, subject=who.subject, sessions=0, token=_new_token(session, who))
            session.add(row)
        if row.token.state != "active":
            raise LoginFailed.of(
                "the token of this person", "must not be revoked", value=row.token.name, remedy="ask an admin"
            )
        row.token.scope = who.scope
        session.flush()
        Actor(row.token, request_id).record(session, f"log in with scope {who.scope}", row.token.name)
    return row


def _new_token(session: Session, who: Identity) -> TokenRow:
    """Create a token under the person's name, made unique. Its secret is forgotten at once."""
    names = (who.name, f"{who.name[: MAX_NAME_CHARACTERS // 2]} ({who.subject[: MAX_NAME_CHARACTERS // 3]})")
    free = next((name for name in names if not session.scalar(select(TokenRow.id).filter_by(name=name))), None)
    if free is None:
        raise LoginFailed.of("the name", "is already that of a token", value=who.name, remedy="ask an admin")
    return TokenRow(name=free, secret_hash=hash_of(new_secret()), scope=who.scope, created_at=now(), limits=[])
