"""The verdict of a cluster counts what its jobs' own scenarios ask for, and says where nothing is asked for."""

from typing import Any

import pytest

from sizing.questions.cluster.words import cluster_summary
from sizing.questions.registry import CLUSTER
from tests.sizing.questions.clusters import document

CHECKPOINT_BYTES = 112_423_657_472
ALONE_SECONDS = CHECKPOINT_BYTES / 40e9


def aiming(num_jobs: int, targets: dict[str, Any], **changes: Any) -> dict[str, Any]:
    asked = document(num_jobs=num_jobs, **{"horizon_seconds": "5d"} | changes)
    asked["jobs"][0]["scenario"]["targets"] = targets
    return asked


@pytest.mark.parametrize(("max_stall", "is_met"), [(0.9 * ALONE_SECONDS, False), (1.1 * ALONE_SECONDS, True)])
def test_a_target_of_a_job_that_stands_alone_is_judged_as_its_own_answer_does(max_stall: float, is_met: bool) -> None:
    report = CLUSTER.answer(aiming(1, {"max_stall_seconds": max_stall}))
    (target,) = report.jobs[0].targets
    assert (target.target, target.wanted, target.met) == ("max_stall_seconds", max_stall, is_met)
    assert target.found == pytest.approx(ALONE_SECONDS)
    assert report.meets_targets is is_met
    summary = cluster_summary(report)
    assert summary.misses is not is_met
    assert summary.verdict == ("Meets the targets." if is_met else "Misses a target.")


def test_what_a_job_meets_alone_it_misses_where_others_save_at_the_same_time() -> None:
    together: dict[str, Any] = {"start": "together", "compute_jitter_fraction": 0.0}
    wanted = {"max_stall_seconds": 10 * ALONE_SECONDS, "max_overhead_fraction": 10 * ALONE_SECONDS / 14_400}
    stall, overhead = sorted(
        CLUSTER.answer(aiming(50, wanted, **together)).jobs[0].targets, key=lambda each: each.target, reverse=True
    )
    assert stall.found == pytest.approx(50 * ALONE_SECONDS)
    assert overhead.found == pytest.approx(50 * ALONE_SECONDS / 14_400)
    assert (stall.met, overhead.met) == (False, False)
    assert CLUSTER.answer(aiming(9, wanted, **together)).meets_targets


def test_goodput_is_that_of_the_job_alone_less_what_the_others_cost() -> None:
    failing = {"mtbf_seconds": "20h", "relaunch_seconds": "10min"}
    asked = aiming(110, {"min_goodput_fraction": 0.5}, reliability=failing, storage={
        "profile": {"write_bytes_per_second": "1 GB/s", "read_bytes_per_second": "80 GB/s"}
    })  # fmt: skip
    (job,) = CLUSTER.answer(asked).jobs
    assert job.goodput_alone_fraction is not None
    assert job.simulated_goodput_alone_fraction is not None
    cost = job.simulated_goodput_alone_fraction - job.simulated_goodput_fraction
    assert cost > 0.01
    assert job.targets[0].found == pytest.approx(job.goodput_alone_fraction - cost)


def test_goodput_without_failures_is_not_known_to_be_met() -> None:
    report = CLUSTER.answer(aiming(2, {"min_goodput_fraction": 0.5}))
    assert report.targets_met == [None]
    assert not report.meets_targets
    assert cluster_summary(report).verdict == "Not known to meet every target."


def test_without_a_target_nothing_is_met_and_nothing_missed() -> None:
    report = CLUSTER.answer(document(storage={"profile": {"write_bytes_per_second": 40}}, horizon_seconds="1d"))
    assert (report.num_checkpoints, report.targets_met, report.meets_targets) == (0, [], False)
    summary = cluster_summary(report)
    assert (summary.verdict, summary.misses) == ("No target given.", False)


def test_the_table_says_on_how_many_saves_its_percentiles_rest() -> None:
    report = CLUSTER.answer(document(num_jobs=3, horizon_seconds="49h", start="staggered", compute_jitter_fraction=0.0))
    (row,) = cluster_summary(report).grids[0].rows
    assert report.jobs[0].simulated_stalls is not None
    assert row[cluster_summary(report).grids[0].columns.index("saves")] == "36"
    assert report.jobs[0].simulated_stalls.num_stalls == 36


@pytest.mark.parametrize("restart", [{"relaunch_seconds": 300}, {"restart_seconds": 300}])
def test_the_read_rate_for_a_recovery_is_known_where_that_of_the_storage_is_not(restart: dict[str, int]) -> None:
    asked = document(
        num_jobs=2,
        horizon_seconds="5h",
        targets={"recovery_seconds": 3600},
        reliability={"mtbf_seconds": "1d", "detection_seconds": 60, **restart},
        storage={"profile": {"write_bytes_per_second": "40 GB/s", "node_read_bytes_per_second": "5 GB/s"}},
    )
    report = CLUSTER.answer(asked)
    assert report.targets_met == [None]
    rate = report.required.read_bytes_per_second
    assert rate is not None
    if "relaunch_seconds" in restart:
        assert rate == pytest.approx(2 * 8 * CHECKPOINT_BYTES / (3600 - 360))
    assert not any("not met at any bandwidth" in warning for warning in report.warnings)
    asked["storage"]["profile"]["read_bytes_per_second"] = rate
    again = CLUSTER.answer(asked)
    assert again.storms[-1].last_back_seconds == pytest.approx(3600)
    assert again.required.read_bytes_per_second == pytest.approx(rate)
