"""Publications over the storage count in bills, in capacity and in the load of a cluster; those over a network do not."""

from typing import Any

import numpy as np
import pytest

from sizing.questions.cluster.report import ClusterReport
from sizing.questions.registry import CLUSTER, DECIDE
from sizing.report import SizingReport, answer
from sizing.run.workload import stack_workloads
from sizing.scenario import scenario_from
from sizing.sized_layout import size_layout

WEIGHTS_BYTES = 2 * 70_553_706_496
STORAGE: dict[str, Any] = {"profile": {"write_bytes_per_second": "20 GB/s", "read_bytes_per_second": "40 GB/s"}}
PRICES = [
    {"amount": 1, "per": per, "name": per}
    for per in ("terabyte-written", "terabyte-read", "million-writes", "million-reads")
]
FAILURES = {"mtbf_seconds": "24h", "detection_seconds": 60, "relaunch_seconds": 300}


def scenario(over: str = "storage", **more: Any) -> dict[str, Any]:
    publication = {"interval_seconds": "2min", "over": over, "num_replicas": 16} | more
    return {
        "model": {"preset": "llama-3.1-70b"},
        "training": {"framework": "fsdp2", "reinforcement": {"publication": publication}},
        "parallelism": {"data": 128},
        "checkpoint": {"format": "fsdp-sharded", "interval_seconds": "1h"},
    }


def found(over: str = "storage", **more: Any) -> SizingReport:
    return answer(scenario(over, **more) | {"storage": STORAGE})


def billed(document: dict[str, Any]) -> dict[str, float]:
    asked = {
        "currency": "USD",
        "horizon_seconds": "30d",
        "per_lost_gpu_hour": 2,
        "settings": {},
        "chooses_interval": False,
        "workloads": [{"name": "policy", "scenario": document | {"reliability": FAILURES}}],
        "offers": [{"name": "one", "storage": STORAGE, "prices": PRICES}],
    }
    return {line.name: line.quantity or 0.0 for line in DECIDE.answer(asked).offers[0].ledger}


@pytest.mark.parametrize("more", [{}, {"content": "delta", "delta_fraction": 0.02}, {"replica_bytes_per_second": 1e10}])
def test_a_decision_bills_what_is_published(more: dict[str, Any]) -> None:
    plain, published = billed(scenario("network")), billed(scenario(**more))
    num_bytes = 21_600 * WEIGHTS_BYTES * more.get("delta_fraction", 1.0) / 1e12
    assert published["terabyte-written"] - plain["terabyte-written"] == pytest.approx(num_bytes)
    assert published["terabyte-read"] - plain["terabyte-read"] == pytest.approx(16 * num_bytes)
    assert published["million-writes"] - plain["million-writes"] == pytest.approx(21_600 * 128 / 1e6)
    assert published["million-reads"] - plain["million-reads"] == pytest.approx(21_600 * 16 * 8 / 1e6)


def test_the_newest_publication_takes_capacity_and_all_of_them_wear_drives() -> None:
    plain, published = found("network").capacity, found().capacity
    assert (plain.published_bytes, published.published_bytes) == (0, WEIGHTS_BYTES)
    assert published.capacity_bytes - plain.capacity_bytes == WEIGHTS_BYTES
    assert published.usable_bytes - plain.usable_bytes == WEIGHTS_BYTES
    assert published.written_bytes_per_day - plain.written_bytes_per_day == pytest.approx(720 * WEIGHTS_BYTES)


def test_rows_with_and_without_publications_are_evaluated_together() -> None:
    layouts = [size_layout(scenario_from(scenario(over))).workload for over in ("network", "storage")]
    stored = stack_workloads([(layout, "every-replica") for layout in layouts]).publications
    assert stored is not None
    assert np.asarray(stored.written_bytes).tolist() == [0, WEIGHTS_BYTES]
    assert np.divide(stored.written_bytes, stored.interval_seconds).tolist() == [0, WEIGHTS_BYTES / 120]


def clustered(document: dict[str, Any], **changes: Any) -> ClusterReport:
    job = {"name": "policy", "scenario": document, "compute_jitter_fraction": 0.0}
    return CLUSTER.answer({"jobs": [job], "storage": STORAGE, "horizon_seconds": "5d"} | changes)


@pytest.mark.parametrize("more", [{}, {"replica_bytes_per_second": 2e9}])
def test_a_cluster_carries_what_is_published(more: dict[str, Any]) -> None:
    plain, published = clustered(scenario("network")), clustered(scenario(**more))
    assert published.read is not None
    assert published.write.mean_bytes_per_second - plain.write.mean_bytes_per_second == pytest.approx(
        WEIGHTS_BYTES / 120
    )
    assert published.write.simulated.mean_bytes_per_second == pytest.approx(
        published.write.mean_bytes_per_second, rel=0.01
    )
    assert published.read.mean_bytes_per_second == pytest.approx(16 * WEIGHTS_BYTES / 120)
    assert published.read.simulated.mean_bytes_per_second == pytest.approx(16 * WEIGHTS_BYTES / 120, rel=0.01)
    assert published.written_bytes_per_day == pytest.approx(published.write.mean_bytes_per_second * 86_400)


def test_publications_slow_down_saves_beside_which_they_are_written() -> None:
    slow = {"profile": {"write_bytes_per_second": "3 GB/s", "read_bytes_per_second": "40 GB/s"}}
    plain, published = clustered(scenario("network"), storage=slow), clustered(scenario(), storage=slow)
    assert published.jobs[0].simulated_stalls is not None
    assert plain.jobs[0].simulated_stalls is not None
    assert published.jobs[0].mean_stall_seconds is not None
    assert published.jobs[0].stall_alone_seconds == plain.jobs[0].stall_alone_seconds
    assert published.jobs[0].simulated_stalls.mean_seconds > 1.2 * plain.jobs[0].simulated_stalls.mean_seconds
    assert published.jobs[0].mean_stall_seconds > 1.2 * published.jobs[0].stall_alone_seconds
