"""Answers: Scenario in, SizingReport out. Nothing is stored."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Request
from starlette.responses import Response

from service.answers.quick import QuickAnswers
from service.errors import explained
from service.http.problems import responses
from service.routes.json_route import JsonRoute
from service.telemetry.metrics import Metrics
from sizing.report import SizingReport
from sizing.scenario import REFERENCE_SCENARIO, Scenario

router = APIRouter(prefix="/v1", tags=["sizings"], route_class=JsonRoute)


@router.post(
    "/sizings",
    response_model=SizingReport,
    responses=responses(400, 408, 413, 415, 422),
    summary="Answer a scenario",
)
async def create_sizing(
    scenario: Annotated[
        Scenario,
        explained(Scenario),
        Body(openapi_examples={"reference": {"summary": "A published run of 1T", "value": REFERENCE_SCENARIO}}),
    ],
    request: Request,
) -> Response:
    """Size, times, overhead, costs and requirements of the scenario's checkpoints. Nothing is stored."""
    quick: QuickAnswers = request.app.state.quick_answers
    metrics: Metrics = request.app.state.metrics
    report = await quick.answer(scenario)
    metrics.sizings.inc()
    return report_response(report)


def report_response(report: SizingReport) -> Response:
    """A report as it is sent: serialized once, and not validated again."""
    return Response(report.model_dump_json(), media_type="application/json")
