"""Offers are compared again at each size to which the workloads may grow, as if that size had been asked for."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.questions.decide.briefing import brief_decision
from sizing.questions.decide.report import GrowthOutcome
from sizing.questions.decide.request import REFERENCE_DECISION, DecisionRequest
from sizing.questions.decide.words import decision_summary
from sizing.questions.registry import DECIDE
from sizing.scenario import REFERENCE_SCENARIO
from sizing.units import SECONDS_PER_YEAR

WRITTEN_BYTES = REFERENCE_SCENARIO["checkpoint"]["observed_bytes"]
DEAR_AND_CHEAP: list[dict[str, Any]] = [
    {
        "name": name,
        "storage": {"profile": {"write_bytes_per_second": rate, "read_bytes_per_second": rate}},
        "prices": [{"amount": amount, "per": "offer", "every": "once"}],
    }
    for name, rate, amount in (("slow", "100 GB/s", 1e5), ("quick", "400 GB/s", 1e6))
]


def decision(**changed: Any) -> dict[str, Any]:
    return deepcopy(REFERENCE_DECISION) | changed


def at_sizes(**growth: Any) -> list[GrowthOutcome]:
    return DECIDE.answer(decision(growth=growth)).growth


def totals(size: GrowthOutcome) -> dict[str, float | None]:
    return {offer.name: offer.total for offer in size.offers}


def totals_of(document: dict[str, Any]) -> dict[str, Any]:
    return {offer.name: pytest.approx(offer.total, rel=1e-9) for offer in DECIDE.answer(document).offers}


@pytest.mark.parametrize("of", ["gpus", "model"])
def test_at_the_same_size_every_offer_costs_what_it_does_without_growth(of: str) -> None:
    (same,) = at_sizes(of=of, times=[1])
    assert totals(same) == totals_of(decision())


def test_twice_the_gpus_are_twice_the_replicas_nodes_and_failures() -> None:
    (twice,) = at_sizes(times=[2])
    asked = decision()
    scenario = asked["workloads"][0]["scenario"]
    scenario["parallelism"]["data"] *= 2
    scenario["cluster"]["num_gpus"] *= 2
    assert (twice.num_gpus, totals(twice)) == (6144, totals_of(asked))


def test_an_mtbf_of_the_whole_job_is_shorter_with_more_gpus() -> None:
    asked = decision(growth={"times": [3]})
    asked["workloads"][0]["scenario"]["reliability"] = {"mtbf_seconds": "9h"}
    _, _, grown = next(DecisionRequest.model_validate(asked).grown_requests())
    (workload,) = grown.workloads
    assert workload.scenario.reliability is not None
    assert workload.scenario.reliability.mtbf_seconds == pytest.approx(3 * 3600)


def test_a_batch_and_a_number_of_gpus_grow_with_the_replicas_that_are_whole() -> None:
    asked = decision(growth={"times": [1.4]})
    scenario = asked["workloads"][0]["scenario"]
    scenario["training"] = {
        **scenario.get("training", {}),
        "global_batch_size": 24,
        "sequence_length": 2048,
        "micro_batch_size": 1,
    }
    _, _, grown = next(DecisionRequest.model_validate(asked).grown_requests())
    larger = grown.workloads[0].scenario
    assert (larger.parallelism.data, larger.training.global_batch_size, larger.cluster.num_gpus) == (8, 32, 4096)


def test_twice_the_model_is_twice_the_bytes_of_a_checkpoint_on_the_same_gpus() -> None:
    (twice,) = at_sizes(of="model", times=[2])
    asked = decision()
    asked["workloads"][0]["scenario"]["checkpoint"]["observed_bytes"] = "27.6 TB"
    assert WRITTEN_BYTES == "13.8 TB"
    assert (twice.num_gpus, totals(twice)) == (3072, totals_of(asked))


def test_of_a_growth_per_year_each_year_has_its_own_size() -> None:
    (years,) = DECIDE.answer(decision(horizon_seconds="2.5y", growth={"per_year": 2})).growth
    (workload,) = REFERENCE_DECISION["workloads"]
    phases = []
    for data, share in ((6, 0.4), (12, 0.4), (24, 0.2)):
        scenario = deepcopy(workload["scenario"])
        scenario["parallelism"]["data"] = data
        scenario["cluster"]["num_gpus"] = 512 * data
        phases.append({"name": str(data), "scenario": scenario, "share_fraction": share})
    assert totals(years) == totals_of(decision(horizon_seconds="2.5y", workloads=phases))
    assert (years.is_per_year, years.num_gpus) == (True, 4 * 3072)


def test_the_verdict_and_the_first_page_say_at_which_size_another_offer_wins() -> None:
    report = DECIDE.answer(decision(offers=DEAR_AND_CHEAP, horizon_seconds="30d", growth={"times": [1.5, 3]}))
    firsts = [size.offers[0].name for size in report.growth]
    assert (report.offers[0].name, firsts) == ("slow", ["slow", "quick"])
    said = decision_summary(report).verdict
    assert "or with GPUs x3." in said
    assert "slow stays first with GPUs x1.5." in said
    rows = [row for row in brief_decision(report).grids[1].rows if row[0] == "GPUs"]
    cost = report.growth[1].offers[0].total
    assert rows[1] == ("GPUs", "3,072", "9,216", f"quick, ${cost:,.0f}")


def test_a_size_says_what_each_offer_misses_there() -> None:
    asked = decision(offers=DEAR_AND_CHEAP, growth={"times": [1, 2, 8]})
    asked["workloads"][0]["scenario"]["targets"] = {"min_goodput_fraction": 0.9}
    for number, offer in enumerate(asked["offers"]):
        offer["capacity_bytes"] = f"{100 * (2 - number)} TB"
    report = DECIDE.answer(asked)
    rows = next(grid for grid in decision_summary(report).grids if grid.title == "Offers as the run grows").rows
    misses: dict[str, list[str]] = {}
    for size, row in zip(report.growth, rows, strict=True):
        asked_there = deepcopy(asked) | {"growth": None}
        scenario = asked_there["workloads"][0]["scenario"]
        scenario["parallelism"]["data"] *= int(size.times)
        scenario["cluster"]["num_gpus"] *= int(size.times)
        for offer, there in zip(size.offers, DECIDE.answer(asked_there).offers, strict=True):
            named = [sentence.split(": ")[1].split(" is ")[0] for sentence in there.missing]
            assert (offer.name, offer.verdict, offer.missed) == (there.name, there.verdict, named)
            misses.setdefault(offer.name, []).extend(offer.missed)
            words = "not enough (misses min goodput)" if offer.missed else "enough"
            shown = row[3] if offer is size.offers[0] else row[5]
            assert shown.endswith(words)
    assert {name: len(each) for name, each in misses.items()} == {"slow": 2, "quick": 1}


def test_growth_without_a_size_is_refused() -> None:
    with pytest.raises(InvalidInput, match="has neither times nor per_year"):
        at_sizes(of="gpus")


def total_of_growth(price: dict[str, Any], *, horizon: str = "2y", per_year: float = 2) -> float | None:
    offer = {**DEAR_AND_CHEAP[1], "prices": [price]}
    (grown,) = DECIDE.answer(
        decision(offers=[offer], horizon_seconds=horizon, per_lost_gpu_hour=0, growth={"per_year": per_year})
    ).growth
    return grown.offers[0].total


@pytest.mark.parametrize(
    ("per", "more", "num_at_first"),
    [("node", {}, 384), ("gpu", {}, 3072), ("nic", {"per_node": 2}, 768), ("nvme-drive", {"per_node": 4}, 1536)],
)
def test_what_is_paid_each_year_for_nodes_is_for_those_of_that_year(
    per: str, more: dict[str, Any], num_at_first: int
) -> None:
    yearly = total_of_growth({"amount": 10, "per": per, "every": "year"} | more)
    assert yearly == pytest.approx(10 * (num_at_first + 2 * num_at_first))
    monthly = total_of_growth({"amount": 10, "per": per, "every": "month"} | more)
    assert monthly == pytest.approx(10 * 12 * 3 * num_at_first)


def test_a_year_that_is_cut_short_is_paid_in_part() -> None:
    price = {"amount": 10, "per": "node", "every": "year"}
    assert total_of_growth(price, horizon="2.5y") == pytest.approx(10 * 384 * (1 + 2 + 4 / 2))


def test_nodes_that_are_bought_and_capacity_are_those_of_the_last_year() -> None:
    assert total_of_growth({"amount": 10, "per": "node", "every": "once"}) == pytest.approx(10 * 2 * 384)
    capacity = {"amount": 10, "per": "terabyte", "every": "year"}
    assert total_of_growth(capacity) == pytest.approx(total_of_growth(capacity, per_year=1))


def test_of_workloads_in_the_same_year_the_one_with_most_nodes_decides() -> None:
    asked = decision(horizon_seconds="2y", per_lost_gpu_hour=0, growth={"per_year": 2})
    (first,) = asked["workloads"]
    small = deepcopy(first["scenario"])
    small["parallelism"]["data"], small["cluster"]["num_gpus"] = 3, 1536
    asked["workloads"] = [
        {**first, "share_fraction": 0.5},
        {"name": "small", "scenario": small, "share_fraction": 0.5},
    ]
    asked["offers"] = [{**DEAR_AND_CHEAP[1], "prices": [{"amount": 10, "per": "node", "every": "year"}]}]
    (grown,) = DECIDE.answer(asked).growth
    assert grown.offers[0].total == pytest.approx(10 * (384 + 768))


KEPT_8B: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "parallelism": {"data": 8},
    "cluster": {"node": "dgx-h100"},
    "training": {"framework": "megatron", "distributed_optimizer": True},
    "checkpoint": {"interval_seconds": "30min", "mode": "sync"},
    "reliability": {"mtbf_seconds": "100h"},
    "retention": {"keep_last": 1, "keep_weights_every": 10},
}
KEPT_A_YEAR = 365.25 * 48 / 10 * 2 * 8_030_261_248
"""Every tenth of the saves of a year, 2 bytes for each parameter."""
SAVE_BYTES = 14 * 8_030_261_248
"""Weights in 2 bytes, weights and two moments in 4."""


def kept_decision(**changed: Any) -> dict[str, Any]:
    """Decide on 8B over five years, with every tenth checkpoint's weights kept and a price of 1 per TB."""
    rates = {"profile": {"write_bytes_per_second": "5 GB/s", "read_bytes_per_second": "5 GB/s"}}
    per_terabyte = {"amount": 1, "per": "terabyte", "every": "once"}
    return {
        "currency": "EUR",
        "horizon_seconds": "5y",
        "per_lost_gpu_hour": 0,
        "settings": {},
        "chooses_interval": False,
        "workloads": [{"name": "8B", "scenario": deepcopy(KEPT_8B)}],
        "offers": [
            {"name": "rented", "storage": rates, "prices": [per_terabyte]},
            {"name": "bought", "storage": rates, "capacity_bytes": "60 TB", "prices": [per_terabyte]},
        ],
    } | changed


def test_weights_that_each_year_keeps_for_good_add_up_over_the_years() -> None:
    (years,) = DECIDE.answer(kept_decision(growth={"of": "model", "per_year": 1.01})).growth
    kept = KEPT_A_YEAR * sum(1.01**year for year in range(5))
    in_the_last_year = 2 * SAVE_BYTES * 1.01**4
    assert kept + in_the_last_year == pytest.approx(143.88e12, rel=1e-3)
    assert totals(years)["rented"] == pytest.approx((kept + in_the_last_year) / 1e12, rel=1e-4)
    assert [(each.name, each.verdict, each.missed) for each in years.offers] == [
        ("rented", "enough", []),
        ("bought", "not enough", ["capacity_bytes"]),
    ]


@pytest.mark.parametrize("of", ["gpus", "model"])
@pytest.mark.parametrize("more", [{}, {"run_seconds": "5y"}, {"run_seconds": "60d", "free_fraction": 0.2}])
def test_a_growth_of_nothing_keeps_as_many_weights_as_none(of: str, more: dict[str, Any]) -> None:
    asked = kept_decision(growth={"of": of, "per_year": 1})
    asked["workloads"][0]["scenario"]["retention"] |= more
    (years,) = DECIDE.answer(asked).growth
    assert totals(years) == totals_of(asked | {"growth": None})


def test_a_rent_of_capacity_that_grows_is_said_to_be_counted_at_its_end() -> None:
    asked = kept_decision(horizon_seconds="1y")
    asked["offers"] = [
        offer | {"prices": [{"amount": 20, "per": "terabyte", "every": "month"}]} for offer in asked["offers"]
    ]
    report = DECIDE.answer(asked)
    totals = {each.name: each.total for each in report.offers}
    assert totals["rented"] == pytest.approx(12 * 20 * (KEPT_A_YEAR + 2 * SAVE_BYTES) / 1e12, rel=1e-4)
    said = "Rented by the terabyte: rented. Each month or year is counted with the capacity at the end of the horizon"
    assert sum(warning.startswith(said) for warning in report.warnings) == 1
    del asked["workloads"][0]["scenario"]["retention"]["keep_weights_every"]
    assert not any("Rented" in warning for warning in DECIDE.answer(asked).warnings)


def test_intervals_of_early_years_leave_room_for_the_weights_of_later_ones() -> None:
    asked = kept_decision(growth={"per_year": 1.1}, chooses_interval=True, per_lost_gpu_hour=2.5)
    asked["workloads"][0]["scenario"]["reliability"] = {"mtbf_seconds": "5h"}
    (years,) = DECIDE.answer(asked).growth
    assert {each.name: each.verdict for each in years.offers} == {"rented": "enough", "bought": "enough"}


def test_weights_that_a_workload_keeps_for_good_stay_beside_those_of_the_next() -> None:
    asked = kept_decision(
        odds={"num_draws": 100, "ranges": {"reliability.mtbf_seconds": {"low": "50h", "high": "90h"}}}
    )
    (first,) = asked["workloads"]
    asked["workloads"] = [first | {"share_fraction": 0.2}, first | {"name": "next", "share_fraction": 0.8}]
    report = DECIDE.answer(asked)
    by_name = {each.name: each for each in report.offers}
    held = 5 * KEPT_A_YEAR + 2 * SAVE_BYTES
    assert by_name["rented"].total == pytest.approx(held / 1e12, rel=1e-4)
    assert by_name["bought"].missing == [
        "next: keeps 112.9 TB beside 28.16 TB of weights kept before, and 60.00 TB are offered"
    ]
    early, late = by_name["bought"].workloads
    assert [need.needed for need in late.needs if need.field == "capacity_bytes"] == pytest.approx([held], rel=1e-4)
    assert [early.capacity_over_time[-1].usable_bytes, late.capacity_over_time[-1].usable_bytes] == pytest.approx(
        [KEPT_A_YEAR + 2 * SAVE_BYTES, held], rel=1e-4
    )
    assert early.capacity_full_seconds is not None
    assert late.capacity_full_seconds == pytest.approx(
        (60e12 - 2 * SAVE_BYTES - KEPT_A_YEAR) / KEPT_A_YEAR * SECONDS_PER_YEAR, rel=1e-4
    )
    assert report.odds is not None
    assert {each.name: each.enough_probability for each in report.odds.offers} == {"rented": 1.0, "bought": 0.0}
