"""What to buy for the checkpoints of all jobs is what the retention of each asks for."""

from typing import Any

import pytest

from sizing.questions.cluster.words import cluster_summary
from sizing.questions.registry import CLUSTER
from tests.sizing.questions.clusters import document

CHECKPOINT_BYTES = 112_423_657_472


def keeping(*, num_jobs: int, **retention: Any) -> dict[str, Any]:
    asked = document(num_jobs=num_jobs, horizon_seconds="1d")
    asked["jobs"][0]["scenario"]["retention"] = retention
    return asked


def test_the_min_capacity_has_room_for_what_stays_free_and_drives_for_redundancy() -> None:
    report = CLUSTER.answer(keeping(num_jobs=5, keep_last=3, free_fraction=0.2, redundancy_fraction=0.25))
    kept = 5 * 4 * CHECKPOINT_BYTES
    assert report.capacity_bytes == report.jobs[0].capacity_bytes == kept
    assert report.usable_bytes == report.jobs[0].usable_bytes == pytest.approx(kept / 0.8)
    assert report.raw_bytes == report.jobs[0].raw_bytes == pytest.approx(kept / 0.8 * 1.25)
    (row,) = (row for row in cluster_summary(report).grids[-1].rows if row[0] == "min capacity")
    assert row[1].startswith("2.811 TB")
    assert row[2].endswith("3.513 TB of drives with redundancy")


def test_weights_that_are_kept_for_no_stated_time_are_told_beside_the_capacity() -> None:
    report = CLUSTER.answer(keeping(num_jobs=5, keep_weights_every=1))
    per_day = 6 * 2 * 8_030_261_248  # six saves a day, in bf16
    assert report.uncounted_bytes_per_day == pytest.approx(5 * per_day)
    assert any(row[0] == "further capacity a day" for row in cluster_summary(report).grids[-1].rows)
    assert any(each.startswith("8B, each job alone: Kept weights add 96.36 GB a day") for each in report.warnings)
    counted = CLUSTER.answer(keeping(num_jobs=5, keep_weights_every=1, run_seconds="1d"))
    assert counted.uncounted_bytes_per_day == 0
    assert counted.capacity_bytes == pytest.approx(report.capacity_bytes + 5 * per_day)


def test_what_ends_a_job_alone_is_told_once_for_all_groups_in_which_it_does() -> None:
    asked = keeping(num_jobs=5, disk_bytes="100GB")
    asked["jobs"].append(asked["jobs"][0] | {"name": "too", "count": 1})
    warnings = CLUSTER.answer(asked).warnings
    for why in ("Saves will fail", "Does not fit on 8 GPUs"):
        assert len([each for each in warnings if each.startswith(f"8B, too, each job alone: {why}")]) == 1
