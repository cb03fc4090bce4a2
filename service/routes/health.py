"""Health, for whatever watches the service."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from service.access.scopes import OpenDatabase
from service.database.schema import accepted_from, known_to, require_accepted, state_of
from service.errors import NotReady
from service.http.problems import responses

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
