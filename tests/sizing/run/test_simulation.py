"""The run of a scenario is simulated as asked, and stands beside the formula."""

import random

import numpy as np
import pytest
from scipy.stats import binomtest

from sizing.errors import InvalidInput
from sizing.report import answer
from sizing.run.evaluation import evaluate
from sizing.run.levels import Level
from sizing.run.monte_carlo import simulate
from sizing.run.simulation import (
    SimulationReport,
    SimulationRequest,
    proportion_interval,
    simulation_report,
    with_whole_multiples,
)
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.sized_layout import size_layout
from tests.sizing.run.scenarios import NVME, PEERS, document, tiered

SMALL = SimulationRequest(num_runs=1000)


def simulated(base: dict[str, object], request: SimulationRequest = SMALL) -> SimulationReport:
    scenario = scenario_from(base)
    return simulation_report(evaluate(size_layout(scenario).workload, scenario.run_inputs), request)


def test_the_reference_run_agrees_with_its_formula() -> None:
    report = simulated(REFERENCE_SCENARIO)
    expected = answer(scenario_from(REFERENCE_SCENARIO)).interval.goodput_at_interval_fraction
    assert report.formula_goodput_fraction == pytest.approx(expected, rel=1e-9)
    assert abs(report.difference_in_standard_errors) < 3.5
    assert report.mean_failures == pytest.approx(30 * 86_400 / 34_615.38 + 1, rel=0.02)


def test_failures_are_counted_over_the_time_that_the_runs_last() -> None:
    """A month of a job that fails once in a year lasts a year and a month, up to its one failure."""
    rare = document(REFERENCE_SCENARIO, reliability={"failures_per_node_day": None, "mtbf_seconds": "365d"})
    report = simulated(rare)
    assert report.mean_run_seconds == pytest.approx((365 + 30) * 86_400, rel=0.1)
    assert report.mean_failures * report.mtbf_seconds == pytest.approx(report.mean_run_seconds, rel=0.1)


def test_the_odds_of_a_target_of_goodput_are_those_of_the_runs() -> None:
    wanted = {"targets": {"min_goodput_fraction": 0.79}}
    report, without = simulated(document(REFERENCE_SCENARIO, **wanted)), simulated(REFERENCE_SCENARIO)
    odds = report.goodput_target
    assert without.goodput_target is None
    assert odds is not None
    below = sum(each.num_runs for each in report.histogram if each.to_fraction <= 0.79)
    above = sum(each.num_runs for each in report.histogram if each.from_fraction >= 0.79)
    assert 100 < above <= odds.num_met <= 1000 - below < 900
    assert odds.met_probability == odds.num_met / 1000
    exact = binomtest(odds.num_met, 1000).proportion_ci(0.95, method="exact")
    assert (odds.met_interval.low, odds.met_interval.high) == pytest.approx((exact.low, exact.high), rel=1e-9)


@pytest.mark.parametrize(("num_met", "num_trials"), [(0, 7), (7, 7), (1, 3), (2_500, 100_000_000)])
def test_intervals_of_proportions_are_those_of_scipys_exact_test(num_met: int, num_trials: int) -> None:
    exact = binomtest(num_met, num_trials).proportion_ci(0.95, method="exact")
    found = proportion_interval(num_met, num_trials)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), rel=1e-9)


def test_tiers_agree_with_their_formula() -> None:
    report = simulated(tiered(PEERS, NVME))
    assert abs(report.difference_in_standard_errors) < 3.5
    assert report.notes == []


def test_a_tier_that_drains_nearly_all_the_time_agrees_with_its_formula() -> None:
    """The main storage has no copy of a save before the tier in front has it whole."""
    slow = {"profile": {"node_write_bytes_per_second": "15 MB/s", "node_read_bytes_per_second": "1 GB/s"}}
    report = simulated(tiered(NVME | {"storage": slow}))
    assert abs(report.difference_in_standard_errors) < 3.5
    assert report.notes == []


AWAY_FOR_LONG = {"failures_per_node_day": 0.0025, "repair_seconds": "25h", "step_seconds": 10}


@pytest.mark.parametrize(
    "strategy",
    [{"strategy": "spares", "spares": {"num": 2}}, {"strategy": "shrink", "shrink": {"regroup_seconds": 30}}],
)
def test_a_month_in_which_repairs_take_days_loses_what_the_formula_says(strategy: dict[str, object]) -> None:
    """A run that began with all its nodes, and ended before the last repair, would lose 5 to 20 % less."""
    of_nodes = document(
        REFERENCE_SCENARIO,
        parallelism={"data": 6},
        checkpoint={"interval_seconds": "30min"},
        reliability={**AWAY_FOR_LONG, **strategy},
    )
    found = simulated(of_nodes, SimulationRequest(num_runs=20_000))
    lost = 1 - found.formula_goodput_fraction
    assert found.standard_error_fraction < 0.01 * lost
    assert abs(found.difference_in_standard_errors) < 4


def test_the_spread_of_the_runs_holds_their_median() -> None:
    report = simulated(REFERENCE_SCENARIO)
    assert report.p5_goodput_fraction < report.p50_goodput_fraction < report.p95_goodput_fraction
    assert sum(one.num_runs for one in report.histogram) == 1000


def test_one_run_in_twenty_lies_below_the_5th_percentile_and_one_above_the_95th() -> None:
    """1,001 runs: 50 below the 51st, 500 below the 501st, 950 below the 951st; no two runs are equal."""
    scenario, request = scenario_from(REFERENCE_SCENARIO), SimulationRequest(num_runs=1001)
    run = evaluate(size_layout(scenario).workload, scenario.run_inputs)
    report = simulation_report(run, request)
    runs = simulate(
        run.levels, mtbf_seconds=report.mtbf_seconds, run_seconds=report.run_seconds, num_runs=1001, seed=report.seed
    ).run_goodput_fractions
    percentiles = (report.p5_goodput_fraction, report.p50_goodput_fraction, report.p95_goodput_fraction)
    assert [int(np.sum(runs < percentile)) for percentile in percentiles] == [50, 500, 950]


def _goodput_of_a_run(dice: random.Random, *, seconds: float, mtbf: float, interval: float, stall: float) -> float:
    """A run of one level with recoveries of 405 s, cut at its end: work that is not saved counts there."""
    now = done = 0.0
    while now < seconds:
        trains = dice.expovariate(1 / mtbf)
        if now + trains >= seconds:
            done += (seconds - now) * (1 - stall / interval)
            break
        done += trains // interval * (interval - stall)
        now += trains
        while (struck := dice.expovariate(1 / mtbf)) < 405:
            now += struck
        now += 405
    return done / seconds


@pytest.mark.parametrize(("mtbf_hours", "days", "wanted"), [(154 * 24, 7, 0.9935), (28.8, 1, 0.96)])
def test_the_odds_of_a_run_are_those_of_its_own_length(mtbf_hours: float, days: float, wanted: float) -> None:
    mtbf, seconds, num_runs = mtbf_hours * 3600, days * 86_400, 20_000
    level = Level(1800.0, 11.25, 0.0, 405.0, 1.0)
    found = simulate([level], mtbf_seconds=mtbf, run_seconds=seconds, num_runs=num_runs, seed=1)
    dice = random.Random(2)  # noqa: S311 - a fixed seed for tests
    own = np.array(
        [_goodput_of_a_run(dice, seconds=seconds, mtbf=mtbf, interval=1800.0, stall=11.25) for _ in range(num_runs)]
    )
    met, expected = (float(np.mean(each >= wanted)) for each in (found.run_goodput_fractions, own))
    assert met == pytest.approx(expected, abs=4 * np.sqrt(2 * expected * (1 - expected) / num_runs))
    for quantile in (0.05, 0.5):
        assert np.quantile(found.run_goodput_fractions, quantile) == pytest.approx(np.quantile(own, quantile), abs=1e-3)


def test_groups_that_shrink_are_counted_up_to_the_end_of_a_run_too() -> None:
    """In runs of a year the median lies near the mean."""
    shrinking = AWAY_FOR_LONG | {"strategy": "shrink", "shrink": {"regroup_seconds": 30}}
    of_groups = document(REFERENCE_SCENARIO, checkpoint={"interval_seconds": "30min"}, reliability=shrinking)
    found = simulated(of_groups, SimulationRequest(num_runs=500, run_seconds=365 * 86_400))
    assert found.p50_goodput_fraction == pytest.approx(found.goodput_fraction, abs=2e-3)
    assert found.p95_goodput_fraction - found.p5_goodput_fraction < 0.05


def test_the_same_seed_gives_the_same_runs() -> None:
    again, other = (
        simulated(REFERENCE_SCENARIO),
        simulated(REFERENCE_SCENARIO, SimulationRequest(num_runs=1000, seed=2)),
    )
    assert again == simulated(REFERENCE_SCENARIO)
    assert again.goodput_fraction != other.goodput_fraction


def test_intervals_behind_a_tier_that_is_held_up_are_lengthened_and_noted() -> None:
    slow = {"profile": {"node_write_bytes_per_second": "30 MB/s", "node_read_bytes_per_second": "1 GB/s"}}
    report = simulated(tiered(NVME | {"interval_seconds": 60, "storage": slow}))
    assert [note.partition(" was")[0] for note in report.notes] == [
        "The interval of 60.00 s",
        "The interval of 60.0 min",
    ]
    levels = [Level(70.0, 1.0, 0.0, 0.0, 0.5), Level(600.0, 1.0, 0.0, 0.0, 0.5)]
    assert [level.interval_seconds for level in with_whole_multiples(levels)] == [70, 630]


def test_errors_shrink_with_the_square_root_of_the_runs() -> None:
    level = Level(3600.0, 60.0, 0.0, 300.0, 1.0)
    few, many = (
        simulate([level], mtbf_seconds=2e4, run_seconds=1e6, num_runs=n, seed=3).standard_error_fraction
        for n in (400, 6400)
    )
    assert few / many == pytest.approx(4, rel=0.2)


def test_a_run_without_failures_loses_its_stalls_alone() -> None:
    level = Level(100.0, 10.0, 0.0, 0.0, 1.0)
    runs = simulate([level], mtbf_seconds=1e12, run_seconds=1.0, num_runs=100, seed=1)
    assert runs.goodput_fraction == pytest.approx(0.9, rel=1e-6)
    assert np.all(runs.num_failures == 1)


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("storage", "a write bandwidth .*storage.profile.write_bytes_per_second"),
        ("reliability", "a failure rate .*reliability.mtbf_seconds"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_what_lacks(missing: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=f"must have {said}"):
        simulated(document(REFERENCE_SCENARIO, **{missing: None}))


def test_more_failures_than_memory_and_time_allow_are_refused() -> None:
    often = document(REFERENCE_SCENARIO, reliability={"failures_per_node_day": 1000})
    with pytest.raises(InvalidInput, match="must have at most 200,000,000 failures"):
        simulated(often, SimulationRequest(num_runs=1_000_000))
