"""Which answers are computed by the event loop itself: those of layouts that have proved quick."""

import asyncio
import itertools
import threading
from pathlib import Path
from typing import Any

import pytest

from service.answers import quick
from service.answers.quick import QUICK_SECONDS, QuickAnswers
from service.database import open_database
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from


class Clock:
    """Processor time, of which every answer takes so much."""

    def __init__(self, seconds: float) -> None:
        self._readings = itertools.count(step=seconds)

    def thread_time(self) -> float:
        return next(self._readings)


@pytest.mark.parametrize(
    ("seconds", "is_quick"), [(0.99 * QUICK_SECONDS, True), (1.01 * QUICK_SECONDS, False)], ids=["quick", "slow"]
)
def test_a_layout_needs_no_thread_once_it_has_proved_quick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, is_quick: bool
) -> None:
    monkeypatch.setattr(quick, "time", Clock(seconds))
    answers = QuickAnswers(open_database(f"sqlite:///{tmp_path}/x.db"))
    computed_by: list[bool] = []

    def noted(scenario: Any) -> Any:
        computed_by.append(threading.current_thread() is threading.main_thread())
        return answer(scenario)

    monkeypatch.setattr(quick, "answer", noted)
    other = scenario_from(REFERENCE_SCENARIO | {"reliability": {"failures_per_node_day": 0.001}})

    async def ask() -> None:
        first = await answers.answer(scenario_from(REFERENCE_SCENARIO))
        assert (await answers.answer(scenario_from(REFERENCE_SCENARIO))) == first
        assert (await answers.answer(other)).layout == first.layout

    asyncio.run(ask())
    assert computed_by == [False, is_quick, is_quick]
