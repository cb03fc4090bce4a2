"""What becomes of an exception that no route has caught: a problem document, and a line in the log."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DataError, DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoConnection
from starlette.exceptions import HTTPException
from starlette.responses import Response

from service.database.connection import is_full
from service.errors import ClientGone, NotFound
from service.http.problems import (
    DATABASE_FULL,
    DATABASE_UNAVAILABLE,
    INTERNAL_ERROR,
    KINDS,
    METHOD_NOT_ALLOWED,
    Kind,
    refusal,
)
from service.middleware.security_headers import SECURITY_HEADERS
from service.telemetry.logs import REQUEST_ID
from sizing.errors import InvalidInput, Problem, shown

CLIENT_GONE = 499
"""As nginx notes a request whose client closed the connection before its answer."""

_log = logging.getLogger(__name__)


def add_exception_handlers(app: FastAPI) -> None:
    """Let every error of `app` be answered with a problem document."""
    for kind in KINDS:
        app.exception_handler(kind)(_refusal)
    app.exception_handler(RequestValidationError)(_invalid_request)
    app.exception_handler(HTTPException)(_http_error)
    for failure in (OperationalError, InterfaceError, NoConnection):
        app.exception_handler(failure)(_database_failure)
    app.exception_handler(DataError)(_unstorable)
    app.exception_handler(ClientGone)(_nobody)
    app.exception_handler(Exception)(_internal_error)


async def _refusal(_: Request, error: InvalidInput) -> Response:
    return refusal(error)


async def _nobody(_: Request, __: ClientGone) -> Response:
    """For the log and the metrics: nobody gets it."""
    return Response(status_code=CLIENT_GONE)


async def _invalid_request(_: Request, error: RequestValidationError) -> Response:
    """What `explained` has not seen: that there is no body."""
    return KINDS[InvalidInput].response(
        Problem(".".join(map(str, details["loc"])), f"is invalid ({details['msg']})", "", "see /docs for the body")
        for details in error.errors()
    )


async def _http_error(request: Request, error: HTTPException) -> Response:
    path = shown(request.url.path)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return KINDS[NotFound].response(
            [Problem("path", "must be a route of the service", path, "see /docs for the routes")]
        )
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(_allowed(request, (error.headers or {}).get("Allow", "")))
        kind = dataclasses.replace(METHOD_NOT_ALLOWED, headers={"Allow": allowed})
        return kind.response(
            [Problem("method", f"must be one of {allowed} at {path}", request.method, "use one of these")]
        )
    status = HTTPStatus(error.status_code)
    return Kind(status, f"http-{status.value}", status.phrase).response([])


def _allowed(request: Request, named: str) -> list[str]:
    """The methods of all routes at a path. Each method has a route of its own, and the router names those of one."""
    methods_at: Mapping[str, set[str]] = request.app.state.methods_at
    path = getattr(request.scope.get("route"), "path", "")
    methods = methods_at.get(path) or {method.strip() for method in named.split(",")}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


async def _database_failure(_: Request, error: SQLAlchemyError) -> Response:
    _log.error("The database failed: %s", str(error).partition("\n")[0])
    if isinstance(error, DBAPIError) and is_full(error):
        return DATABASE_FULL.response(
            [Problem("database", "is full", "", "free space on its disk, or delete scenarios")]
        )
    return DATABASE_UNAVAILABLE.response([Problem("database", "is unavailable", "", "try again later")])


async def _unstorable(_: Request, __: DataError) -> Response:
    """What no column can be compared with: a NUL in the path or the query, where PostgreSQL is asked."""
    problem = Problem("the address", "must not contain NUL characters", "", "remove them")
    return KINDS[InvalidInput].response([problem])


async def _internal_error(_: Request, __: Exception) -> Response:
    """The outermost handler. The server logs the exception; the client learns nothing of it."""
    problem = Problem("the service", "failed", "", "try again; see the log of the service for the cause")
    headers = SECURITY_HEADERS | {"X-Request-Id": REQUEST_ID.get() or ""}
    return dataclasses.replace(INTERNAL_ERROR, headers=headers).response([problem])
