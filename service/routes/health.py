"""Health, for whatever watches the service."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from service.access.scopes import OpenDatabase
from service.database.schema import is_current
from service.errors import NotReady
from service.http.problems import responses

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """That all is well."""

    status: Literal["ok"] = Field("ok", description="Always ok; a failed service answers with an error or not at all.")


@router.get("/healthz", summary="Liveness")
async def healthz() -> Health:
    """The process answers. The database is not used."""
    return Health()


@router.get("/readyz", responses=responses(503), summary="Readiness")
def readyz(database: OpenDatabase) -> Health:
    """The database is reachable and has the schema of this version."""
    with database.reading() as session:
        if not is_current(session.connection()):
            raise NotReady.of(
                "database", "must have the schema of this version", value=None, remedy="restart the service"
            )
    return Health()
