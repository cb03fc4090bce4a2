"""Who may do what: bearer tokens and their scopes, as dependencies of routes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.security.utils import get_authorization_scheme_param

from service.database import Actor, Database, Scope
from service.database.tokens import token_of
from service.errors import CrossOrigin, MissingScope, NotAuthenticated
from service.telemetry.logs import REQUEST_ID
from sizing.errors import InvalidInput

INCLUDED: dict[Scope, tuple[Scope, ...]] = {
    "read": ("read",),
    "publish-only": ("publish-only",),
    "publish": ("read", "publish-only", "publish"),
    "write": ("read", "publish-only", "publish", "write"),
    "admin": ("read", "publish-only", "publish", "write", "admin"),
}
"""The scopes that each scope includes."""
SYSTEMS = "/v1/storage-systems"
"""Beyond it, and its name, stands what belongs to one storage system."""

BEARER = HTTPBearer(auto_error=False, description="A token from `ckpt-serve token create`")


async def database_of(request: Request) -> Database:
    """The database of the service that got the request; asynchronous, for that costs no thread."""
    return _database_of(request)


OpenDatabase = Annotated[Database, Depends(database_of)]


@dataclass(frozen=True, slots=True)
class TokenWith:
    """A dependency: who holds the token of the request, which must have a scope, and be for the storage system."""

    scope: Scope

    @property
    def stores(self) -> bool:
        """Whether who has the scope changes what is stored."""
        return self.scope != "read"

    def __call__(
        self, request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)] = None
    ) -> Actor:
        """The holder. Raises NotAuthenticated, MissingScope, or CrossOrigin."""
        actor = holder_of(request)
        held = actor.token.scope if actor.token else None
        if held is None or self.scope not in INCLUDED[held]:
            raise MissingScope.of(
                "scope", f"must include {self.scope}", value=held, remedy="use a token with this scope"
            )
        self._require_system(request, actor)
        return actor

    def _require_system(self, request: Request, actor: Actor) -> None:
        """Refuse what a token limited to storage systems is not for: others, and what is stored beside them."""
        path: str = request.scope["route"].path
        if path.startswith(f"{SYSTEMS}/"):
            actor.require_system(request.path_params["name"])
        elif self.stores and path != SYSTEMS:  # which has the name in its body
            actor.require_system("none")


def holder_of(request: Request) -> Actor:
    """Who holds the token of the request, looked up once. Raises NotAuthenticated, or CrossOrigin."""
    known: Actor | None = getattr(request.state, "holder", None)
    if known is None:
        known = visitor_of(request)
        if known is None:
            raise not_authenticated(request)
        request.state.holder = known
    return known


def asker_of(request: Request) -> Actor | None:
    """Who asks what everybody may ask, as far as a token or a login of a page of the service tells."""
    try:
        return holder_of(request)
    except (NotAuthenticated, CrossOrigin):
        return None


def not_authenticated(request: Request) -> InvalidInput:
    """The error for a request without a token that holds."""
    remedy = "send the header Authorization: Bearer TOKEN; create a token with ckpt-serve token create"
    return NotAuthenticated.of(
        "authorization",
        "must be a bearer token that is not expired or revoked",
        value=None,
        remedy=f"log in, or {remedy}" if request.app.state.sessions else remedy,
    )


def visitor_of(request: Request) -> Actor | None:
    """Who holds the token of the request, or without one has logged in; None where nobody is known.

    Raises CrossOrigin for a change by the cookie of a login that a page of another site asks for.
    """
    header, sessions = request.headers.get("authorization"), request.app.state.sessions
    if header is None and sessions is not None:
        found = sessions.person_of(request)
        return Actor(found[0].token, REQUEST_ID.get(), session_ends_at=found[1]) if found else None
    scheme, bearer = get_authorization_scheme_param(header)
    token = token_of(_database_of(request), bearer) if scheme.lower() == "bearer" else None
    return Actor(token, REQUEST_ID.get()) if token else None


def _database_of(request: Request) -> Database:
    database: Database = request.app.state.database
    return database


Reader = Annotated[Actor, Depends(TokenWith("read"))]
Publisher = Annotated[Actor, Depends(TokenWith("publish-only"))]
Writer = Annotated[Actor, Depends(TokenWith("write"))]
Admin = Annotated[Actor, Depends(TokenWith("admin"))]
