"""How long an answer takes, and whether its cost grows with the cluster. Prints, judges nothing."""

import itertools
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, Scenario, scenario_from
from sizing.sized_layout import manifest_of

PAIRS = 9
CALLS = 200

SMALL = {"model": {"preset": "megatron-1t"}, "parallelism": {"tensor": 8}}
MORE_REPLICAS = {"model": {"preset": "megatron-1t"}, "parallelism": {"tensor": 8, "data": 12_800}}
LARGE = {"model": {"preset": "megatron-1t"}, "parallelism": {"tensor": 8, "pipeline": 128, "data": 100}}


def seconds_per_call(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        action()
    return (time.perf_counter() - start) / CALLS


def time_ratio(asked: Scenario, reference: Scenario) -> float:
    return seconds_per_call(lambda: answer(asked)) / seconds_per_call(lambda: answer(reference))


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
    small = scenario_from(SMALL)
    for how, document in {"12,800 replicas": MORE_REPLICAS, "100 replicas of 128 stages": LARGE}.items():
        large = scenario_from(document)
        ratio = statistics.median(time_ratio(large, small) for _ in range(PAIRS))
        print(f"\n102,400 GPUs as {how} against 8: {ratio:.2f} x the time of an answer")


LAYOUTS: dict[str, dict[str, Any]] = {
    "deepseek-v3, megatron": {
        "parallelism": {"pipeline": 16, "expert": 64, "data": 64},
        "checkpoint": {"format": "megatron"},
    },
    "deepseek-v3, torch-dist": {
        "parallelism": {"pipeline": 16, "expert": 64, "data": 128},
        "checkpoint": {"format": "torch-dist"},
    },
    "deepseek-v3, deepspeed": {
        "training": {"framework": "deepspeed"},
        "parallelism": {"pipeline": 16, "expert": 64, "data": 128},
    },
    "deepseek-v3, fsdp-sharded": {"training": {"framework": "fsdp2"}, "parallelism": {"data": 2048}},
}


@pytest.mark.benchmark
def test_every_kind_of_layout() -> None:
    for name, blocks in LAYOUTS.items():
        scenario = scenario_from({"model": {"preset": "deepseek-v3"}} | blocks)
        seconds = statistics.median(seconds_per_call(partial(answer, scenario)) for _ in range(PAIRS))
        print(f"\n{name}: {seconds * 1e6:.0f} us")


NEW_LAYOUTS: dict[str, dict[str, Any]] = {
    "reference case": REFERENCE_SCENARIO | {"cluster": {"node": "dgx-a100"}},
    "llama-3.1-405b, torch-dist, 16,384 GPUs and more": {
        "model": {"preset": "llama-3.1-405b"},
        "parallelism": {"tensor": 8, "pipeline": 16, "data": 128},
        "checkpoint": {"format": "torch-dist"},
    },
}


@pytest.mark.benchmark
def test_a_new_layout_each_time_by_processor_time() -> None:
    for name, document in NEW_LAYOUTS.items():
        replicas = itertools.count(document["parallelism"]["data"])
        seconds = []
        for _ in range(CALLS):
            degrees = document["parallelism"] | {"data": next(replicas)}
            start = time.process_time()
            answer(scenario_from(document | {"parallelism": degrees}))
            seconds.append(time.process_time() - start)
        low, high = min(seconds), max(seconds)
        median = statistics.median(seconds)
        print(f"\n{name}: {median * 1e3:.1f} ms of a processor ({low * 1e3:.1f} to {high * 1e3:.1f})")


@pytest.mark.benchmark
def test_a_manifest_of_a_hundred_thousand_ranks() -> None:
    document = {"model": {"preset": "llama-3.1-405b"}, "training": {"framework": "fsdp2"}}
    scenario = scenario_from(document | {"parallelism": {"data": 100_000}})
    start = time.perf_counter()
    rows = sum(1 for _ in manifest_of(scenario))
    print(f"\n{rows:,} files of a manifest: {time.perf_counter() - start:.2f} s")
