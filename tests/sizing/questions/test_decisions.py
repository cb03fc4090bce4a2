"""A decision: a ledger that a hand can keep, settings that nothing beats, and where the ranking turns."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sizing.errors import InvalidInput
from sizing.questions.decide.offers import PRICE_UNITS
from sizing.questions.decide.report import BandwidthCost, DecisionReport, OfferDecision
from sizing.questions.decide.request import REFERENCE_DECISION, DecisionRequest
from sizing.questions.decide.settings import FREE_BY_DEFAULT
from sizing.questions.decide.words import decision_summary
from sizing.questions.registry import DECIDE
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.units import SECONDS_PER_YEAR, parse_bytes_per_second

DAY, YEAR = 86_400.0, SECONDS_PER_YEAR
RUN: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "training": {"framework": "fsdp2"},
    "parallelism": {"data": 64},
    "cluster": {"node": "dgx-h100"},
    "checkpoint": {"interval_seconds": "1h"},
    "reliability": {"mtbf_seconds": "6h", "relaunch_seconds": "5min", "detection_seconds": "1min"},
    "retention": {"keep_last": 4},
}
FLASH = {"profile": {"write_bytes_per_second": "20 GB/s", "read_bytes_per_second": "40 GB/s"}}
SLOW = {"profile": {"write_bytes_per_second": "2 GB/s", "read_bytes_per_second": "2 GB/s"}}

REQUESTS = {"amount": 5, "per": "million-requests", "request_bytes": "8MiB"}


def question(*offers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "currency": "EUR",
        "horizon_seconds": "1y",
        "per_lost_gpu_hour": 2.0,
        "workloads": [{"name": "training", "scenario": copy.deepcopy(RUN)}],
        "offers": list(offers),
    } | more


def offer(name: str = "flash", storage: dict[str, Any] = FLASH, *prices: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "storage": storage, "prices": list(prices)} | more


def answered(storage: dict[str, Any], settings: dict[str, Any]) -> SizingReport:
    document = copy.deepcopy(RUN) | {"storage": storage}
    for field, value in settings.items():
        document["checkpoint"][field.removeprefix("checkpoint.")] = value
    return answer(scenario_from(document))


def lost(report: SizingReport, seconds: float = YEAR) -> float:
    goodput = report.interval.goodput_at_interval_fraction
    assert goodput is not None
    return (1 - goodput) * 64 * seconds / 3600


def costs(found: OfferDecision) -> dict[str, float | None]:
    return {line.name: line.cost for line in found.ledger}


def test_the_total_is_that_of_a_ledger_kept_by_hand() -> None:
    """Every unit of a price once, at the settings as asked. Saves are made while work is done that counts."""
    prices = [
        {"amount": 1e5, "per": "offer", "every": "once", "life_seconds": "4y", "name": "chassis"},
        {"amount": 500, "per": "offer", "every": "month", "name": "support"},
        {"amount": 300, "per": "terabyte", "every": "once"},
        {"amount": 1000, "per": "gigabyte-per-second", "every": "year"},
        {"amount": 700, "per": "node", "every": "once"},
        {"amount": 10, "per": "gpu", "every": "once"},
        {"amount": 0.2, "per": "kilowatt-hour"},
        {"amount": 5, "per": "million-requests", "request_bytes": "8MiB"},
        {"amount": 0.1, "per": "terabyte-written"},
        {"amount": 20, "per": "terabyte-read"},
        {"amount": 5.5, "per": "million-writes", "request_bytes": "8MiB"},
        {"amount": 0.4, "per": "million-reads"},
        {"amount": 900, "per": "nic", "every": "once", "per_node": 2},
        {"amount": 150, "per": "nvme-drive", "every": "once", "per_node": 8, "life_seconds": "3y"},
    ]
    assert {price["per"] for price in prices} == set(PRICE_UNITS)
    asked = offer("flash", FLASH, *prices, capacity_bytes="50TB", power_kilowatts=3)
    (found,) = DECIDE.answer(question(asked, settings={}, chooses_interval=False)).offers
    report = answered(FLASH, {})
    kept = (report.shares.useful_fraction or 0) + (report.shares.saving_fraction or 0)
    assert report.recovery is not None
    saves, restores = kept * YEAR / 3600, report.recovery.restores_per_day * YEAR / DAY
    assert restores == pytest.approx(YEAR / (6 * 3600), rel=0.03)  # but those that strike before a read begins
    written, read, num_files = (
        report.checkpoint.written_bytes,
        report.restore.read_bytes,
        report.checkpoint.num_rank_files,
    )
    steps = (written, read - written)  # every rank reads its file, and before it the metadata
    read_parts = sum(-(-step // num_files // 2**23) for step in steps)
    parts = (-(-written // num_files // 2**23) * saves + read_parts * restores) * num_files
    assert costs(found) == pytest.approx(
        {
            "chassis": 1e5 / 4,
            "support": 6000,
            "terabyte": 50 * 300,
            "gigabyte-per-second": 20 * 1000,
            "node": 8 * 700,
            "gpu": 64 * 10,
            "kilowatt-hour": 3 * YEAR / 3600 * 0.2,
            "million-requests": parts / 1e6 * 5,
            "terabyte-written": written * saves / 1e12 * 0.1,
            "terabyte-read": read * restores / 1e12 * 20,
            "million-writes": -(-written // num_files // 2**23) * num_files * saves / 1e6 * 5.5,
            "million-reads": len(steps) * num_files * restores / 1e6 * 0.4,
            "nic": 8 * 2 * 900,
            "nvme-drive": 8 * 8 * 150 / 3,
            "lost GPU time": lost(report) * 2,
        },
        rel=1e-6,
    )
    assert found.total == pytest.approx(sum(cost for cost in costs(found).values() if cost is not None))
    assert found.total_as_asked == found.total


def test_no_tier_is_left_out() -> None:
    archive = {
        "kind": "object-store",
        "interval_seconds": "1d",
        "keep": 60,
        "storage": SLOW,
        "cost_per_terabyte": 250,
    }
    (found,) = DECIDE.answer(question(offer(tiers=[archive]), chooses_interval=False, settings={})).offers
    stored = answered(FLASH, {"checkpoint.tiers": [archive]}).tiers[-1].stored_bytes
    assert costs(found)["tier object-store"] == pytest.approx(stored / 1e12 * 250)


def test_a_price_of_a_tier_counts_its_own_copies_saves_and_restores() -> None:
    """By the tier's row of the whole answer: its interval, its copies, and the failures that it recovers."""
    nvme: dict[str, Any] = {
        "kind": "local-nvme",
        "interval_seconds": "10min",
        "replicas": 2,
        "recovered_fraction": 0.75,
        "storage": {"profile": {"node_write_bytes_per_second": "5 GB/s", "node_read_bytes_per_second": "5 GB/s"}},
    }
    archive = {"kind": "object-store", "interval_seconds": "1d", "storage": SLOW}
    prices = [
        {"amount": 3, "per": "million-requests", "tier": "object-store", "request_bytes": "8MiB"},
        {"amount": 20, "per": "terabyte", "every": "month", "tier": "object-store", "name": "archive"},
        {"amount": 1, "per": "terabyte-written", "tier": "local-nvme", "name": "wear"},
        {"amount": 7, "per": "terabyte-read", "tier": "local-nvme", "name": "read of a drive"},
        {"amount": 9, "per": "terabyte-read", "name": "read of the main storage"},
        {"amount": 400, "per": "node", "every": "once", "tier": "local-nvme", "name": "drives"},
        {"amount": 5, "per": "node", "every": "once", "tier": "host-memory", "name": "a tier that is not there"},
    ]
    asked = question(offer("tiered", FLASH, *prices, tiers=[nvme, archive]), settings={}, chooses_interval=False)
    found = costs(DECIDE.answer(asked).offers[0])
    report = answered(FLASH, {"checkpoint.tiers": [nvme, archive]})
    stored = next(row.stored_bytes for row in report.tiers if row.kind == "object-store")
    written, read, num_files = (
        report.checkpoint.written_bytes,
        report.restore.read_bytes,
        report.checkpoint.num_rank_files,
    )
    parts = -(-written // num_files // 2**23) * num_files
    of_drives, of_storage = (
        YEAR / DAY * (row.restores_per_day or 0) for row in report.tiers if row.kind != "object-store"
    )
    assert (of_drives, of_storage) == pytest.approx((0.75 * YEAR / 21_600, 0.25 * YEAR / 21_600), rel=0.03)
    kept = (report.shares.useful_fraction or 0) + (report.shares.saving_fraction or 0)
    trained = 1 - (report.shares.recovering_fraction or 0)
    assert {name: found[name] for name in found if name != "lost GPU time"} == pytest.approx(
        {
            "million-requests": parts * kept * YEAR / DAY / 1e6 * 3,
            "archive": stored / 1e12 * 20 * 12,
            "wear": 2 * written * trained * YEAR / 600 / 1e12,
            "read of a drive": read * of_drives / 1e12 * 7,
            "read of the main storage": read * of_storage / 1e12 * 9,
            "drives": 8 * 400,
            "a tier that is not there": 0,
        },
        rel=1e-6,
    )


def test_a_tier_that_costs_more_than_it_saves_is_done_without_where_that_may_be() -> None:
    nvme: dict[str, Any] = {
        "kind": "local-nvme",
        "interval_seconds": "5min",
        "recovered_fraction": 0.9,
        "storage": {"profile": {"node_write_bytes_per_second": "5 GB/s", "node_read_bytes_per_second": "5 GB/s"}},
    }

    def decided(drives: float, **more: Any) -> OfferDecision:
        price = {"amount": drives, "per": "node", "every": "once", "tier": "local-nvme"}
        tiered = offer("tiered", SLOW, price, tiers=[nvme], **more)
        return DECIDE.answer(question(tiered, settings={}, chooses_interval=False)).offers[0]

    without = DECIDE.answer(question(offer("plain", SLOW), settings={}, chooses_interval=False)).offers[0].total
    cheap, dear = (decided(drives, tiers_are_optional=True) for drives in (1, 1e6))
    assert without is not None
    assert cheap.total is not None
    assert cheap.total < without
    assert cheap.workloads[0].changes == []
    assert dear.total == pytest.approx(without)
    [change] = dear.workloads[0].changes
    assert (change.field, change.after) == ("checkpoint.tiers", [])
    assert change.saves == pytest.approx((dear.total_as_asked or 0) - without)
    assert decided(1e6).total == pytest.approx(cheap.total + 8 * (1e6 - 1))


def test_no_settings_cost_less_than_those_proposed() -> None:
    """200 intervals and settings by chance, each as a whole answer with money by hand; and the changes add up."""
    (found,) = DECIDE.answer(question(offer("slow", SLOW, {"amount": 0.5, "per": "terabyte-written"}))).offers
    assert found.total is not None
    drawn, best = np.random.default_rng(5), []
    for _ in range(200):
        settings = {field: str(drawn.choice(values)) for field, values in FREE_BY_DEFAULT.items()}
        every = 10 ** drawn.uniform(1.5, 4.5)
        report = answered(SLOW, settings | {"checkpoint.interval_seconds": every})
        effective = report.interval.effective_interval_seconds or every
        written = report.checkpoint.written_bytes / 1e12 * YEAR / effective * 0.5
        best.append(lost(report) * 2 + written)
    assert found.total <= min(best) * (1 + 1e-9)
    assert found.total >= min(best) * 0.9
    (workload,) = found.workloads
    saved = [change.saves for change in workload.changes if change.saves is not None]
    assert found.total_as_asked is not None
    assert sum(saved) == pytest.approx(found.total_as_asked - found.total)


def test_intervals_that_only_change_together_say_which_of_them_tells_what_both_save() -> None:
    """A save of the main storage every 30 minutes is none after a multiple of the tier's proposed interval."""
    nvme = {"kind": "local-nvme", "interval_seconds": "5min", "recovered_fraction": 0.6, "storage": {"profile": {
        "node_write_bytes_per_second": "10 GB/s", "node_read_bytes_per_second": "20 GB/s"}}}  # fmt: skip
    report = DECIDE.answer(question(offer("tier", SLOW, tiers=[nvme]), settings={}))
    (found,) = report.offers
    tier, main = found.workloads[0].changes
    assert (tier.needs_next_change, tier.saves, main.needs_next_change) == (True, None, False)
    assert found.total is not None
    assert main.saves == pytest.approx((found.total_as_asked or 0) - found.total)
    grid = next(each for each in decision_summary(report).grids if each.title == "Proposed settings")
    assert [(row[2], row[5]) for row in grid.rows] == [
        ("interval of tier 1", "with the interval below"),
        ("interval", f"{main.saves:,.0f}"),
    ]


def test_an_offer_that_misses_a_target_or_holds_too_little_is_not_enough_and_says_why() -> None:
    asked = question(offer("slow", SLOW), offer("small", FLASH, capacity_bytes="1GB"), offer("flash", FLASH))
    asked["workloads"][0]["scenario"]["targets"] = {"recovery_seconds": "8min"}
    report = DECIDE.answer(asked)
    assert (report.offers[0].name, report.offers[0].verdict) == ("flash", "enough")
    by_name = {each.name: each for each in report.offers}
    assert by_name["small"].verdict == "not enough"
    assert by_name["small"].missing == ["training: keeps 481.8 GB, and 1.000 GB are offered"]


def test_a_target_that_no_setting_meets_is_named_with_what_would() -> None:
    asked = question(
        offer("slow", {"profile": {"write_bytes_per_second": "2 GB/s", "read_bytes_per_second": "0.1 GB/s"}})
    )
    asked["workloads"][0]["scenario"]["targets"] = {"recovery_seconds": "8min"}
    (found,) = DECIDE.answer(asked).offers
    assert found.verdict == "not enough"
    (sentence,) = found.missing
    assert sentence.startswith("training: recovery_seconds is ")
    assert "min read bandwidth" in sentence


def test_an_offer_without_what_a_target_needs_is_named_and_the_rest_is_said() -> None:
    price = {"amount": 1000, "per": "offer", "every": "once"}
    no_read = offer("no read", {"profile": {"write_bytes_per_second": "20 GB/s"}}, price)
    no_write = offer("no write", {"profile": {"read_bytes_per_second": "20 GB/s"}}, price)
    asked = question(no_read, no_write)
    asked["workloads"][0]["scenario"]["targets"] = {"recovery_seconds": "8min", "min_goodput_fraction": 0.5}
    by_name = {each.name: each for each in DECIDE.answer(asked).offers}
    assert {each.verdict for each in by_name.values()} == {"not known"}
    without = "is not known without storage.profile.read_bytes_per_second"
    assert by_name["no read"].missing == [
        f"training: recovery_seconds {without}",
        f"training: min_goodput_fraction {without}",
    ]
    assert costs(by_name["no read"]) == {"offer": 1000, "lost GPU time": None}
    assert by_name["no write"].missing == [
        f"training: {target} is not known without storage.profile.write_bytes_per_second"
        for target in ("max_overhead_fraction", "min_goodput_fraction")
    ]
    assert costs(by_name["no write"]) == {"offer": 1000, "lost GPU time": None}
    asked["workloads"][0]["scenario"]["targets"]["max_overhead_fraction"] = 1e-8
    assert {each.name: each.verdict for each in DECIDE.answer(asked).offers}["no read"] == "not enough"


def drives(interval: str, **storage: Any) -> dict[str, Any]:
    rates = {"node_write_bytes_per_second": "5 GB/s", "node_read_bytes_per_second": "5 GB/s"}
    return {
        "kind": "local-nvme",
        "interval_seconds": interval,
        "recovered_fraction": 0.9,
        "storage": {"profile": rates | storage},
    }


def test_an_offer_without_an_answer_says_why_and_hides_no_other() -> None:
    """A tier every 7 min does not go with saves every hour, where neither may change."""
    price = {"amount": 1, "per": "terabyte", "every": "once"}
    offers = (offer("tiered", FLASH, price, tiers=[drives("7min")]), offer("flash", FLASH, price))
    report = DECIDE.answer(question(*offers, settings={}, chooses_interval=False))
    assert [(each.name, each.verdict, each.total is None) for each in report.offers] == [
        ("flash", "enough", False),
        ("tiered", "not known", True),
    ]
    [missing] = report.offers[1].missing
    assert missing.startswith("training: no settings have an answer: ")
    [none] = report.offers[1].workloads[0].unanswered
    assert none.settings == [{}, {}]
    assert "no whole multiple" in none.why


def test_each_change_says_by_which_weakest_figure_it_saves() -> None:
    """Failures lack how long they go unseen, so the interval rests on a default; what storage decides on its source."""
    asked = question(offer("superpod", {"preset": "dgx-superpod-h100-1su-good"}))
    scenario = asked["workloads"][0]["scenario"]
    del scenario["reliability"]["detection_seconds"]
    scenario |= {"training": {"framework": "megatron"}, "parallelism": {"tensor": 8, "data": 8}}
    scenario["checkpoint"]["interval_seconds"] = "3h"
    changes = {change.field: change for change in DECIDE.answer(asked).offers[0].workloads[0].changes}
    origins = {field: (change.rests_on.kind, change.rests_on.source) for field, change in changes.items()}
    assert origins["checkpoint.interval_seconds"] == ("assumed", "reliability.detection_seconds")
    assert origins["checkpoint.mode"] == ("given", "checkpoint.interval_seconds")
    kind, source = origins["checkpoint.restore"]
    assert kind == "published"
    assert source.startswith("dgx-superpod-h100-1su-good: ")
    assert {field: change.before_is_default for field, change in changes.items()} == {
        "checkpoint.mode": True,
        "checkpoint.restore": True,
        "checkpoint.interval_seconds": False,
    }
    shorter = changes["checkpoint.interval_seconds"]
    before, after = shorter.way_back_before, shorter.way_back_after
    assert before is not None
    assert after is not None
    assert after.recovery_seconds == pytest.approx(before.recovery_seconds)
    assert after.redone_fraction is not None
    assert before.redone_fraction is not None
    half = float(str(shorter.after)) / 2 / (6 * 3600)  # the mean age of a save, less than the drain that is lost too
    assert half * 0.95 < after.redone_fraction < half * 3
    assert before.redone_fraction > 20 * after.redone_fraction
    assert changes["checkpoint.mode"].way_back_after is None


def test_a_tier_gets_its_own_interval_and_no_other_pair_costs_less() -> None:
    """The one asked for does not go with the tier, which is said; wear of the drives keeps their interval from 1 s."""
    wear = {"amount": 2, "per": "terabyte-written", "tier": "local-nvme"}
    (found,) = DECIDE.answer(question(offer("tiered", SLOW, wear, tiers=[drives("7min")]), settings={})).offers
    (workload,) = found.workloads
    assert workload.as_asked is None
    assert [(none.settings, "no whole multiple" in none.why) for none in workload.unanswered] == [([{}], True)]
    after = {change.field: change.after for change in workload.changes}
    assert list(after) == ["checkpoint.tiers.0.interval_seconds", "checkpoint.interval_seconds"]
    rng = np.random.default_rng(1)
    for _ in range(10):
        tier, multiple = int(np.exp(rng.uniform(2, 8))), int(np.exp(rng.uniform(1, 4))) + 1
        scenario = copy.deepcopy(RUN) | {"checkpoint": {"interval_seconds": tier * multiple}}
        asked = question(offer("tiered", SLOW, wear, tiers=[drives(f"{tier}s")]), settings={}, chooses_interval=False)
        asked["workloads"][0]["scenario"] = scenario
        (other,) = DECIDE.answer(asked).offers
        assert other.total is not None
        assert found.total is not None
        assert found.total <= other.total * (1 + 1e-3)


@pytest.mark.parametrize("own", [None, []], ids=["of the workload", "without"])
def test_tiers_may_be_alternatives_as_people_write_them(own: list[Any] | None) -> None:
    """With an interval as text, and refused where it lacks."""
    no_interval = {name: value for name, value in drives("7min").items() if name != "interval_seconds"}
    settings = {"checkpoint.tiers": [[], [drives("7min")], [no_interval]], "checkpoint.interval_seconds": ["1h"]}
    (found,) = DECIDE.answer(question(offer("tiered", SLOW, tiers=own), settings=settings)).offers
    (workload,) = found.workloads
    assert found.verdict == "enough"
    assert {change.field for change in workload.changes} >= {"checkpoint.tiers", "checkpoint.tiers.0.interval_seconds"}
    assert "checkpoint.tiers.0.interval_seconds is required" in workload.unanswered[-1].why


def test_what_others_take_of_the_storage_is_not_there() -> None:
    shared = {"write_bytes_per_second": "18 GB/s", "read_bytes_per_second": "38 GB/s"}
    asked = question(offer("flash", FLASH), offer("slow", SLOW), settings={}, chooses_interval=False)
    asked["workloads"][0]["shared"] = shared
    by_name = {each.name: each for each in DECIDE.answer(asked).offers}
    assert by_name["flash"].lost_gpu_hours == pytest.approx(lost(answered(SLOW, {})))
    (missing,) = by_name["slow"].missing
    assert "shared.write_bytes_per_second must be less than the 2.000 GB/s of slow" in missing
    assert by_name["slow"].verdict == "not enough"


def test_the_busiest_hour_of_others_decides_and_is_said() -> None:
    """As if they took so much all day; at night the same file system would be enough for others that take more."""
    day = {"from_hour": 8, "to_hour": 18, "read_bytes_per_second": "38 GB/s"}
    night = {"from_hour": 22, "to_hour": 4, "write_bytes_per_second": "18 GB/s"}
    asked = question(offer("flash", FLASH), settings={}, chooses_interval=False)
    shared = {"write_bytes_per_second": "1 GB/s", "over_the_day": [day, night]}
    asked["workloads"][0]["shared"] = shared
    report = DECIDE.answer(asked)
    assert report.offers[0].lost_gpu_hours == pytest.approx(lost(answered(SLOW, {})))
    assert [warning for warning in report.warnings if "others" in warning] == [
        "training: others write most, 18.00 GB/s, from 22:00 to 04:00; "
        "what they leave then decides targets and lost time all day",
        "training: others read most, 38.00 GB/s, from 08:00 to 18:00; "
        "what they leave then decides targets and lost time all day",
    ]
    for hours, said in (([day, day], "an hour of the day twice"), ([day | {"to_hour": 8}], "at which it begins")):
        asked["workloads"][0]["shared"] = {"over_the_day": hours}
        with pytest.raises(InvalidInput, match=said):
            DECIDE.answer(asked)


def test_of_several_workloads_flows_add_up_and_the_largest_stock_counts() -> None:
    prices = [{"amount": 1, "per": "terabyte", "every": "once"}, {"amount": 1, "per": "terabyte-written"}]
    other = copy.deepcopy(RUN) | {"retention": {"keep_last": 40}}
    workloads = [
        {"name": "a", "share_fraction": 0.75, "scenario": RUN},
        {"name": "b", "share_fraction": 0.25, "scenario": other},
    ]
    both = DECIDE.answer(
        question(offer("flash", FLASH, *prices), workloads=workloads, settings={}, chooses_interval=False)
    )
    alone = DECIDE.answer(question(offer("flash", FLASH, *prices), settings={}, chooses_interval=False))
    found, one = costs(both.offers[0]), costs(alone.offers[0])
    assert one["terabyte"] is not None
    assert found["terabyte"] == pytest.approx(one["terabyte"] * 41 / 5)
    assert found["terabyte-written"] == pytest.approx(one["terabyte-written"])
    assert found["lost GPU time"] == pytest.approx(one["lost GPU time"])


def test_the_gpus_of_the_largest_workload_are_named() -> None:
    small = {"name": "small", "share_fraction": 0.5, "scenario": {"model": {"preset": "gpt2"}}}
    large = {"name": "large", "share_fraction": 0.5, "scenario": REFERENCE_DECISION["workloads"][0]["scenario"]}
    assert DECIDE.answer(REFERENCE_DECISION | {"workloads": [small, large]}).max_num_gpus == 3072


def test_the_cheapest_bandwidth_costs_less_than_any_beside_it() -> None:
    asked = question(offer("slow", SLOW, {"amount": 5000, "per": "gigabyte-per-second", "every": "once"}))
    (found,) = DECIDE.answer(asked).offers
    assert found.cheapest_bandwidth is not None
    at = found.cheapest_bandwidth.write_bytes_per_second

    def total(rate: float) -> float:
        scaled = {"profile": {"write_bytes_per_second": rate, "read_bytes_per_second": rate}}
        (there,) = DECIDE.answer(asked | {"offers": [offer("x", scaled, *asked["offers"][0]["prices"])]}).offers
        assert there.total is not None
        return there.total

    assert total(at) == pytest.approx(found.cheapest_bandwidth.cost, rel=1e-6)
    assert total(at) < min(total(at * 0.9), total(at * 1.1), *(point.cost for point in found.bandwidth_costs))
    assert found.further_bandwidth_saves == pytest.approx(
        (found.total or 0) - 5000 * 2 - (total(3e9) - 5000 * 3), rel=1e-6
    )


def test_the_cheapest_bandwidth_has_all_prices_whatever_they_are_called() -> None:
    """Prices without a name are called by what they are per, and others may have one name."""
    prices = [
        {"amount": 5000, "per": "gigabyte-per-second", "every": "once"},
        {"amount": 1000, "per": "gigabyte-per-second", "every": "year"},
        {"amount": 100_000, "per": "offer", "every": "once"},
    ]

    def cheapest(*names: str | None) -> BandwidthCost | None:
        named = [{**price, "name": name} for price, name in zip(prices, names, strict=True)]
        return DECIDE.answer(question(offer("slow", SLOW, *named))).offers[0].cheapest_bandwidth

    apart = cheapest("rate", "support", "chassis")
    assert apart is not None
    assert cheapest(None, None, None) == cheapest("bought", "support", "bought") == apart


def test_the_cheapest_bandwidth_misses_no_target() -> None:
    dear = {"amount": 200_000, "per": "gigabyte-per-second", "every": "once"}
    asked = question(offer("flash", FLASH, dear))
    (free,) = DECIDE.answer(asked).offers
    asked["workloads"][0]["scenario"]["targets"] = {"min_goodput_fraction": 0.98}
    (found,) = DECIDE.answer(asked).offers
    assert free.cheapest_bandwidth is not None
    assert found.cheapest_bandwidth is not None
    assert found.verdict == "enough"
    at = found.cheapest_bandwidth.write_bytes_per_second
    assert at > free.cheapest_bandwidth.write_bytes_per_second
    assert at < min(point.write_bytes_per_second for point in found.bandwidth_costs) * 2

    def verdict(rate: float) -> str:
        scaled = {"profile": {"write_bytes_per_second": rate, "read_bytes_per_second": 2 * rate}}
        return DECIDE.answer(asked | {"offers": [offer("x", scaled, dear)]}).offers[0].verdict

    shown = {grid.title: grid.rows for grid in decision_summary(DECIDE.answer(asked)).grids}
    assert verdict(parse_bytes_per_second(shown["Bandwidth at its price per GB/s"][0][2])) == "enough"
    assert (verdict(at), verdict(at * 0.99)) == ("enough", "not enough")
    asked["workloads"][0]["scenario"]["targets"] = {"recovery_seconds": "1min"}
    (beyond,) = DECIDE.answer(asked).offers
    assert (beyond.cheapest_bandwidth, beyond.bandwidth_costs) == (None, [])
    assert beyond.further_bandwidth_saves is not None


def test_where_the_ranking_turns_both_offers_cost_the_same() -> None:
    per_rate = {"amount": 30_000, "per": "gigabyte-per-second", "every": "once"}
    asked = question(
        offer("flash", FLASH, per_rate), offer("slow", SLOW, per_rate), settings={}, chooses_interval=False
    )
    report = DECIDE.answer(asked)
    turns = {change.what: change.at for change in report.ranking_changes}
    assert set(turns) == {"price", "per_lost_gpu_hour", "horizon_seconds"}
    for changed in ({"per_lost_gpu_hour": turns["per_lost_gpu_hour"]}, {"horizon_seconds": turns["horizon_seconds"]}):
        first, second = DECIDE.answer(asked | changed).offers
        assert first.total == pytest.approx(second.total, rel=1e-9)
    dearer = copy.deepcopy(asked)
    named = next(each for each in dearer["offers"] if each["name"] == report.offers[0].name)
    named["prices"].append({"amount": turns["price"], "per": "offer", "every": "once", "name": "more"})
    first, second = DECIDE.answer(dearer).offers
    assert first.total == pytest.approx(second.total, rel=1e-9)


def test_an_offer_that_costs_more_and_loses_more_is_dominated() -> None:
    dear = {"amount": 1e6, "per": "offer", "every": "once"}
    cheap = dear | {"amount": 1}
    report = DECIDE.answer(question(offer("flash", FLASH, cheap), offer("slow", SLOW, dear)))
    assert {each.name: each.is_dominated for each in report.offers} == {"flash": False, "slow": True}


def test_what_cannot_be_said_is_unknown_and_the_rest_is_said() -> None:
    report: DecisionReport = DECIDE.answer(question(offer("no prices", FLASH), per_lost_gpu_hour=None))
    (found,) = report.offers
    assert (found.verdict, found.total, found.ledger) == ("enough", None, [])
    assert found.lost_gpu_hours is not None
    assert [warning.split(":")[0] for warning in report.warnings] == [
        "Lost GPU time is not priced",
        "Offers without prices",
    ]


@pytest.mark.parametrize("prices", [[{"amount": 3e5, "per": "offer", "every": "once"}], [REQUESTS]])
def test_without_a_price_of_gpu_time_settings_are_those_that_lose_least_of_it(prices: list[dict[str, Any]]) -> None:
    """Money alone would have a run that never saves."""
    (found,) = DECIDE.answer(question(offer("slow", SLOW, *prices), settings={}, per_lost_gpu_hour=None)).offers
    (workload,) = found.workloads
    assert workload.proposed is not None
    assert workload.as_asked is not None
    (change,) = workload.changes
    loses = lost(answered(SLOW, {"checkpoint.interval_seconds": change.after}))
    others = [lost(answered(SLOW, {"checkpoint.interval_seconds": each})) for each in np.geomspace(60, DAY, 99)]
    assert loses <= min(others) * (1 + 1e-6)
    assert change.gpu_hours_saved == pytest.approx(lost(answered(SLOW, {})) - loses)


@pytest.mark.parametrize(
    ("price", "said"),
    [
        (
            {"amount": 3e5, "per": "offer", "every": "once"},
            r"With your current settings it would lose [\d,]+ GPU-hours more\.",
        ),
        (
            REQUESTS,
            r"With your current settings it would cost €[\d,.]+, €[\d,.]+ less, and lose [\d,]+ GPU-hours more\.",
        ),
    ],
)
def test_what_settings_spare_in_time_is_said_where_that_has_no_price(price: dict[str, Any], said: str) -> None:
    report = DECIDE.answer(question(offer("slow", SLOW, price), settings={}, per_lost_gpu_hour=None))
    assert re.search(said, decision_summary(report).verdict)


@pytest.mark.parametrize(("max_overhead", "interval"), [(0.5, "1h"), (0.01, None)])
def test_where_nobody_knows_what_is_lost_the_interval_stays_as_near_as_targets_let_it(
    max_overhead: float, interval: str | None
) -> None:
    asked = question(offer("slow", SLOW), settings={})
    scenario = asked["workloads"][0]["scenario"]
    del scenario["reliability"]
    scenario["targets"] = {"max_overhead_fraction": max_overhead}
    (found,) = DECIDE.answer(asked).offers
    (workload,) = found.workloads
    write = answered(SLOW, {}).write
    assert write is not None
    meets = write.seconds / max_overhead
    assert [change.after for change in workload.changes] == ([] if interval else [pytest.approx(meets, rel=0.01)])
    assert [change.saves for change in workload.changes] == ([] if interval else [None])


def test_a_workload_that_leaves_its_layout_open_runs_in_the_best_one() -> None:
    asked = question(offer(), settings={}, chooses_interval=False)
    scenario = asked["workloads"][0]["scenario"]
    del scenario["parallelism"]
    scenario["cluster"]["num_gpus"] = 64
    report = DECIDE.answer(asked)
    assert report.warnings[0].startswith("training: assumed parallelism = ")
    alone = answer(scenario | {"storage": FLASH})
    assert report.offers[0].lost_gpu_hours == pytest.approx(lost(alone))


def test_nics_are_those_that_the_cluster_says_and_unknown_otherwise() -> None:
    asked = question(offer("flash", FLASH, {"amount": 900, "per": "nic", "every": "once"}), settings={})
    (found,) = DECIDE.answer(asked).offers
    assert (costs(found)["nic"], found.total) == (None, None)
    assert any("how many NICs" in warning for warning in DECIDE.answer(asked).warnings)
    asked["workloads"][0]["scenario"]["cluster"]["storage_nics"] = "2 x 400 Gb/s"
    report = DECIDE.answer(asked)
    assert costs(report.offers[0])["nic"] == 8 * 2 * 900
    assert report.warnings == []


def bad_prices() -> Iterator[tuple[dict[str, Any], str]]:
    yield {"amount": 1, "per": "terabyte"}, "without a period"
    yield {"amount": 1, "per": "million-requests", "every": "month"}, "paid by use"
    yield {"amount": 1, "per": "nvme-drive", "every": "once"}, "without per_node"
    yield {"amount": 1, "per": "node", "every": "once", "per_node": 2}, "has per_node, but is not per nic"
    yield {"amount": 1, "per": "litre", "every": "once"}, "prices.0.per must be one of"
    of_tier = {"amount": 1, "per": "gigabyte-per-second", "every": "once", "tier": "local-nvme"}
    yield of_tier, "has a tier with a price per gigabyte-per-second"


@pytest.mark.parametrize(("price", "said"), list(bad_prices()), ids=[said for _, said in bad_prices()])
def test_a_price_that_breaks_a_rule_is_told_in_a_sentence_beside_the_verdict(price: dict[str, Any], said: str) -> None:
    report = DECIDE.answer(question(offer("a", FLASH, price)))
    [refused] = report.refused_offers
    assert said in refused.problems[0]
    assert [(each.name, each.verdict, each.total) for each in report.offers] == [("a", "enough", None)]


def test_an_offer_without_a_name_is_told_by_its_number_and_one_with_two_storages_by_the_first_of_them() -> None:
    both = {"preset": "disk-array", "profile": FLASH["profile"]}
    report = DECIDE.answer(question(offer(), offer("", FLASH), offer("both", both)))
    assert [(each.name, each.fields) for each in report.refused_offers] == [
        ("offer 2", ["offers.1.name"]),
        ("both", ["offers.2.storage.preset"]),
    ]


def broken() -> Iterator[tuple[dict[str, Any], str]]:
    without_currency = question(offer())
    del without_currency["currency"]
    yield without_currency, "currency"
    yield question(offer(), offer()), "two offers of one name, 'flash'"
    with_storage = question(offer())
    with_storage["workloads"][0]["scenario"]["storage"] = FLASH
    yield with_storage, "move them into the offers"
    shares = [{"name": name, "share_fraction": 0.6, "scenario": RUN} for name in "ab"]
    yield question(offer(), workloads=shares), "add to more than 1"
    yield question(offer(), settings={"checkpoint.interval_seconds": list(range(1, 80))}), "at most 64 combinations"


@pytest.mark.parametrize(("document", "said"), list(broken()), ids=[said for _, said in broken()])
def test_what_breaks_a_rule_is_refused_in_a_sentence(document: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        DECIDE.answer(document)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"model": {"preset": "nobody-trains-it"}}, "model.preset"),
        ({"parallelism": {"tensor": 7, "data": 4}}, "parallelism.tensor"),
        ({"parallelism": {"tensor": 16}, "cluster": {"num_gpus": 24}}, "cluster.num_gpus"),
    ],
)
def test_a_workload_that_no_offer_and_no_setting_gives_an_answer_is_refused_by_its_path(
    changes: dict[str, Any], field: str
) -> None:
    asked = question(offer())
    asked["workloads"][0]["share_fraction"] = 0.5
    asked["workloads"].append({"name": "wrong", "scenario": RUN | changes, "share_fraction": 0.5})
    with pytest.raises(InvalidInput) as refused:
        DECIDE.answer(asked)
    assert [problem.field for problem in refused.value.problems] == [f"workloads.1.scenario.{field}"]


def test_a_workload_that_a_setting_gives_an_answer_is_none_that_is_refused() -> None:
    asked = question(offer(), settings={"parallelism.tensor": [1]})
    asked["workloads"][0]["scenario"]["parallelism"]["tensor"] = 7
    assert DECIDE.answer(asked).offers[0].workloads[0].proposed is not None


def test_the_example_stands() -> None:
    report = DECIDE.answer(REFERENCE_DECISION)
    assert [each.verdict for each in report.offers] == ["enough", "enough"]


def test_prices_that_are_known_decide_where_lost_time_is_not() -> None:
    """Nobody said how often the run fails: whoever costs less comes first, wherever it stands in the list."""
    dear, cheap = ({"amount": amount, "per": "offer", "every": "once"} for amount in (4.72e6, 2.61e6))
    power = {"amount": 0.2, "per": "kilowatt-hour"}
    offers = offer("half", FLASH, power), offer("dear", FLASH, dear), offer("cheap", FLASH, cheap), offer("unpriced")
    asked = question(*offers, settings={})
    del asked["workloads"][0]["scenario"]["reliability"]
    report = DECIDE.answer(asked)
    assert [each.name for each in report.offers] == ["cheap", "dear", "half", "unpriced"]
    said = decision_summary(report).verdict
    assert "Of what half and unpriced would cost, less is known." in said
    assert "cheap costs least by the prices that are known: €2,610,000. Not known: lost GPU time." in said
    assert "dear costs €2,110,000 more, by those prices." in said


def test_the_verdict_names_offers_that_are_not_judged_with_their_reasons_in_one_sentence() -> None:
    wrong = offer("wrong", {"profile": {"write_bytes_per_second": "fast"}})
    unpriced = offer("unpriced", FLASH, {"amount": -1, "per": "offer", "every": "once"})
    unheard = offer("unheard", {"preset": "nobody-sells-it"}, REQUESTS)
    report = DECIDE.answer(question(unheard, offer("right", FLASH, REQUESTS), wrong, unpriced, settings={}))
    *_, said = decision_summary(report).verdict.splitlines()
    assert said.startswith("Not judged: wrong, as storage.profile.write_bytes_per_second ")
    assert "; the price of unpriced, as prices.0.amount " in said
    assert "; unheard, as training: no settings have an answer: storage.preset " in said


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        ("enough", "settings slow would come first, at €"),
        ("not enough", "settings no offer is enough, and slow would come first, at €"),
        ("not known", "settings no offer is known to be enough, and slow would come first, at €"),
    ],
)
def test_the_first_with_current_settings_has_its_verdict_with_them(verdict: str, said: str) -> None:
    asked = question(offer("flash", FLASH, {"amount": 1, "per": "offer", "every": "once"}), offer("slow", SLOW))
    report = DECIDE.answer(asked)
    (first, *_), second = report.offers, report.offers[1]
    told = second.model_copy(update={"verdict_as_asked": verdict, "total_as_asked": 1.0})
    changed = report.model_copy(update={"offers": [first, told], "first_as_asked": "slow"})
    assert f"With your current {said}1" in decision_summary(changed).verdict


def test_a_cheaper_offer_whose_verdict_is_not_known_is_named_with_what_it_would_cost_less() -> None:
    prices = [{"amount": amount, "per": "offer", "every": "once"} for amount in (1e6, 4e5)]
    asked = question(offer("sure", FLASH, prices[0]), offer("unsure", FLASH, prices[1], capacity_bytes=None))
    report = DECIDE.answer(asked)
    unsure, sure = report.offers
    doubted = unsure.model_copy(update={"verdict": "not known", "missing": ["training: overhead is not known"]})
    said = decision_summary(report.model_copy(update={"offers": [sure, doubted]})).verdict
    assert "sure costs least" in said
    assert said.endswith("Not judged: unsure, which would cost €600,000 less, as training: overhead is not known.")


def test_the_verdict_says_who_wins_by_how_much_with_which_settings_and_when_another_does() -> None:
    report = DECIDE.answer(REFERENCE_DECISION | {"horizon_seconds": "3y"})
    first, second = report.offers
    total, other = first.total or 0, second.total or 0
    as_asked, other_as_asked = first.total_as_asked or 0, second.total_as_asked or 0
    won, current, by_current, otherwise = decision_summary(report).verdict.splitlines()
    assert won.startswith(f"all flash costs least: ${total:,.0f}, ")
    assert won.endswith(f"; parallel file system costs ${other - total:,.0f} more.")
    assert current.endswith(f"would cost ${as_asked:,.0f}; the best settings save ${as_asked - total:,.0f}.")
    assert by_current.endswith(f"parallel file system would come first, at ${other_as_asked:,.0f}.")
    assert re.fullmatch(
        r"parallel file system would come first if .* more, or if a GPU-hour cost less than .*", otherwise
    )


def test_true_is_no_amount_of_money_and_one_is_not_true() -> None:
    price = {"amount": True, "per": "terabyte", "every": "once"}
    request = DecisionRequest.model_validate(question(offer("flash", FLASH, price)))
    (refused,) = request.refused_offers
    assert refused.problems == ["prices.0.amount must be a number, got true: give a number."]
    with pytest.raises(InvalidInput, match="chooses_interval must be true or false, got 1"):
        DECIDE.answer(question(offer(), chooses_interval=1))
