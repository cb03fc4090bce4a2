"""Answers without a thread where that is known to be quick.

Handing an answer to a thread and back costs as much as a quick answer itself. A layout of thousands of unequal stages
takes half a second, for which everybody else would wait if the event loop computed it. So the first answer for a layout
is computed in a thread, and the next ones beside the event loop only where that first one was quick.
"""

from __future__ import annotations

import time

from starlette.concurrency import run_in_threadpool

from service.answers.calibrated import with_calibration
from service.database import Database
from sizing.report import SizingReport, answer
from sizing.scenario import REFERENCE_SCENARIO, Scenario, scenario_from
from sizing.sized import layout_text

QUICK_SECONDS = 0.02
"""Of processor time. Others wait so long for a quick answer at most; the alternatives of a new layout, which are kept
for the next answers, take about half of it."""

_MAX_LAYOUTS = 10_000
"""Remembered: a few megabytes. Then they are learned anew."""


class QuickAnswers:
    """Answers scenarios, and remembers which layouts are quick."""

    def __init__(self, database: Database) -> None:
        self._database = database
        answer(scenario_from(REFERENCE_SCENARIO))  # reads the catalogs, which would make the first layout look slow
        self._is_quick: dict[int, bool] = {}

    async def answer(self, scenario: Scenario) -> SizingReport:
        """The report of a scenario, which may name a stored calibration. Raises InvalidInput."""
        is_calibrated = scenario.storage is not None and scenario.storage.calibration is not None
        layout = hash(layout_text(scenario))
        if self._is_quick.get(layout, False) and not is_calibrated:
            return answer(scenario)
        report, seconds = await run_in_threadpool(_timed_answer, self._database, scenario)
        if len(self._is_quick) >= _MAX_LAYOUTS:
            self._is_quick.clear()
        self._is_quick.setdefault(layout, seconds < QUICK_SECONDS)  # later ones find the layout ready
        return report


def _timed_answer(database: Database, scenario: Scenario) -> tuple[SizingReport, float]:
    """The report, and the processor time that it took in this thread."""
    start = time.thread_time()
    report = answer(with_calibration(database, scenario))
    return report, time.thread_time() - start
