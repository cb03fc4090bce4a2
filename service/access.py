"""Bearer tokens: random, hashed at rest, scoped, expiring, revocable."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from service.database.tables import Token
from service.problems import ServiceError
from sizing.errors import InvalidInput

Scope = Literal["write"]
SECRET_BYTES = 32

_bearer = HTTPBearer(auto_error=False, description="a token of `ckpt-serve token create`")


def create_token(engine: Engine, *, name: str, scope: Scope, lifetime: timedelta | None) -> str:
    """Store a new token and return its secret, which is not kept.

    Raises InvalidInput where the name is taken.
    """
    secret, now = secrets.token_urlsafe(SECRET_BYTES), datetime.now(UTC)
    with Session(engine) as session, session.begin():
        if session.scalar(select(Token).where(Token.name == name)):
            raise InvalidInput.of("--name", "must be new", value=name, remedy="choose another name")
        session.add(
            Token(
                name=name,
                scope=scope,
                secret_hash=_hash(secret),
                created_at=now,
                expires_at=now + lifetime if lifetime else None,
            )
        )
    return secret


def tokens(engine: Engine) -> Sequence[Token]:
    """All tokens, oldest first."""
    with Session(engine) as session:
        return session.scalars(select(Token).order_by(Token.id)).all()


def revoke_token(engine: Engine, name: str) -> None:
    """Let a token be of no use from now on.

    Raises InvalidInput where there is none of that name.
    """
    with Session(engine) as session, session.begin():
        token = session.scalar(select(Token).where(Token.name == name))
        if token is None:
            raise InvalidInput.of("--name", "must be a token's", value=name, remedy="see ckpt-serve token list")
        token.revoked_at = token.revoked_at or datetime.now(UTC)


def writer(request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> int:
    """The id of the token that a storing request carries.

    Raises ServiceError 401 where it carries no valid one. The secret is looked up by its hash, so that the time
    taken says nothing about it.
    """
    now = datetime.now(UTC)
    if credentials is not None:
        with Session(request.app.state.engine) as session:
            token = session.scalar(select(Token).where(Token.secret_hash == _hash(credentials.credentials)))
        if token and not token.revoked_at and (token.expires_at is None or token.expires_at > now):
            return token.id
    raise ServiceError(
        HTTPStatus.UNAUTHORIZED,
        "unauthorized",
        "Storing needs a valid bearer token: make one with `ckpt-serve token create`.",
        {"WWW-Authenticate": "Bearer"},
    )


Writer = Annotated[int, Depends(writer)]
"""The token id of a request that may store; as a parameter it makes a route demand one."""


def _hash(secret: str) -> bytes:
    """The secret has 256 random bits, so that a fast hash is enough."""
    return hashlib.sha256(secret.encode()).digest()
