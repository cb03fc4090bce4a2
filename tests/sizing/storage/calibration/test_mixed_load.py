"""Storage whose reads and writes share a limit, or do not: what saves beside batches say of it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from sizing.storage.calibration import calibrate
from sizing.storage.calibration.calibration import Calibration, MixedLoad
from sizing.storage.calibration.from_results import mixed_load
from sizing.storage.measurement import BenchmarkResult
from tests.sizing.storage.calibration.simulation import measurement, result

SAVE_SECONDS, READ_RATE = 8.0, 2e9
NOISE = 0.03


def mixed(shared: float, seed: int, *, num_repetitions: int = 5, unit: str = "bytes") -> BenchmarkResult:
    """Saves beside batches: of one limit the reads take a third where `shared` is 1; they lose nothing where it is 0."""
    draws = np.random.default_rng(seed)
    read = 1 - shared * 2 / 3
    saved = 1 - shared / 3

    def noisy(value: float) -> list[float]:
        return [float(each) for each in value * np.exp(draws.normal(0, NOISE, num_repetitions))]

    beside = {
        "name": "batches",
        "unit": unit,
        "alone_rates": noisy(READ_RATE),
        "rates": noisy(READ_RATE * read),
        "loss_fraction": 1 - read,
        "save_alone_seconds": noisy(SAVE_SECONDS),
        "save_loss_fraction": 1 - saved,
    }
    document = result([(1, 1, 10**9)], operations=["write"], run_id="mixed").model_dump(mode="json")
    document["measurements"] = [
        measurement((1, 1, 10**9), "write", noisy(SAVE_SECONDS / saved), shape={"beside": beside})
    ]
    return BenchmarkResult.model_validate(document)


@pytest.mark.parametrize(
    ("shared", "verdict", "truth"), [(1.0, "one-limit", 1.0), (0.0, "own-limits", 2.0), (0.5, "not-told-apart", 1.5)]
)
def test_a_limit_that_both_share_is_told_from_one_for_each(shared: float, verdict: str, truth: float) -> None:
    found = [mixed_load([mixed(shared, seed)], engine=None) for seed in range(100)]
    tellings = [each for each in found if isinstance(each, MixedLoad)]
    print(Counter(each.verdict for each in tellings))
    assert Counter(each.verdict for each in tellings) == {verdict: 100}
    covered = sum(low <= truth <= high for low, high in (each.interval for each in tellings))
    assert 83 <= covered <= 97  # 90 of 100, by two and a half standard deviations of a count


def test_two_repetitions_or_training_beside_the_saves_say_nothing() -> None:
    assert mixed_load([mixed(1.0, 0, num_repetitions=2)], engine=None) is None
    assert mixed_load([mixed(1.0, 0, unit="steps")], engine=None) is None
    assert mixed_load([mixed(1.0, 0)], engine="torch-save") is None


def test_a_calibration_says_it_and_fits_the_same_limits_as_without() -> None:
    scan = result(operations=["write"])
    plain, both = (calibrate(results, num_draws=20) for results in ([scan], [scan, mixed(1.0, 0)]))
    assert both.mixed_load is not None
    assert both.profile == plain.profile
    assert both.grade == plain.grade
    assert any(warning.startswith("Reads and writes share one limit") for warning in both.warnings)
    assert plain.mixed_load is None
    document = plain.model_dump(mode="json")
    del document["mixed_load"]
    assert Calibration.model_validate(document) == plain
