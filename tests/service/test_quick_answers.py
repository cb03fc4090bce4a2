"""Which answers are computed by the event loop itself: those of layouts that have proved quick."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from service.answers import quick
from service.answers.quick import QuickAnswers
from service.database import open_database
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from tests.service.test_ckpt_serve import LARGE

UNEQUAL = {"model": {"architecture": LARGE}, "parallelism": {"pipeline": 1024, "layers_per_stage": [1, 3] * 512}}


@pytest.mark.parametrize(
    ("document", "is_quick"), [(REFERENCE_SCENARIO, True), (UNEQUAL, False)], ids=["reference", "unequal stages"]
)
def test_a_layout_needs_no_thread_once_it_has_proved_quick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, document: dict[str, Any], is_quick: bool
) -> None:
    answers = QuickAnswers(open_database(f"sqlite:///{tmp_path}/x.db"))
    computed_by: list[bool] = []

    def noted(scenario: Any) -> Any:
        computed_by.append(threading.current_thread() is threading.main_thread())
        return answer(scenario)

    monkeypatch.setattr(quick, "answer", noted)
    other = scenario_from(document | {"reliability": {"failures_per_node_day": 0.001}})

    async def ask() -> None:
        first = await answers.answer(scenario_from(document))
        assert (await answers.answer(scenario_from(document))) == first
        assert (await answers.answer(other)).layout == first.layout

    asyncio.run(ask())
    assert computed_by == [False, is_quick, is_quick]
