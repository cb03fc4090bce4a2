"""Spares are proposed where they are allowed and pay for their idle GPUs, with what they save."""

import copy
from typing import Any

import pytest

from sizing.questions.decide.report import OfferDecision
from sizing.questions.decide.request import REFERENCE_DECISION
from sizing.questions.registry import DECIDE

STANDING_BY = {
    "failures_per_node_day": 0.0065,
    "strategy": "restart",
    "repair_seconds": "6h",
    "spares": {"num": 3, "swap_seconds": 60},
}


def decided(settings: dict[str, list[Any]], reliability: dict[str, Any]) -> OfferDecision:
    request = copy.deepcopy(REFERENCE_DECISION) | {"settings": settings, "chooses_interval": False}
    request["workloads"][0]["scenario"]["reliability"] = reliability
    return DECIDE.answer(request).offers[0]


def test_spares_are_proposed_with_what_they_save() -> None:
    offer = decided({"reliability.strategy": ["restart", "spares"]}, STANDING_BY)
    (change,) = offer.workloads[0].changes
    assert (change.field, change.before, change.after) == ("reliability.strategy", "restart", "spares")
    assert offer.total is not None
    assert change.saves == pytest.approx((offer.total_as_asked or 0) - offer.total)
    as_said = decided({}, STANDING_BY | {"strategy": "spares"})
    assert offer.lost_gpu_hours == pytest.approx(as_said.lost_gpu_hours)


def test_spares_that_cost_more_than_they_save_are_not_proposed() -> None:
    """A node that is back within a minute needs none in its place; 100 idle nodes do."""
    idle = STANDING_BY | {"repair_seconds": 60, "spares": {"num": 100}}
    offer = decided({"reliability.strategy": ["restart", "spares"]}, idle)
    assert offer.workloads[0].changes == []
