"""The odds of a decision: held against answers one by one, and variances that a hand can work out."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from sizing.errors import InvalidInput
from sizing.questions.decide.probability import variance_shares
from sizing.questions.decide.report import DecisionReport, DrawnInput, Odds, OfferOdds
from sizing.questions.decide.words import decision_summary
from sizing.questions.registry import DECIDE
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.storage.calibration import calibrate
from sizing.units import SECONDS_PER_YEAR, percent_text
from tests.sizing.storage.calibration.simulation import result

RUN: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "training": {"framework": "fsdp2"},
    "parallelism": {"data": 64},
    "cluster": {"node": "dgx-h100"},
    "checkpoint": {"interval_seconds": "1h"},
    "reliability": {"mtbf_seconds": "6h", "relaunch_seconds": "5min", "detection_seconds": "1min"},
}
TARGETS = {"min_goodput_fraction": 0.93, "recovery_seconds": "440s"}
RATES = {"flash": "20 GB/s", "slow": "2 GB/s"}
PRICES = {"flash": 110_000, "slow": 20_000}
MTBF = "reliability.mtbf_seconds"
HOUR = "per_lost_gpu_hour"
WRITE = "storage.profile.write_bytes_per_second"
READ = "storage.profile.read_bytes_per_second"
UNCERTAIN = {
    MTBF: {"low": "3h", "high": "24h", "distribution": "log-uniform"},
    "reliability.relaunch_seconds": {"low": "4min", "high": "7min"},
    "per_lost_gpu_hour": {"low": 1, "high": 3},
}


def offer(name: str, **more: Any) -> dict[str, Any]:
    profile = {"write_bytes_per_second": RATES[name], "read_bytes_per_second": RATES[name]}
    prices = [{"amount": PRICES[name], "per": "offer", "every": "once"}]
    return {"name": name, "storage": {"profile": profile}, "prices": prices} | more


def question(*offers: dict[str, Any], odds: object, targets: object = None, **more: Any) -> dict[str, Any]:
    return {
        "currency": "EUR",
        "horizon_seconds": "1y",
        "per_lost_gpu_hour": 2.0,
        "workloads": [{"name": "training", "scenario": copy.deepcopy(RUN) | {"targets": targets or {}}}],
        "offers": list(offers),
        "settings": {},
        "chooses_interval": False,
        "odds": odds,
    } | more


def odds_of(report: DecisionReport) -> Odds:
    assert report.odds is not None
    return report.odds


def by_name(report: DecisionReport) -> dict[str, OfferOdds]:
    return {each.name: each for each in odds_of(report).offers}


def answered(storage: dict[str, Any], **reliability: float) -> SizingReport:
    """Without targets, for each of which the answer would be solved: they are held against by hand here."""
    document = copy.deepcopy(RUN) | {"storage": storage}
    document["reliability"] |= reliability
    return answer(scenario_from(document))


def cost(report: SizingReport, name: str, hour: float) -> float:
    goodput = report.interval.goodput_at_interval_fraction
    assert goodput is not None
    return (1 - goodput) * 64 * SECONDS_PER_YEAR / 3600 * hour + PRICES[name]


def test_probabilities_are_those_of_answers_one_by_one() -> None:
    """Draws of another generator, each a whole answer with targets and money held against it by hand."""
    slow = offer("slow", ranges={READ: {"low": "1 GB/s", "high": "3 GB/s"}})
    odds = {"ranges": UNCERTAIN, "num_draws": 20_000}
    found = by_name(DECIDE.answer(question(offer("flash"), slow, odds=odds, targets=TARGETS)))
    drawn, num_draws = np.random.default_rng(11), 120
    counted = {(name, what): 0 for name in RATES for what in ("goodput", "recovery", "enough", "cheapest", "best")}
    totals: dict[str, list[float]] = {name: [] for name in RATES}
    for _ in range(num_draws):
        mtbf, relaunch = 10_800 * 8 ** drawn.random(), 240 + 180 * drawn.random()
        hour, read = 1 + 2 * drawn.random(), 1e9 + 2e9 * drawn.random()
        costs, enough = {}, {}
        for name in RATES:
            profile = offer(name)["storage"]["profile"] | ({"read_bytes_per_second": read} if name == "slow" else {})
            report = answered({"profile": profile}, mtbf_seconds=mtbf, relaunch_seconds=relaunch)
            goodput = (report.interval.goodput_at_interval_fraction or 0.0) >= 0.93
            recovery = (report.restore.time_to_first_step_seconds or 1e9) <= 440
            costs[name], enough[name] = cost(report, name, hour), goodput and recovery and report.overhead.meets_target
            totals[name].append(costs[name])
            counted[name, "goodput"] += goodput
            counted[name, "recovery"] += recovery
            counted[name, "enough"] += enough[name] is True
        counted[min(costs, key=costs.__getitem__), "cheapest"] += 1
        left = [name for name in costs if enough[name]]
        if left:
            counted[min(left, key=costs.__getitem__), "best"] += 1
    said: dict[tuple[str, str], float | None] = {}
    for name, each in found.items():
        by_target = {target.target: target.met_probability for target in each.targets}
        said[name, "goodput"] = by_target["min_goodput_fraction"]
        said[name, "recovery"] = by_target["recovery_seconds"]
        said[name, "enough"] = each.enough_probability
        said[name, "cheapest"], said[name, "best"] = each.cheapest_probability, each.best_probability
        assert each.total is not None
        assert np.mean(np.array(totals[name]) < each.total.p50) == pytest.approx(0.5, abs=0.12)
        assert np.mean(np.array(totals[name]) < each.total.p95) == pytest.approx(0.95, abs=0.055)
    errors = {
        key: (count / num_draws - probability) / max(np.sqrt(probability * (1 - probability) / num_draws), 1e-3)
        for key, count in counted.items()
        if (probability := said[key]) is not None
    }
    assert len(errors) == len(counted)
    assert max(abs(error) for error in errors.values()) < 3.5, errors
    assert (
        sum(0.05 < (probability or 0) < 0.95 for probability in said.values()) >= 5
    )  # most are no foregone conclusion


def test_each_probability_has_the_interval_that_the_chance_of_its_draws_leaves() -> None:
    asked = question(offer("flash"), offer("slow"), odds={"ranges": UNCERTAIN, "num_draws": 2_000}, targets=TARGETS)
    report = DECIDE.answer(asked)
    odds = odds_of(report)
    num_open = 0
    for each in odds.offers:
        pairs = [(target.met_probability, target.met_interval) for target in each.targets]
        pairs += [(each.enough_probability, each.enough_interval), (each.best_probability, each.best_interval)]
        pairs.append((each.cheapest_probability, each.cheapest_interval))
        for probability, interval in pairs:
            assert probability is not None
            assert interval is not None
            exact = binomtest(round(2_000 * probability), 2_000).proportion_ci(0.95, method="exact")
            assert (interval.low, interval.high) == pytest.approx((exact.low, exact.high), rel=1e-9)
            num_open += 0 < probability < 1
    assert num_open >= 3
    ends = odds.offers[0].best_interval
    assert ends is not None
    assert f"(95 % interval {percent_text(ends.low)} to {percent_text(ends.high)})" in (
        decision_summary(report).verdict or ""
    )


def test_ranges_without_width_are_the_decision_to_the_last_digit() -> None:
    points: dict[str, Any] = {
        MTBF: {"low": "6h", "high": "6h", "distribution": "log-normal"},
        "reliability.detection_seconds": {"low": 60, "high": 60, "distribution": "triangular", "most_likely": 60},
        "per_lost_gpu_hour": {"low": 2, "high": 2},
        WRITE: {"low": "2GB/s", "high": "2GB/s", "distribution": "log-uniform"},
    }
    rate = points.pop(WRITE)
    slow = offer("slow", ranges={WRITE: rate, "prices.0.amount": {"low": 20_000, "high": 20_000}})
    asked = question(offer("flash"), slow, odds={"ranges": points, "num_draws": 200}, targets=TARGETS)
    for settings in ({}, {"settings": None, "chooses_interval": True}):
        report = DECIDE.answer(asked | settings)
        for decided, found in zip(report.offers, odds_of(report).offers, strict=True):
            assert found.total is not None
            assert (found.total.p5, found.total.p50, found.total.p95) == (decided.total,) * 3
            (workload,) = decided.workloads
            assert workload.proposed is not None
            (goodput,) = found.goodputs
            assert goodput.goodput_fraction is not None
            assert goodput.goodput_fraction.p5 == workload.proposed.goodput_fraction
            met = [check.met for check in workload.proposed.targets]
            assert [target.met_probability for target in found.targets] == [float(each is True) for each in met]
            assert found.enough_probability == float(decided.verdict == "enough")
        first, second = odds_of(report).offers
        assert first.best_probability == float(report.offers[0].verdict == "enough")
        assert second.best_probability == 0.0
        assert odds_of(report).measure_next is None
        assert odds_of(report).warnings == []


def test_the_same_seed_gives_the_same_answer_and_another_does_not() -> None:
    asked = question(offer("flash"), offer("slow"), odds={"ranges": UNCERTAIN, "num_draws": 1000})
    once, again = (odds_of(DECIDE.answer(copy.deepcopy(asked))) for _ in range(2))
    assert once == again
    other = odds_of(DECIDE.answer(asked | {"odds": asked["odds"] | {"seed": 1}}))
    assert other.offers[0].total != once.offers[0].total
    assert other.offers[0].cheapest_probability == pytest.approx(once.offers[0].cheapest_probability, abs=0.1)


def test_shares_of_the_variance_are_those_of_a_sum_and_of_a_product() -> None:
    """Of a sum each part has its own variance; of x1 x2, both even from 0 to 1, each alone 3/7 and with the other 4/7."""
    flash = offer("flash", ranges={"prices.0.amount": {"low": 1e6, "high": 1.1e6}})
    slow = offer("slow", ranges={"prices.0.amount": {"low": 1e6, "high": 1.3e6}})
    odds = odds_of(DECIDE.answer(question(flash, slow, odds={"num_draws": 100})))
    first, second = odds.inputs
    assert (first.offer, second.offer) == ("slow", "flash")
    assert odds.measure_next == first
    for share, wanted in ((first, 0.9), (second, 0.1)):
        assert share.first_order_fraction == pytest.approx(wanted, abs=0.01)
        assert share.total_fraction == pytest.approx(wanted, abs=0.01)
    alone = variance_shares(lambda x: x[0], 1, seed=2)
    assert [*alone.first_order, *alone.total] == pytest.approx([1, 1], abs=0.01)
    product = variance_shares(lambda x: x[0] * x[1], 3, seed=2)
    assert product.first_order == pytest.approx([3 / 7, 3 / 7, 0], abs=0.01)
    assert product.total == pytest.approx([4 / 7, 4 / 7, 0], abs=0.01)


def test_a_calibration_is_drawn_from_its_own_interval() -> None:
    calibration = calibrate([result(noise=0.05, outliers=0)], num_draws=40)
    assert calibration.write is not None
    storage = {"calibration": calibration.model_dump(mode="json")}
    draws = calibration.write.draws
    rows = [dict(zip(draws, row, strict=True)) for row in zip(*draws.values(), strict=True)]
    profile = calibration.profile.model_dump(exclude_none=True)
    known = [{name: value for name, value in row.items() if name in profile} for row in rows]
    stalls = [answered({"profile": profile | row}).overhead.fraction or 0.0 for row in known]
    at = float(np.quantile(stalls, 0.7))
    asked = question(offer("slow", storage=storage), odds={"num_draws": 20_000}, targets={"max_overhead_fraction": at})
    odds = odds_of(DECIDE.answer(asked))
    (found,) = odds.offers
    (target,) = found.targets
    assert target.met_probability == pytest.approx(np.mean(np.array(stalls) <= at), abs=0.02)
    assert {each.field for each in odds.inputs} == {"storage.calibration.write", "storage.calibration.read"}


def test_guesses_are_drawn_where_asked_and_what_others_take_is_not_there() -> None:
    asked = question(offer("slow"), odds={"guesses": True, "num_draws": 500})
    workload = asked["workloads"][0]
    del workload["scenario"]["reliability"]["detection_seconds"]
    workload["shared"] = {"write_bytes_per_second": "1.5 GB/s"}
    (found,) = [each for each in odds_of(DECIDE.answer(asked)).inputs if each.field == "reliability.detection_seconds"]
    assert (found.low, found.high) == (0.0, 600.0)
    assert found.source.startswith("plausible range: ")
    taken = {"ranges": {WRITE: {"low": "2 GB/s", "high": "2 GB/s"}}, "num_draws": 100}
    report = DECIDE.answer(asked | {"odds": taken})
    total = odds_of(report).offers[0].total
    assert total is not None
    assert total.p50 == report.offers[0].total
    none_left = {"ranges": {WRITE: {"low": "1 GB/s", "high": "1 GB/s"}}, "num_draws": 100}
    starved = odds_of(DECIDE.answer(asked | {"odds": none_left}))
    assert starved.offers[0].enough_probability == 0.0
    assert starved.warnings == [
        f"{WRITE} of training under slow is 500.0 MB/s, outside of its range: settings are chosen for what it is"
    ]


def broken() -> Iterator[tuple[dict[str, Any], str]]:
    def asked(**odds: Any) -> dict[str, Any]:
        return question(offer("slow"), odds=odds)

    hours = {"low": "3h", "high": "9h"}
    yield (
        asked(ranges={MTBF: {"low": "9h", "high": "3h"}}),
        f"odds.ranges.{MTBF} must have low at most high, got '9h to 3h': swap them.",
    )
    yield asked(ranges={"reliability.mtbf_second": hours}), f"got 'reliability.mtbf_second': did you mean {MTBF}."
    yield asked(ranges={"checkpoint.interval_seconds": hours}), "must name an input that may turn out otherwise"
    yield (
        asked(ranges={"reliability.failures_per_node_day": {"low": 1, "high": 2}}),
        "must be of a number that the scenario of training has: give the field a value there, or remove the range.",
    )
    yield asked(ranges={MTBF: {"low": "soon", "high": "9h"}}), f"odds.ranges.{MTBF}.low"
    yield asked(ranges={MTBF: hours | {"distribution": "normal"}}), "uniform"
    yield asked(ranges={MTBF: hours | {"distribution": "triangular"}}), "is triangular without most_likely"
    yield asked(ranges={MTBF: hours | {"most_likely": "4h"}}), "has most_likely, but is uniform"
    peak = hours | {"distribution": "triangular", "most_likely": "1h"}
    yield asked(ranges={MTBF: peak}), "most_likely must lie between low and high, got '1h'"
    from_zero = {"low": 0, "high": 60, "distribution": "log-uniform"}
    yield asked(ranges={"reliability.detection_seconds": from_zero}), "low must be above 0 where it is log-uniform"
    yield asked(ranges={MTBF: hours}, num_draws=200_000_000), "odds.num_draws must be at most 100000000"
    yield asked(), "odds must have something that is not certain: give ranges here or in an offer, or set odds.guesses."
    price = question(offer("slow", ranges={"prices.1.amount": {"low": 1, "high": 2}}), odds={})
    yield price, "did you mean prices.0.amount"
    dollars = question(offer("slow", ranges={"prices.0.amount": {"low": 10, "high": "USD 20"}}), odds={})
    yield dollars, "offers.0.ranges.prices.0.amount.high must be in the currency of the other prices, EUR, got 'USD 20'"
    yield asked(ranges={HOUR: {"low": -1, "high": 2}}), f"odds.ranges.{HOUR}.low must be at least 0.0, got -1.0"
    yield asked(ranges={HOUR: {"low": "few", "high": 2}}), f"odds.ranges.{HOUR}.low must be a number, got 'few'"
    yield asked(ranges={HOUR: {"low": "0,5", "high": 2}}), "write a point before decimals: 0.5"


def test_money_of_a_range_is_read_as_prices_are() -> None:
    def inputs(low: object, high: object) -> list[DrawnInput]:
        ranges = {"prices.0.amount": {"low": low, "high": high}}
        odds = {"ranges": {HOUR: {"low": low, "high": high}}, "num_draws": 100}
        return odds_of(DECIDE.answer(question(offer("slow", ranges=ranges), odds=odds))).inputs

    plain = inputs(1000, 3000)
    assert [(each.low, each.high) for each in plain] == [(1000, 3000)] * 2
    assert inputs("1,000", "€3,000") == inputs("EUR 1 000", "3,000.00 EUR") == plain


@pytest.mark.parametrize(("before", "place"), [([], 1), ([{"name": "typo", "storage": {"system": "none"}}], 2)])
def test_a_range_is_refused_at_the_place_of_its_offer_in_the_request(before: list[dict[str, Any]], place: int) -> None:
    """The offer with it comes first in the ranking, and one that is left out keeps its place."""
    wrong = offer("slow", ranges={"prices.1.amount": {"low": 1, "high": 2}})
    with pytest.raises(InvalidInput, match=rf"^offers\.{place}\.ranges\.prices\.1\.amount must name an input"):
        DECIDE.answer(question(*before, offer("flash"), wrong, odds={}))


@pytest.mark.parametrize(("document", "said"), list(broken()), ids=[said for _, said in broken()])
def test_what_breaks_a_rule_is_refused_in_a_sentence(document: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        DECIDE.answer(document)
    assert said in str(refused.value)
    assert len(refused.value.problems) == 1
