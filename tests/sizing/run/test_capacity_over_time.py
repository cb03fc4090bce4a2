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
    """4 h between saves, the first after 4 h: four checkpoints after 16 h, and the weights of one each day."""
    report = answer(REFERENCE_SCENARIO | {"retention": KEPT})
    first, *_, last = report.capacity_over_time
    assert (first.at_seconds, first.num_checkpoints, first.usable_bytes) == (0, 0, 0)
    full = next(at for at in report.capacity_over_time if at.at_seconds == 16 * 3600)
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
    [(10e12, 4 / 24), (50e12, 0.5), (200e12, (200e12 * 0.8 - 4 * 13.8e12) / WEIGHTS), (None, None)],
)
def test_an_offer_is_full_when_the_ledger_says(offered: float | None, days: float | None) -> None:
    """With the interval as asked for, one save in 4 h: 50 TB less a fifth hold two checkpoints, not the third at 12 h."""
    request = copy.deepcopy(REFERENCE_DECISION) | {"chooses_interval": False, "settings": {}}
    request["workloads"][0]["scenario"]["retention"] = KEPT
    request["offers"] = [request["offers"][0] | ({"capacity_bytes": offered} if offered else {})]
    workload = DECIDE.answer(request).offers[0].workloads[0]
    if days is None:
        assert workload.capacity_full_seconds is None
    else:
        assert workload.capacity_full_seconds == pytest.approx(days * 86_400, rel=2e-3)
    assert workload.capacity_over_time[-1].at_seconds == 90 * 86_400


@pytest.mark.parametrize(("offered", "hours"), [(5e12, 4), (20e12, 8), (30e12, 12), (45e12, 16)])
def test_a_decision_and_an_answer_say_alike_when_a_disk_is_full(offered: float, hours: int) -> None:
    """Kept are three, with one being written: the first that does not fit is saved after so many intervals of 4 h."""
    request = copy.deepcopy(REFERENCE_DECISION) | {"chooses_interval": False, "settings": {}}
    request["workloads"][0]["scenario"]["retention"] = {"keep_last": 3}
    request["offers"] = [request["offers"][0] | {"capacity_bytes": offered}]
    decided = DECIDE.answer(request).offers[0].workloads[0]
    retention = {"keep_last": 3, "disk_bytes": offered}
    answered = answer(REFERENCE_SCENARIO | {"retention": retention}).capacity
    assert decided.capacity_full_seconds == answered.disk_full_seconds == hours * 3600
    before = [at.usable_bytes for at in decided.capacity_over_time if at.at_seconds < hours * 3600]
    assert all(used <= offered for used in before)
