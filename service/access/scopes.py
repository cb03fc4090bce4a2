"""Who may do what: bearer tokens and their scopes, as dependencies of routes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.security.utils import get_authorization_scheme_param

from service.database import Actor, Database, Scope
from service.database.tokens import token_of
from service.errors import MissingScope, NotAuthenticated
from service.telemetry.logs import REQUEST_ID

INCLUDED: dict[Scope, tuple[Scope, ...]] = {
    "publish": ("publish",),
    "write": ("publish", "write"),
    "admin": ("publish", "write", "admin"),
}
"""The scopes that each scope includes."""

_bearer = HTTPBearer(auto_error=False, description="A token from `ckpt-serve token create`")


async def database_of(request: Request) -> Database:
    """The database of the service that got the request; asynchronous, for that costs no thread."""
    return _database_of(request)


OpenDatabase = Annotated[Database, Depends(database_of)]


@dataclass(frozen=True, slots=True)
class TokenWith:
    """A dependency: who holds the token of the request, which must have a scope if one is named."""

    scope: Scope | None = None

    def __call__(
        self, request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)] = None
    ) -> Actor:
        """The holder. Raises NotAuthenticated or MissingScope."""
        actor = holder_of(request)
        held = actor.token.scope if actor.token else None
        if self.scope is not None and (held is None or self.scope not in INCLUDED[held]):
            raise MissingScope.of(
                "scope", f"must include {self.scope}", value=held, remedy="use a token with this scope"
            )
        return actor


def holder_of(request: Request) -> Actor:
    """Who holds the token of the request, looked up once. Raises NotAuthenticated."""
    known: Actor | None = getattr(request.state, "holder", None)
    if known is None:
        scheme, bearer = get_authorization_scheme_param(request.headers.get("authorization"))
        token = token_of(_database_of(request), bearer) if scheme.lower() == "bearer" else None
        if token is None:
            raise NotAuthenticated.of(
                "authorization",
                "must be a bearer token that is not expired or revoked",
                value=None,
                remedy="send the header Authorization: Bearer TOKEN; create a token with ckpt-serve token create",
            )
        known = request.state.holder = Actor(token, REQUEST_ID.get())
    return known


def _database_of(request: Request) -> Database:
    database: Database = request.app.state.database
    return database


Publisher = Annotated[Actor, Depends(TokenWith("publish"))]
Writer = Annotated[Actor, Depends(TokenWith("write"))]
Admin = Annotated[Actor, Depends(TokenWith("admin"))]
