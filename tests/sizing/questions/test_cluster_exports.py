"""Exports beside the checkpoints count in a cluster as in the answer about one job: in stalls, bytes and what to buy."""

from typing import Any

import pytest

from sizing.questions.cluster.report import ClusterReport
from sizing.questions.cluster.words import cluster_summary
from sizing.questions.registry import CLUSTER
from sizing.report import SizingReport, answer
from sizing.units import seconds_text
from tests.sizing.questions.clusters import document

WEIGHTS_BYTES = 2 * 8_030_261_248
MODELS_BYTES = 112_423_657_472
STORAGE: dict[str, Any] = {"profile": {"write_bytes_per_second": "10 GB/s", "read_bytes_per_second": "20 GB/s"}}
WRITERS = ("rank-0", "every-rank", "afterwards")


def asked(written_by: str, *, every: int = 1, mode: str = "sync", **changes: Any) -> dict[str, Any]:
    checkpoint = {
        "interval_seconds": "10min",
        "format": "torch-dist" if mode == "async" else "megatron",
        "mode": mode,
        "export": {"every": every, "written_by": written_by},
    }
    return document(
        checkpoint=checkpoint,
        compute_jitter_fraction=0.0,
        **{"storage": STORAGE, "horizon_seconds": "10d"} | changes,
    )


def clustered(document_: dict[str, Any]) -> ClusterReport:
    return CLUSTER.answer(document_)


def alone(document_: dict[str, Any]) -> SizingReport:
    return answer(document_["jobs"][0]["scenario"] | {"storage": document_["storage"]})


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("written_by", WRITERS)
def test_a_job_alone_stalls_for_its_exports_as_its_own_report_says(written_by: str, mode: str) -> None:
    question = asked(written_by, mode=mode)
    (job,), report = clustered(question).jobs, alone(question)
    assert report.write is not None
    assert report.export is not None
    assert report.export.stall_seconds is not None
    stall = report.write.stall_seconds + report.export.stall_seconds
    assert job.stall_alone_seconds == pytest.approx(stall)
    assert job.mean_stall_seconds == pytest.approx(stall)
    assert job.simulated_stalls is not None
    assert job.simulated_stalls.max_seconds == pytest.approx(stall)


def test_a_mean_of_equal_stalls_is_printed_without_an_error() -> None:
    report = clustered(asked("rank-0"))
    stalls = report.jobs[0].simulated_stalls
    assert stalls is not None
    assert stalls.mean_error_seconds == pytest.approx(0.0, abs=1e-9)
    ((_, *cells),) = cluster_summary(report).grids[0].rows
    assert cells[5] == cells[6] == seconds_text(stalls.p50_seconds)


@pytest.mark.parametrize("written_by", WRITERS)
def test_steps_of_an_export_take_what_it_takes_alone_with_what_each_direction_pays_once(written_by: str) -> None:
    rates = {
        **STORAGE["profile"],
        "commit_seconds": 3,
        "fixed_read_seconds": 2,
        "node_write_bytes_per_second": "3 GB/s",
    }
    question = asked(written_by, storage={"profile": rates})
    (job,), report = clustered(question).jobs, alone(question)
    assert report.write is not None
    assert report.export is not None
    assert report.export.stall_seconds is not None
    assert job.simulated_stalls is not None
    assert job.simulated_stalls.max_seconds == pytest.approx(report.write.stall_seconds + report.export.stall_seconds)


@pytest.mark.parametrize("written_by", WRITERS)
def test_the_goodput_of_a_job_that_exports_is_that_of_the_formula(written_by: str) -> None:
    failing = {"mtbf_seconds": "8h", "detection_seconds": 60, "relaunch_seconds": 300}
    (job,) = clustered(asked(written_by, reliability=failing, horizon_seconds="60d")).jobs
    assert job.goodput_alone_fraction is not None
    assert job.simulated_goodput_error_fraction is not None
    error = max(0.004, 1.5 * job.simulated_goodput_error_fraction)
    assert job.simulated_goodput_fraction == pytest.approx(job.goodput_alone_fraction, abs=error)


@pytest.mark.parametrize(
    ("written_by", "written", "read"), [("rank-0", 1, 0), ("every-rank", 2, 1), ("afterwards", 1, 1)]
)
@pytest.mark.parametrize("every", [1, 3])
def test_what_exports_write_and_read_is_part_of_the_load(written_by: str, written: int, read: int, every: int) -> None:
    report = clustered(asked(written_by, every=every))
    assert report.read is not None
    per_save = MODELS_BYTES + written * WEIGHTS_BYTES / every
    assert report.write.mean_bytes_per_second == pytest.approx(per_save / 600)
    assert report.write.simulated.mean_bytes_per_second == pytest.approx(per_save / 600, rel=0.01)
    assert report.written_bytes_per_day == pytest.approx(per_save * 144)
    assert report.read.mean_bytes_per_second == pytest.approx(read * WEIGHTS_BYTES / every / 600)
    assert report.read.simulated.mean_bytes_per_second == pytest.approx(read * WEIGHTS_BYTES / every / 600, rel=0.01)


def test_of_so_many_saves_one_is_exported_and_stalls_for_longer() -> None:
    (job,) = clustered(asked("rank-0", every=4)).jobs
    assert job.simulated_stalls is not None
    shortest, longest = job.simulated_stalls.percentile_seconds[0], job.simulated_stalls.max_seconds
    assert job.simulated_stalls.percentile_seconds[5] == pytest.approx(shortest)  # the median is a save alone
    assert longest > 2 * shortest
    assert job.simulated_stalls.mean_seconds == pytest.approx((3 * shortest + longest) / 4, rel=0.01)
    assert job.stall_alone_seconds == pytest.approx((3 * shortest + longest) / 4)


def test_a_stall_that_exports_break_is_no_longer_met_and_no_bandwidth_meets_it() -> None:
    report = clustered(asked("rank-0", targets={"p99_stall_seconds": 20}))
    assert not report.meets_targets
    assert report.required.write_bytes_per_second is None
    assert any("8B alone stalls longer, with its export" in warning for warning in report.warnings)


def test_exports_of_fewer_than_one_save_in_a_hundred_leave_a_p99_alone() -> None:
    report = clustered(asked("rank-0", every=200, horizon_seconds="60d", targets={"p99_stall_seconds": 20}))
    assert report.meets_targets
    assert report.required.write_bytes_per_second == pytest.approx(MODELS_BYTES / 20, rel=0.02)


def test_the_bandwidth_for_a_stall_is_for_what_is_exported_and_read_too() -> None:
    question = asked("every-rank", targets={"p99_stall_seconds": 30})
    found = clustered(question).required.write_bytes_per_second
    reading = WEIGHTS_BYTES / 20e9
    assert found == pytest.approx((MODELS_BYTES + 2 * WEIGHTS_BYTES) / (30 - reading), rel=0.011)


def test_exports_of_another_job_slow_down_the_saves_of_its_neighbours() -> None:
    exporting = asked("every-rank", num_jobs=40, storage={"profile": {"write_bytes_per_second": "10 GB/s"}})
    jobs = exporting["jobs"]
    plain = {"checkpoint": {"format": "megatron", "interval_seconds": "10min"}}
    neighbour = {**jobs[0], "name": "plain", "count": 1, "scenario": jobs[0]["scenario"] | plain}
    beside = clustered({**exporting, "jobs": [*jobs, neighbour]}).jobs[1]
    quiet = {**jobs[0], "scenario": neighbour["scenario"]}
    before = clustered({**exporting, "jobs": [quiet, neighbour]}).jobs[1]
    assert beside.mean_stall_seconds is not None
    assert before.mean_stall_seconds is not None
    assert beside.simulated_stalls is not None
    assert before.simulated_stalls is not None
    assert beside.mean_stall_seconds > 1.1 * before.mean_stall_seconds
    assert beside.simulated_stalls.mean_seconds > 1.1 * before.simulated_stalls.mean_seconds
    assert beside.collision_fraction is not None
    assert before.collision_fraction is not None
    assert beside.collision_fraction > before.collision_fraction


def test_exports_whose_reading_has_no_rate_are_warned_of() -> None:
    report = clustered(asked("every-rank", storage={"profile": {"write_bytes_per_second": "10 GB/s"}}))
    assert "8B: no read bandwidth given, so what its exports read takes 0 s and is not counted" in report.warnings
