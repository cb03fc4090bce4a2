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
