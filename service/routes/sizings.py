"""Answers: Scenario in, SizingReport out. Nothing is stored."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Header
from starlette.responses import Response

from service.answers import heavy
from service.compute.asking import ACCEPTED, AskedSoonOrLater, Asking
from service.compute.sizings import AnyCost, Sizings
from service.errors import OutOfTime, explained
from service.http.json_bodies import JsonRequest
from service.http.problems import responses
from service.reports.asked import Asked
from service.reports.forms import contents_of, form_wanted, report_response
from service.routes.json_route import JsonRoute
from service.telemetry.metrics import Metrics
from service_client.terms import ReportForm
from sizing.report import SizingReport
from sizing.scenario import REFERENCE_SCENARIO, Scenario

router = APIRouter(prefix="/v1", tags=["sizings"], route_class=JsonRoute)


@router.post(
    "/sizings",
    response_model=SizingReport,
    responses={200: {"content": contents_of()}, **ACCEPTED, **responses(400, 406, 408, 413, 415, 422, 503)},
    summary="Answer a scenario",
)
async def create_sizing(
    scenario: Annotated[
        Scenario,
        explained(Scenario),
        Body(openapi_examples={"reference": {"summary": "A published run of 1T", "value": REFERENCE_SCENARIO}}),
    ],
    request: JsonRequest,
    sizings: AnyCost,
    asking: AskedSoonOrLater,
    accept: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Response:
    """Size, times, overhead, costs and requirements of the scenario's checkpoints. Nothing is stored.

    Where degrees are left open, they are those of the best layout that fits the number of GPUs.
    As JSON, or as a page to read (HTML), PDF or CSV by `Accept`.
    """
    form = form_wanted(accept)
    if asking.is_job:
        return await _accepted(asking, sizings, form, request, scenario)
    try:
        content = await sizings.answered_again(request, form, Asked(request.document), scenario)
    except OutOfTime:
        return await _accepted(asking, sizings, form, request, scenario)
    metrics: Metrics = request.app.state.metrics
    metrics.sizings.inc()
    return report_response(form, content)


async def _accepted(
    asking: Asking, sizings: Sizings, form: ReportForm, request: JsonRequest, scenario: Scenario
) -> Response:
    """Where the job is found that answers the scenario."""
    calibrated = await sizings.calibrated(scenario)
    return await asking.accepted(form, heavy.sizing_in, form, Asked(request.document), calibrated)
