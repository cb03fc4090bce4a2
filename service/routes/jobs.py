"""Jobs: questions that are answered later. The holder of a job's id, which nobody can guess, reads and cancels it.

Who asked with a token, or has logged in, finds all of them in a list.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from service.access.scopes import OpenDatabase, Reader
from service.compute.asking import PATH, RETRY_AFTER
from service.compute.jobs import Jobs
from service.database import jobs
from service.errors import Conflict, explained
from service.http.problems import described_headers, kind_with, responses
from service.reports import VERSION_HEADER, contents_of, report_response
from service.routes.pagination import PageQuery, page_of
from service_client.documents import Job, Page

_CONTENTS = contents_of() | {"application/json": {"schema": {"type": "object", "description": "Report."}}}

router = APIRouter(prefix=PATH, tags=["jobs"])


class JobPage(Page[Job]):
    """Some of the jobs, the newest first."""


def id_in_path(
    job_id: Annotated[str, Path(description="Last part of the Location with which the question was taken.")],
) -> UUID:
    """Parse the id of a job. Any other text becomes the id of nothing."""
    try:
        return UUID(job_id)
    except ValueError:
        raise jobs.no_job(job_id) from None


JobId = Annotated[UUID, Depends(id_in_path)]


@router.get("", responses=responses(401, 403, 404, 422, 503), summary="List your own jobs")
def list_jobs(
    page: Annotated[PageQuery, explained(PageQuery), Query()], by: Reader, database: OpenDatabase, response: Response
) -> JobPage:
    """The jobs that were asked for with this token, or by the person who has logged in, the newest first.

    Jobs that were asked for without either are in no list.
    """
    response.headers["Cache-Control"] = "no-store"
    rows = jobs.list_jobs(database, by, limit=page.limit + 1, before=page.cursor)
    return page_of(JobPage, rows, page.limit, Job.model_validate, lambda row: str(row.id))


@router.get(
    "/{job_id}", responses={200: described_headers("Retry-After"), **responses(404, 503)}, summary="State of a job"
)
def get_job(asked_id: JobId, database: OpenDatabase, response: Response) -> Job:
    """Its state, times and progress, and why it has no result where it failed. `Retry-After` says when to ask again."""
    job = Job.model_validate(jobs.job_of_id(database, asked_id))
    response.headers["Cache-Control"] = "no-store"
    if not job.has_ended:
        response.headers["Retry-After"] = RETRY_AFTER
    return job


@router.get(
    "/{job_id}/result",
    response_class=Response,
    responses={200: {"content": _CONTENTS}, **responses(404, 409, 422, 500, 501, 503)},
    summary="Result of a job",
)
def get_job_result(asked_id: JobId, database: OpenDatabase) -> Response:
    """The result in the form that was asked for with the question; of a job that failed, why, with that status.

    A job that has not ended, was cancelled or interrupted has none (409).
    """
    row = jobs.job_of_id(database, asked_id)
    if row.state == "failed":
        return kind_with(row.problem_code).response(row.refused_for)
    if row.state != "done":
        again = "ask the question again" if row.ended_at else f"wait until it has ended, with GET {PATH}/{row.id}"
        raise Conflict.of("the job", "must be done to have a result", value=row.state, remedy=again)
    response = report_response(row.form, jobs.result_of(database, asked_id))
    response.headers[VERSION_HEADER] = row.code_version
    return response


@router.delete("/{job_id}", status_code=204, responses=responses(404, 503, 507), summary="Cancel a job")
async def cancel_job(asked_id: JobId, request: Request) -> None:
    """Cancel a job, and end its computing; delete one that has ended, with its result."""
    own: Jobs = request.app.state.jobs
    await own.cancel(asked_id)
