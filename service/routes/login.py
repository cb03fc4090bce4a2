"""Whose token a request has, and logins of people with a browser: the pages use those, programs have tokens."""

from __future__ import annotations

import hmac
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Request
from fastapi.security import HTTPAuthorizationCredentials
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.access.provider import Provider
from service.access.scopes import BEARER, OpenDatabase, find_holder, holder_of, not_authenticated
from service.access.sessions import Sessions
from service.access.write_limiter import store_in_turn
from service.database import Actor
from service.database.people import log_in, log_out
from service.database.tables import now
from service.errors import LoginFailed, LoginUnavailable, NotFound, explained
from service.http.problems import responses
from service.routes.json_route import OpenJsonRoute
from service.telemetry import REQUEST_ID
from service_client.documents import TokenHolder
from sizing.errors import InvalidInput
from sizing.strict_model import StrictModel

router = APIRouter(prefix="/session", include_in_schema=False, route_class=OpenJsonRoute)

_Text = Annotated[str, Field(max_length=4096)]


class LoginState(BaseModel):
    """Whether people can log in here, and who has logged in."""

    offers_login: bool
    holder: TokenHolder | None


class LoginStart(StrictModel):
    """Nothing is needed to begin one."""


class LoginEnd(BaseModel):
    """What the provider put into the address of the page that the browser came back to."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    state: _Text = ""
    code: _Text = ""
    iss: _Text = ""
    error: _Text = ""
    error_description: _Text = ""


def require_own_page(request: Request) -> Sessions:
    """Return the sessions, where the request comes from a page of the service. Raises NotFound or CrossOrigin."""
    sessions: Sessions | None = request.app.state.sessions
    if sessions is None:
        raise NotFound.of("login", "is not set up here", value=None, remedy="use a token")
    sessions.require_own_page(request)
    return sessions


OwnPage = Annotated[Sessions, Depends(require_own_page)]


@router.get("")
def get_login_state(request: Request, response: Response) -> LoginState:
    """Get who asks, by token or login, and whether people can log in here."""
    response.headers["Cache-Control"] = "no-store"
    actor = find_holder(request)
    if actor is None and "authorization" in request.headers:
        raise not_authenticated(request)
    holder = holder_document(actor) if actor else None
    return LoginState(offers_login=request.app.state.sessions is not None, holder=holder)


@router.post("/login")
async def begin_login(
    _: Annotated[LoginStart, explained(LoginStart), Body()], sessions: OwnPage, request: Request, response: Response
) -> dict[str, str]:
    """Where the browser goes to log in; a cookie keeps what must be known when it comes back."""
    try:
        login = await _provider(request).start()
    except LoginUnavailable:
        _count(request, "unavailable")
        raise
    url = login.pop("url")
    sessions.logins.set(response, login)
    return {"url": url}


@router.post("")
async def end_login(
    end: Annotated[LoginEnd, explained(LoginEnd), Body()],
    sessions: OwnPage,
    database: OpenDatabase,
    request: Request,
    response: Response,
) -> TokenHolder:
    """Let the browser be the person's who has logged in at the provider."""
    try:
        login = _require_login(end, sessions.logins.read(request), request)
        who = await _provider(request).identity(end.code, login)
        person = await store_in_turn(request, lambda: log_in(database, who, request_id=REQUEST_ID.get()))
    except InvalidInput as error:
        _count(request, "unavailable" if isinstance(error, LoginUnavailable) else "failed")
        raise
    _count(request, "done")
    sessions.logins.delete(response)
    sessions.begin(response, person)
    return holder_document(Actor(person.token, session_ends_at=sessions.end_of(now())))


@router.delete("", status_code=204)
async def end_session(sessions: OwnPage, database: OpenDatabase, request: Request, response: Response) -> None:
    """Log out: all sessions of the person end."""
    person_and_end = await run_in_threadpool(sessions.person_of, request)
    if person_and_end is not None:
        token_id = person_and_end[0].token_id
        await store_in_turn(request, lambda: log_out(database, token_id, request_id=REQUEST_ID.get()))
    sessions.people.delete(response)


def _require_login(end: LoginEnd, cookie: tuple[Any, object] | None, request: Request) -> dict[str, str]:
    """Return what the browser began this login with. Raises LoginFailed where it began another one or none."""
    login: dict[str, str] = cookie[0] if cookie else {}
    if not login or not hmac.compare_digest(login["state"].encode(), end.state.encode()):
        rule = "must be that of a login which this browser has begun in the last 10 min"
        raise LoginFailed.of("state", rule, value=end.state or None, remedy="log in again")
    if end.error or not end.code:
        reason = end.error_description or end.error or "no code"
        raise LoginFailed.of("the provider", f"refuses the login ({reason})", value=None, remedy="log in again")
    issuer = request.app.state.settings.oidc_issuer
    if end.iss not in ("", issuer):  # RFC 9207, section 2.4
        raise LoginFailed.of("iss", f"must be {issuer}", value=end.iss, remedy="log in again")
    return login


def _provider(request: Request) -> Provider:
    provider: Provider = request.app.state.provider
    return provider


def _count(request: Request, result: str) -> None:
    request.app.state.metrics.logins.labels(result).inc()


holders = APIRouter(prefix="/v1", tags=["tokens"])


@holders.get("/whoami", responses=responses(401, 503), summary="Whose token this is")
def whoami(request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)] = None) -> TokenHolder:
    """Name, scope, storage systems and expiry of the token of the request, or of who has logged in."""
    return holder_document(holder_of(request))


def holder_document(by: Actor) -> TokenHolder:
    """Describe the holder of a token, or a person who logged in."""
    holder = TokenHolder.model_validate(by.token)
    if by.session_ends_at is None:
        return holder
    return holder.model_copy(update={"expires_at": by.session_ends_at, "has_logged_in": True})
