"""What if: inverse questions, sweeps, comparisons, layouts, many jobs on one storage system. Nothing is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import APIRouter, Body, Header
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.access.scopes import OpenDatabase
from service.answers import heavy
from service.answers.calibrated import (
    cluster_with_calibration,
    comparison_with_calibrations,
    decision_with_calibrations,
    document_with_calibrations,
    question_with_calibration,
    with_calibration,
)
from service.compute.asking import ACCEPTED, AskedSoonOrLater, Asking
from service.database import Database
from service.errors import explained
from service.http.problems import responses
from service.reports.forms import PAGES, contents_of, form_wanted
from service.routes.json_route import JsonRoute
from sizing.explore.clusters.cluster_report import ClusterReport
from sizing.explore.clusters.cluster_scenario import REFERENCE_CLUSTER, ClusterScenario
from sizing.explore.comparisons.comparison_report import ComparisonReport
from sizing.explore.comparisons.comparison_request import REFERENCE_COMPARISON, ComparisonRequest
from sizing.explore.decisions.decision_report import DecisionReport
from sizing.explore.decisions.decision_request import REFERENCE_DECISION, DecisionRequest
from sizing.explore.layouts.layouts_report import LayoutsReport
from sizing.explore.layouts.layouts_request import REFERENCE_SEARCH, LayoutsRequest
from sizing.explore.rematerializations.rematerialization_report import RematerializationReport
from sizing.explore.rematerializations.rematerialization_request import (
    REFERENCE_REMATERIALIZATION,
    RematerializationRequest,
)
from sizing.explore.requirements.requirements_report import RequirementsReport
from sizing.explore.scenario_simulation import REFERENCE_SIMULATION, ScenarioSimulation
from sizing.explore.sensitivities.sensitivity_report import SensitivityReport
from sizing.explore.sensitivities.sensitivity_request import REFERENCE_SENSITIVITY, SensitivityRequest
from sizing.explore.stages.stages_report import StagesReport
from sizing.explore.stages.stages_request import REFERENCE_STAGES, StagesRequest
from sizing.explore.sweeps.sweep_report import SweepReport
from sizing.explore.sweeps.sweep_request import REFERENCE_SWEEP, SweepRequest
from sizing.explore.techniques.techniques_report import REFERENCE_TECHNIQUES, TechniquesReport, TechniquesRequest
from sizing.run.simulation.simulation_report import SimulationReport
from sizing.scenario import REFERENCE_SCENARIO, Scenario

Question = TypeVar("Question", bound=BaseModel)

router = APIRouter(prefix="/v1", tags=["what if"], route_class=JsonRoute)

Accept = Annotated[str | None, Header(include_in_schema=False)]
"""What decides whether an answer is JSON, a page to read (HTML), or PDF."""
_REFUSALS = responses(400, 406, 408, 413, 415, 422, 503)
_RESPONSES = {200: {"content": contents_of(*PAGES)}, **ACCEPTED, **_REFUSALS}


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
    asking: AskedSoonOrLater,
    database: OpenDatabase,
    accept: Accept = None,
) -> Response:
    """The min bandwidth and capacity, and the min and max interval, that meet the targets of the scenario.

    As JSON, as a page to read (HTML) or as PDF, by `Accept`.
    """
    return await _answered(asking, accept, with_calibration, database, scenario)


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
    asking: AskedSoonOrLater,
    database: OpenDatabase,
    accept: Accept = None,
) -> Response:
    """Which inputs of two to ten scenarios differ, which figures follow, and which input made which difference.

    As JSON, as a page to read (HTML) or as PDF, by `Accept`.
    """
    return await _answered(asking, accept, comparison_with_calibrations, database, request)


@router.post(
    "/decisions",
    response_model=DecisionReport,
    responses=_RESPONSES,
    summary="Decide which offer to buy",
)
async def create_decision(
    request: Annotated[
        DecisionRequest,
        explained(DecisionRequest),
        Body(openapi_examples={"reference": {"summary": "Two file systems for 1T", "value": REFERENCE_DECISION}}),
    ],
    asking: AskedSoonOrLater,
    database: OpenDatabase,
    accept: Accept = None,
) -> Response:
    """Which of up to 20 offers is enough for the workloads, and which costs least with the GPU time that it loses.

    As JSON, as a page to read (HTML) or as PDF, by `Accept`.
    """
    return await _answered(asking, accept, decision_with_calibrations, database, request)


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
    asking: AskedSoonOrLater,
    database: OpenDatabase,
    accept: Accept = None,
) -> Response:
    """All degrees with which a model fits `cluster.num_gpus`, ranked by an objective, with their storage needs.

    As JSON, as a page to read (HTML) or as PDF, by `Accept`.
    """
    return await _answered(asking, accept, question_with_calibration, database, request)


@router.post(
    "/rematerializations",
    response_model=RematerializationReport,
    responses=_RESPONSES,
    summary="Say which layers to compute again",
)
async def create_rematerialization(
    request: Annotated[
        RematerializationRequest,
        explained(RematerializationRequest),
        Body(openapi_examples={"reference": {"summary": "GPT-3, batch doubled", "value": REFERENCE_REMATERIALIZATION}}),
    ],
    asking: AskedSoonOrLater,
    database: OpenDatabase,
    accept: Accept = None,
) -> Response:
    """Which layers of each pipeline stage to compute again so that the batch fits the GPUs, and what that costs.

    As JSON, as a page to read (HTML) or as PDF, by `Accept`.
    """
    return await _answered(asking, accept, question_with_calibration, database, request)


@router.post(
    "/stages",
    response_model=StagesReport,
    responses=_RESPONSES,
    summary="Balance pipeline stages over unlike nodes",
)
async def create_stages(
    request: Annotated[
        StagesRequest,
        explained(StagesRequest),
        Body(openapi_examples={"reference": {"summary": "70B on A100 and H100", "value": REFERENCE_STAGES}}),
    ],
    asking: AskedSoonOrLater,
    database: OpenDatabase,
    accept: Accept = None,
) -> Response:
    """Which layers to put on which kind of node so that no stage waits long, and which nodes write how much then.

    As JSON, as a page to read (HTML) or as PDF, by `Accept`.
    """
    return await _answered(asking, accept, question_with_calibration, database, request)


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
    asking: AskedSoonOrLater,
    database: OpenDatabase,
    accept: Accept = None,
) -> Response:
    """Many jobs on one storage system: stalls under contention, peak, restore storms, bandwidth to buy.

    As JSON, as a page to read (HTML) or as PDF, by `Accept`.
    """
    return await _answered(asking, accept, cluster_with_calibration, database, scenario)


@router.post(
    "/sensitivities",
    response_model=SensitivityReport,
    responses=_RESPONSES,
    summary="Find the inputs that move the answer most",
)
async def create_sensitivity(
    request: Annotated[
        SensitivityRequest,
        explained(SensitivityRequest),
        Body(openapi_examples={"reference": {"summary": "Lost time of 1T", "value": REFERENCE_SENSITIVITY}}),
    ],
    asking: AskedSoonOrLater,
    database: OpenDatabase,
    accept: Accept = None,
) -> Response:
    """Each given input varied alone over its range, and what the headline figure becomes; the largest swing first.

    As JSON, as a page to read (HTML) or as PDF, by `Accept`.
    """
    return await _answered(asking, accept, question_with_calibration, database, request)


@router.post(
    "/techniques",
    response_model=TechniquesReport,
    responses=_RESPONSES,
    summary="Try the training techniques on a scenario",
)
async def create_techniques(
    request: Annotated[
        TechniquesRequest,
        explained(TechniquesRequest),
        Body(openapi_examples={"reference": {"summary": "70B on 512 GPUs", "value": REFERENCE_TECHNIQUES}}),
    ],
    asking: AskedSoonOrLater,
    database: OpenDatabase,
    accept: Accept = None,
) -> Response:
    """Each technique of the catalog: the fields that apply it and the figures that it moves, or why it does not apply.

    As JSON, as a page to read (HTML) or as PDF, by `Accept`.
    """
    return await _answered(asking, accept, question_with_calibration, database, request)


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
    asking: AskedSoonOrLater,
    database: OpenDatabase,
    accept: Accept = None,
) -> Response:
    """Goodput under random failures, its standard error and its spread over runs, next to the formula's.

    As JSON, as a page to read (HTML) or as PDF, by `Accept`.
    """
    return await _answered(asking, accept, question_with_calibration, database, question)


@router.post(
    "/sweeps",
    response_model=SweepReport,
    responses={200: {"content": contents_of()}, **ACCEPTED, **_REFUSALS},
    summary="Sweep fields of a scenario",
)
async def create_sweep(
    request: Annotated[
        SweepRequest,
        explained(SweepRequest),
        Body(openapi_examples={"reference": {"summary": "What bandwidth buys in goodput", "value": REFERENCE_SWEEP}}),
    ],
    asking: AskedSoonOrLater,
    database: OpenDatabase,
    accept: Accept = None,
) -> Response:
    """A scenario in which any field is a list or a range: a row for each combination, and the Pareto front.

    As JSON, as a page to read (HTML), as PDF, or the rows as CSV, by `Accept`.
    """
    form = form_wanted(accept)
    scenario = await run_in_threadpool(document_with_calibrations, database, request.scenario)
    asked = request.model_dump(mode="json", exclude_unset=True) | {"scenario": scenario}
    return await asking.answered(form, heavy.sweep_in, form, asked)


async def _answered(
    asking: Asking,
    accept: str | None,
    calibrated_by: Callable[[Database, Question], BaseModel],
    database: Database,
    question: Question,
) -> Response:
    """The answer to a question, once the calibrations that it names are found, in the form that is accepted."""
    form = form_wanted(accept, among=PAGES)
    calibrated = await run_in_threadpool(calibrated_by, database, question)
    return await asking.answered(form, heavy.exploration_in, form, calibrated)
