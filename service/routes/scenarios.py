"""Saved scenarios: a link to share, answered anew by whoever follows it."""

from __future__ import annotations

import functools
import json
import re
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Header, Path, Query, Request
from pydantic import BeforeValidator, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.access.scopes import OpenDatabase, Writer, systems_of
from service.access.write_limiter import store_in_turn
from service.answers.calibrated import with_calibration
from service.compute.sizings import AnyCost
from service.database import Database, scenarios
from service.database.names import MAX_KEY_CHARACTERS, Name
from service.database.tables import ScenarioRow
from service.errors import Busy, TakesTooLong, explained
from service.http.bodies import JsonRequest
from service.http.problems import creation_responses, responses
from service.reports import (
    ReportSubject,
    changes_since,
    choose_form,
    contents_of,
    figures_in,
    report_response,
)
from service.routes.json_route import JsonRoute
from service.routes.pagination import PageQuery, page_of
from service_client.documents import KeptFigure, ListedScenario, Page, SavedScenario, ScenarioChanges
from service_client.terms import ReportForm
from sizing.errors import InvalidInput, broken_rule
from sizing.present.compared_figures import describe_figures
from sizing.report import SizingReport
from sizing.scenario import REFERENCE_SCENARIO, Scenario, scenario_from
from sizing.strict_model import StrictModel

router = APIRouter(prefix="/v1/scenarios", tags=["scenarios"], route_class=JsonRoute)

_EXAMPLE: dict[str, Any] = {"name": "Published run of 1T", "scenario": REFERENCE_SCENARIO}


class NewScenario(StrictModel):
    """A scenario to save under a name."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    name: Name = Field(description="Title for people, on one line; several scenarios may have the same.")
    scenario: Scenario = Field(description="Scenario to save; it must have an answer.")


class ScenarioPage(Page[ListedScenario]):
    """Some of the saved scenarios, the newest first, each with the figures that it had when it was saved."""


def id_in_path(scenario_id: Annotated[str, Path(description="Id of a saved scenario, from its link.")]) -> UUID:
    """Parse the id of a scenario. Any other text becomes the id of nothing."""
    try:
        return UUID(scenario_id)
    except ValueError:
        raise scenarios.no_scenario(scenario_id) from None


def _require_key(text: object) -> object:
    if isinstance(text, str) and not re.fullmatch(_KEY, text):
        remedy = "give a random UUID"
        raise broken_rule(f"must be 1 to {MAX_KEY_CHARACTERS} letters, digits and signs of ASCII, no spaces", remedy)
    return text


_KEY = rf"[\x21-\x7e]{{1,{MAX_KEY_CHARACTERS}}}"
IdempotencyKey = Annotated[
    Annotated[str, BeforeValidator(_require_key)] | None,
    Header(
        min_length=1,
        max_length=MAX_KEY_CHARACTERS,
        pattern=r"^[\x21-\x7e]+$",
        description="Key of the request, such as a random UUID, with which it may be sent again. Default: none.",
    ),
]
ScenarioId = Annotated[UUID, Depends(id_in_path)]


@router.post(
    "",
    status_code=201,
    responses=creation_responses(SavedScenario) | responses(400, 401, 403, 408, 409, 413, 415, 422, 503, 507),
    summary="Save a scenario",
)
async def save_scenario(
    new: Annotated[NewScenario, explained(NewScenario), Body()],
    by: Writer,
    database: OpenDatabase,
    sizings: AnyCost,
    request: JsonRequest,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> SavedScenario:
    """Save a scenario that has an answer. Anyone with its link can read it.

    The same body sent again with the same `Idempotency-Key` within 7 days finds the scenario that was saved (200).
    """
    document = request.document["scenario"]
    try:
        answer = await sizings.answer(request, "json", ReportSubject(document), new.scenario)
    except (Busy, TakesTooLong):
        raise
    except InvalidInput as error:
        raise error.within("scenario") from None

    def save() -> tuple[ScenarioRow, bool]:
        figures = figures_in(json.loads(answer))
        return scenarios.save_scenario(database, new.name, document, by=by, key=idempotency_key, figures=figures)

    row, is_new = await store_in_turn(request, save)
    response.status_code = 201 if is_new else 200
    response.headers["Location"] = f"{router.prefix}/{row.id}"
    return SavedScenario.model_validate(row)


@router.get("", responses=responses(422, 503), summary="List the saved scenarios")
def list_scenarios(
    page: Annotated[PageQuery, explained(PageQuery), Query()], database: OpenDatabase, request: Request
) -> ScenarioPage:
    """A page of the saved scenarios, newest first, with headline figures of the answers that they had when saved.

    To a token limited to storage systems, without those that rest on a calibration of another one.
    """
    rows = scenarios.list_scenarios(database, limit=page.limit + 1, before=page.cursor, among=systems_of(request))
    return page_of(ScenarioPage, rows, page.limit, _list_item, lambda row: str(row.id))


@router.get("/{scenario_id}", responses=responses(404, 503), summary="A saved scenario")
def get_scenario(saved_id: ScenarioId, database: OpenDatabase) -> SavedScenario:
    """The scenario as it was given."""
    return SavedScenario.model_validate(scenarios.read_scenario(database, saved_id))


class ReportQuery(StrictModel):
    """The form of a report."""

    form: ReportForm | None = Field(
        None,
        description="File format of the report. Default: what the Accept header asks for, JSON without that header.",
    )


@router.get(
    "/{scenario_id}/report",
    response_model=SizingReport,
    responses={200: {"content": contents_of()}, **responses(403, 404, 406, 422, 501, 503)},
    summary="Answer a saved scenario",
)
async def get_report(
    saved_id: ScenarioId,
    query: Annotated[ReportQuery, explained(ReportQuery), Query()],
    database: OpenDatabase,
    sizings: AnyCost,
    request: Request,
    accept: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Response:
    """The current answer as JSON, HTML page, PDF or CSV; 422 if this version does not accept the scenario."""
    return await answered_report(request, database, sizings, saved_id, form=query.form, accept=accept)


@router.get(
    "/{scenario_id}/changes", responses=responses(403, 404, 422, 503), summary="What changed since a scenario was saved"
)
async def get_changes(
    saved_id: ScenarioId, database: OpenDatabase, sizings: AnyCost, request: Request
) -> ScenarioChanges:
    """The version that answered when it was saved, the version of today, and the figures that differ."""
    subject, scenario = await run_in_threadpool(_read_question, database, saved_id, request)
    answer = await sizings.answer(request, "json", subject, scenario)
    return await run_in_threadpool(lambda: changes_since(subject, json.loads(answer)))


@router.delete(
    "/{scenario_id}", status_code=204, responses=responses(401, 403, 404, 503, 507), summary="Delete a scenario"
)
def delete_scenario(saved_id: ScenarioId, by: Writer, database: OpenDatabase) -> None:
    """Delete a scenario. Needs the token that saved it, or a token with scope admin."""
    scenarios.delete_scenario(database, saved_id, by=by)


def _list_item(row: ScenarioRow) -> ListedScenario:
    figures = [KeptFigure(**figure._asdict()) for figure in describe_figures(row.figures or {})]
    return ListedScenario(
        id=row.id, name=row.name, created_at=row.created_at, code_version=row.code_version, figures=figures
    )


async def answered_report(
    request: Request,
    database: Database,
    sizings: AnyCost,
    saved_id: UUID,
    *,
    form: ReportForm | None,
    accept: str | None,
) -> Response:
    """Answer a saved scenario anew, in a form or as the Accept header prefers."""
    subject, scenario = await run_in_threadpool(_read_question, database, saved_id, request)
    chosen = choose_form(accept, name=form)
    content = await sizings.answer(request, chosen, subject, scenario)
    return report_response(chosen, content, file_stem=f"checkpoint-sizing-{saved_id}")


def _read_question(database: Database, saved_id: UUID, request: Request) -> tuple[ReportSubject, Scenario]:
    """Read a saved scenario: as it was given, and as it is asked today, with its calibration.

    Raises NotFound, or MissingScope where the token of the request is limited to other storage systems.
    """
    row = scenarios.read_scenario(database, saved_id)
    limits = functools.partial(systems_of, request)
    return subject_of(row), with_calibration(database, scenario_from(row.scenario), limits=limits)


def subject_of(row: ScenarioRow) -> ReportSubject:
    """Describe a saved scenario for its report."""
    return ReportSubject(
        row.scenario,
        name=row.name,
        id=row.id,
        saved_at=row.created_at,
        code_version=row.code_version,
        figures=row.figures,
    )
