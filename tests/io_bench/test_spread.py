from __future__ import annotations

import numpy as np
import pytest

from io_bench.measure.spread import drift_fraction, is_settled, median_interval, straggler_ratio, stragglers


@pytest.mark.parametrize(
    ("seconds", "drift"),
    [([10.0, 10.0, 50.0, 11.5, 11.5], 0.15), ([10.0, 10.0, 8.0, 8.0], -0.2), ([1.0, 1.0, 2.0], 0.0)],
)
def test_drift_compares_the_halves(seconds: list[float], drift: float) -> None:
    assert drift_fraction(seconds) == pytest.approx(drift)


def test_the_interval_covers_the_true_median_as_often_as_it_says() -> None:
    """400 times 15 draws around 10: at 95 % the count of misses stays under 40 with probability 0.9999."""
    source = np.random.default_rng(7)
    misses = 0
    for _ in range(400):
        low, high = median_interval(list(10 * source.lognormal(0, 0.1, 15)))
        misses += not low <= 10 <= high
    assert misses < 40


def test_settled_means_within_the_fraction_on_both_sides() -> None:
    assert is_settled([10.0, 10.4, 9.6] * 5, within_fraction=0.05)
    assert not is_settled([10.0, 10.0, 10.0, 11.0, 11.0], within_fraction=0.05)
    assert not is_settled([10.0], within_fraction=0.05)


def test_a_straggler_is_late_beyond_the_spread_and_beyond_ten_percent() -> None:
    tight = [[10.0, 10.01, 10.02, 11.1]]
    assert stragglers(tight) == [3]
    assert stragglers([[10.0, 10.01, 10.02, 10.9]]) == []
    assert stragglers([[6.0, 8.0, 10.0, 13.9]]) == []
    assert stragglers([[1.0, 9.0]]) == []
    assert straggler_ratio(tight) == pytest.approx(11.1 / 10.015)
