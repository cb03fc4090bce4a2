"""Rates over time: what changed, and what is lost now."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from service.access.scopes import OpenDatabase
from service.database import Database, trends
from service.database.trends import Rate, Trend
from service.errors import explained
from service.http.problems import responses
from service.reports.forms import IN_WORDS, contents_of, form_wanted, presented
from service.routes.storage_systems import SystemName
from service_client.documents import ChangedRate, RatePoint, RateTrend
from sizing.reports.document import rates_document
from sizing.storage.measurement import Operation
from sizing.storage.rate_changes import Judged
from sizing.units.moments import Moment

router = APIRouter(prefix="/v1/storage-systems/{name}", tags=["trends"])


class TrendsWanted(BaseModel):
    """Which rates."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    engine: str | None = Field(
        None, max_length=64, description="Engine that wrote the checkpoints, such as direct. Default: any."
    )
    operation: Operation | None = Field(None, description="What was timed, write or restore. Default: either.")
    since: Moment | None = Field(
        None,
        description="Earliest time of publication of what is shown; earlier runs still count for the level. "
        "Default: any time.",
    )


@router.get(
    "/trend",
    response_model=list[RateTrend],
    responses={200: {"content": contents_of(*IN_WORDS)}, **responses(404, 406, 422, 503)},
    summary="The rates of a storage system over time",
)
def get_trend(
    name: SystemName,
    wanted: Annotated[TrendsWanted, explained(TrendsWanted), Query()],
    database: OpenDatabase,
    accept: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> list[RateTrend] | Response:
    """The rates of each series of like runs, with its changes: of the newest 1,000 runs that were not withdrawn.

    As JSON, or in words and charts as data, by `Accept`.
    """
    form = form_wanted(accept, among=IN_WORDS)
    found = [trend for trend in trends.trends(database, name) if _is_wanted(trend, wanted)]
    if form == "presentation":
        shown = (trend.since(wanted.since) for trend in found)
        return presented(rates_document(name, [series for series in shown if series.rates]))
    return [trend for trend in (_trend(each, wanted) for each in found) if trend.points]


@router.get("/alarms", responses=responses(404, 422, 503), summary="The rates that a storage system has lost")
def list_alarms(name: SystemName, database: OpenDatabase) -> list[ChangedRate]:
    """The latest loss of each series of like runs that is at a loss now. None where nothing is lost."""
    lost = (trend for trend in trends.trends(database, name) if trend.is_lost)
    return [_change(*trend.latest_loss) for trend in lost]


def changes_with(database: Database, system_name: str, run_id: str) -> list[ChangedRate]:
    """The rates of a run that changed."""
    return [
        _change(rate, judged)
        for trend in trends.trends(database, system_name, of_run=run_id)
        for rate, judged in zip(trend.rates, trend.judged, strict=True)
        if rate.run_id == run_id and judged.change is not None
    ]


def _is_wanted(trend: Trend, wanted: TrendsWanted) -> bool:
    first = trend.rates[0]
    return wanted.engine in (None, first.engine) and wanted.operation in (None, first.operation)


def _trend(trend: Trend, wanted: TrendsWanted) -> RateTrend:
    shown = (
        _point(rate, judged)
        for rate, judged in zip(trend.rates, trend.judged, strict=True)
        if wanted.since is None or rate.published_at >= wanted.since
    )
    return RateTrend(series=trend.series, is_lost=trend.is_lost, points=list(shown))


def _point(rate: Rate, judged: Judged) -> RatePoint:
    return RatePoint(
        run_id=rate.run_id,
        published_at=rate.published_at,
        bytes_per_second=rate.bytes_per_second,
        expected_bytes_per_second=judged.expected,
        change=judged.change,
    )


def _change(rate: Rate, judged: Judged) -> ChangedRate:
    return ChangedRate(series=rate.series, **_point(rate, judged).model_dump())
