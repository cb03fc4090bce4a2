"""How long an answer takes, and whether its cost grows with the cluster. Prints, judges nothing."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from

PAIRS = 9
CALLS = 200

SMALL = {"model": {"preset": "megatron-1t"}, "parallelism": {"tensor": 8}}
LARGE = {"model": {"preset": "megatron-1t"}, "parallelism": {"tensor": 8, "pipeline": 128, "data": 100}}


def seconds_per_call(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        action()
    return (time.perf_counter() - start) / CALLS


@pytest.mark.benchmark
def test_the_reference_case_in_process() -> None:
    scenario = scenario_from(REFERENCE_SCENARIO)
    answers = statistics.median(seconds_per_call(lambda: answer(scenario)) for _ in range(PAIRS))
    with_json = statistics.median(
        seconds_per_call(lambda: answer(scenario_from(REFERENCE_SCENARIO)).model_dump_json()) for _ in range(PAIRS)
    )
    print(f"\nreference case: {answers * 1e6:.0f} us; from document to JSON {with_json * 1e6:.0f} us")


@pytest.mark.benchmark
def test_a_hundred_thousand_gpus_against_eight() -> None:
    small, large = scenario_from(SMALL), scenario_from(LARGE)
    ratios = [seconds_per_call(lambda: answer(large)) / seconds_per_call(lambda: answer(small)) for _ in range(PAIRS)]
    print(f"\n102,400 GPUs against 8: {statistics.median(ratios):.2f} x the time of an answer")


@pytest.mark.benchmark
def test_start_up() -> None:
    for what, code in {
        "import sizing.report": "import sizing.report",
        "ckpt-size --help": "import sys; sys.argv[1:] = ['--help']; from sizing.cli.main import main; main()",
        "python alone": "",
    }.items():
        times = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
            times.append(time.perf_counter() - start)
        print(f"\n{what}: {statistics.median(times):.2f} s")
