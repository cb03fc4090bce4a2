"""The simulation agrees with the formulas where they hold, and shows what they cannot."""

import numpy as np
import pytest

from sizing.questions.cluster.report import ClusterReport
from sizing.questions.registry import CLUSTER
from sizing.units import percent_text
from tests.examples import spread
from tests.sizing.questions.clusters import LARGEST_SHARE_BYTES, document, loads_of, simulated

CHECKPOINT_BYTES = 112_423_657_472
FAILING = {"mtbf_seconds": "20h", "restart_seconds": "10min"}


def report_of(**changes: object) -> ClusterReport:
    return CLUSTER.answer(document(**changes))  # type: ignore[arg-type]  # fields by name


def profile(**rates: str | int) -> dict[str, dict[str, str | int]]:
    return {"profile": {"write_bytes_per_second": "40 GB/s", "read_bytes_per_second": "80 GB/s"} | rates}


SHORT = [("1 TB/s", 300), ("1 TB/s", 2000), ("20 GB/s", 2000), ("8 GB/s", 3000)]


@pytest.mark.parametrize("of_nodes", spread(SHORT, by_default=[("20 GB/s", 2000)]), ids=str)
def test_mean_stall_and_shortage_are_those_of_the_formula(of_nodes: tuple[str, int]) -> None:
    node_rate, num_jobs = of_nodes
    asked = {"num_jobs": num_jobs, "horizon_seconds": "2d", "compute_jitter_fraction": 0.5}
    report = report_of(storage=profile(node_write_bytes_per_second=node_rate), **asked)
    job = report.jobs[0]
    assert job.simulated_stalls is not None
    assert job.mean_stall_seconds is not None
    assert job.simulated_stalls.mean_error_seconds is not None
    excess = job.mean_stall_seconds - job.stall_alone_seconds
    error = 1.5 * job.simulated_stalls.mean_error_seconds + 0.03 * excess
    assert job.simulated_stalls.mean_seconds == pytest.approx(job.mean_stall_seconds, abs=error)
    assert report.write.simulated.limited_fraction == pytest.approx(
        report.concurrency.limited_fraction, rel=0.15, abs=1e-4
    )


def test_collisions_are_those_of_the_formula_while_they_are_rare() -> None:
    job = report_of(num_jobs=200, horizon_seconds="10d", compute_jitter_fraction=0.5).jobs[0]
    assert job.collision_fraction == pytest.approx(1 - (1 - 2 * 2.8105914 / 14_400) ** 199)
    assert job.collision_fraction is not None
    error = 4 * (job.collision_fraction / 12_000) ** 0.5
    assert job.simulated_collision_fraction == pytest.approx(job.collision_fraction, abs=error)


def test_what_is_asked_for_is_written() -> None:
    report = report_of(num_jobs=100, horizon_seconds="10d")
    assert report.write.mean_bytes_per_second == pytest.approx(100 * CHECKPOINT_BYTES / 14_400)
    assert report.write.simulated.mean_bytes_per_second == pytest.approx(report.write.mean_bytes_per_second, rel=0.01)
    assert report.num_checkpoints == pytest.approx(6000, rel=0.01)
    day = [moment.write_bytes_per_second for moment in report.busiest_day]
    assert len(day) == 288
    assert np.mean(day) == pytest.approx(report.write.mean_bytes_per_second, rel=0.1)


def test_a_job_alone_stalls_as_its_own_report_says_and_keeps_its_interval() -> None:
    job = report_of(horizon_seconds="10d", compute_jitter_fraction=0.0).jobs[0]
    assert job.simulated_stalls is not None
    assert job.simulated_stalls.percentile_seconds == pytest.approx([CHECKPOINT_BYTES / 40e9] * 12)
    assert job.simulated_stalls.num_stalls == 60
    assert job.simulated_collision_fraction == 0


def test_jobs_that_start_together_all_wait_for_all() -> None:
    job = report_of(num_jobs=50, start="together", compute_jitter_fraction=0.0, horizon_seconds="1d").jobs[0]
    assert job.simulated_stalls is not None
    assert job.simulated_stalls.percentile_seconds == pytest.approx([50 * CHECKPOINT_BYTES / 40e9] * 12)
    assert job.simulated_collision_fraction == 1


def test_staggered_jobs_never_meet() -> None:
    job = report_of(num_jobs=1000, start="staggered", compute_jitter_fraction=0.0, horizon_seconds="1d").jobs[0]
    assert job.simulated_stalls is not None
    assert job.simulated_stalls.max_seconds == pytest.approx(CHECKPOINT_BYTES / 40e9)
    assert job.simulated_collision_fraction == 0


def test_goodput_under_failures_is_dalys() -> None:
    job = report_of(num_jobs=100, reliability=FAILING, horizon_seconds="60d").jobs[0]
    assert job.num_failures == pytest.approx(100 * 60 * 24 / 20, rel=0.06)
    assert job.goodput_alone_fraction is not None
    assert job.simulated_goodput_fraction == pytest.approx(job.goodput_alone_fraction, abs=0.004)


def test_few_failures_by_chance_are_no_gain_from_sharing_and_lie_within_the_interval() -> None:
    """Some fifteen failures of each of two jobs: chance moves the goodput, and alone it is moved alike."""
    rare = FAILING | {"mtbf_seconds": "48h"}
    drawn = [report_of(num_jobs=2, reliability=rare, horizon_seconds="30d", seed=seed).jobs[0] for seed in range(20)]
    misses = 0
    for job in drawn:
        error, alone = job.simulated_goodput_error_fraction, job.simulated_goodput_alone_fraction
        assert job.goodput_alone_fraction is not None
        assert error is not None
        assert alone is not None
        assert job.simulated_goodput_fraction == pytest.approx(alone, abs=1e-4)
        misses += abs(job.simulated_goodput_fraction - job.goodput_alone_fraction) > error
    assert np.ptp([job.simulated_goodput_fraction for job in drawn]) > 0.005
    assert misses <= 4  # of 20, each with a chance of 5 %: more in one of 400


def test_what_others_cost_is_the_difference_from_the_same_failures_alone() -> None:
    report = report_of(num_jobs=110, reliability=FAILING, horizon_seconds="10d", storage=profile(
        write_bytes_per_second="1 GB/s"))  # fmt: skip
    (job,) = report.jobs
    assert job.simulated_goodput_alone_fraction is not None
    cost = job.simulated_goodput_alone_fraction - job.simulated_goodput_fraction
    assert f"8B: the other jobs lower its goodput by {percent_text(cost)}" in report.warnings


def test_goodput_without_failures_has_no_interval() -> None:
    (job,) = report_of(num_jobs=2).jobs
    assert (job.simulated_goodput_error_fraction, job.simulated_goodput_alone_fraction) == (None, None)


def test_restores_read_what_failures_make_them_read() -> None:
    report = report_of(num_jobs=100, reliability=FAILING, horizon_seconds="60d")
    assert report.read is not None
    load = loads_of(document(reliability=FAILING))[0]
    begun = 1 - load.recovery_seconds / 72_000  # no further failure strikes before the read
    read_bytes = 100 * load.report.restore.read_bytes * begun
    assert report.read.mean_bytes_per_second == pytest.approx(read_bytes / 72_000, rel=1e-4)
    assert report.read.simulated.mean_bytes_per_second == pytest.approx(report.read.mean_bytes_per_second, rel=0.06)


def test_the_seed_decides_everything() -> None:
    asked = document(num_jobs=50, reliability=FAILING, horizon_seconds="5d")
    first, again, other = (simulated(asked | {"seed": seed}).groups[0] for seed in (1, 1, 2))
    assert first.stall_seconds == again.stall_seconds
    assert first.restore_seconds == again.restore_seconds
    assert first.stall_seconds != other.stall_seconds


def test_a_file_system_that_is_short_makes_every_checkpoint_wait() -> None:
    report = report_of(num_jobs=6000, horizon_seconds="1d")
    job = report.jobs[0]
    assert report.write.utilization_fraction > 1
    assert job.mean_stall_seconds is None
    assert job.simulated_stalls is not None
    assert job.simulated_stalls.p50_seconds > 100 * job.stall_alone_seconds
    assert report.write.simulated.limited_fraction > 0.9
    assert any("Every checkpoint waits" in warning for warning in report.warnings)


ASYNC = {"mode": "async", "interval_seconds": "1h", "format": "torch-dist"}
COPY_SECONDS = LARGEST_SHARE_BYTES / 10e9


def test_asynchronous_jobs_stall_for_the_copy_alone_however_many_drain() -> None:
    storage = profile(device_to_host_bytes_per_second="10 GB/s", planning_seconds_per_rank=0)
    report = report_of(num_jobs=500, checkpoint=ASYNC, storage=storage, horizon_seconds="2d")
    job = report.jobs[0]
    assert job.stall_alone_seconds == job.mean_stall_seconds == pytest.approx(COPY_SECONDS)
    assert job.simulated_stalls is not None
    assert job.simulated_stalls.p99_seconds == pytest.approx(job.stall_alone_seconds)
    assert report.write.simulated.mean_bytes_per_second == pytest.approx(500 * CHECKPOINT_BYTES / 3600, rel=0.02)


def test_a_drain_that_outlasts_the_interval_makes_the_next_save_wait() -> None:
    rates = {"write_bytes_per_second": "20 MB/s", "device_to_host_bytes_per_second": "10 GB/s"}
    storage = {"profile": rates | {"planning_seconds_per_rank": 0}}
    job = report_of(checkpoint=ASYNC, storage=storage, horizon_seconds="5d", compute_jitter_fraction=0.0).jobs[0]
    drain = CHECKPOINT_BYTES / 20e6
    assert job.mean_stall_seconds is None
    assert job.simulated_stalls is not None
    assert job.simulated_stalls.p50_seconds == pytest.approx(drain - (3600 - COPY_SECONDS) + COPY_SECONDS)


def test_goodput_of_asynchronous_saving_counts_the_drain_as_rework() -> None:
    storage = profile(write_bytes_per_second="100 MB/s", device_to_host_bytes_per_second="10 GB/s")
    asked = {"checkpoint": ASYNC, "storage": storage, "reliability": FAILING, "horizon_seconds": "1500d"}
    job = report_of(**asked, compute_jitter_fraction=0.0).jobs[0]
    assert job.goodput_alone_fraction is not None
    assert job.simulated_goodput_fraction == pytest.approx(job.goodput_alone_fraction, abs=0.003)


def test_jobs_that_fail_before_they_save_are_named_and_no_rate_helps_them() -> None:
    asked = {"reliability": {"mtbf_seconds": "5min"}, "targets": {"p99_stall_seconds": 60}, "horizon_seconds": "1d"}
    report = report_of(**asked, num_jobs=2, start="together")
    assert report.jobs[0].simulated_stalls is None
    assert report.required.write_bytes_per_second is None
    assert any("8B: no save completed in the simulation" in warning for warning in report.warnings)
    assert any("some jobs fail before their first save" in warning for warning in report.warnings)


@pytest.mark.parametrize(("sharing", "is_warned"), [("per-node", True), ("per-job", False)])
def test_where_nodes_are_served_equally_and_not_jobs_the_formula_is_said_not_to_hold(
    sharing: str, is_warned: bool
) -> None:
    asked = document(num_jobs=20, sharing=sharing, horizon_seconds="10d", checkpoint={"interval_seconds": "1h"})
    asked["storage"]["profile"]["node_write_bytes_per_second"] = "8 GB/s"
    large = {
        "model": {"preset": "llama-3.1-405b"},
        "parallelism": {"tensor": 8, "pipeline": 16, "data": 8},
        "checkpoint": {"format": "torch-dist", "interval_seconds": "30min"},
    }
    asked["jobs"].append({"name": "large", "scenario": large})
    report = CLUSTER.answer(asked)
    small = report.jobs[0]
    assert small.simulated_stalls is not None
    assert small.mean_stall_seconds is not None
    assert (small.simulated_stalls.mean_seconds > 1.2 * small.mean_stall_seconds) is is_warned
    assert any("the formula's mean stall" in warning for warning in report.warnings) is is_warned


def test_a_file_system_on_which_no_transfer_ends_is_at_its_limit_all_the_time() -> None:
    slow = {"write_bytes_per_second": 40, "read_bytes_per_second": 40}
    asked = document(num_jobs=2, start="together", storage={"profile": slow}, horizon_seconds="10d")
    report = CLUSTER.answer(asked)
    assert report.num_checkpoints == 0
    assert report.write.simulated.limited_fraction == pytest.approx(1.0, abs=4 / 24 / 10)  # the first interval trains


@pytest.mark.parametrize("start", ["together", "staggered"])
def test_what_takes_independent_phases_is_not_computed_for_jobs_that_have_none(start: str) -> None:
    report = report_of(num_jobs=10, start=start, compute_jitter_fraction=0.0, horizon_seconds="1d")
    assert report.jobs[0].collision_fraction is None
    assert (report.concurrency.p99, report.concurrency.limited_fraction) == (None, None)
    assert report.concurrency.mean == pytest.approx(10 * CHECKPOINT_BYTES / 40e9 / 14_400)
    assert report_of(start=start, horizon_seconds="1d").jobs[0].collision_fraction == 0
