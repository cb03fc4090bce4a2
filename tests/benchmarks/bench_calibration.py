"""How long a calibration and a prediction take. Prints, judges nothing."""

import statistics
import time
from collections.abc import Callable

import numpy as np
import pytest

from sizing.storage.calibration import calibrate, predict
from sizing.storage.terms import Demand
from tests.sizing.storage.calibration.simulation import FULL_SCAN, GB, result

TIMES = 9
CALLS = 200


def seconds_of(action: Callable[[], object], *, calls: int = 1) -> float:
    """Median over several runs of the time of one call; the first, which imports, does not count."""
    action()
    taken = []
    for _ in range(TIMES):
        start = time.process_time()
        for _ in range(calls):
            action()
        taken.append((time.process_time() - start) / calls)
    return statistics.median(taken)


@pytest.mark.benchmark
def test_200_measurements_with_1000_bootstrap_draws() -> None:
    cells = [*FULL_SCAN, *((n, r, size * GB) for n, r, s in FULL_SCAN if s == GB for size in (2, 8, 16))]
    runs = [result(cells)]
    count = len(runs[0].measurements)
    seconds = seconds_of(lambda: calibrate(runs, num_draws=1_000))
    print(f"\n{count} measurements, 1,000 draws: {seconds:.2f} s of CPU, {200 / count * seconds:.2f} s for 200")


@pytest.mark.benchmark
def test_one_prediction_and_many() -> None:
    calibration = calibrate([result()])
    one = Demand(14e12, 512, 64, 512)
    nodes = np.geomspace(1, 4096, 10_000)
    many = Demand(nodes * 8e9, nodes * 8, nodes, nodes * 8)
    alone = seconds_of(lambda: predict(calibration, [one], direction="write"), calls=CALLS)
    together = seconds_of(lambda: predict(calibration, [many], direction="write"))
    print(
        f"\none prediction: {1e3 * alone:.3f} ms; {len(nodes):,} as arrays: {1e6 * together / len(nodes):.1f} us each"
    )
