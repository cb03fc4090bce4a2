"""Answers without a thread where that is known to be quick.

Handing an answer to a thread and back costs as much as a quick answer itself. A layout of thousands of unequal stages
takes half a second, for which everybody else would wait if the event loop computed it. So the first answer for a layout
is computed in a thread, and the next ones beside the event loop only where that one was quick, and each one since.
To hold a layout against a goodput takes 30 times as long as without one, so each set of targets is learned by itself.
What is known to be costly before it runs is left to other processes.
"""

from __future__ import annotations

import time

from starlette.concurrency import run_in_threadpool

from service.answers.calibrated import with_calibration
from service.answers.cost import is_costly
from service.database import Database
from sizing.report import SizingReport, answer
from sizing.scenario import REFERENCE_SCENARIO, Scenario, scenario_from
from sizing.sized import layout_text

QUICK_SECONDS = 0.02
"""Of processor time. Others wait so long for a quick answer at most; the alternatives of a new layout, which are kept
for the next answers, take about half of it."""
SLOW_SECONDS = 0.1
"""Of processor time. A model in a format whose answer took longer is costly from then on, whatever its degrees: shards
of experts that are dealt to many ranks take half a second, which their number does not tell before."""

_MAX_LAYOUTS = 10_000
"""Remembered: a few megabytes. Then they are learned anew."""


class QuickAnswers:
    """Answers scenarios, and remembers which layouts are quick."""

    def __init__(self, database: Database) -> None:
        self._database = database
        answer(scenario_from(REFERENCE_SCENARIO))  # reads the catalogs, which would make the first layout look slow
        self._is_quick: dict[int, bool] = {}
        self._slow_models: set[int] = set()

    def at_once(self, scenario: Scenario) -> SizingReport | None:
        """The report of a scenario whose layout has proved quick; nothing of others. Raises InvalidInput."""
        is_calibrated = scenario.storage is not None and scenario.storage.calibration is not None
        kind = _kind(layout_text(scenario), scenario)
        if is_calibrated or not self._is_quick.get(kind, False):
            return None
        start = time.thread_time()
        report = answer(scenario)
        self._is_quick[kind] = time.thread_time() - start < QUICK_SECONDS
        return report

    async def in_thread(self, scenario: Scenario) -> SizingReport | None:
        """The report of any other, which may name a stored calibration; nothing of one that is costly.

        Raises InvalidInput.
        """
        text, model = layout_text(scenario), _kind(_model_text(scenario), scenario)
        if model in self._slow_models:
            return None
        report, seconds = await run_in_threadpool(_timed_answer, self._database, scenario, text)
        if report is not None:
            self._learn(_kind(text, scenario), model, seconds)
        return report

    def _learn(self, kind: int, model: int, seconds: float) -> None:
        if len(self._is_quick) >= _MAX_LAYOUTS:
            self._is_quick.clear()
            self._slow_models.clear()
        self._is_quick.setdefault(kind, seconds < QUICK_SECONDS)  # later ones find the layout ready
        if seconds > SLOW_SECONDS:
            self._slow_models.add(model)


def _kind(text: str, scenario: Scenario) -> int:
    """What decides the time of an answer beside the values of storage, interval and failures."""
    return hash((text, frozenset(scenario.targets.model_fields_set)))


def _model_text(scenario: Scenario) -> str:
    """What is saved, in which format: a layout without its degrees, storage and interval."""
    return scenario.model_dump_json(
        include={"model": True, "training": True, "checkpoint": {"format", "optimizer_sharding"}}, exclude_unset=True
    )


def _timed_answer(database: Database, scenario: Scenario, layout: str) -> tuple[SizingReport | None, float]:
    """The report, and the processor time that it took in this thread."""
    if is_costly(scenario, layout):
        return None, 0.0
    start = time.thread_time()
    report = answer(with_calibration(database, scenario))
    return report, time.thread_time() - start
