"""`/healthz` and `/readyz`: is the process alive, can it serve."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Request
from pydantic import BaseModel

from service.database.connection import is_ready
from service.problems import ServiceError

router = APIRouter(tags=["operations"])


class Status(BaseModel):
    """What a probe wants to know."""

    status: str = "ok"


@router.get("/healthz")
async def healthz() -> Status:
    """The process answers."""
    return Status()


@router.get("/readyz")
def readyz(request: Request) -> Status:
    """The database answers and has the newest revision."""
    if not is_ready(request.app.state.engine):
        raise ServiceError(HTTPStatus.SERVICE_UNAVAILABLE, "not-ready", "The database has not the newest revision.")
    return Status()
