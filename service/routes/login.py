"""Logins of people with a browser. The pages use these routes; programs have tokens."""

from __future__ import annotations

import hmac
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.access.provider import Provider
from service.access.scopes import OpenDatabase, not_authenticated, visitor_of
from service.access.sessions import Sessions
from service.access.storing_turns import stored
from service.database import Actor
from service.database.people import log_out, logged_in
from service.database.tables import now
from service.errors import LoginFailed, LoginUnavailable, NotFound, explained
from service.routes.json_route import OpenJsonRoute
from service.routes.whoami import holder_document
from service.telemetry.logs import REQUEST_ID
from service_client.documents import TokenHolder
from sizing.errors import InvalidInput

router = APIRouter(prefix="/session", include_in_schema=False, route_class=OpenJsonRoute)

_Text = Annotated[str, Field(max_length=4096)]


class Visitor(BaseModel):
    """Whether people can log in here, and who visits."""

    offers_login: bool
    holder: TokenHolder | None


class LoginStart(BaseModel):
    """Nothing is needed to begin one."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LoginEnd(BaseModel):
    """What the provider put into the address of the page that the browser came back to."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    state: _Text = ""
    code: _Text = ""
    iss: _Text = ""
    error: _Text = ""
    error_description: _Text = ""


def offered(request: Request) -> Sessions:
    """The sessions, where the request comes from a page of the service. Raises NotFound or CrossOrigin."""
    sessions: Sessions | None = request.app.state.sessions
    if sessions is None:
        raise NotFound.of("login", "is not set up here", value=None, remedy="use a token")
    sessions.require_own_page(request)
    return sessions


Offered = Annotated[Sessions, Depends(offered)]


@router.get("")
def who_visits(request: Request, response: Response) -> Visitor:
    """Who visits: nobody without a token or a login."""
    response.headers["Cache-Control"] = "no-store"
    visitor = visitor_of(request)
    if visitor is None and "authorization" in request.headers:
        raise not_authenticated(request)
    holder = holder_document(visitor) if visitor else None
    return Visitor(offers_login=request.app.state.sessions is not None, holder=holder)


@router.post("/login")
async def begin_login(
    _: Annotated[LoginStart, explained(LoginStart), Body()], sessions: Offered, request: Request, response: Response
) -> dict[str, str]:
    """Where the browser goes to log in; a cookie keeps what must be known when it comes back."""
    try:
        started = await _provider(request).start()
    except LoginUnavailable:
        _count(request, "unavailable")
        raise
    url = started.pop("url")
    sessions.logins.set(response, started)
    return {"url": url}


@router.post("")
async def end_login(
    end: Annotated[LoginEnd, explained(LoginEnd), Body()],
    sessions: Offered,
    database: OpenDatabase,
    request: Request,
    response: Response,
) -> TokenHolder:
    """Let the browser be the person's who has logged in at the provider."""
    try:
        started = _started(end, sessions.logins.read(request), request)
        who = await _provider(request).identity(end.code, started)
        person = await stored(request, lambda: logged_in(database, who, request_id=REQUEST_ID.get()))
    except InvalidInput as error:
        _count(request, "unavailable" if isinstance(error, LoginUnavailable) else "failed")
        raise
    _count(request, "done")
    sessions.logins.delete(response)
    sessions.begin(response, person)
    return holder_document(Actor(person.token, session_ends_at=sessions.end_of(now())))


@router.delete("", status_code=204)
async def end_session(sessions: Offered, database: OpenDatabase, request: Request, response: Response) -> None:
    """Log out: all sessions of the person end."""
    found = await run_in_threadpool(sessions.person_of, request)
    if found is not None:
        token_id = found[0].token_id
        await stored(request, lambda: log_out(database, token_id, request_id=REQUEST_ID.get()))
    sessions.people.delete(response)


def _started(end: LoginEnd, cookie: tuple[Any, object] | None, request: Request) -> dict[str, str]:
    """What this browser began a login with, where it ends that one. Raises LoginFailed."""
    started: dict[str, str] = cookie[0] if cookie else {}
    if not started or not hmac.compare_digest(started["state"].encode(), end.state.encode()):
        rule = "must be that of a login which this browser has begun in the last 10 min"
        raise LoginFailed.of("state", rule, value=end.state or None, remedy="log in again")
    if end.error or not end.code:
        said = end.error_description or end.error or "no code"
        raise LoginFailed.of("the provider", f"refuses the login ({said})", value=None, remedy="log in again")
    issuer = request.app.state.settings.oidc_issuer
    if end.iss not in ("", issuer):  # RFC 9207, section 2.4
        raise LoginFailed.of("iss", f"must be {issuer}", value=end.iss, remedy="log in again")
    return started


def _provider(request: Request) -> Provider:
    provider: Provider = request.app.state.provider
    return provider


def _count(request: Request, result: str) -> None:
    request.app.state.metrics.logins.labels(result).inc()
