"""The edge of what meets a condition is one that meets it when asked alone, and attempts repeat as probabilities do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sizing.run.goodput import _Attempt, _repeat
from sizing.run.request import last_that_meets


@pytest.mark.parametrize(("good", "bad"), [(1e6, 1e-3), (1e-3, 1e6)])
def test_an_edge_that_alone_misses_by_a_hair_is_moved_to_the_good_side(good: float, bad: float) -> None:
    """Sums over arrays round differently from sums over one value."""
    towards_good = np.sign(good - bad)

    def meets(values: Any) -> Any:
        edge = 2.0 if len(values) > 1 else 2.0 + towards_good * 1e-9
        return (values - edge) * towards_good >= 0

    found = last_that_meets(meets, good=good, bad=bad)
    assert meets(np.array([found]))[0]
    assert found == pytest.approx(2.0, rel=1e-8)


@pytest.mark.parametrize("leaving", [1e-9, 0.3, 0.49, 0.5, 0.51, 0.8, 0.999])
def test_attempts_in_a_row_end_as_their_probabilities_multiply(leaving: float) -> None:
    three = _repeat(_Attempt(10.0, 1 - leaving, leaving), 3.0)
    done = 1 - leaving
    assert float(three.done_fraction) == pytest.approx(done**3)
    assert float(three.exit_fraction) == pytest.approx(1 - done**3)
    assert float(three.seconds) == pytest.approx(10.0 * (1 + done + done**2))
