"""The goodput of several levels: the known formula for one, and what a simulation finds for more."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.report import answer
from sizing.run.goodput import goodput_fraction, multilevel_goodput_fraction
from sizing.run.interval import with_best_intervals
from sizing.run.levels import Level, first_order_level_intervals
from sizing.run.monte_carlo import simulate
from tests.examples import spread

CASES = {
    "one, synchronous": ([Level(14_400, 50.55, 0, 300, 1)], 34_615),
    "one, asynchronous": ([Level(600, 2, 300, 300, 1)], 11_000),
    "one, drained as long as it computes, often failing": ([Level(600, 2, 500, 3000, 1)], 5_000),
    "two, synchronous": ([Level(600, 5, 0, 60, 0.8), Level(3600, 60, 0, 300, 0.2)], 11_136),
    "two, often failing": ([Level(600, 5, 0, 60, 0.8), Level(6000, 60, 0, 300, 0.2)], 3_000),
    "two, asynchronous": ([Level(60, 1, 9, 60, 0.8), Level(600, 0, 120, 300, 0.2)], 11_136),
    "three, synchronous": ([Level(60, 1, 0, 60, 0.7), Level(600, 5, 0, 300, 0.2), Level(3600, 50, 0, 900, 0.1)], 4_000),
    "three, of which the last stalls for long": (
        [Level(60, 1, 0, 60, 0.7), Level(600, 5, 0, 300, 0.2), Level(3600, 1800, 0, 900, 0.1)],
        4_000,
    ),
    "three, asynchronous": (
        [Level(60, 1, 9, 60, 0.7), Level(600, 0, 120, 300, 0.2), Level(3600, 0, 600, 900, 0.1)],
        11_136,
    ),
}


@pytest.mark.parametrize(
    "name",
    spread(CASES, by_default=["one, asynchronous", "two, often failing", "three, of which the last stalls for long"]),
)
def test_a_simulation_agrees_within_its_own_error_bars(name: str) -> None:
    levels, mtbf = CASES[name]
    runs = simulate(levels, mtbf_seconds=mtbf, run_seconds=30 * 86_400, num_runs=1000, seed=7)
    expected = float(multilevel_goodput_fraction(levels, mtbf_seconds=mtbf))
    assert runs.standard_error_fraction < 0.002
    assert abs(runs.goodput_fraction - expected) < 3.5 * runs.standard_error_fraction


def test_runs_that_begin_amid_saves_lose_as_much_as_the_formula_says() -> None:
    """Runs that began with the work before the first save of the last level would lose 0.4 % less."""
    levels, mtbf = [Level(60, 1, 0, 300, 1), Level(3600, 1800, 0, 900, 0)], 4_000
    runs = simulate(levels, mtbf_seconds=mtbf, run_seconds=100 * mtbf, num_runs=1_000, seed=7)
    expected = float(multilevel_goodput_fraction(levels, mtbf_seconds=mtbf))
    assert runs.standard_error_fraction < 0.0005
    assert abs(runs.goodput_fraction - expected) < 3.5 * runs.standard_error_fraction


@given(st.floats(60, 1e5), st.floats(1e-3, 50), st.floats(1e3, 1e7), st.floats(0, 1e4), st.floats(0, 1))
def test_one_level_is_dalys_formula(
    interval: float, stall: float, mtbf: float, recovery: float, drained: float
) -> None:
    drain = drained * (interval - stall)
    level = Level(interval, stall, drain, recovery, 1.0)
    expected = goodput_fraction(
        interval - stall, stall_seconds=stall, mtbf_seconds=mtbf, recovery_seconds=recovery, drain_seconds=drain
    )
    assert multilevel_goodput_fraction([level], mtbf_seconds=mtbf) == pytest.approx(expected, rel=1e-9, abs=1e-25)


@given(st.floats(2, 50), st.floats(0.01, 1), st.floats(0, 1))
def test_a_level_that_recovers_nothing_only_costs_its_stall(ratio: float, stall: float, recovery: float) -> None:
    main = Level(60 * ratio, 20.0, 0.0, 300.0, 1.0)
    useless = Level(60.0, stall, 0.0, recovery, 0.0)
    both = float(multilevel_goodput_fraction([useless, main], mtbf_seconds=1e4))
    alone = float(multilevel_goodput_fraction([main], mtbf_seconds=1e4))
    overhead = stall / 60 / (1 - 20 / (60 * ratio))
    assert both == pytest.approx(alone * (1 - overhead), rel=1e-6)


def test_a_first_level_that_recovers_all_leaves_the_second_only_its_stall() -> None:
    levels = [Level(60.0, 1.0, 0.0, 10.0, 1.0), Level(600.0, 5.0, 0.0, 100.0, 0.0)]
    alone = float(multilevel_goodput_fraction(levels[:1], mtbf_seconds=1e5))
    both = float(multilevel_goodput_fraction(levels, mtbf_seconds=1e5))
    assert both == pytest.approx(alone * (1 - 5 / 600 / (59 / 60)), rel=1e-4)


def test_levels_of_arrays_give_what_their_rows_give() -> None:
    interval, stall = np.array([600.0, 900.0]), np.array([2.0, 3.0])
    drain, recovery = np.array([0.0, 50.0]), np.array([60.0, 90.0])
    mtbf = np.array([1e4, 2e4])

    def goodput(rows: slice | int) -> Any:
        fast = Level(interval[rows], stall[rows], drain[rows], recovery[rows], 0.7)
        slow = Level(4 * interval[rows], 10 * stall[rows], drain[rows], 5 * recovery[rows], 0.3)
        return multilevel_goodput_fraction([fast, slow], mtbf_seconds=mtbf[rows])

    apart = [goodput(0), goodput(1)]
    together = goodput(slice(None))
    assert np.asarray(together) == pytest.approx(np.array(apart), rel=1e-12)


def test_the_published_two_levels_are_spaced_to_first_order() -> None:
    levels = [Level(1.0, 5.0, 0.0, 0.0, 0.8), Level(2.0, 60.0, 0.0, 0.0, 0.2)]
    first, second = first_order_level_intervals(levels, mtbf_seconds=11_136)
    assert (first - 5, second - 60) == pytest.approx((373.1, 2584.9), abs=0.05)


def test_levels_that_the_formula_puts_out_of_order_share_an_interval() -> None:
    useless = Level(60.0, 4.0, 0.0, 30.0, 1e-5)
    main = Level(2000.0, 60.0, 0.0, 300.0, 1 - 1e-5)
    first, second = first_order_level_intervals([useless, main], mtbf_seconds=16_000)
    assert first == second == pytest.approx(64 + (2 * 64 * 16_000) ** 0.5)
    nobody = replace(useless, used_fraction=0.0), replace(main, used_fraction=1.0)
    assert first_order_level_intervals(nobody, mtbf_seconds=16_000) == [pytest.approx(first)] * 2


@given(
    st.tuples(st.floats(0.1, 20), st.floats(0.0, 200), st.floats(0, 1)),
    st.tuples(st.floats(0.0, 300), st.floats(0.0, 2000), st.floats(1.01, 100)),
    st.floats(600, 1e6),
)
def test_the_best_intervals_are_never_worse_than_those_asked_for(
    first: tuple[float, float, float], second: tuple[float, float, float], mtbf: float
) -> None:
    (stall, drain, used), (main_stall, main_drain, ratio) = first, second
    interval = 1.5 * (stall + drain) + 30
    main_interval = max(interval * ratio, main_stall + main_drain)
    levels = [
        Level(interval, stall, drain, 60.0, used),
        Level(main_interval, main_stall, main_drain, 300.0, 1 - used),
    ]
    best = with_best_intervals(levels, mtbf_seconds=mtbf)
    assert best[0].interval_seconds <= best[1].interval_seconds
    at_best, as_asked = (float(multilevel_goodput_fraction(each, mtbf_seconds=mtbf)) for each in (best, levels))
    assert at_best >= as_asked


def test_a_run_with_notices_gains_nothing_from_an_interval_without_end() -> None:
    """Saves within notices are then all there are, and as many of them as before."""
    front = Level(0.0, 0.0, 0.0, 460.0, 0.64, is_notice=True)
    main = Level(0.0, 1.35, 0.0, 532.0, 0.36)
    shares = [
        float(
            multilevel_goodput_fraction(
                [replace(front, interval_seconds=interval / 1e4), replace(main, interval_seconds=interval)],
                mtbf_seconds=11_571.0,
            )
        )
        for interval in (1e5, 1e6, 3e6, 1e8, 3e9)
    ]
    assert 0.5 < shares[1] < shares[0] < 0.7
    assert shares[1:] == pytest.approx([shares[1]] * 4)


@pytest.mark.parametrize("failures_per_hour", [0.1, 0.9, 4.0])
def test_a_tier_loses_what_random_failures_within_its_intervals_undo(failures_per_hour: float) -> None:
    """Half an interval of 2 h where failures are rare, and 2,574 s where they strike every 4,000 s."""
    mean = 3600 / failures_per_hour
    tier = {"kind": "local-nvme", "interval_seconds": "20min", "recovered_fraction": 0.5}
    tier["storage"] = {"profile": {"node_write_bytes_per_second": "5 GB/s", "node_read_bytes_per_second": "5 GB/s"}}
    document = {
        "model": {"preset": "llama-3.1-8b"},
        "cluster": {"num_gpus": 64, "node": "dgx-h100"},
        "parallelism": {"tensor": 8, "data": 8},
        "checkpoint": {"interval_seconds": "2h", "format": "torch-dist", "mode": "sync", "tiers": [tier]},
        "reliability": {"mtbf_seconds": mean / 2},
        "storage": {"profile": {"write_bytes_per_second": "10 GB/s", "read_bytes_per_second": "20 GB/s"}},
    }
    rows = answer(document).tiers
    moments = np.random.default_rng(1)
    for row, between, interval in zip(rows, (mean / 2, mean), (1200, 7200), strict=True):
        lost = moments.exponential(between, 1_000_000) % interval
        assert row.rework_seconds == pytest.approx(lost.mean(), rel=0.004)
