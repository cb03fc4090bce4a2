"""Bootstrap draws of one limit are as wide as the textbook says of a mean."""

from __future__ import annotations

import numpy as np
import pytest

from sizing.storage.calibration.least_squares import Design
from sizing.storage.calibration.term_selection import TermSelection
from sizing.storage.calibration.uncertainty import bootstrap, run_effects, student_over_normal

RESIDUALS = np.array([0.06, -0.02, 0.01, -0.05, 0.03, -0.03])


def test_the_draws_of_a_mean_have_its_standard_error() -> None:
    """Of n values with standard deviation s a mean has s / sqrt(n), here widened by Student's over the normal quantile."""
    number = len(RESIDUALS)
    design = Design(np.full((number, 1), 2.0), np.array([True]))
    selection = TermSelection(np.zeros(1), 0.5, (), {})
    draws = bootstrap(design, np.log(2.0) + RESIDUALS, selection, num_draws=4_000, seed=1)[:, 0]
    error = RESIDUALS.std(ddof=1) / np.sqrt(number) * student_over_normal(number - 1)
    assert draws.std() == pytest.approx(error, rel=0.03)
    assert draws.mean() == pytest.approx(0.0, abs=3 * error / np.sqrt(4_000))


def test_what_differs_between_days_does_not_average_out_over_their_configurations() -> None:
    """Of three days of ten configurations a mean is as unsure as of three values, not of thirty."""
    days = np.array([-0.06, 0.0, 0.06])
    errors = np.repeat(days, 10) + np.tile([0.005, -0.005], 15)
    design, selection = Design(np.full((30, 1), 2.0), np.array([True])), TermSelection(np.zeros(1), 0.5, (), {})
    runs = np.repeat(["a", "b", "c"], 10).tolist()
    draws = bootstrap(design, np.log(2.0) + errors, selection, num_draws=4_000, seed=1, runs=runs)[:, 0]
    assert draws.std() == pytest.approx(days.std(ddof=1) / np.sqrt(3) * student_over_normal(2), rel=0.05)


def test_runs_that_differ_by_no_more_than_chance_are_one_sample() -> None:
    errors = np.random.default_rng(1).normal(0.0, 0.03, 30)
    of_run, effects = run_effects(errors, np.repeat(["a", "b", "c"], 10).tolist())
    assert (set(of_run), effects.tolist()) == ({0}, [0.0])
    assert len(run_effects(np.repeat([0.1, -0.1], 10), ["a", "b"] * 10)[1]) == 1, "of two days nothing is known"
