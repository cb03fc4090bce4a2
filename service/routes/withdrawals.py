"""Withdrawals: runs that no longer speak for their storage system."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body
from pydantic import BaseModel, ConfigDict, Field

from service.access.scopes import OpenDatabase, Writer
from service.database import withdrawals
from service.database.names import Description
from service.errors import explained
from service.http.problems import responses
from service.routes.json_route import JsonRoute
from service.routes.runs import RunId
from service.routes.storage_systems import SystemName
from service_client.documents import RunSummary

router = APIRouter(prefix="/v1/storage-systems/{name}/runs/{run_id}/withdrawal", tags=["runs"], route_class=JsonRoute)


class NewWithdrawal(BaseModel):
    """Why a run is withdrawn."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_extra={"examples": [{"reason": "Measured on the old switch"}]}
    )

    reason: Annotated[Description, Field(min_length=1)] = Field(
        description="Why the run no longer speaks for its storage system, in some lines."
    )


@router.put(
    "",
    responses=responses(400, 401, 403, 404, 408, 409, 413, 415, 422, 503, 507),
    summary="Withdraw a run",
)
def withdraw_run(
    name: SystemName,
    run_id: RunId,
    new: Annotated[NewWithdrawal, explained(NewWithdrawal), Body()],
    by: Writer,
    database: OpenDatabase,
) -> RunSummary:
    """Leave a run out of calibrations and trends from now on; it is kept, with the reason.

    Needs the token that published it, one of an owner of the storage system, or one with scope admin.
    """
    return RunSummary.model_validate(withdrawals.withdraw_run(database, name, run_id, new.reason, by=by))


@router.delete("", status_code=204, responses=responses(401, 403, 404, 409, 422, 503, 507), summary="Reinstate a run")
def reinstate_run(name: SystemName, run_id: RunId, by: Writer, database: OpenDatabase) -> None:
    """Let a withdrawn run speak for its storage system again. Needs a token as the withdrawal does."""
    withdrawals.reinstate_run(database, name, run_id, by=by)
