"""The shares of the wall time add to 1, and each is what a simulation of the run shows."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.report import SizingReport, answer
from sizing.run.evaluation import evaluate
from sizing.run.failure_process import recovering_fraction
from sizing.run.levels import Level
from sizing.run.monte_carlo import simulate
from sizing.run.simulation import SimulationRequest, simulation_report
from sizing.scenario import scenario_from
from sizing.sized_layout import size_layout
from tests.sizing.run.scenarios import NVME, PEERS, document, tiered

FAILING = {
    "model": {"preset": "llama-3.1-70b"},
    "training": {"distributed_optimizer": True},
    "parallelism": {"tensor": 8, "pipeline": 4, "data": 16},
    "checkpoint": {"format": "torch-dist", "interval_seconds": 30},
    "storage": {"profile": {"write_bytes_per_second": "50 GB/s", "read_bytes_per_second": "50 GB/s"}},
    "reliability": {"mtbf_seconds": "5min", "detection_seconds": 0, "relaunch_seconds": 30},
}
"""A run that fails every five minutes and saves two thirds of the time: no share is small."""


def answered(base: dict[str, object]) -> SizingReport:
    return answer(scenario_from(base))


@given(
    interval=st.floats(25, 1e5),
    mtbf=st.floats(60, 1e6),
    relaunch=st.floats(0, 3600),
)
def test_the_four_shares_add_to_all_of_the_time(interval: float, mtbf: float, relaunch: float) -> None:
    found = answered(
        FAILING
        | {"checkpoint": {"format": "torch-dist", "interval_seconds": interval}}
        | {"reliability": {"mtbf_seconds": mtbf, "relaunch_seconds": relaunch}}
    )
    shares = found.shares.model_dump().values()
    assert sum(shares) == pytest.approx(1, abs=1e-9)
    assert min(shares) >= 0
    assert found.shares.useful_fraction == found.interval.goodput_at_interval_fraction


def test_the_shares_of_one_level_are_those_of_an_exponential_clock() -> None:
    found = answered(FAILING)
    assert found.write is not None
    assert found.restore.seconds is not None
    mtbf, stall, period, recovery = 300.0, found.write.stall_seconds, 30.0, found.restore.seconds + 30.0
    saves_per_second = math.exp(-recovery / mtbf) / (mtbf * math.expm1(period / mtbf))
    assert found.shares.saving_fraction == pytest.approx(stall * saves_per_second, rel=1e-9)
    assert found.shares.useful_fraction == pytest.approx((period - stall) * saves_per_second, rel=1e-9)
    assert found.shares.recovering_fraction == pytest.approx(-math.expm1(-recovery / mtbf), rel=1e-9)


@pytest.mark.parametrize(
    "base",
    [
        pytest.param(FAILING, id="one level", marks=pytest.mark.exhaustive),
        pytest.param(tiered(PEERS, NVME), id="three levels"),
    ],
)
def test_a_simulation_shows_the_same_shares(base: dict[str, object]) -> None:
    scenario = scenario_from(base)
    report = simulation_report(
        evaluate(size_layout(scenario).workload, scenario.run_inputs), SimulationRequest(num_runs=500)
    )
    assert sum(report.shares.by_name.values()) == pytest.approx(1, abs=1e-12)
    for name, formula in report.formula_shares.by_name.items():
        assert report.shares.by_name[name] == pytest.approx(formula, rel=0.03, abs=2e-4), name


def test_a_recovery_that_failures_strike_may_need_a_higher_level() -> None:
    levels = [Level(60.0, 1.0, 0.0, 40.0, 0.7), Level(600.0, 5.0, 0.0, 500.0, 0.3)]
    runs = simulate(levels, mtbf_seconds=400.0, run_seconds=1e5, num_runs=400, seed=3)
    share = recovering_fraction(levels, mtbf_seconds=400.0)
    assert runs.recovering_seconds.sum() / runs.wall_seconds.sum() == pytest.approx(float(share), rel=0.01)
    alone = sum(level.used_fraction * -math.expm1(-level.recovery_seconds / 400.0) for level in levels)
    assert share > 1.05 * alone


def test_shares_are_unknown_where_training_never_advances_or_failures_are_not_known() -> None:
    stuck = answered(FAILING | {"checkpoint": {"format": "torch-dist", "interval_seconds": 10}})
    assert set(stuck.shares.model_dump().values()) == {None}
    assert set(answered(document(FAILING, reliability=None)).shares.model_dump().values()) == {None}


@pytest.mark.parametrize("mtbf", [1e-3, 4e2, 3e9])
def test_a_run_that_never_recovers_is_recovering_all_the_time(mtbf: float) -> None:
    """Each of nine levels takes longer to read than any failure waits, so every time is as large as it can be."""
    hopeless = [Level(60.0 * mtbf, 1.0, 0.0, 1e3 * mtbf, 1 / 9)] * 9
    assert float(recovering_fraction(hopeless, mtbf_seconds=mtbf)) == 1.0
