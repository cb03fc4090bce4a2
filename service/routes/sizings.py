"""Answers: Scenario in, SizingReport out. Nothing is stored."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Header
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.access.scopes import OpenDatabase
from service.answers import heavy
from service.answers.calibrated import with_calibration
from service.answers.quick import QuickAnswers
from service.compute.pool import Compute
from service.errors import explained
from service.http.json_bodies import JsonRequest
from service.http.problems import responses
from service.reports.asked import Asked
from service.reports.forms import FORMS, contents_of, form_wanted, report_response
from service.routes.json_route import JsonRoute
from service.telemetry.metrics import Metrics
from sizing.report import SizingReport
from sizing.scenario import REFERENCE_SCENARIO, Scenario

router = APIRouter(prefix="/v1", tags=["sizings"], route_class=JsonRoute)


@router.post(
    "/sizings",
    response_model=SizingReport,
    responses={200: {"content": contents_of()}, **responses(400, 406, 408, 413, 415, 422, 503)},
    summary="Answer a scenario",
)
async def create_sizing(
    scenario: Annotated[
        Scenario,
        explained(Scenario),
        Body(openapi_examples={"reference": {"summary": "A published run of 1T", "value": REFERENCE_SCENARIO}}),
    ],
    request: JsonRequest,
    compute: Compute,
    database: OpenDatabase,
    accept: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Response:
    """Size, times, overhead, costs and requirements of the scenario's checkpoints. Nothing is stored.

    As JSON, or as a page to read (HTML), PDF or CSV by `Accept`.
    """
    form = form_wanted(accept)
    if form == "json":
        quick: QuickAnswers = request.app.state.quick_answers
        content = (await quick.answer(scenario)).model_dump_json().encode()
    else:
        calibrated = await run_in_threadpool(with_calibration, database, scenario)
        beside = compute.run if FORMS[form].has_charts else run_in_threadpool
        content = await beside(heavy.sizing_in, form, Asked(request.document), calibrated)
    metrics: Metrics = request.app.state.metrics
    metrics.sizings.inc()
    return report_response(form, content)
