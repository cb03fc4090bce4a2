"""Request for an answer: the client waits for it, or it becomes a job.

It is a job from the first where that is preferred (RFC 7240, `Prefer: respond-async`), and becomes one by itself where
it takes, or by its progress will take, longer than the service lets anyone wait, or has had its turn while others wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.access.scopes import asker_of, client_by_token
from service.answers.heavy import heavy_kind, request_json
from service.compute.jobs import SECONDS_BETWEEN_BEATS, Jobs
from service.compute.pool import ClientCompute, Compute
from service.database.jobs import NewJob
from service.errors import OutOfTime
from service.http.problems import Responses, described_headers
from service.reports import report_response
from service.tracing import present_traceparent
from service_client.terms import ReportForm

RESPOND_ASYNC = "respond-async"
PATH = "/v1/jobs"
RETRY_AFTER = f"{SECONDS_BETWEEN_BEATS:.0f}"
"""Seconds until who asks for the state of a job may ask again."""


ACCEPTED: Responses = {
    202: {
        "description": "It is a job now: as asked with Prefer: respond-async, or as it takes too long to wait for",
    }
    | described_headers("Location", "Preference-Applied", "Retry-After")
}


def is_preferred(preference: str, headers: list[str]) -> bool:
    """Tell whether Prefer headers name a preference. Other preferences are ignored (RFC 7240, section 2).

    >>> [is_preferred("respond-async", [header]) for header in ("return=minimal, Respond-Async; wait=10", "wait=10")]
    [True, False]
    """
    named = (part.partition(";")[0].partition("=")[0] for header in headers for part in header.split(","))
    return preference in {name.strip().lower() for name in named}


@dataclass(frozen=True, slots=True)
class Asking:
    """Question of a client: answered in its turn, or accepted as a job."""

    compute: ClientCompute
    jobs: Jobs
    request: Request
    is_job: bool

    @property
    def kind(self) -> str:
        """Last part of the route's path, which says what is asked."""
        return str(self.request.scope["route"].path.rpartition("/")[2])

    async def answer(self, form: ReportForm, question: BaseModel) -> Response:
        """Answer the request of a `HeavyKind` in a report form, or with the Location of a new job.

        Raises as `ClientCompute.run`.
        """
        if self.is_job:
            return await self.accept_job(form, question)
        try:
            answer = heavy_kind(self.kind).answer
            return report_response(form, await self.compute.run(answer, form, question, may_be_job=True))
        except OutOfTime:
            return await self.accept_job(form, question)

    async def accept_job(self, form: ReportForm, question: BaseModel) -> Response:
        """Accept the question as a job and answer with its Location. Raises Busy where too many of the client wait."""
        asker = await run_in_threadpool(asker_of, self.request)
        stored = await run_in_threadpool(request_json, question)
        new = NewJob(self.kind, form, stored, asker.token_id if asker else None, present_traceparent())
        row = await self.jobs.submit(await client_by_token(self.request), new)
        headers = {"Location": f"{PATH}/{row.id}", "Retry-After": RETRY_AFTER, "Vary": "Accept, Prefer"}
        if self.is_job:
            headers["Preference-Applied"] = RESPOND_ASYNC
        return Response(status_code=202, headers=headers)


async def asking_of(
    request: Request,
    compute: Compute,
    prefer: Annotated[
        str | None,
        Header(description="Preference respond-async (RFC 7240): answer 202 at once with the Location of a job."),
    ] = None,
) -> Asking:
    """Return the question of a request, which its Prefer headers may ask to become a job."""
    del prefer  # described as one text, as generated clients send no list of headers; a client may send several
    is_job = is_preferred(RESPOND_ASYNC, request.headers.getlist("prefer"))
    return Asking(compute, request.app.state.jobs, request, is_job)


NowOrAsJob = Annotated[Asking, Depends(asking_of)]
