"""Where a decision could mislead: what nobody priced or stated, what grows, what others take, and turns among three."""

import re
from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.field_paths import with_fields
from sizing.questions.decide.report import DecisionReport, OfferDecision
from sizing.questions.decide.request import REFERENCE_DECISION
from sizing.questions.decide.words import decision_summary
from sizing.questions.registry import DECIDE, REQUIRE
from sizing.report import answer
from sizing.run.request import INTERVAL, READ_RATE, WRITE_RATE
from sizing.units import SECONDS_PER_YEAR
from tests.sizing.questions.test_decisions import FLASH, RUN, SLOW, costs, offer, question

MIDDLE = {"profile": {"write_bytes_per_second": "5 GB/s", "read_bytes_per_second": "8 GB/s"}}
ONCE = {"amount": 1000, "per": "offer", "every": "once"}
PER_TERABYTE = {"amount": 100, "per": "terabyte", "every": "once"}


def test_weights_that_are_kept_for_good_grow_over_the_horizon() -> None:
    asked = question(offer("small", FLASH, ONCE, capacity_bytes="10 TB"), offer("open", FLASH, PER_TERABYTE))
    asked["chooses_interval"] = False
    retention = {"keep_last": 2, "keep_weights_every": 10}
    asked["workloads"][0] |= {"share_fraction": 0.5}
    asked["workloads"][0]["scenario"]["retention"] = retention
    by_name = {each.name: each for each in DECIDE.answer(asked).offers}
    assert by_name["small"].verdict == "not enough"
    assert "TB are offered" in by_name["small"].missing[0]
    asked["workloads"][0]["scenario"]["retention"] = retention | {"run_seconds": SECONDS_PER_YEAR / 2}
    assert {each.name: each for each in DECIDE.answer(asked).offers} == by_name


def test_an_offer_without_prices_beside_others_has_no_total_and_does_not_come_first() -> None:
    first, last = DECIDE.answer(question(offer("unpriced", FLASH), offer("priced", SLOW, ONCE))).offers
    assert (first.name, last.name, last.total, last.total_as_asked) == ("priced", "unpriced", None, None)
    assert last.verdict == "enough"
    drawn = DECIDE.answer(
        question(offer("unpriced", FLASH), offer("priced", SLOW, ONCE), odds={"num_draws": 100, "ranges": {
            "reliability.mtbf_seconds": {"low": "4h", "high": "8h"}}})
    ).odds  # fmt: skip
    assert drawn is not None
    assert [(each.name, each.cheapest_probability) for each in drawn.offers] == [("priced", 1.0), ("unpriced", None)]


def test_without_a_read_rate_the_lost_gpu_time_is_not_known_instead_of_less() -> None:
    write_only = {"profile": {"write_bytes_per_second": "20 GB/s"}}
    by_name = {
        each.name: each for each in DECIDE.answer(question(offer("x", write_only, ONCE), offer("y", SLOW, ONCE))).offers
    }
    assert by_name["x"].missing == [
        "training: lost GPU time is not known without storage.profile.read_bytes_per_second"
    ]
    assert costs(by_name["x"]) == {"offer": 1000, "lost GPU time": None}


def test_storage_takes_power_for_the_whole_horizon() -> None:
    asked = question(offer("flash", FLASH, {"amount": 0.5, "per": "kilowatt-hour"}, power_kilowatts=10))
    asked["workloads"][0]["share_fraction"] = 0.25
    (found,) = DECIDE.answer(asked).offers
    assert costs(found)["kilowatt-hour"] == pytest.approx(0.5 * 10 * SECONDS_PER_YEAR / 3600)


def test_a_price_of_a_tier_without_a_period_is_said() -> None:
    drives = {"kind": "local-nvme", "interval_seconds": "30min", "storage": FLASH, "cost_per_terabyte": 20}
    report = DECIDE.answer(question(offer("drives", FLASH, ONCE, tiers=[drives])))
    assert any("cost_per_terabyte counts once" in warning for warning in report.warnings)


def first_at(asked: dict[str, object], **changed: float) -> str:
    return DECIDE.answer(asked | changed).offers[0].name


def turns(report: DecisionReport, what: str) -> dict[str, tuple[str, float]]:
    return {change.direction: (change.other, change.at) for change in report.ranking_changes if change.what == what}


@pytest.mark.parametrize("what", ["per_lost_gpu_hour", "horizon_seconds"])
def test_among_three_the_one_that_is_named_comes_first_beyond_the_turn_and_not_before(what: str) -> None:
    offers = [
        offer(name, storage, {"amount": amount, "per": "offer", "every": "once"})
        for name, storage, amount in (("slow", SLOW, 1000), ("middle", MIDDLE, 6000), ("flash", FLASH, 12_000))
    ]
    asked = question(*offers, settings={}, chooses_interval=False)
    report = DECIDE.answer(asked)
    assert report.offers[0].name == "middle"
    found = turns(report, what)
    assert {direction: other for direction, (other, _) in found.items()} == {"below": "slow", "above": "flash"}
    for direction, (other, at) in found.items():
        beyond, before = (0.999, 1.001) if direction == "below" else (1.001, 0.999)
        assert first_at(asked, **{what: at * beyond}) == other
        assert first_at(asked, **{what: at * before}) == "middle"


def test_no_horizon_is_told_where_the_capacity_for_kept_weights_grows_with_it() -> None:
    """A terabyte that is bought once costs more over a longer horizon too, as there are more of them."""
    offers = [
        offer(name, storage, {"amount": amount, "per": "terabyte", "every": "once"})
        for name, storage, amount in (("slow", SLOW, 600), ("flash", FLASH, 750))
    ]
    asked = question(*offers, settings={}, chooses_interval=False)
    assert turns(DECIDE.answer(asked), "horizon_seconds")
    retention = asked["workloads"][0]["scenario"]["retention"]
    retention["keep_weights_every"] = 4
    assert not turns(DECIDE.answer(asked), "horizon_seconds")
    retention["run_seconds"] = "30d"  # of which the horizon changes nothing
    found = turns(DECIDE.answer(asked), "horizon_seconds")
    [(_, at)] = found.values()
    first, second = DECIDE.answer(asked | {"horizon_seconds": at}).offers
    assert first.total == pytest.approx(second.total, rel=1e-9)


def test_what_others_take_is_bought_too_when_less_bandwidth_is_enough() -> None:
    per_rate = {"amount": 20, "per": "gigabyte-per-second", "every": "once"}
    asked = question(offer("flash", FLASH, per_rate))
    asked["workloads"][0]["shared"] = {"write_bytes_per_second": "15 GB/s"}
    (found,) = DECIDE.answer(asked).offers
    assert found.cheapest_bandwidth is not None
    assert found.cheapest_bandwidth.write_bytes_per_second > 15e9
    here = min(found.bandwidth_costs, key=lambda point: abs(point.write_bytes_per_second - 20e9))
    assert here.write_bytes_per_second == pytest.approx(20e9)
    assert here.cost == pytest.approx(found.total, rel=1e-6)


def test_an_offer_with_a_bad_price_is_judged_without_it_and_one_with_a_bad_rate_is_left_out_by_name() -> None:
    no_period = {"amount": 5, "per": "terabyte"}
    wrong = {"profile": {"write_bytes_per_second": "fast"}}
    report = DECIDE.answer(
        question(offer("rent", FLASH, no_period), offer("typo", wrong, ONCE), offer("sound", SLOW, ONCE))
    )
    assert [(each.name, each.verdict, each.total is None) for each in report.offers] == [
        ("sound", "enough", False),
        ("rent", "enough", True),
    ]
    rent, typo = report.refused_offers
    assert (rent.name, rent.is_judged, typo.name, typo.is_judged) == ("rent", True, "typo", False)
    assert rent.problems[0].startswith("prices.0 has a price per terabyte without a period")
    assert "every" in rent.problems[0]
    assert typo.problems[0].startswith("storage.profile.write_bytes_per_second ")
    shown = {grid.title: grid.rows for grid in decision_summary(report).grids}["Incomplete offers"]
    assert [(row[0], row[2]) for row in shown] == [("rent", "all but its price"), ("typo", "nothing")]


def test_a_decision_without_a_sound_offer_or_with_another_fault_is_refused_as_a_whole() -> None:
    typo = offer("typo", {"profile": {"write_bytes_per_second": "fast"}}, ONCE)
    bad_price = offer(
        "rent", FLASH, {"amount": 5, "per": "terabyte"}, ranges={"prices.0.amount": {"low": 1, "high": 2}}
    )
    (judged,) = DECIDE.answer(question(bad_price, typo)).offers
    assert (judged.name, judged.verdict, judged.total) == ("rent", "enough", None)
    with pytest.raises(InvalidInput, match=r"offers\.0\.storage"):
        DECIDE.answer(question(typo))
    with pytest.raises(InvalidInput, match="currency"):
        DECIDE.answer(question(typo, offer("sound", SLOW, ONCE)) | {"currency": ""})


def test_a_workload_that_cannot_run_is_said_before_any_money() -> None:
    asked = question(offer("flash", FLASH, ONCE))
    asked["workloads"][0]["scenario"]["training"] = {"framework": "megatron", "distributed_optimizer": False}
    summary = decision_summary(DECIDE.answer(asked))
    assert summary.verdict.startswith("training: Does not fit on ")
    assert "If it could run: flash costs least" in summary.verdict


LLAMA: dict[str, Any] = {
    "model": {"preset": "llama-3.1-405b"},
    "parallelism": {"tensor": 8, "pipeline": 16, "data": 128},
    "cluster": {"node": "dgx-h100"},
    "checkpoint": {"format": "torch-dist", "interval_seconds": "30min"},
    "reliability": {"mtbf_seconds": "3h", "relaunch_seconds": "10min"},
}
"""16,384 GPUs for 54 days."""


def decided_llama(checkpoint: dict[str, Any], **more: Any) -> OfferDecision:
    storage = {"profile": {"write_bytes_per_second": "100 GB/s", "read_bytes_per_second": "200 GB/s"}}
    prices = (PER_TERABYTE | {"amount": 200}, {"amount": 5000, "per": "gigabyte-per-second", "every": "once"})
    asked = question(offer("100 GB/s", storage, *prices), horizon_seconds="54d", per_lost_gpu_hour=2.5, **more)
    scenario = LLAMA | {"checkpoint": LLAMA["checkpoint"] | checkpoint}
    asked["workloads"] = [{"name": "405B", "scenario": scenario}]
    return DECIDE.answer(asked).offers[0]


def test_an_object_store_of_60_days_is_on_the_bill_of_405b() -> None:
    """60 of its checkpoints, each of 5.68 TB, and the one being written or not yet gone, at 250 per TB."""
    archive = {"kind": "object-store", "interval_seconds": "1d", "keep": 60, "cost_per_terabyte": 250,
               "storage": {"profile": {"write_bytes_per_second": "10 GB/s", "read_bytes_per_second": "10 GB/s"}}}  # fmt: skip
    found = decided_llama({"mode": "async", "tiers": [archive]}, settings={}, chooses_interval=False)
    assert costs(found)["tier object-store"] == pytest.approx(86_650, abs=1)


def test_settings_take_more_than_half_off_the_bill_of_405b() -> None:
    """With what is assumed today: 57.6 s to plan a save of 16,384 ranks, 73 s to detect, a read by each replica."""
    found = decided_llama({})
    assert found.total_as_asked == pytest.approx(22.94e6, rel=1e-3)
    assert found.total == pytest.approx(9.046e6, rel=1e-3)
    saved = {change.field: change.saves or 0 for change in found.workloads[0].changes}
    assert saved["checkpoint.restore"] > 10e6


def test_settings_that_meet_a_target_for_more_money_say_so() -> None:
    """Hardly any time may go to saving: saves become rare, and what is done again grows."""
    asked = question(offer("slow", SLOW, ONCE), settings={})
    asked["workloads"][0]["scenario"]["targets"] = {"max_overhead_fraction": 0.005}
    report = DECIDE.answer(asked)
    (found,) = report.offers
    assert found.verdict == "enough"
    assert found.total is not None
    assert found.total_as_asked is not None
    assert found.total > found.total_as_asked
    assert " less, and miss more targets." in decision_summary(report).verdict


def test_what_more_would_be_worth_is_the_difference_to_an_offer_that_has_it() -> None:
    failures = {"components": [{"name": "gpu", "per": "gpu", "mtbf_seconds": "400h", "loss_domain": "process"}]}
    drives = {
        "kind": "local-nvme",
        "interval_seconds": "2min",
        "storage": {
            "profile": {"node_write_bytes_per_second": "5 GB/s", "node_read_bytes_per_second": "5 GB/s"},
        },
    }
    fast = {"profile": {"write_bytes_per_second": "2 GB/s", "read_bytes_per_second": "4 GB/s"}}
    offers = (offer("plain", SLOW, ONCE), offer("fast", fast, ONCE), offer("drives", SLOW, ONCE, tiers=[drives]))

    def totals(**reliability: object) -> tuple[dict[str, float], dict[str, float]]:
        """By offer, and what the plain one lacks."""
        asked = question(*offers, settings={})
        asked["workloads"][0]["scenario"]["reliability"] = failures | {"repair_seconds": "5h"} | reliability
        found = {each.name: each for each in DECIDE.answer(asked).offers}
        return (
            {name: each.total for name, each in found.items() if each.total is not None},
            {worth.what: worth.saves for worth in found["plain"].worths},
        )

    by_offer, worths = totals()
    assert list(worths) == ["reads at twice the rate", "a local NVMe tier of 5.000 GB/s per node"]
    reads, tier = worths.values()
    assert reads == pytest.approx(by_offer["plain"] - by_offer["fast"], rel=1e-3)
    assert tier == pytest.approx(by_offer["plain"] - by_offer["drives"], rel=1e-3)
    assert min(reads, tier) > 0
    (with_one, worths), (with_two, _) = (totals(strategy="spares", spares={"num": num}) for num in (1, 2))
    assert worths["one more spare node"] == pytest.approx(with_one["plain"] - with_two["plain"], rel=1e-6)


def test_reads_at_twice_the_rate_are_so_in_stripes_too_and_not_in_the_page_cache() -> None:
    failures = {"mtbf_seconds": "30min", "relaunch_seconds": "5min"}

    def decide(**rates: object) -> OfferDecision:
        asked = question(offer("plain", {"profile": SLOW["profile"] | rates}, ONCE), settings={})
        asked["workloads"][0]["scenario"]["reliability"] = failures
        (found,) = DECIDE.answer(asked).offers
        return found

    def faster_reads_save(found: OfferDecision) -> float:
        (saves,) = (worth.saves for worth in found.worths if worth.what == "reads at twice the rate")
        return saves

    now = decide(stripe_read_bytes_per_second="10 MB/s", read_stripe_count=1)
    twice = decide(stripe_read_bytes_per_second="20 MB/s", read_stripe_count=1, read_bytes_per_second="4 GB/s")
    assert now.total is not None
    assert twice.total is not None
    assert 0 < faster_reads_save(now) == pytest.approx(now.total - twice.total, rel=1e-3)
    assert faster_reads_save(decide(writer_buffered_read_bytes_per_second="10 MB/s")) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("settings", [None, {}], ids=["any settings", "own settings"])
@pytest.mark.parametrize(
    "targets",
    [{"min_goodput_fraction": 0.945, "recovery_seconds": "14min"}, {"min_goodput_fraction": 0.94}],
    ids=["goodput and recovery", "goodput"],
)
def test_what_is_needed_together_is_enough_and_a_little_less_is_not(targets: Any, settings: Any) -> None:
    """At the settings proposed, as `ckpt-size require` says of these too."""

    def is_enough(less: dict[str, float]) -> bool:
        report = answer(with_fields(scenario, rates | less))
        drains = (report.interval.effective_interval_seconds or 0) <= report.interval.interval_seconds * (1 + 1e-9)
        return drains and all(check.met for check in report.targets)

    asked = question(offer("offer", SLOW, ONCE), settings=settings)
    asked["workloads"][0]["scenario"]["targets"] = targets
    (workload,) = DECIDE.answer(asked).offers[0].workloads
    assert workload.proposed
    proposed = workload.proposed.settings | {INTERVAL: workload.needs_interval_seconds}
    scenario = with_fields(asked["workloads"][0]["scenario"] | {"storage": SLOW}, proposed)
    needed = {need.field: need.needed for need in workload.needs}
    rates = {path: needed[path] for path in (WRITE_RATE, READ_RATE)}
    assert is_enough({})
    assert not any(is_enough({path: 0.99 * rate}) for path, rate in rates.items())
    required = REQUIRE.answer(scenario).needed
    assert required.write_bytes_per_second == pytest.approx(rates[WRITE_RATE])
    assert (required.read_bytes_per_second or rates[READ_RATE]) == pytest.approx(rates[READ_RATE])


def test_needs_as_they_are_printed_meet_the_targets_when_they_are_typed_back() -> None:
    """With a capacity that the offer does not state."""
    asked = question(offer("offer", SLOW, ONCE))
    asked["workloads"][0]["scenario"]["targets"] = {"min_goodput_fraction": 0.945, "recovery_seconds": "14min"}
    report = DECIDE.answer(asked)
    (workload,) = report.offers[0].workloads
    assert workload.proposed
    grid = next(each for each in decision_summary(report).grids if each.title.startswith("Needed together"))
    ((*_, write, read, capacity, every),) = grid.rows
    assert re.fullmatch(r"[\d.]+ s \(\d+\.\d+ \w+\)", every)
    assert capacity.endswith(" GB (offer does not say)")
    typed = {WRITE_RATE: write.split(" of ")[0], READ_RATE: read.split(" of ")[0], INTERVAL: every.split(" (")[0]}
    scenario = asked["workloads"][0]["scenario"] | {"storage": SLOW}
    assert all(check.met for check in answer(with_fields(scenario, workload.proposed.settings | typed)).targets)


def test_a_proposed_interval_is_one_that_saves_can_keep() -> None:
    """So often fail 64 GPUs here that saves should be as frequent as drains allow."""
    asked = question(offer("slow", SLOW, ONCE), settings={"checkpoint.mode": ["async"]})
    asked["workloads"][0]["scenario"]["reliability"] = {"mtbf_seconds": "10min"}
    (found,) = DECIDE.answer(asked).offers
    (proposed,) = (workload.proposed for workload in found.workloads)
    assert proposed is not None
    assert not any("drains" in warning for warning in proposed.warnings)


def test_a_figure_that_a_change_leaves_as_it_is_is_unchanged() -> None:
    shown = {grid.title: grid for grid in decision_summary(DECIDE.answer(REFERENCE_DECISION)).grids}
    (recovery, repeated), *_ = ((row[3], row[4]) for row in shown["Way back from a failure"].rows)
    assert recovery == "unchanged, 0 s"
    assert repeated.startswith("19.4 % to ")


def decide_on_kept_weights(**asked: Any) -> DecisionReport:
    """Decide between storage rented for what is kept, and 30 TB, which hold what is kept at an interval of 1 h."""
    document = question(
        offer("rented", FLASH, {"amount": 1000, "per": "terabyte", "every": "month"}),
        offer("bought", FLASH, {"amount": 10, "per": "terabyte", "every": "once"}, capacity_bytes="30 TB"),
        **asked,
    )
    document["workloads"][0]["scenario"]["retention"] = {"keep_last": 1, "keep_weights_every": 10}
    return DECIDE.answer(document)


def test_no_interval_is_proposed_that_keeps_more_than_an_offer_holds() -> None:
    configured = decide_on_kept_weights(chooses_interval=False).offers[0]
    assert (configured.name, configured.verdict) == ("bought", "enough")
    chosen = decide_on_kept_weights().offers[0]
    assert (chosen.name, chosen.verdict, chosen.missing) == ("bought", "enough", [])
    assert (chosen.total or 0) <= (configured.total or 0)
    assert [need.needed <= 30e12 for need in chosen.workloads[0].needs if need.field == "capacity_bytes"] == [True]


def test_current_settings_that_overfill_an_offer_say_so_where_they_would_cost_less() -> None:
    document = question(offer("bought", FLASH, ONCE, capacity_bytes="16 TB"))
    document["workloads"][0]["scenario"]["retention"] = {"keep_last": 1, "keep_weights_every": 10}
    assert " less, and not hold what is kept." in decision_summary(DECIDE.answer(document)).verdict


def test_settings_that_keep_fewer_weights_say_so() -> None:
    scenario = RUN | {"retention": {"keep_weights_every": 10}}
    report = DECIDE.answer(
        question(offer("rented", FLASH, {"amount": 1000, "per": "terabyte", "every": "month"}))
        | {"workloads": [{"name": "training", "scenario": scenario}]}
    )
    (workload,) = report.offers[0].workloads
    assert workload.as_asked is not None
    assert workload.proposed is not None
    at_one_hour = SECONDS_PER_YEAR / 3600 / 10 * 4 * 8_030_261_248  # parameters in fp32, as FSDP saves them
    interval = next(change.after for change in workload.changes if change.field == INTERVAL)
    assert isinstance(interval, float)
    assert workload.as_asked.kept_weights_bytes == pytest.approx(at_one_hour)
    assert workload.proposed.kept_weights_bytes == pytest.approx(at_one_hour * 3600 / interval)
    said = "training keeps 13.83 TB of weights for good, and 28.16 TB with your current settings."
    assert said in decision_summary(report).verdict
