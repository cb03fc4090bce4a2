"""Requests that are sent again, as their answer was lost: key and digest find what the first one made."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import delete
from sqlalchemy.orm import Session

from service.database.audit import Actor
from service.database.tables import IdempotencyKeyRow, now
from service.errors import Conflict

KEPT = timedelta(days=7)
"""A client that retries does so within minutes; one that was spooled, after a weekend."""


def find_made(session: Session, key: str, digest: bytes, *, by: Actor) -> UUID | None:
    """Find the id of what the token made with this key before. Raises Conflict where that was something else."""
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
    """Store what was made with a key, and forget old keys of the token."""
    old = (IdempotencyKeyRow.token_id == by.token_id, IdempotencyKeyRow.at < now() - KEPT)
    session.execute(delete(IdempotencyKeyRow).where(*old))
    session.add(IdempotencyKeyRow(token_id=by.token_id, key=key, digest=digest, made_id=made_id, at=now()))


def digest_of(document: bytes) -> bytes:
    """Return a digest of the content of a JSON text, independent of its white space and the order of its fields.

    >>> digest_of(b'{"a": 1, "b": 2}') == digest_of(b'{"b":2,"a":1}')
    True
    """
    parsed: Any = json.loads(document)
    return hashlib.sha256(json.dumps(parsed, sort_keys=True, separators=(",", ":")).encode()).digest()
