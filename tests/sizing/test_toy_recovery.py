"""The recovery strategy that docs/extending.md adds: it is the one of the page, and relaunches only for lost nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sizing
from sizing.errors import InvalidInput
from sizing.run.failures import Reliability
from sizing.run.levels import Level
from sizing.run.recovery_strategies import RESTART, FailedJob
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.sized_layout import size_layout
from tests.sizing import toy_recovery
from tests.sizing.toy_recovery import IN_PROCESS

PAGE = Path(sizing.__path__[0]).parent / "docs" / "extending.md"


def failed_job(**failures: Any) -> FailedJob:
    reliability = Reliability.model_validate(failures)
    workload = size_layout(scenario_from(REFERENCE_SCENARIO)).workload
    return FailedJob(reliability, workload, [Level(3600.0, 5.0, 0.0, 700.0, 1.0)], 40_000.0)


def test_the_page_shows_this_strategy() -> None:
    assert f"```python\n{Path(toy_recovery.__file__).read_text()}```" in PAGE.read_text()


def test_only_failures_of_nodes_wait_for_a_relaunch() -> None:
    """Of four failures three lose a process alone: 700 s less three quarters of 300 s."""
    parts = [
        {"name": "process", "count": 3, "mtbf_seconds": "100h", "loss_domain": "process"},
        {"name": "node", "count": 1, "mtbf_seconds": "100h", "loss_domain": "node"},
    ]
    job = failed_job(components=parts, relaunch_seconds=300)
    failure_process = IN_PROCESS.failure_process(job)
    assert failure_process.recovery_seconds == pytest.approx(475.0)
    assert failure_process.goodput_fraction > RESTART.failure_process(job).goodput_fraction
    alone = failed_job(mtbf_seconds="10h", relaunch_seconds=300)
    assert IN_PROCESS.failure_process(alone).recovery_seconds == RESTART.failure_process(alone).recovery_seconds
    with pytest.raises(InvalidInput, match="must not be given with strategy in-process"):
        IN_PROCESS.check(failed_job(mtbf_seconds="10h", restart_seconds=600))
