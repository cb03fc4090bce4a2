"""Offers as tables of spreadsheets, read and written. Nothing is stored beyond a job."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body
from starlette.responses import Response

from service.compute.asking import ACCEPTED, NowOrAsJob
from service.errors import explained
from service.http.problems import responses
from service.routes.json_route import ResultRoute
from sizing.offer_tables import REFERENCE_OFFER_TABLE, OfferTable, OfferTableRequest

router = APIRouter(prefix="/v1", tags=["what if"], route_class=ResultRoute)


@router.post(
    "/offer-tables",
    response_model=OfferTable,
    responses={**ACCEPTED, **responses(400, 406, 408, 413, 415, 422, 503)},
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
