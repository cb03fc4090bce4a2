"""Files of other programs, read as documents: config files of a training, and tables of offers.

Nothing of them is logged, or stored beyond a job.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body
from starlette.responses import Response

from service.compute.asking import ACCEPTED, NowOrAsJob
from service.errors import explained
from service.http.problems import responses
from service.routes.json_route import ResultRoute
from sizing.importers import ImportReport, ImportRequest
from sizing.importers.request import REFERENCE_IMPORT
from sizing.offer_tables import REFERENCE_OFFER_TABLE, OfferTable, OfferTableRequest

config_files = APIRouter(prefix="/v1", tags=["checkpoints"], route_class=ResultRoute)
offer_tables = APIRouter(prefix="/v1", tags=["what if"], route_class=ResultRoute)


@config_files.post(
    "/imports",
    response_model=ImportReport,
    responses={**ACCEPTED, **responses(400, 406, 408, 413, 415, 422, 503)},
    summary="Read config files of a training as a scenario",
)
async def create_import(
    request: Annotated[
        ImportRequest,
        explained(ImportRequest),
        Body(openapi_examples={"reference": {"summary": "A TOML of torchtitan", "value": REFERENCE_IMPORT}}),
    ],
    asking: NowOrAsJob,
) -> Response:
    """The scenario that the files describe, what each setting became, and which fields an answer still needs.

    Scripts are parsed and never run. Values of settings that did not become a field are left out of the answer.
    """
    return await asking.answer("json", request)


@offer_tables.post(
    "/offer-tables",
    response_model=OfferTable,
    responses={**ACCEPTED, **responses(400, 406, 408, 413, 415, 422, 501, 503)},
    summary="Read or write offers as a table of a spreadsheet",
)
async def create_offer_table(
    request: Annotated[
        OfferTableRequest,
        explained(OfferTableRequest),
        Body(openapi_examples={"reference": {"summary": "Pasted cells", "value": REFERENCE_OFFER_TABLE}}),
    ],
    asking: NowOrAsJob,
) -> Response:
    """The offers of a table, or offers that are sent, as a decision takes them and as CSV and xlsx."""
    return await asking.answer("json", request)
