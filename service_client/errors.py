"""Errors of the client when it asks the service.

sizing.errors.SizingError
├── InvalidInput
│   └── Refused         the service will not do this, however often it is asked: `status`, `code`, `problems`
└── Unavailable         no answer, or none now: the same may work later
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import httpx

from sizing.errors import InvalidInput, Problem, SizingError, shown

_LATER = (
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
    HTTPStatus.INSUFFICIENT_STORAGE,
)


class Refused(InvalidInput):
    """Raised where the service refuses a request; `problems` are its own."""

    def __init__(self, status: int, code: str, problems: list[Problem]) -> None:
        self.status = status
        self.code = code
        super().__init__(problems)


class Unavailable(SizingError):
    """Raised without an answer, or without one now; `status` is None where nothing answered.

    `retry_after_seconds` is what the service asks to wait, 0 where it does not say.
    """

    def __init__(self, message: str, *, status: int | None = None, retry_after_seconds: float = 0.0) -> None:
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)


def raise_for(response: httpx.Response) -> None:
    """Raise Refused or Unavailable for an answer that is none."""
    if response.is_success:
        return
    document = _problem_document(response)
    if response.status_code in _LATER:
        wait = response.headers.get("retry-after", "")
        reason = document.get("detail") or f"status {response.status_code}"
        raise Unavailable(
            f"{response.url.host} answered: {reason}",
            status=response.status_code,
            retry_after_seconds=float(wait) if wait.isdecimal() else 0.0,
        )
    problems = [Problem(*(str(error.get(name, "")) for name in _FIELDS)) for error in document.get("errors", [])]
    leads_to = f" and leads to {shown(response.headers['location'])}" if response.has_redirect_location else ""
    rule = f"answered with status {response.status_code}{leads_to}"
    unexplained = Problem("the service", rule, "", "check its address")
    raise Refused(response.status_code, str(document.get("code", "")), problems or [unexplained])


_FIELDS = ("field", "rule", "value", "remedy")


def _problem_document(response: httpx.Response) -> dict[str, Any]:
    """Return the problem document of an answer; empty where something in between answered."""
    if response.headers.get("content-type") != "application/problem+json":
        return {}
    document: dict[str, Any] = response.json()
    return document
