"""Prices are of what the report sizes, and what is not priced or not known is not invented."""

import copy
from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.report import answer
from sizing.run.costs import Cost
from sizing.scenario import REFERENCE_SCENARIO, scenario_from

PRICES = {"per_terabyte": 20, "per_gigabyte_per_second": 3000, "per_lost_gpu_hour": 2, "run_seconds": "30d"}


def cost(costs: dict[str, Any] | None, **blocks: Any) -> Cost | None:
    document = copy.deepcopy(REFERENCE_SCENARIO) | blocks | ({"costs": costs} if costs else {})
    return answer(scenario_from({name: block for name, block in document.items() if block is not None})).cost


def test_there_is_no_cost_without_prices() -> None:
    assert cost(None) is None


def test_capacity_bandwidth_and_lost_gpu_time_add_up() -> None:
    found = cost(PRICES)
    assert found is not None
    assert found.capacity == pytest.approx(20 * 27.6)
    assert found.bandwidth == pytest.approx(3000 * 273)
    goodput = answer(scenario_from(REFERENCE_SCENARIO)).interval.goodput_at_interval_fraction
    assert goodput is not None
    assert found.lost_gpu_hours == pytest.approx((1 - goodput) * 3072 * 30 * 24)
    assert found.lost_gpu_time == pytest.approx(2 * (1 - goodput) * 3072 * 30 * 24)
    assert found.total == pytest.approx((found.capacity or 0) + (found.bandwidth or 0) + (found.lost_gpu_time or 0))


def test_what_has_no_price_is_left_out_of_the_total() -> None:
    found = cost({"per_terabyte": 20})
    assert found is not None
    assert found.total == found.capacity == pytest.approx(552)
    assert (found.bandwidth, found.lost_gpu_time) == (None, None)


def test_a_price_of_something_unknown_leaves_the_total_unknown() -> None:
    for without in ({"reliability": None}, {"storage": None}):
        found = cost(PRICES, **without)
        assert found is not None
        assert found.lost_gpu_time is None
        assert found.total is None
        assert found.capacity == pytest.approx(552)


@pytest.mark.parametrize(
    ("costs", "rule"),
    [
        ({"run_seconds": "30d"}, "must have at least one of per_terabyte"),
        ({"per_lost_gpu_hour": 2}, "has per_lost_gpu_hour without run_seconds"),
        ({"per_terabyte": -1}, "must be at least 0"),
        ({"per_terabyte": float("inf")}, "must be a finite number"),
    ],
)
def test_prices_are_checked(costs: dict[str, Any], rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule):
        cost(costs)


def test_the_total_holds_what_tiers_store() -> None:
    """An object store behind 405B: 60 daily checkpoints and the one on its way at 250 per TB, by hand."""
    rates = {"profile": {"write_bytes_per_second": "10 GB/s", "read_bytes_per_second": "10 GB/s"}}
    archive = {"kind": "object-store", "interval_seconds": "1d", "keep": 60, "storage": rates, "cost_per_terabyte": 250}
    document = copy.deepcopy(REFERENCE_SCENARIO) | {"costs": {"per_terabyte": 20}}
    document["checkpoint"]["tiers"] = [archive]
    found = answer(scenario_from(document)).cost
    assert found is not None
    assert found.tiers == pytest.approx(61 * 13.8 * 250)
    assert found.total == pytest.approx(61 * 13.8 * 250 + 2 * 13.8 * 20)
