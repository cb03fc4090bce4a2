"""How fast a sweep over the run and a simulation are. Prints, judges nothing."""

import statistics
import time
from collections.abc import Callable

import numpy as np
import pytest

from sizing.run.evaluation import evaluate
from sizing.run.figures import with_arrays
from sizing.run.goodput import multilevel_goodput_fraction
from sizing.run.levels import Level
from sizing.run.monte_carlo import simulate
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.sized_layout import size_layout
from tests.sizing.run.scenarios import NVME, PEERS, tiered

ROWS = 16_384
FIELDS = {
    "storage.profile.write_bytes_per_second": (1e10, 1e12),
    "storage.profile.read_bytes_per_second": (1e10, 1e12),
    "reliability.failures_per_node_day": (1e-3, 1e-2),
    "checkpoint.interval_seconds": (1_300, 20_000),
    "targets.max_overhead_fraction": (0.01, 0.1),
}


def median_seconds(action: Callable[[], object], *, times: int = 40) -> float:
    return statistics.median(timed(action) for _ in range(times))


def timed(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


@pytest.mark.benchmark
def test_rows_per_second_and_core() -> None:
    random = np.random.default_rng(1)
    for name, document in {"one level": REFERENCE_SCENARIO, "three tiers": tiered(PEERS, NVME)}.items():
        scenario = scenario_from(document)
        workload = size_layout(scenario).workload
        arrays = {path: random.uniform(low, high, ROWS) for path, (low, high) in FIELDS.items()}
        inputs = with_arrays(scenario, arrays).run_inputs
        seconds = median_seconds(lambda workload=workload, inputs=inputs: evaluate(workload, inputs))  # type: ignore[misc]  # a default binds
        alone = scenario.run_inputs
        one = median_seconds(lambda workload=workload, inputs=alone: evaluate(workload, inputs))  # type: ignore[misc]  # as above
        print(f"\n{name}: {ROWS / seconds:,.0f} rows/s over {len(FIELDS)} fields; one answer {one * 1e6:.0f} us")


@pytest.mark.benchmark
def test_ten_thousand_runs_of_thirty_days() -> None:
    cases = {
        "reference run": ([Level(14_400.0, 50.55, 0.0, 82.8, 1.0)], 34_615.0),
        "three tiers, 16,384 GPUs": (
            [
                Level(60.0, 0.5, 9.0, 60.0, 0.7),
                Level(600.0, 0.0, 120.0, 300.0, 0.2),
                Level(3600.0, 0.0, 600.0, 900.0, 0.1),
            ],
            11_136.0,
        ),
    }
    for name, (levels, mtbf) in cases.items():
        start = time.perf_counter()
        runs = simulate(levels, mtbf_seconds=mtbf, run_seconds=30 * 86_400.0, num_runs=10_000, seed=1)
        seconds = time.perf_counter() - start
        formula = float(multilevel_goodput_fraction(levels, mtbf_seconds=mtbf))
        away = (runs.goodput_fraction - formula) / runs.standard_error_fraction
        print(
            f"\n{name}: {seconds:.2f} s, {runs.num_failures.sum():,} failures, {away:+.1f} standard errors from formula"
        )
