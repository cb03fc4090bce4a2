"""Who may do what: bearer tokens and their scopes, as dependencies of routes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from service.database import Database, Scope, TokenRow
from service.database.tokens import token_of
from service.errors import MissingScope, NotAuthenticated

ALLOWED_BY: dict[Scope, tuple[Scope, ...]] = {"write": ("write",), "admin": ("write", "admin")}
"""The scopes that each scope includes."""

_bearer = HTTPBearer(auto_error=False, description="A token from `ckpt-serve token create`")


def database_of(request: Request) -> Database:
    """The database of the service that got the request."""
    database: Database = request.app.state.database
    return database


OpenDatabase = Annotated[Database, Depends(database_of)]


def token_with(scope: Scope) -> Callable[..., TokenRow]:
    """A dependency: the token of the request, which must allow `scope`.

    Raises NotAuthenticated or MissingScope.
    """

    def token(
        database: OpenDatabase, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
    ) -> TokenRow:
        found = token_of(database, credentials.credentials) if credentials else None
        if found is None:
            raise NotAuthenticated.of(
                "authorization",
                "must be a bearer token that is not expired or revoked",
                value=None,
                remedy="send the header Authorization: Bearer TOKEN; ckpt-serve token create makes one",
            )
        if scope not in ALLOWED_BY[found.scope]:
            raise MissingScope.of("scope", f"must include {scope}", value=found.scope, remedy="use another token")
        return found

    return token


Writer = Annotated[TokenRow, Depends(token_with("write"))]
