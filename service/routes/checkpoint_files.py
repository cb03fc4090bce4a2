"""What the files of existing checkpoints tell. Nothing is stored beyond a job."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Header
from starlette.responses import Response

from service.compute.asking import ACCEPTED, NowOrAsJob
from service.errors import explained
from service.http.problems import responses
from service.reports import PAGES, choose_form, contents_of
from service.routes.json_route import ResultRoute
from sizing.checkpoint_files.contents import CheckpointContents
from sizing.checkpoint_files.sent import REFERENCE_FILE, SentFile

Accept = Annotated[str | None, Header(include_in_schema=False)]
_REFUSALS = responses(400, 406, 408, 413, 415, 422, 501, 503)

inspections = APIRouter(prefix="/v1", tags=["checkpoints"], route_class=ResultRoute)


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
    asking: NowOrAsJob,
    accept: Accept = None,
) -> Response:
    """What an index or header tells of a checkpoint: parameters, dtypes, bytes by part. No pickle is run.

    As JSON, as a page to read (HTML) or as PDF, by `Accept`.
    """
    form = choose_form(accept, among=PAGES)
    return await asking.answer(form, file)
