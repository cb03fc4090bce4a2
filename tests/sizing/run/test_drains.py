"""A failure during a drain loses that checkpoint, unless the drain outlives it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.errors import InvalidInput
from sizing.report import answer
from sizing.run.checkpoint import Checkpoint
from sizing.run.evaluation import evaluate
from sizing.run.failure_process import shares_of
from sizing.run.failures import Reliability
from sizing.run.goodput import multilevel_goodput_fraction
from sizing.run.levels import Level, exposed_drain_seconds
from sizing.run.monte_carlo import simulate
from sizing.run.tiers import outlived_fraction, share_of_outlived
from sizing.scenario import scenario_from
from sizing.sized_layout import size_layout
from tests.examples import spread
from tests.sizing.run.scenarios import NVME, PEERS, document, report, tiered

FRONT, BEHIND = Level(60, 1, 0, 60, 0.8), Level(600, 0, 494, 300, 0.2)
"""A failure every 20 minutes, four of five recovered from memory, and a drain of 494 s behind it."""
OFTEN = 1200
CASES = {
    "lost": ([FRONT, BEHIND], OFTEN),
    "outlived by what memory recovers": ([replace(FRONT, outlived_fraction=1.0), BEHIND], OFTEN),
    "outlived by half of that": ([replace(FRONT, outlived_fraction=0.5), BEHIND], OFTEN),
    "one level, outlived by some": ([Level(600, 2, 300, 700, 1, outlived_fraction=0.6, waiting_seconds=400)], 5_000),
    "one level, read before most have drained": (
        [Level(600, 2, 300, 300, 1, outlived_fraction=0.6, waiting_seconds=50)],
        20_000,
    ),
    "three levels": (
        [Level(60, 1, 9, 60, 0.7, 0.5, 30), Level(600, 0, 120, 300, 0.2), Level(3600, 0, 600, 900, 0.1)],
        3_000,
    ),
}


@pytest.mark.parametrize(
    "name",
    spread(
        CASES,
        by_default=[
            "outlived by half of that",
            "one level, outlived by some",
            "one level, read before most have drained",
        ],
    ),
)
def test_a_simulation_agrees_within_its_own_error_bars(name: str) -> None:
    levels, mtbf = CASES[name]
    runs = simulate(levels, mtbf_seconds=mtbf, run_seconds=30 * 86_400, num_runs=400, seed=11)
    expected = float(multilevel_goodput_fraction(levels, mtbf_seconds=mtbf))
    assert runs.standard_error_fraction < 0.001
    assert abs(runs.goodput_fraction - expected) < 3.5 * runs.standard_error_fraction


@pytest.mark.parametrize("name", ["lost", "three levels"])
def test_a_simulation_shows_the_same_shares(name: str) -> None:
    levels, mtbf = CASES[name]
    runs = simulate(levels, mtbf_seconds=mtbf, run_seconds=30 * 86_400, num_runs=400, seed=12)
    formula = shares_of(levels, goodput=multilevel_goodput_fraction(levels, mtbf_seconds=mtbf), mtbf_seconds=mtbf)
    for share, found in runs.shares.model_dump().items():
        expected = float(getattr(formula, share))
        assert found == pytest.approx(expected, rel=0.02, abs=3.5 * runs.standard_error_fraction)


def test_a_drain_that_ends_with_the_process_costs_three_percent_of_the_run() -> None:
    """As reported: 0.769 where drains outlive what a tier recovers, 0.737 where they do not."""
    lost, outlived = (
        float(multilevel_goodput_fraction(CASES[name][0], mtbf_seconds=OFTEN)) for name in list(CASES)[:2]
    )
    assert outlived == pytest.approx(0.769, abs=0.005)
    assert lost == pytest.approx(0.737, abs=0.005)
    assert lost / outlived == pytest.approx(0.737 / 0.769, abs=0.001)


@given(st.floats(0, 1), st.floats(0, 590), st.floats(0.01, 0.99), st.floats(600, 1e6))
def test_the_more_a_drain_outlives_the_less_is_lost(outlived: float, drain: float, used: float, mtbf: float) -> None:
    front, behind = replace(FRONT, used_fraction=used), replace(BEHIND, drain_seconds=drain, used_fraction=1 - used)
    none, some, every = (
        float(multilevel_goodput_fraction([replace(front, outlived_fraction=f), behind], mtbf_seconds=mtbf))
        for f in (0.0, outlived, 1.0)
    )
    assert none <= some * (1 + 1e-9) <= every * (1 + 2e-9)


def test_a_drain_that_nothing_else_ends_is_as_it_always_was() -> None:
    """To first order a failure costs half an interval and the drain."""
    level = Level(600.0, 1.0, 120.0, 0.0, 1.0, outlived_fraction=0.0, waiting_seconds=400.0)
    assert exposed_drain_seconds(level) == 120
    assert exposed_drain_seconds(replace(level, outlived_fraction=1.0)) == 0
    assert exposed_drain_seconds(replace(level, outlived_fraction=1.0, waiting_seconds=20.0)) == 100


PARTS = [
    {"name": "software", "mtbf_seconds": "10h", "loss_domain": "process"},
    {"name": "nodes", "mtbf_seconds": "30h", "loss_domain": "node"},
    {"name": "switches", "mtbf_seconds": "60h", "loss_domain": "rack"},
]


@pytest.mark.parametrize(
    ("survives", "fraction"),
    [(None, 0), ([], 0), (["process"], 6 / 9), (["node"], 8 / 9), (["process", "node", "rack"], 1)],
)
def test_components_say_which_failures_a_drain_outlives(survives: list[str] | None, fraction: float) -> None:
    reliability = Reliability.model_validate({"components": PARTS})
    checkpoint = Checkpoint.model_validate({"drain_survives": survives})
    workload = size_layout(scenario_from(tiered(NVME))).workload
    assert outlived_fraction(checkpoint, reliability, workload=workload) == pytest.approx(fraction)


def test_the_smallest_failures_need_the_fastest_tier_and_are_outlived_first() -> None:
    shares = [
        float(share_of_outlived(0.6, begins=begins, used=used)) for begins, used in ((0, 0.5), (0.5, 0.4), (0.9, 0.1))
    ]
    assert shares == pytest.approx([1, 0.25, 0])
    assert share_of_outlived(0.6, begins=0.5, used=0.0) == 0


def failing(**checkpoint: Any) -> dict[str, Any]:
    """Process failures that NVMe survives, and drains of minutes to a slow main storage."""
    drives = {name: value for name, value in NVME.items() if name != "recovered_fraction"}
    reliability = {"components": PARTS, "failures_per_node_day": None}
    base = tiered(drives, reliability=reliability, storage={"profile": {"write_bytes_per_second": "5 GB/s"}})
    return document(base, checkpoint=checkpoint)


def test_an_answer_says_what_it_takes_of_drains_and_what_the_field_changes() -> None:
    lost, named = report(failing()), report(failing(drain_survives=["process"]))
    assert (named.interval.goodput_at_interval_fraction or 0) > (lost.interval.goodput_at_interval_fraction or 1)
    assumed = {each.field: each for each in lost.assumptions}["checkpoint.drain_survives"]
    assert assumed.value == []
    assert assumed.reason == "a drain is part of the processes that train, and ends with any failure"
    assert "checkpoint.drain_survives" not in {each.field for each in named.assumptions}


def test_what_no_component_says_cannot_be_weighed() -> None:
    asked = document(tiered(PEERS), checkpoint={"drain_survives": ["process"]})
    with pytest.raises(
        InvalidInput, match=r"checkpoint.drain_survives cannot be weighed, .* give reliability.components"
    ):
        report(asked)


def test_an_unknown_domain_is_refused() -> None:
    with pytest.raises(
        InvalidInput, match=r"checkpoint.drain_survives.0 must be one of 'process', 'node', 'rack' or 'job'"
    ):
        report(failing(drain_survives=["site"]))


def test_drains_of_scenarios_of_before_outlive_what_a_tier_recovers() -> None:
    scenario = scenario_from(failing() | {"schema_version": 1})
    levels = evaluate(size_layout(scenario).workload, scenario.run_inputs).levels
    assert [level.outlived_fraction for level in levels] == [1.0, 0.0]
    assert [exposed_drain_seconds(level) for level in levels] == [level.drain_seconds for level in levels]
    assert "checkpoint.drain_survives" not in {each.field for each in answer(scenario).assumptions}
