"""Where a sizing is computed: beside the event loop, in a thread, or in a process of its own, by what it costs."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from service.access.client import client_of
from service.answers import heavy
from service.answers.calibrated import with_calibration
from service.answers.kept import KeptAnswers
from service.answers.quick import QuickAnswers
from service.compute.fair_turns import FairTurns
from service.compute.pool import SECONDS_TO_WAIT, ClientCompute, ComputePool
from service.database import Database
from service.http.connected import seen_through, while_connected
from service.http.json_bodies import JsonRequest
from service.reports.asked import Asked
from service.reports.forms import FORMS
from service_client.terms import ReportForm
from sizing.report import SizingReport
from sizing.scenario import Scenario

THREADS = 2
"""That compute at a time. Python runs one of them; with each further one the event loop waits 5 ms longer for its turn
(`sys.getswitchinterval`). Two, so that one may wait for the database."""
MAX_ASKED = 256
"""Of questions in threads, with those that wait: of 20 ms each, the last one's turn comes within SECONDS_TO_WAIT."""


class Sizings:
    """Answers to scenarios, in any form."""

    def __init__(self, database: Database, pool: ComputePool) -> None:
        self._database = database
        self._pool = pool
        self._quick = QuickAnswers(database)
        self._kept = KeptAnswers()
        self._turns = FairTurns(THREADS, max_asked=MAX_ASKED)

    async def answered_again(self, request: JsonRequest, form: ReportForm, asked: Asked, scenario: Scenario) -> bytes:
        """As `answered`, or the answer to the same words where it is kept: none that names a calibration is."""
        is_alone = form == "json" and (scenario.storage is None or scenario.storage.calibration is None)
        content = self._kept.get(request.content) if is_alone else None
        if content is None:
            content = await self.answered(request, form, asked, scenario)
            if is_alone:
                self._kept.keep(request.content, content)
        return content

    async def answered(self, request: Request, form: ReportForm, asked: Asked, scenario: Scenario) -> bytes:
        """The answer to a scenario, which may name a stored calibration, in one of its forms.

        Raises InvalidInput, or ClientGone where nobody waits for it any more.
        """
        is_in_words = form == "presentation" and scenario.leaves_degrees_open  # its charts need the layout found
        if not FORMS[form].has_charts and not is_in_words:
            report = self._quick.at_once(scenario)
            if report is None:
                report = await while_connected(request, self._in_turn(client_of(request.scope), scenario))
            if report is not None:
                return heavy.sizing_report_in(form, asked, await self.calibrated(scenario), report)
        calibrated = await self.calibrated(scenario)
        return await ClientCompute(self._pool, request).run(heavy.sizing_in, form, asked, calibrated)

    async def calibrated(self, scenario: Scenario) -> Scenario:
        """The scenario with the calibration that it names, which charts show; another as it is."""
        if scenario.storage is None or scenario.storage.calibration is None:
            return scenario
        return await run_in_threadpool(with_calibration, self._database, scenario)

    async def _in_turn(self, client: str, scenario: Scenario) -> SizingReport | None:
        async with self._turns.turn(client, max_seconds=SECONDS_TO_WAIT):
            return await seen_through(self._quick.in_thread(scenario))


async def sizings_of(request: Request) -> Sizings:
    """The answers of the service that got the request."""
    sizings: Sizings = request.app.state.sizings
    return sizings


AnyCost = Annotated[Sizings, Depends(sizings_of)]
