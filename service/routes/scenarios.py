"""`/v1/scenarios`: scenarios saved under a link to share."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from service.access import Writer
from service.database.tables import SavedScenario
from service.problems import RESPONSES, not_found
from sizing.errors import printable
from sizing.report import SizingReport, answer
from sizing.scenario import REFERENCE_SCENARIO, Scenario, scenario_from

router = APIRouter(tags=["scenarios"])


class NewScenario(BaseModel):
    """A scenario to save."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [{"name": "1T reference run", "scenario": REFERENCE_SCENARIO}]},
    )

    name: str = Field(min_length=1, max_length=200)
    scenario: Scenario


class Saved(BaseModel):
    """A saved scenario, as it was given."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    id: str
    name: str
    created_at: datetime
    scenario: dict[str, Any] = Field(validation_alias="document")


class Page(BaseModel):
    """Saved scenarios, newest first; `next` is the cursor of the following page."""

    items: list[Saved]
    next: str | None


def _session(request: Request) -> Iterator[Session]:
    with Session(request.app.state.engine) as session:
        yield session


Database = Annotated[Session, Depends(_session)]


@router.post("/v1/scenarios", status_code=HTTPStatus.CREATED, responses=RESPONSES)
def save(new: NewScenario, token: Writer, session: Database, response: Response) -> Saved:
    """Save a scenario that can be answered; its link is in `Location`."""
    answer(new.scenario)
    row = SavedScenario(
        id=secrets.token_hex(16),
        name=printable(new.name),
        document=new.scenario.model_dump(mode="json", exclude_unset=True),
        created_at=datetime.now(UTC),
        token_id=token,
    )
    session.add(row)
    session.commit()
    response.headers["Location"] = f"/v1/scenarios/{row.id}"
    return Saved.model_validate(row)


@router.get("/v1/scenarios")
def saved(
    session: Database,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Annotated[str | None, Query(max_length=32)] = None,
) -> Page:
    """Saved scenarios, newest first."""
    rows = select(SavedScenario).order_by(SavedScenario.created_at.desc(), SavedScenario.id)
    if cursor is not None:
        last = _row(session, cursor)
        older = SavedScenario.created_at < last.created_at
        same = (SavedScenario.created_at == last.created_at) & (SavedScenario.id > last.id)
        rows = rows.where(older | same)
    found = session.scalars(rows.limit(limit + 1)).all()
    items = [Saved.model_validate(row) for row in found[:limit]]
    return Page(items=items, next=items[-1].id if len(found) > limit else None)


@router.get("/v1/scenarios/{scenario_id}")
def scenario(scenario_id: str, session: Database) -> Saved:
    """One saved scenario."""
    return Saved.model_validate(_row(session, scenario_id))


@router.get("/v1/scenarios/{scenario_id}/report", response_model=SizingReport)
def report(scenario_id: str, session: Database) -> Response:
    """The answer to a saved scenario, computed now."""
    found = scenario_from(_row(session, scenario_id).document)
    return Response(answer(found).model_dump_json(), media_type="application/json")


@router.delete("/v1/scenarios/{scenario_id}", status_code=HTTPStatus.NO_CONTENT)
def delete(scenario_id: str, token: Writer, session: Database) -> None:
    """Delete a saved scenario."""
    del token
    session.delete(_row(session, scenario_id))
    session.commit()


def _row(session: Session, scenario_id: str) -> SavedScenario:
    row = session.get(SavedScenario, scenario_id)
    if row is None:
        raise not_found("scenario", scenario_id)
    return row
