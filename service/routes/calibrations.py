"""Calibrations of a storage system: profiles fitted to its published runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.access.scopes import OpenDatabase, Writer
from service.answers import heavy
from service.compute.pool import Compute
from service.database import Actor, Database, calibrations, runs
from service.database.runs import MAX_RUNS
from service.database.tables import CalibrationRow, RunRow
from service.errors import NotFound, explained
from service.http.problems import responses
from service.routes.json_route import JsonRoute
from service.routes.pagination import PageWanted, page_of
from service.routes.storage_systems import SystemName
from service_client.documents import CalibrationSummary, Page, StoredCalibration
from sizing.storage.calibration import Calibration

router = APIRouter(prefix="/v1/storage-systems/{name}/calibrations", tags=["calibrations"], route_class=JsonRoute)

RunId = Annotated[str, Field(min_length=1, max_length=64)]


class NewCalibration(BaseModel):
    """From which runs to calibrate, and where they have several engines, for which."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_extra={"examples": [{"run_ids": ["20261121T120000Z-1a2b3c"]}]}
    )

    run_ids: Annotated[tuple[RunId, ...], Field(min_length=1, max_length=MAX_RUNS)] | None = Field(
        None, description="Ids of the published runs to fit. Default: all runs of the storage system."
    )
    engine: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        None,
        description="Engine whose measurements are fitted, such as direct. "
        "Default: the one with the most configurations.",
    )


class CalibrationPage(Page[CalibrationSummary]):
    """Some of the calibrations, the newest first."""


def id_in_path(calibration_id: Annotated[str, Path(description="Id of a calibration of this storage system.")]) -> UUID:
    """The id of a calibration. What is no id is that of nothing."""
    try:
        return UUID(calibration_id)
    except ValueError:
        raise NotFound.of(
            "id",
            "must be the id of a calibration",
            value=calibration_id,
            remedy="list them with GET /v1/storage-systems/NAME/calibrations",
        ) from None


@router.post(
    "",
    status_code=201,
    responses=responses(400, 401, 403, 404, 408, 409, 413, 415, 422, 503, 507),
    summary="Calibrate a storage system",
)
async def create_calibration(
    name: SystemName,
    new: Annotated[NewCalibration, explained(NewCalibration), Body()],
    by: Writer,
    database: OpenDatabase,
    compute: Compute,
    response: Response,
) -> StoredCalibration:
    """Fit a profile to published runs and save it. A scenario uses it with `{"storage": {"calibration": ID}}`."""
    async with compute.turn() as ask:  # documents of all runs are large: those of one calibration at a time
        chosen = await run_in_threadpool(runs.runs_with_documents, database, name, new.run_ids)
        fitted = await ask(heavy.calibration_json, [run.document for run in chosen], new.engine)
    stored = await run_in_threadpool(_stored, database, name, fitted, chosen, by)
    response.headers["Location"] = f"{router.prefix.format(name=name)}/{stored.id}"
    return stored


@router.get("", responses=responses(404, 422, 503), summary="List the calibrations of a storage system")
def list_calibrations(
    name: SystemName, page: Annotated[PageWanted, explained(PageWanted), Query()], database: OpenDatabase
) -> CalibrationPage:
    """A page of the calibrations, newest first."""
    rows = calibrations.list_calibrations(database, name, limit=page.limit + 1, before=page.cursor)
    return page_of(CalibrationPage, rows, page.limit, _summary, lambda row: str(row.id))


@router.get("/{calibration_id}", responses=responses(404, 422, 503), summary="A calibration")
def get_calibration(
    name: SystemName, saved_id: Annotated[UUID, Depends(id_in_path)], database: OpenDatabase
) -> StoredCalibration:
    """The calibration with its fit, its intervals and its warnings."""
    row = calibrations.saved_calibration(database, name, saved_id)
    return StoredCalibration(**_summary(row).model_dump(), calibration=Calibration.model_validate(row.calibration))


def _stored(database: Database, name: str, fitted: bytes, chosen: Sequence[RunRow], by: Actor) -> StoredCalibration:
    calibration = Calibration.model_validate_json(fitted)
    used = [run for run in chosen if run.run_id in calibration.run_ids]
    row = calibrations.save_calibration(database, name, calibration, runs=used, by=by)
    return StoredCalibration(**_summary(row).model_dump(), calibration=calibration)


def _summary(row: CalibrationRow) -> CalibrationSummary:
    return CalibrationSummary(
        id=row.id,
        created_at=row.created_at,
        code_version=row.code_version,
        run_ids=row.calibration["run_ids"],
        engine=row.calibration["engine"],
        grade=row.calibration["grade"],
        profile=row.calibration["profile"],
    )
