"""Stripes as a limit: storage whose files are faster the more storage targets they are striped over, up to a point."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
import pytest

from sizing.storage.calibration import Calibration, calibrate, predict
from sizing.storage.measurement import BenchmarkResult
from sizing.storage.terms import Demand
from tests.sizing.storage.calibration.simulation import GB
from tests.sizing.storage.calibration.truths import SCAN, TRUTHS, Truth, roofline

TARGET = 0.3e9
"""Bytes per second of one storage target for one file: four reach the writer's 1.1 GB/s."""
COUNTS = (1, 2, 4, 8)
CELLS = tuple(itertools.product((1, 2, 4, 8), (1, 4, 16), (1 * GB, 4 * GB), (1,)))
INSIDE = tuple(itertools.product((1, 2, 3, 4, 6, 8), (1, 2, 4, 8, 16), (1 * GB, 2 * GB, 4 * GB), (1,)))


def truth(count: int, *, target: float = TARGET) -> Truth:
    """Storage whose files have so many stripes."""

    def seconds(cell: tuple[int, int, int, int]) -> float:
        return max(roofline(cell), cell[2] / (count * target))

    return Truth(seconds, cells=CELLS)


def scan(seed: int, *, target: float = TARGET, counts: tuple[int, ...] = COUNTS) -> list[BenchmarkResult]:
    """One scan over stripe counts, as `ckpt-bench scan --stripe-count` makes it."""
    found = []
    for count in counts:
        run = truth(count, target=target).scan(CELLS, 100 * seed + count)
        striped = [each.model_copy(update={"stripe_count": count}) for each in run.measurements]
        found.append(run.model_copy(update={"run_id": f"count-{count}", "measurements": striped}))
    return found


def demand(cell: tuple[int, int, int, int], count: int | None) -> Demand:
    nodes, ranks, size, files = cell
    return Demand(nodes * ranks * size, nodes * ranks, nodes, nodes * ranks * files, num_stripes=count)


@dataclass
class Tally:
    """What draws of striped storage came to."""

    good: int = 0
    measured: int = 0
    rates: list[float] = field(default_factory=list)
    inside: list[bool] = field(default_factory=list)
    missed: int = 0


def covered(calibration: Calibration, count: int, draws: np.random.Generator) -> list[bool]:
    cells = [INSIDE[place] for place in draws.choice(len(INSIDE), 8, replace=False)]
    hits = []
    for cell in cells:
        found = predict(calibration, [demand(cell, count)], direction="write")
        assert found is not None
        again = np.median(truth(count).repetitions(cell, draws))
        hits.append(bool(found.low_seconds <= again <= found.high_seconds))
    return hits


def tally(num_draws: int) -> Tally:
    total = Tally()
    for seed in range(num_draws):
        calibration, draws = calibrate(scan(seed), num_draws=200), np.random.default_rng(10_000 + seed)
        assert calibration.write is not None
        (limit,) = (each for each in calibration.write.limits if each.resource == "stripe")
        total.good += calibration.grade in "AB"
        total.measured += limit.verdict == "measured"
        total.rates.append(limit.value or 0.0)
        for count in COUNTS:
            total.inside += covered(calibration, count, draws)
        is_good = calibration.grade in "AB"
        total.missed += is_good and any(each.worst_error_fraction > 0.1 for each in calibration.write.frontiers)
    return total


@pytest.fixture(scope="module")
def striped() -> Calibration:
    return calibrate(scan(0), num_draws=100)


def test_the_rate_of_a_stripe_is_found_beside_the_other_limits(striped: Calibration) -> None:
    profile = striped.profile
    assert profile.write.stripe_bytes_per_second == pytest.approx(TARGET, rel=0.05)
    assert profile.write.writer_bytes_per_second == pytest.approx(1.1e9, rel=0.1)
    assert profile.write.node_bytes_per_second == pytest.approx(8e9, rel=0.1)
    assert profile.write.file_system_bytes_per_second == pytest.approx(20e9, rel=0.1)
    assert profile.write.stripe_count == 8


def test_a_prediction_is_of_the_most_stripes_measured_or_of_those_asked_for(striped: Calibration) -> None:
    seconds = {}
    for count in (None, 1, 2, 8):
        found = predict(striped, [demand((1, 1, 4 * GB, 1), count)], direction="write")
        assert found is not None
        seconds[count] = float(found.seconds)
    assert seconds[None] == seconds[8]
    assert seconds[1] - seconds[2] == pytest.approx(4 * GB / TARGET / 2, rel=0.1)


def test_stripes_that_never_limit_are_a_lower_bound_and_leave_the_other_limits_as_they_are() -> None:
    fast = scan(1, target=50e9)
    varied = calibrate(fast, num_draws=50)
    alike = calibrate(
        [
            run.model_copy(
                update={"measurements": [m.model_copy(update={"stripe_count": 4}) for m in run.measurements]}
            )
            for run in fast
        ],
        num_draws=50,
    )
    assert varied.profile.write.stripe_bytes_per_second is None
    assert varied.profile.write.stripe_count is None
    # Two searches that end where steps are below a ten-millionth.
    assert varied.profile.figures() == pytest.approx(alike.profile.figures(), rel=1e-5)
    assert varied.grade == alike.grade
    assert varied.write is not None
    (limit,) = (each for each in varied.write.limits if each.resource == "stripe")
    assert limit.verdict == "lower-bound"
    assert alike.write is not None
    assert not any(each.resource == "stripe" for each in alike.write.limits)


def test_runs_that_set_no_stripes_know_no_such_term() -> None:
    plain = calibrate([TRUTHS["roofline"].scan(SCAN, 0)], num_draws=20)
    assert plain.write is not None
    assert not any(each.resource == "stripe" for each in plain.write.limits)


@pytest.mark.long
def test_of_striped_storage_intervals_cover_and_grades_are_good() -> None:
    num_draws = 10
    found = tally(num_draws)
    print(found.good, found.measured, np.round(np.array(found.rates) / TARGET, 3), np.mean(found.inside), found.missed)
    assert found.good >= 0.8 * num_draws
    assert found.measured >= 0.8 * num_draws
    assert found.missed == 0
    assert 0.85 <= np.mean(found.inside) <= 0.95
    assert np.median(found.rates) == pytest.approx(TARGET, rel=0.02)
