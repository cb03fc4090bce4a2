"""Who may do what, as dependencies of routes: tokens with their scopes, and sharing links with their scenario."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.security.utils import get_authorization_scheme_param
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool

from service.access.client import client_of
from service.database import Actor, Database, Scope
from service.database.sharing_links import scenario_shared_by
from service.database.tokens import token_of
from service.errors import CrossOrigin, MissingScope, NotAuthenticated
from service.telemetry import REQUEST_ID
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
"""Path of the storage systems; below a name stands what belongs to that one."""

BEARER = HTTPBearer(auto_error=False, description="A token from `ckpt-serve token create`")


async def database_of(request: Request) -> Database:
    """Return the database of the service that got the request. Asynchronous, as that costs no thread."""
    return _database_of(request)


OpenDatabase = Annotated[Database, Depends(database_of)]


@dataclass(frozen=True, slots=True)
class TokenWith:
    """Dependency that returns the holder of the request's token, which must have the scope and cover the system."""

    scope: Scope

    @property
    def stores(self) -> bool:
        """Whether the scope lets its holder change what is stored."""
        return self.scope != "read"

    def __call__(
        self, request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)] = None
    ) -> Actor:
        """Return the holder. Raises NotAuthenticated, MissingScope, or CrossOrigin."""
        actor = holder_of(request)
        held = actor.token.scope if actor.token else None
        if held is None or self.scope not in INCLUDED[held]:
            raise MissingScope.of(
                "scope", f"must include {self.scope}", value=held, remedy="use a token with this scope"
            )
        self._require_system(request, actor)
        return actor

    def _require_system(self, request: Request, actor: Actor) -> None:
        """Refuse a token limited to storage systems for others, and for what is stored outside of them."""
        path: str = request.scope["route"].path
        if path.startswith(f"{SYSTEMS}/"):
            actor.require_system(request.path_params["name"])
        elif self.stores and path != SYSTEMS:  # which has the name in its body
            actor.require_system("none")


def holder_of(request: Request) -> Actor:
    """Return the holder of the request's token, looked up once. Raises NotAuthenticated, or CrossOrigin."""
    known: Actor | None = getattr(request.state, "holder", None)
    if known is None:
        known = find_holder(request)
        if known is None:
            raise not_authenticated(request)
        request.state.holder = known
    return known


def asker_of(request: Request) -> Actor | None:
    """Return who asks a question that is open to everybody; None without a valid token or login."""
    try:
        return holder_of(request)
    except (NotAuthenticated, CrossOrigin):
        return None


async def client_by_token(request: Request) -> str:
    """Name the client for whom a request takes turns and places: the holder of its token or login, else its address.

    So users behind one proxy have turns of their own, and a user with many addresses has those of one.
    """
    asker = None
    if {"authorization", "cookie"} & set(request.headers):
        with contextlib.suppress(SQLAlchemyError):  # a question needs no database
            asker = await run_in_threadpool(asker_of, request)
    return f"token {asker.token_id}" if asker else client_of(request.scope)


def systems_of(request: Request) -> list[str] | None:
    """Return the names of the storage systems that the token of a request is limited to; None where it reads all."""
    asker = asker_of(request)
    return asker.token.systems if asker and asker.token else None


def refuse_other_systems(request: Request) -> None:
    """Refuse the storage system of a path to a token that is limited to others, also where reading needs no token."""
    asker = asker_of(request)
    if asker and "name" in request.path_params:
        asker.require_system(request.path_params["name"])


def not_authenticated(request: Request) -> InvalidInput:
    """Return the error for a request without a valid token."""
    remedy = "send the header Authorization: Bearer TOKEN; who operates the service creates tokens"
    return NotAuthenticated.of(
        "authorization",
        "must be a bearer token that is not expired or revoked",
        value=None,
        remedy=f"log in, or {remedy}" if request.app.state.sessions else remedy,
    )


def find_holder(request: Request) -> Actor | None:
    """Find who holds the token of the request, or without one has logged in; None where nobody is known.

    Raises CrossOrigin for a change by the cookie of a login that a page of another site asks for.
    """
    header, sessions = request.headers.get("authorization"), request.app.state.sessions
    if header is None and sessions is not None:
        login = sessions.person_of(request)
        return Actor(login[0].token, REQUEST_ID.get(), session_ends_at=login[1]) if login else None
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


_LINK = HTTPBearer(
    auto_error=False, scheme_name="SharingLink", description="The key of a sharing link of a saved scenario"
)


def shared_id(
    request: Request,
    database: OpenDatabase,
    _: Annotated[HTTPAuthorizationCredentials | None, Depends(_LINK)] = None,
) -> UUID:
    """Return the id of the scenario that the request's key reads. Raises NotAuthenticated."""
    scheme, key = get_authorization_scheme_param(request.headers.get("authorization"))
    scenario_id = scenario_shared_by(database, key) if scheme.lower() == "bearer" else None
    if scenario_id is None:
        raise NotAuthenticated.of(
            "authorization",
            "must be the key of a sharing link that has not ended and was not withdrawn",
            value=None,
            remedy="ask for a new link who gave you this one",
        )
    return scenario_id


SharedId = Annotated[UUID, Depends(shared_id)]
