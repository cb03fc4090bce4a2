"""Keys by which a request that is sent again, as its answer was lost, finds what the first one made."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from sqlalchemy import delete
from sqlalchemy.orm import Session

from service.database.audit import Actor
from service.database.tables import IdempotencyKeyRow, now
from service.errors import Conflict

KEPT = timedelta(days=7)
"""A client that retries does so within minutes; one that was spooled, after a weekend."""


def made_with(session: Session, key: str, digest: bytes, *, by: Actor) -> UUID | None:
    """The id of what the token has made with that key before. Raises Conflict where it was something else."""
    row = session.get(IdempotencyKeyRow, (by.token_id, key))
    if row is None:
        return None
    if row.digest != digest:
        raise Conflict.of(
            "idempotency-key",
            "was already used for another body",
            value=key,
            remedy="give each request a key of its own, such as a random UUID",
        )
    return row.made_id


def keep_key(session: Session, key: str, digest: bytes, made_id: UUID, *, by: Actor) -> None:
    """Remember what was made with a key, and forget old ones of the token."""
    old = (IdempotencyKeyRow.token_id == by.token_id, IdempotencyKeyRow.at < now() - KEPT)
    session.execute(delete(IdempotencyKeyRow).where(*old))
    session.add(IdempotencyKeyRow(token_id=by.token_id, key=key, digest=digest, made_id=made_id, at=now()))
