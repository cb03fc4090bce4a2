"""Health and figures for Prometheus, for whatever watches the service."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.access.scopes import OpenDatabase
from service.database.schema import accepted_from, known_to, require_accepted, state_of
from service.errors import NotFound, NotReady
from service.http.problems import responses
from service.telemetry import CONTENT_TYPE, Metrics

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """That all is well."""

    status: Literal["ok"] = Field("ok", description="Always ok; a failed service answers with an error or not at all.")


class Readiness(Health):
    """That requests are answered, and on which schema of the database."""

    schema_revision: str = Field(description="Revision of the database's schema.")
    accepted_from: str = Field(description="Earliest revision on which this version works.")
    known_to: str = Field(
        description="Latest revision that this version knows; it works on a later one while serves_from is not later."
    )
    serves_from: str = Field(description="Revision that a version must know to work on this database.")


@router.get("/healthz", summary="Liveness")
async def healthz() -> Health:
    """The process answers. The database is not used."""
    return Health()


@router.get("/readyz", responses=responses(503), summary="Readiness")
def readyz(database: OpenDatabase) -> Readiness:
    """The database is reachable and has a schema on which this version works."""
    with database.reading() as session:
        state = state_of(session.connection())
    require_accepted(state, "database", NotReady)
    return Readiness(
        status="ok",
        schema_revision=str(state.revision),
        accepted_from=accepted_from(),
        known_to=known_to(),
        serves_from=str(state.serves_from),
    )


SET_BY_PROXIES = ("x-forwarded-for", "forwarded")
"""What is asked through a proxy comes from outside, and would get the figures of any one instance."""

monitoring = APIRouter(tags=["health"])


@monitoring.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"example": "ckpt_sizings_total 12.0\n"}}}, **responses(404)},
    summary="Metrics for Prometheus",
)
def metrics(request: Request) -> Response:
    """Requests, their durations, and what is in use. 404 through a proxy."""
    if any(header in request.headers for header in SET_BY_PROXIES):
        raise NotFound.of(
            "path",
            "must be requested from the instance, not through a proxy",
            value="/metrics",
            remedy="scrape each instance directly",
        )
    counted: Metrics = request.app.state.metrics
    return Response(counted.exposition(), media_type=CONTENT_TYPE)
