"""Calibrations of a storage system: profiles fitted to its published runs."""

from __future__ import annotations

import functools
from typing import Annotated, Self
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Header, Path, Query
from pydantic import ConfigDict, Field, model_validator
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.access.scopes import OpenDatabase, Writer
from service.answers import heavy
from service.compute.pool import Compute
from service.database import calibrations
from service.database.calibrations import MAX_RUNS, FitRequest, select_runs
from service.errors import NotFound, explained
from service.http.problems import described_headers, responses
from service.reports import IN_WORDS, choose_form, contents_of, respond_with_document
from service.routes.json_route import JsonRoute
from service.routes.pagination import PageQuery, page_of
from service.routes.storage_systems import SystemName
from service_client.documents import CalibrationSummary, Page, StoredCalibration
from sizing.errors import broken_rule
from sizing.present.calibrations import calibration_document
from sizing.storage.calibration import Calibration, Publisher
from sizing.strict_model import InputModel
from sizing.units.inputs import Moment

router = APIRouter(prefix="/v1/storage-systems/{name}/calibrations", tags=["calibrations"], route_class=JsonRoute)

RunId = Annotated[str, Field(min_length=1, max_length=64)]


class NewCalibration(InputModel):
    """From which runs to calibrate, and where they have several engines, for which."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"run_ids": ["20261121T120000Z-1a2b3c"]}]})

    run_ids: Annotated[tuple[RunId, ...], Field(min_length=1, max_length=MAX_RUNS)] | None = Field(
        None,
        description="Ids of the published runs to fit. Default: those of the window, without what contradicts others.",
    )
    published_since: Moment | None = Field(
        None, description="Earliest time of publication of the runs to fit. Default: any time."
    )
    published_before: Moment | None = Field(
        None, description="Time before which the runs to fit were published. Default: any time."
    )
    latest: Annotated[int, Field(ge=1, le=MAX_RUNS)] | None = Field(
        None,
        description="Max runs to fit, the newest of the window. Default: the newest of each token in turn, as many as "
        "have 1,000 measurements together.",
    )
    engine: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        None,
        description="Engine whose measurements are fitted, such as direct. "
        "Default: the one with the most configurations.",
    )

    @model_validator(mode="after")
    def _ids_or_window(self) -> Self:
        window = (self.published_since, self.published_before, self.latest)
        if self.run_ids is not None and any(bound is not None for bound in window):
            raise broken_rule("must not have both run_ids and a window", "give run_ids, or a window, or neither")
        return self


class CalibrationPage(Page[CalibrationSummary]):
    """Some of the calibrations, the newest first."""


def id_in_path(calibration_id: Annotated[str, Path(description="Id of a calibration of this storage system.")]) -> UUID:
    """Parse the id of a calibration. Any other text becomes the id of nothing."""
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
    responses={201: described_headers("Location"), **responses(400, 401, 403, 404, 408, 409, 413, 415, 422, 503, 507)},
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
    """Fit a profile to published runs and save it. A scenario uses it with `{"storage": {"calibration": ID}}`.

    Without `run_ids`, no single run blocks it: `left_out` names those that were withdrawn, that contradict others, or
    that are older than the newest with 1,000 measurements. Each token that published has one voice, however many runs.
    """
    async with compute.turn() as ask:  # documents of all runs are large: those of one calibration at a time
        request = FitRequest(**new.model_dump(exclude={"engine"}))
        selection = await run_in_threadpool(select_runs, database, name, request)
        documents = {run.run_id: run.document for run in selection.rows}
        sources = {
            run.run_id: Publisher(run.publisher, run.publisher in run.system.owners, run.token.created_at)
            for run in selection.rows
        }
        fit_runs = functools.partial(heavy.fit_json, named=new.run_ids is not None, sources=sources)
        content = await ask(fit_runs, documents, new.engine)

    def save() -> StoredCalibration:
        fit = heavy.CalibrationFit.model_validate_json(content)
        runs = [run for run in selection.rows if run.run_id in fit.calibration.run_ids]
        left_out = selection.left_out | fit.left_out
        row = calibrations.save_calibration(database, name, fit.calibration, runs=runs, left_out=left_out, by=by)
        return StoredCalibration(**calibrations.calibration_summary(row).model_dump(), calibration=fit.calibration)

    calibration = await run_in_threadpool(save)
    response.headers["Location"] = f"{router.prefix.format(name=name)}/{calibration.id}"
    return calibration


@router.get("", responses=responses(404, 422, 503), summary="List the calibrations of a storage system")
def list_calibrations(
    name: SystemName, page: Annotated[PageQuery, explained(PageQuery), Query()], database: OpenDatabase
) -> CalibrationPage:
    """A page of the calibrations, newest first."""
    rows = calibrations.list_calibrations(database, name, limit=page.limit + 1, before=page.cursor)
    return page_of(CalibrationPage, rows, page.limit, calibrations.calibration_summary, lambda row: str(row.id))


@router.get(
    "/{calibration_id}",
    response_model=StoredCalibration,
    responses={200: {"content": contents_of(*IN_WORDS)}, **responses(404, 406, 422, 503)},
    summary="A calibration",
)
def get_calibration(
    name: SystemName,
    saved_id: Annotated[UUID, Depends(id_in_path)],
    database: OpenDatabase,
    accept: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> StoredCalibration | Response:
    """The calibration with its fit, its intervals and its warnings.

    As JSON, or in words and charts as data, by `Accept`.
    """
    form = choose_form(accept, among=IN_WORDS)
    row = calibrations.read_calibration(database, name, saved_id)
    if form == "presentation":
        return respond_with_document(calibration_document(Calibration.model_validate(row.calibration)))
    return StoredCalibration(
        **calibrations.calibration_summary(row).model_dump(), calibration=Calibration.model_validate(row.calibration)
    )
