"""Problem documents (RFC 9457), and the one table from exception to HTTP."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, Field, computed_field
from pydantic.dataclasses import dataclass as pydantic_dataclass
from starlette.responses import Response

from executors.window import ClusterFailed
from service.errors import (
    BodyTooLarge,
    BodyTooSlow,
    Busy,
    ChangedMeanwhile,
    Conflict,
    CrossOrigin,
    HeadTooLarge,
    InvalidJson,
    LoginFailed,
    LoginUnavailable,
    MissingScope,
    NoPrecondition,
    NotAcceptable,
    NotAuthenticated,
    NotFound,
    NotReady,
    TakesTooLong,
    TooManyRequests,
    UnsupportedMediaType,
)
from sizing.errors import InvalidInput, NotInstalled, Problem
from sizing.questions.registry import QUESTIONS

MEDIA_TYPE = "application/problem+json"


@pydantic_dataclass(frozen=True)
class FieldProblem(Problem):
    """One thing that is wrong: which field, its rule, the value found, the remedy; and all in a sentence."""

    field: str = Field(description="Dotted path of the wrong field; empty for the whole document.")
    rule: str = Field(description="Rule for the field, as a phrase that follows its name.")
    value: str = Field(
        description="Value that was found, as in the sentence: a text in single quotes, anything else as in JSON, "
        "cut at 60 characters. Empty when there was none."
    )
    remedy: str = Field(description="What to do about it.")
    sentence = computed_field(description="Field, rule, value and remedy as one sentence for people.")(Problem.sentence)


class ProblemDocument(BaseModel):
    """An error as RFC 9457 has it. `code` is stable: programs branch on it. `detail` is for people."""

    type: str = Field(description="URN of the kind of error; code is its last part.")
    title: str = Field(description="Kind of error in a few words; the same for all errors with this code.")
    status: int = Field(description="HTTP status of the answer.")
    detail: str = Field(description="All problems as sentences for people, one per line.")
    code: str = Field(description="Kind of error for programs; it does not change between versions.")
    errors: list[FieldProblem] = Field(description="What is wrong, one entry per field.")


ROUTE_OF_VERB = {
    "failure-rates": "GET /v1/failure-rates",
    "fields": "GET /openapi.json",
    "formats": "GET /v1/formats",
    "frameworks": "GET /v1/frameworks",
    "models": "GET /v1/models",
    "nodes": "GET /v1/nodes",
    "storage": "GET /v1/storage-profiles",
} | {verb: f"POST /v1/{entry.question.route.path}" for verb, entry in QUESTIONS.items()}
"""Routes that answer what verbs of `ckpt-size` do."""
FIELD_OF_SUBJECT = {"the scenario": "scenario", "the simulation": "num_runs"}
"""Fields of requests, by the words for them where there is no request."""
_VERB = re.compile(rf"(run )?`?ckpt-size (?P<verb>{'|'.join(sorted(ROUTE_OF_VERB, key=len, reverse=True))})(?![\w-])`?")


def in_words_of_rest(problem: Problem) -> Problem:
    """Name the field of a problem by its path in a request, and a route for each verb of the command line.

    >>> in_words_of_rest(Problem("cluster.node", "is unknown", "'x'", "`ckpt-size nodes` lists them")).remedy
    'GET /v1/nodes lists them'
    """
    rule, remedy = (
        _VERB.sub(lambda found: f"{'ask ' if found[1] else ''}{ROUTE_OF_VERB[found['verb']]}", text)
        for text in (problem.rule, problem.remedy)
    )
    field = FIELD_OF_SUBJECT.get(problem.field, problem.field)
    return dataclasses.replace(problem, field=field, rule=rule, remedy=remedy)


@dataclass(frozen=True, slots=True)
class Kind:
    """Kind of error over HTTP."""

    status: int
    code: str
    title: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self, problems: Iterable[Problem]) -> Response:
        """Return the problem document."""
        errors = [FieldProblem(**dataclasses.asdict(in_words_of_rest(problem))) for problem in problems]
        document = ProblemDocument(
            type=f"urn:problem-type:checkpoint-sizing:{self.code}",
            title=self.title,
            status=self.status,
            detail="\n".join(problem.sentence for problem in errors),
            code=self.code,
            errors=errors,
        )
        return Response(document.model_dump_json(), self.status, self.headers, MEDIA_TYPE)


KINDS: dict[type[InvalidInput], Kind] = {
    InvalidJson: Kind(400, "invalid-json", "The body is not JSON"),
    NotAuthenticated: Kind(401, "unauthorized", "Token missing or invalid", {"WWW-Authenticate": "Bearer"}),
    MissingScope: Kind(
        403,
        "missing-scope",
        "The scope of the token is not sufficient",
        {"WWW-Authenticate": 'Bearer error="insufficient_scope"'},
    ),
    LoginFailed: Kind(403, "login-failed", "The login did not succeed"),
    CrossOrigin: Kind(403, "cross-origin", "Another site asks for a change"),
    NotFound: Kind(404, "not-found", "Not found"),
    NotAcceptable: Kind(406, "not-acceptable", "Format not available"),
    BodyTooSlow: Kind(408, "too-slow", "Timeout: the body did not arrive in time", {"Connection": "close"}),
    Conflict: Kind(409, "conflict", "Conflict with what is stored"),
    ChangedMeanwhile: Kind(412, "changed-meanwhile", "It was changed meanwhile"),
    NoPrecondition: Kind(428, "no-precondition", "The header If-Match is missing"),
    BodyTooLarge: Kind(413, "too-large", "The body is too large", {"Connection": "close"}),
    HeadTooLarge: Kind(431, "head-too-large", "The head of the request is too large", {"Connection": "close"}),
    UnsupportedMediaType: Kind(415, "unsupported-media-type", "The body must have the content type JSON"),
    InvalidInput: Kind(422, "invalid-input", "Invalid input"),
    TakesTooLong: Kind(422, "takes-too-long", "The question needs too much time or memory"),
    TooManyRequests: Kind(429, "too-many-requests", "Too many requests", {"Retry-After": "1"}),
    Busy: Kind(503, "busy", "The service is busy", {"Retry-After": "5"}),
    LoginUnavailable: Kind(503, "login-unavailable", "The provider of logins does not answer", {"Retry-After": "5"}),
    ClusterFailed: Kind(503, "no-cluster", "The machines that compute jobs are not there", {"Retry-After": "60"}),
    NotReady: Kind(503, "not-ready", "The service is not ready"),
    NotInstalled: Kind(501, "not-installed", "The service lacks a library for this"),
}
MALFORMED = Kind(400, "invalid-http", "The request is not HTTP", {"Connection": "close"})
METHOD_NOT_ALLOWED = Kind(405, "method-not-allowed", "Method not allowed")
INTERNAL_ERROR = Kind(500, "internal", "Internal error of the service")
DATABASE_UNAVAILABLE = Kind(503, "database-unavailable", "The database is unavailable", {"Retry-After": "5"})
DATABASE_FULL = Kind(507, "storage-full", "The database is full")


Responses = dict[int | str, dict[str, Any]]
"""OpenAPI description of a route's answers, by status."""


_TEXT, _SECONDS = {"type": "string"}, {"type": "integer", "minimum": 0}
_HEADERS = {
    "ETag": ("State of the content: what If-None-Match, or If-Match of a change, may name.", _TEXT),
    "Location": ("Path of what was made, or existed already; of a question that takes long, of its job.", _TEXT),
    "Preference-Applied": ("Preference that was followed: respond-async. Absent where none was.", _TEXT),
    "Retry-After": ("Seconds after which to ask again.", _SECONDS),
    "WWW-Authenticate": ("Bearer, and what the token lacks.", _TEXT),
}
"""Headers that programs act on: what they say, and the schema of their values."""


def described_headers(*names: str) -> dict[str, Any]:
    """Describe for OpenAPI the headers of an answer, some of which one answer may lack."""
    described = {name: {"description": _HEADERS[name][0], "schema": _HEADERS[name][1]} for name in names}
    return {"headers": described} if described else {}


def responses(*statuses: int) -> Responses:
    """Describe for OpenAPI a route that can answer with these problems."""
    sent = {
        status: {name for kind in KINDS.values() if kind.status == status for name in kind.headers}
        for status in statuses
    }
    return {
        status: {"model": ProblemDocument, "description": HTTPStatus(status).phrase}
        | described_headers(*sorted(sent[status] & _HEADERS.keys()))
        for status in statuses
    }


def creation_responses(model: type[BaseModel], *more_headers: str) -> Responses:
    """Describe for OpenAPI a route that makes a thing, and answers 200 where it already exists."""
    sent = described_headers("Location", *more_headers)
    return {201: sent, 200: {"model": model, "description": "It existed already"} | sent}


def refusal(error: InvalidInput) -> Response:
    """Return the problem document of an error."""
    return kind_of(error).response(error.problems)


def kind_of(error: InvalidInput) -> Kind:
    """Return the kind of an error over HTTP."""
    return next(KINDS[ancestor] for ancestor in type(error).__mro__ if ancestor in KINDS)


def kind_with(code: str | None) -> Kind:
    """Return the kind of error with a code; for an unknown code, that of internal errors."""
    return next((kind for kind in KINDS.values() if kind.code == code), INTERNAL_ERROR)
