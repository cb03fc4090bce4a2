"""The recovery strategy that docs/extending.md adds: it is the one of the page, and relaunches only for lost nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sizing
from sizing.errors import InvalidInput
from sizing.run.failures import Reliability
from sizing.run.goodput.levels import Level
from sizing.run.recovery.base import Struck
from sizing.run.recovery.restart import RESTART
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.sized import sized
from tests.sizing import toy_recovery
from tests.sizing.toy_recovery import IN_PROCESS

PAGE = Path(sizing.__path__[0]).parent / "docs" / "extending.md"


def struck(**failures: Any) -> Struck:
    reliability = Reliability.model_validate(failures)
    demands = sized(scenario_from(REFERENCE_SCENARIO)).demands
    return Struck(reliability, demands, [Level(3600.0, 5.0, 0.0, 700.0, 1.0)], 40_000.0)


def test_the_page_shows_this_strategy() -> None:
    assert f"```python\n{Path(toy_recovery.__file__).read_text()}```" in PAGE.read_text()


def test_only_failures_of_nodes_wait_for_a_relaunch() -> None:
    """Of four failures three lose a process alone: 700 s less three quarters of 300 s."""
    parts = [
        {"name": "process", "count": 3, "mtbf_seconds": "100h", "loss_domain": "process"},
        {"name": "node", "count": 1, "mtbf_seconds": "100h", "loss_domain": "node"},
    ]
    failed = struck(components=parts, relaunch_seconds=300)
    course = IN_PROCESS.course(failed)
    assert course.recovery_seconds == pytest.approx(475.0)
    assert course.goodput_fraction > RESTART.course(failed).goodput_fraction
    alone = struck(mtbf_seconds="10h", relaunch_seconds=300)
    assert IN_PROCESS.course(alone).recovery_seconds == RESTART.course(alone).recovery_seconds
    with pytest.raises(InvalidInput, match="must not be given with strategy in-process"):
        IN_PROCESS.check(struck(mtbf_seconds="10h", restart_seconds=600))
