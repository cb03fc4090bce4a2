"""What if: inverse questions, sweeps, comparisons, layouts, many jobs on one storage system. Nothing is stored."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Header
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.access.scopes import OpenDatabase
from service.answers import heavy
from service.answers.calibrated import (
    cluster_with_calibration,
    comparison_with_calibrations,
    document_with_calibrations,
    question_with_calibration,
    with_calibration,
)
from service.compute.pool import Compute
from service.errors import explained
from service.http.problems import responses
from service.reports.forms import PAGES, contents_of, form_wanted, report_response
from service.routes.json_route import JsonRoute
from sizing.explore.clusters.cluster_report import ClusterReport
from sizing.explore.clusters.cluster_scenario import REFERENCE_CLUSTER, ClusterScenario
from sizing.explore.comparisons.comparison_report import ComparisonReport
from sizing.explore.comparisons.comparison_request import REFERENCE_COMPARISON, ComparisonRequest
from sizing.explore.layouts.layouts_report import LayoutsReport
from sizing.explore.layouts.layouts_request import REFERENCE_SEARCH, LayoutsRequest
from sizing.explore.requirements.requirements_report import RequirementsReport
from sizing.explore.scenario_simulation import REFERENCE_SIMULATION, ScenarioSimulation
from sizing.explore.sensitivities.sensitivity_report import SensitivityReport
from sizing.explore.sensitivities.sensitivity_request import REFERENCE_SENSITIVITY, SensitivityRequest
from sizing.explore.sweeps.sweep_report import SweepReport
from sizing.explore.sweeps.sweep_request import REFERENCE_SWEEP, SweepRequest
from sizing.run.simulation.simulation_report import SimulationReport
from sizing.scenario import REFERENCE_SCENARIO, Scenario

router = APIRouter(prefix="/v1", tags=["what if"], route_class=JsonRoute)

Accept = Annotated[str | None, Header(include_in_schema=False)]
"""What decides whether an answer is JSON, a page to read (HTML), or PDF."""
_REFUSALS = responses(400, 406, 408, 413, 415, 422, 503)
_RESPONSES = {200: {"content": contents_of(*PAGES)}, **_REFUSALS}


@router.post(
    "/requirements",
    response_model=RequirementsReport,
    responses=_RESPONSES,
    summary="Find the storage that meets the targets",
)
async def create_requirements(
    scenario: Annotated[
        Scenario,
        explained(Scenario),
        Body(openapi_examples={"reference": {"summary": "A published run of 1T", "value": REFERENCE_SCENARIO}}),
    ],
    compute: Compute,
    database: OpenDatabase,
    accept: Accept = None,
) -> Response:
    """The min bandwidth and capacity, and the min and max interval, that meet the targets of the scenario.

    As JSON, as a page to read (HTML) or as PDF, by `Accept`.
    """
    form = form_wanted(accept, among=PAGES)
    calibrated = await run_in_threadpool(with_calibration, database, scenario)
    return report_response(form, await compute.run(heavy.requirements_in, form, calibrated))


@router.post(
    "/comparisons",
    response_model=ComparisonReport,
    responses=_RESPONSES,
    summary="Compare scenarios",
)
async def create_comparison(
    request: Annotated[
        ComparisonRequest,
        explained(ComparisonRequest),
        Body(openapi_examples={"reference": {"summary": "Slower storage, hourly", "value": REFERENCE_COMPARISON}}),
    ],
    compute: Compute,
    database: OpenDatabase,
    accept: Accept = None,
) -> Response:
    """Which inputs of two to ten scenarios differ, which figures follow, and which input made which difference.

    As JSON, as a page to read (HTML) or as PDF, by `Accept`.
    """
    form = form_wanted(accept, among=PAGES)
    calibrated = await run_in_threadpool(comparison_with_calibrations, database, request)
    return report_response(form, await compute.run(heavy.comparison_in, form, calibrated))


@router.post(
    "/layouts",
    response_model=LayoutsReport,
    responses=_RESPONSES,
    summary="Find the layouts that fit the GPUs",
)
async def create_layouts(
    request: Annotated[
        LayoutsRequest,
        explained(LayoutsRequest),
        Body(openapi_examples={"reference": {"summary": "405B on 16,384 GPUs", "value": REFERENCE_SEARCH}}),
    ],
    compute: Compute,
    database: OpenDatabase,
    accept: Accept = None,
) -> Response:
    """All degrees with which a model fits `cluster.num_gpus`, ranked by an objective, with their storage needs.

    As JSON, as a page to read (HTML) or as PDF, by `Accept`.
    """
    form = form_wanted(accept, among=PAGES)
    calibrated = await run_in_threadpool(question_with_calibration, database, request)
    return report_response(form, await compute.run(heavy.layouts_in, form, calibrated))


@router.post(
    "/clusters",
    response_model=ClusterReport,
    responses=_RESPONSES,
    summary="Size many jobs on one storage system",
)
async def create_cluster(
    scenario: Annotated[
        ClusterScenario,
        explained(ClusterScenario),
        Body(openapi_examples={"reference": {"summary": "1T beside forty of 8B", "value": REFERENCE_CLUSTER}}),
    ],
    compute: Compute,
    database: OpenDatabase,
    accept: Accept = None,
) -> Response:
    """Many jobs on one storage system: stalls under contention, peak, restore storms, bandwidth to buy.

    As JSON, as a page to read (HTML) or as PDF, by `Accept`.
    """
    form = form_wanted(accept, among=PAGES)
    calibrated = await run_in_threadpool(cluster_with_calibration, database, scenario)
    return report_response(form, await compute.run(heavy.cluster_in, form, calibrated))


@router.post(
    "/sensitivities",
    response_model=SensitivityReport,
    responses=_REFUSALS,
    summary="Find the inputs that move the answer most",
)
async def create_sensitivity(
    request: Annotated[
        SensitivityRequest,
        explained(SensitivityRequest),
        Body(openapi_examples={"reference": {"summary": "Lost time of 1T", "value": REFERENCE_SENSITIVITY}}),
    ],
    compute: Compute,
    database: OpenDatabase,
) -> Response:
    """Each given input varied alone over its range, and what the headline figure becomes; the largest swing first."""
    calibrated = await run_in_threadpool(question_with_calibration, database, request)
    content = await compute.run(heavy.sensitivity_json, calibrated)
    return Response(content, media_type="application/json")


@router.post(
    "/simulations",
    response_model=SimulationReport,
    responses=_RESPONSES,
    summary="Simulate a run with random failures",
)
async def create_simulation(
    question: Annotated[
        ScenarioSimulation,
        explained(ScenarioSimulation),
        Body(openapi_examples={"reference": {"summary": "A thousand months of 1T", "value": REFERENCE_SIMULATION}}),
    ],
    compute: Compute,
    database: OpenDatabase,
    accept: Accept = None,
) -> Response:
    """Goodput under random failures, its standard error and its spread over runs, next to the formula's.

    As JSON, as a page to read (HTML) or as PDF, by `Accept`.
    """
    form = form_wanted(accept, among=PAGES)
    calibrated = await run_in_threadpool(question_with_calibration, database, question)
    return report_response(form, await compute.run(heavy.simulation_in, form, calibrated))


@router.post(
    "/sweeps",
    response_model=SweepReport,
    responses={200: {"content": contents_of()}, **_REFUSALS},
    summary="Sweep fields of a scenario",
)
async def create_sweep(
    request: Annotated[
        SweepRequest,
        explained(SweepRequest),
        Body(openapi_examples={"reference": {"summary": "What bandwidth buys in goodput", "value": REFERENCE_SWEEP}}),
    ],
    compute: Compute,
    database: OpenDatabase,
    accept: Accept = None,
) -> Response:
    """A scenario in which any field is a list or a range: a row for each combination, and the Pareto front.

    As JSON, as a page to read (HTML), as PDF, or the rows as CSV, by `Accept`.
    """
    form = form_wanted(accept)
    scenario = await run_in_threadpool(document_with_calibrations, database, request.scenario)
    asked = request.model_dump(mode="json", exclude_unset=True) | {"scenario": scenario}
    return report_response(form, await compute.run(heavy.sweep_in, form, asked))
