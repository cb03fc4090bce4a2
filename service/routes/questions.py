"""Questions of the registry over HTTP: a request in, its answer out, now or as a job that stores it until it ends."""

# Annotations are evaluated where they stand, as the type of a request is known only when a route is made.

import functools
from collections.abc import Callable, Coroutine, Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.access.scopes import OpenDatabase, systems_of
from service.answers.calibrated import with_calibrations
from service.answers.heavy import GivenScenario
from service.compute.asking import ACCEPTED, Asking, NowOrAsJob
from service.compute.sizings import AnyCost, Sizings
from service.errors import OutOfTime, explained
from service.http.bodies import JsonRequest
from service.http.problems import responses
from service.reports import PAGES, ReportSubject, choose_form, contents_of, report_response
from service.routes.json_route import JsonRoute
from service.telemetry import Metrics
from sizing.questions.registry import QUESTIONS, QuestionEntry

Accept = Annotated[str | None, Header(include_in_schema=False)]
"""What decides whether an answer is JSON, a page to read (HTML), or PDF."""
_Endpoint = Callable[..., Coroutine[Any, Any, Response]]


def router_of(entries: Iterable[QuestionEntry[Any, Any]]) -> APIRouter:
    """Return a route for each question: `POST` of its path, which takes a request and answers as `Accept` prefers."""
    router = APIRouter(prefix="/v1", route_class=JsonRoute)
    for entry in entries:
        question = entry.question
        route = question.route
        router.add_api_route(
            f"/{route.path}",
            _quick_endpoint(entry) if route.is_quick else _endpoint(entry),
            methods=["POST"],
            name=route.name,
            tags=[route.tag],
            response_model=question.report,
            responses={
                200: {"content": contents_of(*(() if route.csv else PAGES))},
                **ACCEPTED,
                **responses(400, 403, 406, 408, 413, 415, 422, 501, 503),
            },
            summary=route.summary,
            description=route.full_description,
        )
    return router


def _body(entry: QuestionEntry[Any, Any]) -> Any:
    """Return the annotation of a question's request."""
    question = entry.question
    example: Any = {"summary": question.route.example, "value": question.example}
    return Annotated[question.request, explained(question.request), Body(openapi_examples={"reference": example})]


def _endpoint(entry: QuestionEntry[Any, Any]) -> _Endpoint:
    question, body = entry.question, _body(entry)

    async def ask(
        request: body,  # type: ignore[valid-type]  # known when the route is made
        asking: NowOrAsJob,
        database: OpenDatabase,
        accept: Accept = None,
    ) -> Response:
        form = choose_form(accept, among=() if question.route.csv else PAGES)
        limits = functools.partial(systems_of, asking.request)
        calibrated = await run_in_threadpool(
            with_calibrations, database, request, question.may_name_calibrations, limits=limits
        )
        if asking.is_job:
            await _refuse_now(entry, asking, request, calibrated)
        return await asking.answer(form, calibrated)

    return ask


async def _refuse_now(
    entry: QuestionEntry[Any, Any], asking: Asking, request: BaseModel, calibrated: BaseModel
) -> None:
    """Raise InvalidInput where a job could only refuse the question, as far as a quick look at its scenario tells."""
    question = entry.question
    sizings: Sizings = asking.request.app.state.sizings
    with question.naming_fields():
        is_quick = question.needs_answer is None or await sizings.has_quick_answer(
            asking.request, question.needs_answer(request)
        )
        if is_quick and question.refuse is not None:
            await run_in_threadpool(question.refuse, calibrated)


def _quick_endpoint(entry: QuestionEntry[Any, Any]) -> _Endpoint:
    """Return the route of a question whose answers take milliseconds, as `Sizings` computes them."""
    body = _body(entry)

    async def ask(
        scenario: body,  # type: ignore[valid-type]  # known when the route is made
        request: JsonRequest,
        sizings: AnyCost,
        asking: NowOrAsJob,
        accept: Accept = None,
    ) -> Response:
        form, subject = choose_form(accept), ReportSubject(request.document)

        async def accept_job() -> Response:
            calibrated = await sizings.calibrate(request, scenario)
            return await asking.accept_job(form, GivenScenario(scenario=calibrated, document=request.document))

        if asking.is_job:
            await sizings.has_quick_answer(request, scenario)  # or a refusal, for which nobody waits
            return await accept_job()
        try:
            content = await sizings.answer_again(request, form, subject, scenario)
        except OutOfTime:
            return await accept_job()
        metrics: Metrics = request.app.state.metrics
        metrics.sizings.inc()
        return report_response(form, content)

    return ask


router = router_of(QUESTIONS.values())
