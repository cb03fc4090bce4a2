"""What must fit grows to the kept checkpoints and then by kept weights; the offer is full when the ledger says."""

import copy
from typing import Any

import pytest

from sizing.questions.decide.request import REFERENCE_DECISION
from sizing.questions.registry import DECIDE
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO

KEPT: dict[str, Any] = {"keep_last": 3, "keep_weights_every": 6, "run_seconds": "90d", "free_fraction": 0.2}
WEIGHTS = 13.8e12 * 2 / 14
"""bf16 weights of the reference case, 14 bytes per parameter in all."""


def test_the_last_day_holds_what_the_capacity_says() -> None:
    """4 h between saves: four checkpoints after 12 h, and the weights of one each day from then on."""
    report = answer(REFERENCE_SCENARIO | {"retention": KEPT})
    first, *_, last = report.capacity_over_time
    assert first.num_checkpoints == 1
    assert first.usable_bytes == pytest.approx(13.8e12 / 0.8)
    full = next(at for at in report.capacity_over_time if at.at_seconds == 12 * 3600)
    assert full.num_checkpoints == 4
    assert full.checkpoints_bytes == pytest.approx(4 * 13.8e12)
    assert last.usable_bytes == pytest.approx(report.capacity.usable_bytes)
    assert last.kept_weights_bytes == pytest.approx(90 * WEIGHTS, rel=1e-3)
    assert [at.at_seconds for at in report.capacity_over_time[2:]] == pytest.approx(
        [day * 86_400 for day in range(9, 91, 9)]
    )


def test_nothing_is_told_of_a_run_of_unknown_length() -> None:
    assert answer(REFERENCE_SCENARIO).capacity_over_time == []


@pytest.mark.parametrize(
    ("offered", "days"),
    [(10e12, 0.0), (50e12, 0.5 - 4 / 24), (200e12, (200e12 * 0.8 - 4 * 13.8e12) / WEIGHTS), (None, None)],
)
def test_an_offer_is_full_when_the_ledger_says(offered: float | None, days: float | None) -> None:
    """With the interval as asked for, one save in 4 h: 50 TB less a fifth hold two checkpoints, not the third."""
    request = copy.deepcopy(REFERENCE_DECISION) | {"chooses_interval": False, "settings": {}}
    request["workloads"][0]["scenario"]["retention"] = KEPT
    request["offers"] = [request["offers"][0] | ({"capacity_bytes": offered} if offered else {})]
    workload = DECIDE.answer(request).offers[0].workloads[0]
    if days is None:
        assert workload.capacity_full_seconds is None
    else:
        assert workload.capacity_full_seconds == pytest.approx(days * 86_400, rel=2e-3)
    assert workload.capacity_over_time[-1].at_seconds == 90 * 86_400
