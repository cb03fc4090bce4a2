"""Jobs with tiers: what lands on the shared storage loads it, and failures that a tier survives leave it alone."""

from typing import Any

import pytest

from sizing.questions.cluster.job import UnsavedWork
from sizing.questions.cluster.report import ClusterReport
from sizing.questions.registry import CLUSTER
from sizing.run.levels import Level
from tests.examples import spread
from tests.sizing.questions.clusters import LARGEST_SHARE_BYTES, document, loads_of

CHECKPOINT_BYTES = 112_423_657_472
PLANNING_SECONDS = 8 * 62 / 8960 * (1 + 1.5 / 90) / 2
"""Plans of 8 ranks: the middle between cached and uncached ones."""
RATES = {"profile": {"node_write_bytes_per_second": "2 GB/s", "node_read_bytes_per_second": "4 GB/s"}}
HOST = {"kind": "host-memory", "interval_seconds": "1min", "recovered_fraction": 0.5}
NVME = {"kind": "local-nvme", "interval_seconds": "10min", "recovered_fraction": 0.8, "storage": RATES}
ARCHIVE = {"kind": "object-store", "interval_seconds": "12h", "storage": RATES}
SYNC = {"mode": "sync", "format": "megatron"}
ASYNC = {"mode": "async", "format": "torch-dist"}


def asked_of(mode: dict[str, str], *tiers: dict[str, Any], **changes: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "checkpoint": mode | {"interval_seconds": "1h", "tiers": list(tiers)},
        "reliability": {"mtbf_seconds": "10h", "relaunch_seconds": "5min"},
        "storage": {
            "profile": {
                "write_bytes_per_second": "2 GB/s",
                "read_bytes_per_second": "4 GB/s",
                "device_to_host_bytes_per_second": "10 GB/s",
            }
        },
        "horizon_seconds": "1500d",
    }
    return document(**(asked | changes))


def report_of(mode: dict[str, str], *tiers: dict[str, Any], **changes: Any) -> ClusterReport:
    return CLUSTER.answer(asked_of(mode, *tiers, **changes))


CASES: dict[str, tuple[dict[str, str], tuple[dict[str, Any], ...]]] = {
    "drives, synchronous": (SYNC, (NVME,)),
    "drives, asynchronous": (ASYNC, (NVME,)),
    "memory and drives, synchronous": (SYNC, (HOST, NVME)),
    "memory and drives, asynchronous": (ASYNC, (HOST, NVME)),
    "drives every 15 min, asynchronous": (ASYNC, (NVME | {"interval_seconds": "15min"},)),
}


@pytest.mark.parametrize("name", spread(CASES, by_default=["memory and drives, asynchronous"]))
def test_goodput_and_restores_are_those_of_the_formula(name: str) -> None:
    mode, tiers = CASES[name]
    report = report_of(mode, *tiers, num_jobs=2)
    job = report.jobs[0]
    assert job.goodput_alone_fraction is not None
    assert job.simulated_goodput_fraction == pytest.approx(job.goodput_alone_fraction, abs=0.004)
    assert report.read is not None
    restored = loads_of(asked_of(mode))[0].report.restore.read_bytes
    assert report.read.mean_bytes_per_second == pytest.approx(2 * 0.2 * restored / 36_000, rel=0.01)
    assert report.read.simulated.mean_bytes_per_second == pytest.approx(report.read.mean_bytes_per_second, rel=0.08)
    assert job.num_failures == pytest.approx(2 * 1500 * 2.4, rel=0.05)


def test_a_failure_that_a_tier_recovers_ends_the_drain_behind_it() -> None:
    """Drains of 50 minutes of each hour, and a failure every two hours, half of them recovered from memory."""
    changes = {
        "storage": {"profile": {"write_bytes_per_second": CHECKPOINT_BYTES / 3000, "read_bytes_per_second": "80 GB/s"}}
    }
    job = report_of(ASYNC, HOST, reliability={"mtbf_seconds": 7200}, horizon_seconds="3000d", **changes).jobs[0]
    assert job.goodput_alone_fraction is not None
    assert job.simulated_goodput_fraction == pytest.approx(job.goodput_alone_fraction, abs=0.006)


def test_tiers_in_front_do_not_load_the_shared_storage() -> None:
    report = report_of(ASYNC, HOST, NVME, reliability={"mtbf_seconds": 1e9}, horizon_seconds="100d")
    assert report.num_checkpoints == pytest.approx(2400, abs=5)
    assert report.write.mean_bytes_per_second == pytest.approx(CHECKPOINT_BYTES / 3600)
    assert report.write.simulated.mean_bytes_per_second == pytest.approx(CHECKPOINT_BYTES / 3600, rel=0.01)


def test_a_save_that_drains_from_a_tier_stalls_nobody() -> None:
    stalls = report_of(ASYNC, NVME, horizon_seconds="10d").jobs[0].simulated_stalls
    assert stalls is not None
    assert stalls.max_seconds == pytest.approx(PLANNING_SECONDS)
    alone = report_of(ASYNC, ARCHIVE, horizon_seconds="10d").jobs[0]
    assert alone.stall_alone_seconds == pytest.approx(LARGEST_SHARE_BYTES / 10e9 + PLANNING_SECONDS)


def test_what_the_figures_leave_out_is_said() -> None:
    warnings = report_of(ASYNC, NVME, ARCHIVE, num_jobs=2, horizon_seconds="2d").warnings
    assert any("copying to the object-store reads 5.205 MB/s from the shared storage" in text for text in warnings)
    assert any("to have the whole bandwidth of its object-store tier" in text for text in warnings)


def level(interval: float, drain: float = 0.0) -> Level:
    return Level(interval, 0.0, drain, 0.0, 0.5)


def segment(*tiers: Level, begins: float = 0.0) -> UnsavedWork:
    return UnsavedWork(1000.0, begins_fraction=begins, interval_seconds=1000.0, tiers=tiers)


def test_a_tier_holds_the_last_step_that_has_drained() -> None:
    for worked, kept in ((99, 0), (101, 0), (151, 100), (249, 100), (250, 200)):
        found = segment(level(100, drain=50))
        found.work(worked)
        found.go_back(0, since_work_seconds=0)
        assert found.worked_seconds == pytest.approx(kept)
        assert found.left_seconds == pytest.approx(1000 - kept)


def test_time_in_which_no_work_goes_on_drains_too() -> None:
    found = segment(level(100, drain=50))
    found.work(220)
    found.go_back(0, since_work_seconds=30)
    assert found.worked_seconds == pytest.approx(200)


def test_what_a_slow_tier_gave_back_a_fast_one_holds() -> None:
    found = segment(level(30), level(100))
    found.work(255)
    found.go_back(1, since_work_seconds=0)
    assert found.worked_seconds == pytest.approx(200)
    found.work(5)
    found.go_back(0, since_work_seconds=0)
    assert found.worked_seconds == pytest.approx(200)
    found.work(45)
    found.go_back(0, since_work_seconds=0)
    assert found.worked_seconds == pytest.approx(240)


def test_a_first_segment_that_skips_the_beginning_counts_only_its_own_work() -> None:
    found = segment(level(100), begins=0.75)
    assert found.left_seconds == pytest.approx(250)
    found.work(30)
    found.go_back(0, since_work_seconds=0)
    assert found.worked_seconds == 0
