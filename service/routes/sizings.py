"""`/v1/sizings`: a Scenario in, a SizingReport out. Stateless."""

from __future__ import annotations

from fastapi import APIRouter, Response

from service.problems import RESPONSES
from sizing.report import SizingReport, answer
from sizing.scenario import Scenario

router = APIRouter(tags=["sizing"])


@router.post("/v1/sizings", response_model=SizingReport, responses=RESPONSES)
async def size(scenario: Scenario) -> Response:
    """What a checkpoint of the scenario weighs, takes, costs and needs.

    Only `model` is required; what was assumed for the rest stands in `assumptions`.
    """
    return Response(answer(scenario).model_dump_json(), media_type="application/json")
