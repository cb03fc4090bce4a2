"""Exceptions that no route has caught: each becomes a problem document, and a line in the log."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from sqlalchemy.exc import DataError, DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoConnection
from starlette.exceptions import HTTPException
from starlette.responses import Response

from service.database.connection import is_full
from service.errors import ClientGone, NotFound, busy
from service.http.problems import (
    DATABASE_FULL,
    DATABASE_UNAVAILABLE,
    INTERNAL_ERROR,
    KINDS,
    METHOD_NOT_ALLOWED,
    Kind,
    refusal,
)
from service.middleware.responses import SECURITY_HEADERS
from service.telemetry import REQUEST_ID
from sizing.errors import InvalidInput, Problem, explain_details, shown

CLIENT_GONE = 499
"""Status of a request whose client closed the connection before its answer, as nginx notes it."""

_log = logging.getLogger(__name__)


def add_exception_handlers(app: FastAPI) -> None:
    """Let every error of `app` be answered with a problem document."""
    for kind in KINDS:
        app.exception_handler(kind)(_answer_refusal)
    app.exception_handler(RequestValidationError)(_answer_invalid_request)
    app.exception_handler(HTTPException)(_answer_http_error)
    for failure in (OperationalError, InterfaceError, NoConnection):
        app.exception_handler(failure)(_answer_database_failure)
    app.exception_handler(DataError)(_answer_unstorable)
    app.exception_handler(ClientGone)(_answer_nobody)
    app.exception_handler(MemoryError)(_answer_without_memory)
    app.exception_handler(Exception)(_answer_internal_error)


async def _answer_refusal(_: Request, error: InvalidInput) -> Response:
    return refusal(error)


async def _answer_without_memory(request: Request, _: MemoryError) -> Response:
    """Answer that the worker is at its limit of memory. Other answers will free memory as they end."""
    _log.error("No memory was left for %s %s: see worker_memory_bytes.", request.method, shown(request.url.path))
    return refusal(busy())


async def _answer_nobody(_: Request, __: ClientGone) -> Response:
    """Make a response for the log and the metrics alone: nobody gets it."""
    return Response(status_code=CLIENT_GONE)


async def _answer_invalid_request(_: Request, error: RequestValidationError) -> Response:
    """Answer errors that `explained` has not seen: of a header, or of the address. Their place names no field."""
    return refusal(explain_details(error.errors(), BaseModel, skip=1))


async def _answer_http_error(request: Request, error: HTTPException) -> Response:
    path = shown(request.url.path)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return KINDS[NotFound].response(
            [Problem("path", "must be a route of the service", path, "see /docs for the routes")]
        )
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(_list_methods(request, (error.headers or {}).get("Allow", "")))
        kind = dataclasses.replace(METHOD_NOT_ALLOWED, headers={"Allow": allowed})
        return kind.response(
            [Problem("method", f"must be one of {allowed} at {path}", request.method, "use one of these")]
        )
    status = HTTPStatus(error.status_code)
    return Kind(status, f"http-{status.value}", status.phrase).response([])


def _list_methods(request: Request, named: str) -> list[str]:
    """List the methods of all routes at a path. Each method has its own route, and the router names only one."""
    methods_at: Mapping[str, set[str]] = request.app.state.methods_at
    path = getattr(request.scope.get("route"), "path", "")
    methods = methods_at.get(path) or {method.strip() for method in named.split(",")}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


async def _answer_database_failure(_: Request, error: SQLAlchemyError) -> Response:
    _log.error("The database failed: %s", str(error).partition("\n")[0])
    if isinstance(error, DBAPIError) and is_full(error):
        return DATABASE_FULL.response(
            [Problem("database", "is full", "", "free space on its disk, or delete scenarios")]
        )
    return DATABASE_UNAVAILABLE.response([Problem("database", "is unavailable", "", "try again later")])


async def _answer_unstorable(_: Request, __: DataError) -> Response:
    """Answer a value that no column can be compared with: a NUL in the path or the query, with PostgreSQL."""
    problem = Problem("the address", "must not contain NUL characters", "", "remove them")
    return KINDS[InvalidInput].response([problem])


async def _answer_internal_error(_: Request, __: Exception) -> Response:
    """Answer any other exception. The server logs it; the client learns nothing of it."""
    problem = Problem("the service", "failed", "", "try again; see the log of the service for the cause")
    headers = SECURITY_HEADERS | {"X-Request-Id": REQUEST_ID.get() or ""}
    return dataclasses.replace(INTERNAL_ERROR, headers=headers).response([problem])
