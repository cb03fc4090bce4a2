"""The files of checkpoints: those that a scenario would write, and those that exist already. Nothing is stored."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Header
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.access.scopes import OpenDatabase
from service.answers import heavy
from service.answers.calibrated import question_with_calibration
from service.compute.asking import ACCEPTED, AskedSoonOrLater
from service.errors import explained
from service.http.problems import responses
from service.reports.forms import PAGES, contents_of, form_wanted
from service.routes.json_route import JsonRoute, ResultRoute
from sizing.checkpoint_files.contents import CheckpointContents
from sizing.checkpoint_files.sent import REFERENCE_FILE, SentFile
from sizing.explore.manifests.manifest_report import ManifestReport
from sizing.explore.manifests.manifest_request import REFERENCE_MANIFEST, ManifestRequest

Accept = Annotated[str | None, Header(include_in_schema=False)]
_REFUSALS = responses(400, 406, 408, 413, 415, 422, 503)

router = APIRouter(prefix="/v1", tags=["checkpoints"], route_class=JsonRoute)
inspections = APIRouter(prefix="/v1", tags=["checkpoints"], route_class=ResultRoute)


@router.post(
    "/manifests",
    response_model=ManifestReport,
    responses={200: {"content": contents_of()}, **ACCEPTED, **_REFUSALS},
    summary="List the files of a checkpoint",
)
async def create_manifest(
    request: Annotated[
        ManifestRequest,
        explained(ManifestRequest),
        Body(openapi_examples={"reference": {"summary": "First files of 1T", "value": REFERENCE_MANIFEST}}),
    ],
    asking: AskedSoonOrLater,
    database: OpenDatabase,
    accept: Accept = None,
) -> Response:
    """The files of a checkpoint: by class of ranks, and one by one with the rank and node that writes each.

    As JSON, as a page to read (HTML), as PDF, or all files as CSV, by `Accept`.
    """
    form = form_wanted(accept)
    calibrated = await run_in_threadpool(question_with_calibration, database, request)
    return await asking.answered(form, heavy.manifest_in, form, calibrated)


@inspections.post(
    "/inspections",
    response_model=CheckpointContents,
    responses={200: {"content": contents_of(*PAGES)}, **ACCEPTED, **_REFUSALS},
    summary="Read the sizes off an existing checkpoint",
)
async def create_inspection(
    file: Annotated[
        SentFile,
        explained(SentFile),
        Body(openapi_examples={"reference": {"summary": "An index of safetensors", "value": REFERENCE_FILE}}),
    ],
    asking: AskedSoonOrLater,
    accept: Accept = None,
) -> Response:
    """What an index or header tells of a checkpoint: parameters, dtypes, bytes by part. No pickle is run.

    As JSON, as a page to read (HTML) or as PDF, by `Accept`.
    """
    form = form_wanted(accept, among=PAGES)
    return await asking.answered(form, heavy.inspection_in, form, file)
