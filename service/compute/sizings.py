"""Placement of a sizing by its cost: beside the event loop, in a thread, or in a compute process."""

from __future__ import annotations

import functools
from collections import OrderedDict
from typing import Annotated

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from service.access.client import client_of
from service.access.scopes import systems_of
from service.answers import heavy
from service.answers.calibrated import with_calibration
from service.answers.quick import QuickAnswers
from service.compute.fair_turns import FairTurns
from service.compute.pool import SECONDS_TO_WAIT, ClientCompute, ComputePool
from service.database import Database
from service.http.bodies import JsonRequest
from service.http.connected import see_through, while_connected
from service.reports import FORMS, ReportSubject
from service_client.terms import ReportForm
from sizing.report import SizingReport
from sizing.scenario import Scenario

THREADS = 2
"""Max threads that compute at a time. Python runs one of them; with each further one the event loop waits 5 ms longer
for its turn (`sys.getswitchinterval`). Two, so that one may wait for the database."""
MAX_ASKED = 256
"""Max questions in threads, with those that wait: of 20 ms each, the last one's turn comes within SECONDS_TO_WAIT."""


class Sizings:
    """Answers to scenarios, in any report form."""

    def __init__(self, database: Database, pool: ComputePool, loop_turns: FairTurns) -> None:
        self._database = database
        self._loop_turns = loop_turns
        self._pool = pool
        self._quick = QuickAnswers(database)
        self._cache = AnswerCache()
        self._turns = FairTurns(THREADS, max_asked=MAX_ASKED)

    async def answer_again(
        self, request: JsonRequest, form: ReportForm, subject: ReportSubject, scenario: Scenario
    ) -> bytes:
        """Answer as `answer` does, or from the cache where the same bytes were asked and name no calibration."""
        is_cached = form == "json" and (scenario.storage is None or scenario.storage.calibration is None)
        content = self._cache.get(request.content) if is_cached else None
        if content is None:
            content = await self.answer(request, form, subject, scenario, may_be_job=True)
            if is_cached:
                self._cache.keep(request.content, content)
        return content

    async def answer(
        self,
        request: Request,
        form: ReportForm,
        subject: ReportSubject,
        scenario: Scenario,
        *,
        may_be_job: bool = False,
    ) -> bytes:
        """Answer a scenario, which may name a stored calibration, in one of its forms.

        Raises InvalidInput, which is OutOfTime of one that `may_be_job` as `ComputePool.run` says, or ClientGone where
        nobody waits for it any more.
        """
        is_in_words = form == "presentation" and scenario.leaves_degrees_open  # its charts need the layout found
        if not FORMS[form].has_charts and not is_in_words:
            client = client_of(request.scope)
            async with self._loop_turns.step(client, max_seconds=SECONDS_TO_WAIT):
                report = self._quick.answer_at_once(scenario)
                if report is not None:
                    return heavy.sizing_report_in(form, subject, scenario, report)
            report = await while_connected(request, self._answer_in_turn(request, scenario))
            if report is not None:
                calibrated = await self.calibrate(request, scenario)
                async with self._loop_turns.step(client, max_seconds=SECONDS_TO_WAIT):
                    return heavy.sizing_report_in(form, subject, calibrated, report)
        calibrated = await self.calibrate(request, scenario)
        return await ClientCompute(self._pool, request).run(
            heavy.sizing_in, form, subject, calibrated, may_be_job=may_be_job
        )

    async def has_quick_answer(self, request: Request, scenario: Scenario) -> bool:
        """Tell whether a scenario has a quick answer. Raises InvalidInput where it is refused."""
        if self._quick.answer_at_once(scenario) is not None:
            return True
        return await while_connected(request, self._answer_in_turn(request, scenario)) is not None

    async def calibrate(self, request: Request, scenario: Scenario) -> Scenario:
        """Replace the calibration id in a scenario, whose charts show the calibration; return others unchanged.

        Raises MissingScope where the token of the request is limited to other storage systems.
        """
        if scenario.storage is None or scenario.storage.calibration is None:
            return scenario
        limits = functools.partial(systems_of, request)
        return await run_in_threadpool(with_calibration, self._database, scenario, limits=limits)

    async def _answer_in_turn(self, request: Request, scenario: Scenario) -> SizingReport | None:
        limits = functools.partial(systems_of, request)
        async with self._turns.turn(client_of(request.scope), max_seconds=SECONDS_TO_WAIT):
            return await see_through(self._quick.answer_in_thread(scenario, limits=limits))


async def sizings_of(request: Request) -> Sizings:
    """Return the sizings of the service that got the request."""
    sizings: Sizings = request.app.state.sizings
    return sizings


AnyCost = Annotated[Sizings, Depends(sizings_of)]


MAX_CACHED_BYTES = 8 * 1024 * 1024
"""Questions and answers of a process together: some 700 of the reference case."""
MAX_ONE_BYTES = 64 * 1024
"""Max bytes of one question with its answer. Larger ones hold lists of tensors, and would push out many others."""


class AnswerCache:
    """Cache of the latest answers, by the bytes of their questions. An answer must depend on nothing else."""

    def __init__(self) -> None:
        self._answers: OrderedDict[bytes, bytes] = OrderedDict()
        self._num_bytes = 0

    def get(self, question: bytes) -> bytes | None:
        """Return the cached answer, or None."""
        if question not in self._answers:
            return None
        self._answers.move_to_end(question)
        return self._answers[question]

    def keep(self, question: bytes, answer: bytes) -> None:
        """Cache an answer. The least recently used answers are dropped."""
        if question in self._answers or len(question) + len(answer) > MAX_ONE_BYTES:
            return
        self._answers[question] = answer
        self._num_bytes += len(question) + len(answer)
        while self._num_bytes > MAX_CACHED_BYTES:
            self._num_bytes -= sum(map(len, self._answers.popitem(last=False)))
