"""Bootstrap draws of one limit are as wide as the textbook says of a mean."""

from __future__ import annotations

import numpy as np
import pytest

from sizing.storage.calibration.least_squares import Design
from sizing.storage.calibration.term_selection import TermSelection
from sizing.storage.calibration.uncertainty import bootstrap, student_over_normal

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
