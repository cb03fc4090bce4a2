"""Tokens: secret keys that read `ckpt_ID_SECRET`, of which the database has hashes alone.

The id finds the row; the secret is compared with the row's hash in constant time. A plain hash is enough: nobody
guesses 256 random bits, so there is nothing to slow down. Sharing links are keys of the same kind.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from datetime import timedelta
from typing import Annotated

from pydantic import Field
from sqlalchemy import select
from sqlalchemy.orm import joinedload, selectinload

from service.database.audit import TERMINAL
from service.database.connection import Database
from service.database.names import Name, Slug
from service.database.tables import Scope, TokenRow, TokenSystemRow, now
from service.errors import NotFound
from sizing.errors import InvalidInput
from sizing.strict_model import StrictModel
from sizing.units import PositiveSeconds

_PREFIX = "ckpt"
_ID = re.compile("[0-9]{1,9}")


MAX_SYSTEMS_OF_A_TOKEN = 100
"""Max storage systems of a token: they are read with each of its requests."""


class NewToken(StrictModel):
    """What a token is created from."""

    name: Name
    scope: Scope
    expires: PositiveSeconds | None = None
    systems: Annotated[tuple[Slug, ...], Field(max_length=MAX_SYSTEMS_OF_A_TOKEN)] = ()


def create_token(database: Database, new: NewToken) -> str:
    """Create a token, which only its holder will know.

    Raises InvalidInput where the name is taken.
    """
    secret = new_secret()
    created_at = now()
    row = TokenRow(
        name=new.name,
        secret_hash=hash_of(secret),
        scope=new.scope,
        created_at=created_at,
        expires_at=None if new.expires is None else created_at + timedelta(seconds=new.expires),
        limits=[TokenSystemRow(system_name=name) for name in sorted(set(new.systems))],
    )
    with database.writing() as session:
        if session.scalar(select(TokenRow).filter_by(name=new.name)):
            raise InvalidInput.of(
                "name", "is already the name of a token", value=new.name, remedy="choose another name"
            )
        session.add(row)
        TERMINAL.record(session, f"create token with scope {new.scope}", new.name)
    return f"{_PREFIX}_{row.id}_{secret}"


def token_of(database: Database, bearer: str) -> TokenRow | None:
    """Return the row of a valid token; None for any other."""
    token_id, secret = parts_of(bearer, _PREFIX)
    if not _ID.fullmatch(token_id):
        return None
    with database.reading() as session:
        row = session.get(TokenRow, int(token_id), options=[joinedload(TokenRow.limits)])
    if row is None or not is_secret_of(secret, row.secret_hash) or row.state != "active":
        return None
    return row


def list_tokens(database: Database) -> list[TokenRow]:
    """List every token, the oldest first."""
    with database.reading() as session:
        return list(session.scalars(select(TokenRow).options(selectinload(TokenRow.limits)).order_by(TokenRow.id)))


def revoke_token(database: Database, name: str) -> None:
    """Revoke a token from now on.

    Raises NotFound where there is none of that name.
    """
    with database.writing() as session:
        row = session.scalar(select(TokenRow).filter_by(name=name))
        if row is None:
            raise NotFound.of(
                "name", "must be the name of a token", value=name, remedy="list them with ckpt-serve token list"
            )
        row.revoked_at = row.revoked_at or now()
        TERMINAL.record(session, "revoke token", name)


def new_secret() -> str:
    """Return a secret of 256 random bits."""
    return secrets.token_urlsafe(32)


def hash_of(secret: str) -> bytes:
    """Hash a secret for the database."""
    return hashlib.sha256(secret.encode()).digest()


def is_secret_of(secret: str, kept: bytes) -> bool:
    """Compare a secret with a stored hash, in constant time."""
    return hmac.compare_digest(kept, hash_of(secret))


def parts_of(key: str, prefix: str) -> tuple[str, str]:
    """Split a key into its id and its secret; both are empty where it lacks the prefix.

    >>> parts_of("ckpt_7_a_b", "ckpt"), parts_of("link_7_a", "ckpt")
    (('7', 'a_b'), ('', ''))
    """
    given, _, rest = key.partition("_")
    row_id, _, secret = rest.partition("_")
    return (row_id, secret) if given == prefix else ("", "")
