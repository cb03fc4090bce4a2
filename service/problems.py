"""Every error as application/problem+json (RFC 9457), by one table from exception to status."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from sqlalchemy.exc import OperationalError
from starlette.exceptions import HTTPException

from sizing.errors import InvalidInput, Problem, explain_details
from sizing.scenario import Scenario

MEDIA_TYPE = "application/problem+json"
logger = logging.getLogger(__name__)


class FieldProblem(BaseModel):
    """One field that breaks a rule."""

    model_config = ConfigDict(frozen=True)

    field: str
    rule: str
    value: str
    remedy: str
    sentence: str


class ProblemDocument(BaseModel):
    """What a client gets instead of an answer; `code` is stable."""

    model_config = ConfigDict(frozen=True)

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldProblem] = []


class ServiceError(Exception):
    """An error with a status, a stable code and a sentence for the client."""

    def __init__(self, status: HTTPStatus, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.headers = status, code, detail, headers


def not_found(what: str, name: str) -> ServiceError:
    """The error for something that is not there."""
    return ServiceError(HTTPStatus.NOT_FOUND, "not-found", f"There is no {what} {name!r}.")


def problem_response(
    status: HTTPStatus,
    code: str,
    detail: str,
    problems: tuple[Problem, ...] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """A problem document as a response."""
    errors = [
        FieldProblem(field=p.field, rule=p.rule, value=p.value, remedy=p.remedy, sentence=p.sentence) for p in problems
    ]
    document = ProblemDocument(title=status.phrase, status=status, detail=detail, code=code, errors=errors)
    return JSONResponse(document.model_dump(), status, headers, media_type=MEDIA_TYPE)


def invalid_input(error: InvalidInput) -> JSONResponse:
    """The response to a scenario that breaks a rule."""
    return problem_response(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-input", str(error), error.problems)


def add_handlers(app: FastAPI) -> None:
    """Let every exception of the app become a problem document."""

    @app.exception_handler(InvalidInput)
    async def of_input(_: Request, error: InvalidInput) -> JSONResponse:
        return invalid_input(error)

    @app.exception_handler(RequestValidationError)
    async def of_request(_: Request, error: RequestValidationError) -> JSONResponse:
        details: Any = error.errors()
        if any(detail["type"] == "json_invalid" for detail in details):
            return problem_response(HTTPStatus.BAD_REQUEST, "invalid-json", "The body is not valid JSON.")
        return invalid_input(explain_details(details, Scenario, skip=1))

    @app.exception_handler(ServiceError)
    async def of_service(_: Request, error: ServiceError) -> JSONResponse:
        return problem_response(error.status, error.code, error.detail, headers=error.headers)

    @app.exception_handler(HTTPException)
    async def of_http(_: Request, error: HTTPException) -> JSONResponse:
        status = HTTPStatus(error.status_code)
        code = status.phrase.lower().replace(" ", "-")
        return problem_response(status, code, f"{status.phrase}: {status.description}.", headers=error.headers)

    @app.exception_handler(OperationalError)
    async def of_database(_: Request, error: OperationalError) -> JSONResponse:
        logger.error("database: %s", error.orig)
        if "full" in str(error.orig):
            detail = "The database has no space left; nothing was stored."
            return problem_response(HTTPStatus.INSUFFICIENT_STORAGE, "storage-full", detail)
        detail = "The database cannot be reached; nothing was stored. Try again later."
        return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, "database-unavailable", detail)

    @app.exception_handler(Exception)
    async def of_defect(_: Request, error: Exception) -> JSONResponse:
        logger.exception("unexpected", exc_info=error)
        detail = "Something unexpected went wrong here; it has been logged."
        return problem_response(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", detail)


RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ProblemDocument, "description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: {}}}
    for status in (400, 413, 422)
}
"""How OpenAPI shows the errors that any route with a body may give."""
