"""Nine of ten intervals hold the truth: simulated systems with known limits and noise."""

from collections import Counter

import numpy as np
import pytest

from sizing.storage.calibration import calibrate, predict
from tests.sizing.storage.calibration.simulation import FULL_SCAN, TRUTH, demand, result

SHARED = ("file-system", "node", "writer")


def coverage(num_systems: int) -> dict[str, float]:
    """The share of 90 % intervals that hold the limit, and the share that hold a new measurement."""
    hits, counts = Counter[str](), Counter[str]()
    new = np.random.default_rng(1)
    for seed in range(num_systems):
        calibration = calibrate([result(seed=seed, operations=["write"])], num_draws=300)
        assert calibration.write is not None
        for limit in calibration.write.limits:
            if limit.resource in SHARED and limit.interval is not None:
                low, high = limit.interval
                hits[limit.resource] += bool(low <= TRUTH.figures()[limit.field] <= high)
                counts[limit.resource] += 1
        cells = [FULL_SCAN[i] for i in new.choice(len(FULL_SCAN), 5, replace=False)]
        measured = result(cells, seed=10_000 + seed, operations=["write"])
        for cell, again in zip(cells, measured.measurements, strict=True):
            found = predict(calibration, [demand(cell)], direction="write")
            assert found is not None
            hits["prediction"] += bool(found.low_seconds <= np.median(again.seconds) <= found.high_seconds)
            counts["prediction"] += 1
    return {name: hits[name] / counts[name] for name in counts}


def test_about_nine_of_ten_intervals_hold_the_truth() -> None:
    found = coverage(20)
    assert set(found) == {*SHARED, "prediction"}
    assert all(share >= 0.7 for share in found.values()), found


@pytest.mark.exhaustive(minutes=4)
def test_between_85_and_95_percent_of_the_90_percent_intervals_hold_the_truth() -> None:
    found = coverage(200)
    print(found)
    assert all(0.85 <= share <= 0.95 for share in found.values()), found


@pytest.mark.exhaustive(minutes=2)
def test_a_limit_that_is_not_there_is_measured_in_less_than_one_of_twenty_systems() -> None:
    num_systems, found = 200, 0
    for seed in range(num_systems):
        fit = calibrate([result(seed=seed, operations=["write"])], num_draws=20).write
        assert fit is not None
        found += any(limit.verdict == "measured" and limit.resource == "metadata" for limit in fit.limits)
    print(found)
    assert found < 0.05 * num_systems
