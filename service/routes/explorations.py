"""What if: the inverse questions, and many jobs on one storage system. Nothing is stored."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Depends, Request
from starlette.responses import Response

from service import heavy
from service.compute import ComputePool
from service.errors import explained
from service.json_bodies import JsonRoute
from service.problems import responses
from sizing.explore.clusters.report import ClusterReport
from sizing.explore.clusters.scenario import REFERENCE_CLUSTER, ClusterScenario
from sizing.explore.requirements.report import RequirementsReport
from sizing.scenario import REFERENCE_SCENARIO, Scenario

router = APIRouter(prefix="/v1", tags=["what if"], route_class=JsonRoute)

_REFUSALS = responses(400, 408, 413, 415, 422, 503)


def compute_of(request: Request) -> ComputePool:
    """The processes for heavy questions."""
    pool: ComputePool = request.app.state.compute
    return pool


Compute = Annotated[ComputePool, Depends(compute_of)]


@router.post(
    "/requirements",
    response_model=RequirementsReport,
    responses=_REFUSALS,
    summary="Solve for what meets the targets",
)
async def create_requirements(
    scenario: Annotated[
        Scenario,
        explained(Scenario),
        Body(openapi_examples={"reference": {"summary": "A published run of 1T", "value": REFERENCE_SCENARIO}}),
    ],
    compute: Compute,
) -> Response:
    """The least bandwidth and capacity, and the shortest and longest interval, that meet the scenario's targets."""
    return _json(await compute.run(heavy.requirements_json, scenario))


@router.post(
    "/clusters",
    response_model=ClusterReport,
    responses=_REFUSALS,
    summary="Size many jobs on one storage system",
)
async def create_cluster(
    scenario: Annotated[
        ClusterScenario,
        explained(ClusterScenario),
        Body(openapi_examples={"reference": {"summary": "1T beside forty of 8B", "value": REFERENCE_CLUSTER}}),
    ],
    compute: Compute,
) -> Response:
    """What many jobs on one storage system do to each other: stalls, peak, restore storms, what to buy."""
    return _json(await compute.run(heavy.cluster_json, scenario))


def _json(document: bytes) -> Response:
    return Response(document, media_type="application/json")
