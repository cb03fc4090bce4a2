"""Tokens: secret keys that read `ckpt_ID_SECRET`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select
from sqlalchemy.orm import joinedload, selectinload

from service.database.audit import TERMINAL
from service.database.connection import Database
from service.database.names import Name, Slug
from service.database.secret_keys import hash_of, is_secret_of, new_secret, parts_of
from service.database.tables import Scope, TokenRow, TokenSystemRow, now
from service.errors import NotFound
from sizing.errors import InvalidInput
from sizing.units import PositiveSeconds

_PREFIX = "ckpt"


MAX_SYSTEMS_OF_A_TOKEN = 100
"""They are read with each of its requests."""


class NewToken(BaseModel):
    """What a token is created from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    scope: Scope
    expires: PositiveSeconds | None = None
    systems: Annotated[tuple[Slug, ...], Field(max_length=MAX_SYSTEMS_OF_A_TOKEN)] = ()


def create_token(database: Database, new: NewToken) -> str:
    """A new token, which only its holder will know.

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
    """The row of a token that holds, None where it does not."""
    token_id, secret = parts_of(bearer, _PREFIX)
    if not _is_id(token_id):
        return None
    with database.reading() as session:
        row = session.get(TokenRow, int(token_id), options=[joinedload(TokenRow.limits)])
    if row is None or not is_secret_of(secret, row.secret_hash) or row.state != "active":
        return None
    return row


def list_tokens(database: Database) -> list[TokenRow]:
    """Every token, the oldest first."""
    with database.reading() as session:
        return list(session.scalars(select(TokenRow).options(selectinload(TokenRow.limits)).order_by(TokenRow.id)))


def revoke_token(database: Database, name: str) -> None:
    """Make a token worthless from now on.

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


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9
