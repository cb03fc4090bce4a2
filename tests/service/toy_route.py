"""The size of one checkpoint alone, for who needs no report."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body

from service.errors import explained
from service.http.problems import responses
from service.routes.json_route import JsonRoute
from sizing.layout.size import CheckpointSize
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, Scenario

router = APIRouter(prefix="/v1", tags=["sizings"], route_class=JsonRoute)


@router.post("/checkpoints", responses=responses(400, 408, 413, 415, 422), summary="Size one checkpoint")
def create_checkpoint(
    scenario: Annotated[
        Scenario,
        explained(Scenario),
        Body(openapi_examples={"reference": {"summary": "A published run of 1T", "value": REFERENCE_SCENARIO}}),
    ],
) -> CheckpointSize:
    """The bytes of one checkpoint by part and by file. Nothing is stored."""
    return answer(scenario).checkpoint
