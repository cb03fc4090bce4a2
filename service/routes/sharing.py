"""Sharing links: they read one saved scenario without a token, may end, and can be withdrawn."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Header, Path, Query, Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from service.access.scopes import OpenDatabase, SharedId, Writer
from service.compute.sizings import AnyCost
from service.database import sharing_links
from service.database.scenarios import read_scenario
from service.errors import explained
from service.http.problems import responses
from service.reports import contents_of
from service.routes.json_route import JsonRoute
from service.routes.scenarios import ReportQuery, ScenarioId, answered_report
from service_client.documents import NewSharingLink, SavedScenario, SharingLink
from sizing.report import SizingReport
from sizing.strict_model import StrictModel
from sizing.units import PositiveSeconds

router = APIRouter(prefix="/v1/scenarios/{scenario_id}/links", tags=["sharing"], route_class=JsonRoute)
shared = APIRouter(prefix="/v1/shared", tags=["sharing"])
"""What a link reads: it demands the key of one, also where nothing else is open without a token."""

MAX_VALID_SECONDS = 10 * 366 * 24 * 3600
"""Ten years. What shall be open for longer needs no end."""


class LinkWanted(StrictModel):
    """How long a sharing link shall hold."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"valid_seconds": 30 * 24 * 3600}]})

    valid_seconds: Annotated[PositiveSeconds, Field(le=MAX_VALID_SECONDS)] | None = Field(
        None, description="Seconds until the link ends, such as 30d. Default: it holds until it is withdrawn."
    )


def link_in_path(link_id: Annotated[str, Path(description="Id of a sharing link of the scenario.")]) -> UUID:
    """Parse the id of a link. Any other text becomes the id of nothing."""
    try:
        return UUID(link_id)
    except ValueError:
        raise sharing_links.no_link(link_id) from None


LinkId = Annotated[UUID, Depends(link_in_path)]


@router.post(
    "",
    status_code=201,
    responses=responses(400, 401, 403, 404, 408, 409, 413, 415, 422, 503, 507),
    summary="Share a scenario by a link",
)
def share_scenario(
    saved_id: ScenarioId,
    link: Annotated[LinkWanted, explained(LinkWanted), Body()],
    by: Writer,
    database: OpenDatabase,
) -> NewSharingLink:
    """Make a link that reads this scenario and its report without a token, and nothing else.

    Its key is shown only once. Needs the token that saved the scenario, or a token with scope admin.
    """
    row, key = sharing_links.make_link(database, saved_id, valid_seconds=link.valid_seconds, by=by)
    made = SharingLink.model_validate(row)
    return NewSharingLink(**made.model_dump(), key=key, page=f"/shared#{key}")


@router.get("", responses=responses(401, 403, 404, 503), summary="List the links of a scenario")
def list_sharing_links(saved_id: ScenarioId, by: Writer, database: OpenDatabase) -> list[SharingLink]:
    """The links of a scenario without their keys, the newest first. Needs a token as making one does."""
    rows = sharing_links.list_links(database, saved_id, by=by)
    return [SharingLink.model_validate(row) for row in rows]


@router.delete(
    "/{link_id}", status_code=204, responses=responses(401, 403, 404, 503, 507), summary="Withdraw a sharing link"
)
def withdraw_sharing_link(saved_id: ScenarioId, link_id: LinkId, by: Writer, database: OpenDatabase) -> None:
    """Make a link worthless from now on. Needs a token as making one does."""
    sharing_links.withdraw_link(database, saved_id, link_id, by=by)


@shared.get("", responses=responses(401, 404, 503), summary="The scenario of a sharing link")
def get_shared_scenario(saved_id: SharedId, database: OpenDatabase) -> SavedScenario:
    """The scenario that the key of a sharing link reads, as it was given."""
    return SavedScenario.model_validate(read_scenario(database, saved_id))


@shared.get(
    "/report",
    response_model=SizingReport,
    responses={200: {"content": contents_of()}, **responses(401, 404, 406, 422, 501, 503)},
    summary="Answer the scenario of a sharing link",
)
async def get_shared_report(
    saved_id: SharedId,
    query: Annotated[ReportQuery, explained(ReportQuery), Query()],
    database: OpenDatabase,
    sizings: AnyCost,
    request: Request,
    accept: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Response:
    """The current answer to the scenario that the key of a sharing link reads, in the forms of any saved scenario."""
    return await answered_report(request, database, sizings, saved_id, form=query.form, accept=accept)
