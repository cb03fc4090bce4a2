"""Benchmark runs of a storage system: taken once each, kept as they were sent, withdrawn with a reason."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query
from pydantic import ConfigDict, Field
from starlette.responses import Response

from service.access.scopes import OpenDatabase, Publisher, Writer
from service.database import runs
from service.database.names import Description
from service.database.runs import RunFilter, retire_runs
from service.errors import explained
from service.http.bodies import JsonRequest
from service.http.problems import creation_responses, responses
from service.notices import Notices
from service.routes.json_route import JsonRoute, ResultRoute
from service.routes.pagination import PageQuery, page_of
from service.routes.storage_systems import SystemName
from service.routes.trends import list_changes, loss_notice
from service.telemetry import Metrics
from service_client.documents import Page, PublishedRun, RunSummary
from sizing.errors import InvalidInput
from sizing.storage.measurement import BenchmarkResult
from sizing.storage.rate_changes import CHANGES
from sizing.strict_model import StrictModel
from sizing.units.inputs import Moment

router = APIRouter(prefix="/v1/storage-systems/{name}/runs", tags=["runs"], route_class=ResultRoute)
publication = APIRouter(prefix=router.prefix, tags=["runs"], route_class=ResultRoute)
"""Routes for a token that may publish but not read."""

RunId = Annotated[str, Path(description="Id that the agent gave the run when it started.")]

MAX_MEASUREMENTS = 1000
"""Max measurements of a run, as many as a scan of 500 configurations has. Each is listed by itself."""

RESULT_EXAMPLE: dict[str, Any] = {
    "schema_version": 1,
    "run_id": "20261121T120000Z-1a2b3c",
    "command": ["ckpt-bench", "run", "--target", "/mnt/scratch"],
    "environment": {"versions": {"torch": "2.13.0"}},
    "warnings": [],
    "measurements": [
        {
            "engine": "torch-save",
            "operation": "write",
            "num_nodes": 1,
            "num_ranks": 2,
            "bytes_per_rank": 1_000_000_000,
            "total_bytes": 2_000_000_000,
            "seconds": [2.0, 2.1, 1.9],
            "bytes_per_second": 1_000_000_000.0,
            "first_done_seconds": [1.8, 2.0, 1.9],
            "rank_seconds": [[1.8, 2.0], [2.1, 2.0], [1.9, 1.9]],
            "cache_policy": "buffered-fsync",
            "verified": True,
        }
    ],
}


class RunPage(Page[RunSummary]):
    """Some of the runs, the newest first."""


class RunsQuery(PageQuery):
    """Filter of the runs of a storage system: a run matches where one of its measurements meets all conditions."""

    engine: str | None = Field(
        None, max_length=64, description="Engine that wrote the checkpoints, such as direct. Default: any."
    )
    min_num_nodes: int | None = Field(
        None, ge=1, le=1_000_000, description="Min nodes that wrote at the same time. Default: any number."
    )
    published_since: Moment | None = Field(None, description="Earliest time of publication. Default: any time.")
    published_before: Moment | None = Field(
        None, description="Time before which the run was published. Default: any time."
    )
    withdrawn: bool | None = Field(
        None, description="Whether to list the withdrawn runs, or with false those that were not. Default: both."
    )


@publication.post(
    "",
    status_code=201,
    responses=creation_responses(PublishedRun) | responses(400, 401, 403, 404, 408, 409, 413, 415, 422, 503, 507),
    summary="Publish a benchmark run",
)
def publish_run(
    name: SystemName,
    result: Annotated[
        BenchmarkResult,
        explained(BenchmarkResult),
        Body(openapi_examples={"small": {"summary": "Two ranks of one node", "value": RESULT_EXAMPLE}}),
    ],
    by: Publisher,
    database: OpenDatabase,
    request: JsonRequest,
    response: Response,
) -> PublishedRun:
    """Save a result document of `ckpt-bench`, plain or with `Content-Encoding: gzip`.

    The same run sent again is stored once (200); other content under its run id is refused (409).
    The answer names rates that differ from those of earlier like runs.
    """
    if len(result.measurements) > MAX_MEASUREMENTS:
        raise InvalidInput.of(
            "measurements",
            f"must be at most {MAX_MEASUREMENTS:,}",
            value=f"{len(result.measurements):,}",
            remedy="publish it as several runs",
        )
    row, is_new = runs.publish_run(database, name, result, request.content, by=by)
    metrics: Metrics = request.app.state.metrics
    metrics.runs.labels("new" if is_new else "repeated").inc()
    metrics.run_bytes.inc(len(request.content) if is_new else 0)
    response.status_code = 201 if is_new else 200
    response.headers["Location"] = f"{router.prefix.format(name=name)}/{row.run_id}"
    if is_new:
        retire_runs(database, name, request_id=by.request_id)
    changes = list_changes(database, name, row.run_id)
    for change in CHANGES:  # those that did not come count too: a rate of a metric that appears later is not seen
        num = sum(changed.change == change for changed in changes)
        metrics.rate_changes.labels(name, change).inc(num if is_new else 0)
    notices: Notices = request.app.state.notices
    if is_new and notices.has_receivers and any(changed.change == "loss" for changed in changes):
        notices.tell(loss_notice(database, name, row.run_id, changes, request.app.state.settings.public_url))
    return PublishedRun(**RunSummary.model_validate(row).model_dump(), changes=changes)


@router.get("", responses=responses(404, 422, 503), summary="List the runs of a storage system")
def list_runs(
    name: SystemName, query: Annotated[RunsQuery, explained(RunsQuery), Query()], database: OpenDatabase
) -> RunPage:
    """A page of the runs, newest first."""
    chosen = RunFilter(**query.model_dump(exclude={"limit", "cursor"}))
    rows = runs.list_runs(database, name, chosen, limit=query.limit + 1, before=query.cursor)
    return page_of(RunPage, rows, query.limit, RunSummary.model_validate, lambda row: str(row.id))


@router.get(
    "/{run_id}", response_model=BenchmarkResult, responses=responses(404, 409, 422, 503), summary="The result of a run"
)
def get_run(
    name: SystemName,
    run_id: RunId,
    database: OpenDatabase,
) -> Response:
    """The result document as it was sent."""
    row = runs.read_run(database, name, run_id, with_document=True)
    return Response(row.document, media_type="application/json")


withdrawals = APIRouter(
    prefix="/v1/storage-systems/{name}/runs/{run_id}/withdrawal", tags=["runs"], route_class=JsonRoute
)


class NewWithdrawal(StrictModel):
    """Why a run is withdrawn."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "Measured on the old switch"}]})

    reason: Annotated[Description, Field(min_length=1)] = Field(
        description="Why the run no longer speaks for its storage system, in some lines."
    )


@withdrawals.put(
    "",
    responses=responses(400, 401, 403, 404, 408, 409, 413, 415, 422, 503, 507),
    summary="Withdraw a run",
)
def withdraw_run(
    name: SystemName,
    run_id: RunId,
    new: Annotated[NewWithdrawal, explained(NewWithdrawal), Body()],
    by: Writer,
    database: OpenDatabase,
) -> RunSummary:
    """Leave a run out of calibrations and trends from now on; it is kept, with the reason.

    Needs the token that published it, one of an owner of the storage system, or one with scope admin.
    """
    return RunSummary.model_validate(runs.withdraw_run(database, name, run_id, new.reason, by=by))


@withdrawals.delete(
    "", status_code=204, responses=responses(401, 403, 404, 409, 422, 503, 507), summary="Reinstate a run"
)
def reinstate_run(name: SystemName, run_id: RunId, by: Writer, database: OpenDatabase) -> None:
    """Let a withdrawn run speak for its storage system again. Needs a token as the withdrawal does."""
    runs.reinstate_run(database, name, run_id, by=by)
