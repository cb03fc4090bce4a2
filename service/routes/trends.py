"""Rates over time: what changed, and what is lost now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request
from pydantic import Field, TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.access.scopes import OpenDatabase, client_by_token
from service.compute.fair_turns import FairTurns
from service.compute.pool import SECONDS_TO_WAIT
from service.database import Database, trends
from service.database.scenarios import names_resting_on
from service.database.trends import Trend
from service.errors import explained
from service.http.connected import see_through
from service.http.problems import responses
from service.notices import Notice
from service.reports import IN_WORDS, choose_form, contents_of, respond_with_document
from service.routes.storage_systems import SystemName
from service_client.documents import ChangedRate, RatePoint, RateTrend
from sizing.present.rates_over_time import Concerned, rates_document, rates_summary
from sizing.storage.measurement import Operation
from sizing.storage.rate_changes import RatedRun
from sizing.strict_model import StrictModel
from sizing.units.inputs import Moment

router = APIRouter(prefix="/v1/storage-systems/{name}", tags=["trends"])


class TrendsQuery(StrictModel):
    """Filter of the rates over time."""

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
async def get_trend(
    name: SystemName,
    query: Annotated[TrendsQuery, explained(TrendsQuery), Query()],
    database: OpenDatabase,
    request: Request,
    accept: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Response:
    """The rates of each series of like runs, with its changes: of the newest 1,000 runs that were not withdrawn.

    As JSON, or in words and charts as data, by `Accept`.
    """
    form = choose_form(accept, among=IN_WORDS)

    def respond() -> Response:
        chosen = [
            (trend, series)
            for trend in trends.judge_trends(database, name)
            if query.engine in (None, trend.engine) and query.operation in (None, trend.operation)
            if (series := trend.since(query.since)).rates
        ]
        if form == "presentation":
            concerned = find_concerned(database, name, [trend for trend, _ in chosen])
            return respond_with_document(rates_document(name, [series for _, series in chosen], concerned))
        documents = [
            RateTrend(
                series=trend.whole.series, is_lost=trend.is_lost, points=[_point(rated) for rated in series.rates]
            )
            for trend, series in chosen
        ]
        return Response(TypeAdapter(list[RateTrend]).dump_json(documents), media_type="application/json")

    return await _run_in_turn(request, respond)


@router.get(
    "/alarms",
    response_model=list[ChangedRate],
    responses=responses(404, 422, 503),
    summary="The rates that a storage system has lost",
)
async def list_alarms(name: SystemName, database: OpenDatabase, request: Request) -> Response:
    """The latest loss of each series of like runs that is at a loss now. None where nothing is lost."""

    def respond() -> Response:
        every = [trend.whole for trend in trends.judge_trends(database, name)]
        losses = [_change(series.series, loss) for series in every if (loss := series.latest_loss) is not None]
        return Response(TypeAdapter(list[ChangedRate]).dump_json(losses), media_type="application/json")

    return await _run_in_turn(request, respond)


async def _run_in_turn(request: Request, respond: Callable[[], Response]) -> Response:
    """Run a function in a thread in the client's turn: judging thousands of rates takes a tenth of a second."""
    turns: FairTurns = request.app.state.trend_turns
    async with turns.turn(await client_by_token(request), max_seconds=SECONDS_TO_WAIT):
        return await see_through(run_in_threadpool(respond))


def find_concerned(database: Database, system_name: str, of: Iterable[Trend]) -> Concerned:
    """Find who published the runs of trends, and the saved scenarios that rest on the storage system."""
    publishers = {run_id: publisher for trend in of for run_id, publisher in trend.publishers.items()}
    return Concerned(publishers, names_resting_on(database, system_name))


def list_changes(database: Database, system_name: str, run_id: str) -> list[ChangedRate]:
    """List the rates of a run that changed from those of earlier like runs."""
    return [
        _change(trend.whole.series, rated)
        for trend in trends.judge_trends(database, system_name, of_run=run_id)
        for rated in trend.whole.rates
        if rated.run_id == run_id and rated.judged.change is not None
    ]


def loss_notice(
    database: Database, system_name: str, run_id: str, changes: Sequence[ChangedRate], public_url: str
) -> Notice:
    """Say what a run lost, who published it, which saved scenarios rest on the storage system, and what to do."""
    judged = trends.judge_trends(database, system_name, of_run=run_id)
    concerned = find_concerned(database, system_name, judged)
    page = f"{public_url.rstrip('/')}/storage-systems#{quote(system_name)}" if public_url else None
    remedies = concerned.remedies(system_name)
    lines = [rates_summary(system_name, [trend.whole for trend in judged], concerned, num_charts=0).verdict, *remedies]
    return Notice(
        storage_system=system_name,
        run_id=run_id,
        text="\n".join([f"{system_name}:", *lines, *([page] if page else [])]),
        remedies=remedies,
        changes=tuple(changed.model_dump(mode="json") for changed in changes if changed.change == "loss"),
        scenarios=tuple(concerned.scenarios),
        page=page,
    )


def _point(rated: RatedRun) -> RatePoint:
    return RatePoint(
        run_id=rated.run_id,
        published_at=rated.published_at,
        bytes_per_second=rated.bytes_per_second,
        expected_bytes_per_second=rated.judged.expected,
        change=rated.judged.change,
    )


def _change(series: str, rated: RatedRun) -> ChangedRate:
    return ChangedRate(series=series, **_point(rated).model_dump())
