"""Which answers are computed by the event loop itself: those of layouts that have proved quick."""

import asyncio
import contextlib
import itertools
import threading
from pathlib import Path
from typing import Any

import pytest

from service.answers import quick
from service.answers.quick import QUICK_SECONDS, SLOW_SECONDS, SURELY_SLOW_SECONDS, QuickAnswers
from service.database import open_database
from sizing.errors import InvalidInput
from sizing.report import SizingReport, answer
from sizing.scenario import REFERENCE_SCENARIO, Scenario, scenario_from


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

    async def report_of(scenario: Scenario) -> SizingReport | None:
        return answers.answer_at_once(scenario) or await answers.answer_in_thread(scenario)

    async def ask() -> None:
        first = await report_of(scenario_from(REFERENCE_SCENARIO))
        assert (await report_of(scenario_from(REFERENCE_SCENARIO))) == first
        of_other = await report_of(other)
        assert first is not None
        assert of_other is not None
        assert of_other.layout == first.layout

    asyncio.run(ask())
    assert computed_by == [False, is_quick, is_quick]


def test_other_targets_are_learned_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick, "time", Clock(0.0))
    answers = QuickAnswers(open_database(f"sqlite:///{tmp_path}/x.db"))
    asked = scenario_from(REFERENCE_SCENARIO)
    with_goodput = scenario_from(REFERENCE_SCENARIO | {"targets": {"min_goodput_fraction": 0.9}})
    with_others = scenario_from(REFERENCE_SCENARIO | {"targets": {"max_overhead_fraction": 0.02}})
    asyncio.run(answers.answer_in_thread(asked))
    assert answers.answer_at_once(asked) is not None
    assert answers.answer_at_once(with_goodput) is None
    assert answers.answer_at_once(with_others) is None


def test_what_was_quick_and_is_no_more_goes_to_a_thread_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, asked = QuickAnswers(open_database(f"sqlite:///{tmp_path}/x.db")), scenario_from(REFERENCE_SCENARIO)
    monkeypatch.setattr(quick, "time", Clock(0.0))
    asyncio.run(answers.answer_in_thread(asked))
    assert answers.answer_at_once(asked) is not None
    monkeypatch.setattr(quick, "time", Clock(1.01 * QUICK_SECONDS))
    assert answers.answer_at_once(asked) is not None
    assert answers.answer_at_once(asked) is None


@pytest.mark.parametrize(
    ("seconds", "num_answers"),
    [(0.99 * SLOW_SECONDS, 3), (1.01 * SLOW_SECONDS, 2), (1.01 * SURELY_SLOW_SECONDS, 1)],
    ids=["usual", "slow", "surely slow"],
)
def test_a_model_whose_answer_was_slow_is_left_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, num_answers: int
) -> None:
    monkeypatch.setattr(quick, "time", Clock(seconds))
    answers = QuickAnswers(open_database(f"sqlite:///{tmp_path}/x.db"))

    def report_of(preset: str, **degrees: int) -> SizingReport | None:
        asked = scenario_from({"model": {"preset": preset}, "parallelism": degrees})
        return answers.answer_at_once(asked) or asyncio.run(answers.answer_in_thread(asked))

    reports = [report_of("gpt2", data=data) for data in (2, 4, 8)]
    assert [report is not None for report in reports] == [place < num_answers for place in range(3)]
    assert report_of("llama-3.1-8b", data=4) is not None


@pytest.mark.parametrize("failure", [InvalidInput([]), MemoryError()], ids=["refusal", "memory"])
def test_a_slow_refusal_is_slow_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    answers, asked = QuickAnswers(open_database(f"sqlite:///{tmp_path}/x.db")), scenario_from(REFERENCE_SCENARIO)
    computed: list[Any] = []

    def refused(scenario: Any) -> Any:
        computed.append(scenario)
        raise failure

    monkeypatch.setattr(quick, "answer", refused)
    monkeypatch.setattr(quick, "time", Clock(1.01 * SURELY_SLOW_SECONDS))
    with contextlib.suppress(InvalidInput):
        assert asyncio.run(answers.answer_in_thread(asked)) is None
    assert asyncio.run(answers.answer_in_thread(asked)) is None
    assert len(computed) == 1, "the second is for the processes that compute"


def test_a_quick_refusal_does_not_make_a_layout_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = QuickAnswers(open_database(f"sqlite:///{tmp_path}/x.db"))
    monkeypatch.setattr(quick, "time", Clock(0.0))
    asked = scenario_from(REFERENCE_SCENARIO)

    def refused(_: Any) -> Any:
        raise InvalidInput([])

    monkeypatch.setattr(quick, "answer", refused)
    with pytest.raises(InvalidInput):
        asyncio.run(answers.answer_in_thread(asked))
    assert answers.answer_at_once(asked) is None
