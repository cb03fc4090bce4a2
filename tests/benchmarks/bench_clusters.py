"""How much of one core the simulation of a cluster takes. Prints, judges nothing."""

import time

import pytest

from sizing.questions.registry import CLUSTER


@pytest.mark.benchmark
@pytest.mark.parametrize("target", [None, "30 s"])
def test_a_thousand_jobs_that_save_every_four_hours_for_thirty_days(target: str | None) -> None:
    scenario = {
        "model": {"preset": "llama-3.1-8b"},
        "parallelism": {"data": 8},
        "reliability": {"failures_per_node_day": 0.0065, "restart_seconds": "5min"},
    }
    document = {
        "jobs": [{"name": "8B", "count": 1000, "scenario": scenario}],
        "storage": {"profile": {"write_bytes_per_second": "20 GB/s", "read_bytes_per_second": "40 GB/s"}},
        "targets": {"p99_stall_seconds": target} if target else {},
    }
    start = time.process_time()
    report = CLUSTER.answer(document)
    seconds = time.process_time() - start
    rate = report.required.write_bytes_per_second
    print(
        f"\n{report.num_checkpoints:,} checkpoints: {seconds:.1f} s{f', with the search for {rate:.3g} B/s' if rate else ''}"
    )
