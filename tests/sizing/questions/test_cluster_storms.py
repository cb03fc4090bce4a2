"""A power failure or a rack's failure stops the jobs that stand there, and they read again together."""

import pytest

from sizing.errors import InvalidInput
from sizing.questions.chunks import ignore_progress
from sizing.questions.cluster.bandwidth_to_buy import read_bytes_per_second_for_recovery, write_bytes_per_second_for_p99
from sizing.questions.cluster.restore_storms import back_seconds, find_restore_storms
from sizing.questions.registry import CLUSTER
from tests.sizing.questions.clusters import document, loads_of

READ_BYTES = 8 * 112_423_657_472


def test_after_a_power_failure_all_jobs_share_the_read_rate() -> None:
    loads = loads_of(document(num_jobs=100))
    (power,) = find_restore_storms(loads, read_bytes_per_second=80e9, nodes_per_rack=None)
    assert power.num_jobs == 100
    assert power.num_gpus == 800
    assert power.read_bytes == 100 * READ_BYTES
    assert power.first_back_seconds == power.last_back_seconds == pytest.approx(100 * READ_BYTES / 80e9)
    assert power.last_back_alone_seconds == pytest.approx(READ_BYTES / 80e9)
    assert power.gpu_hours == pytest.approx(800 * power.last_back_seconds / 3600)


def test_the_worst_rack_is_the_one_that_stops_most_readers() -> None:
    asked = document(num_jobs=5)
    large = asked["jobs"][0]["scenario"] | {"parallelism": {"data": 40}}
    asked["jobs"].insert(0, {"name": "large", "count": 2, "scenario": large})
    loads = loads_of(asked)
    assert [load.report.layout.num_nodes for load in loads] == [5, 1]
    rack, power = find_restore_storms(loads, read_bytes_per_second=80e9, nodes_per_rack=4)
    # nodes 0-4 and 5-9 are the large jobs, 10-14 the small: racks 0-3, 4-7, 8-11 and 12-14
    assert rack.read_bytes == 2 * 5 * READ_BYTES
    assert rack.num_jobs == 2
    assert power.num_jobs == 7
    one_rack, _ = find_restore_storms(loads, read_bytes_per_second=80e9, nodes_per_rack=1)
    assert one_rack.num_jobs == 1


def test_detection_and_restart_come_before_reading_except_where_restart_includes_it() -> None:
    reliability = {"mtbf_seconds": "1d", "detection_seconds": 100, "restart_seconds": 1000}
    loads = loads_of(document(num_jobs=10, reliability=reliability))
    alone = READ_BYTES / 80e9
    (power,) = find_restore_storms(loads, read_bytes_per_second=80e9, nodes_per_rack=None)
    assert power.last_back_alone_seconds == pytest.approx(1100)
    assert power.last_back_seconds == pytest.approx(1100 - alone + 10 * alone)


def test_a_measured_restart_shorter_than_the_restore_is_the_detection_and_the_restore() -> None:
    measured, computed = (
        loads_of(document(num_jobs=10, reliability={"mtbf_seconds": "1d", "detection_seconds": 100} | restart))
        for restart in ({"restart_seconds": 1}, {"relaunch_seconds": 0})
    )
    for read_rate in (8e9, 80e9):
        storms = [
            find_restore_storms(each, read_bytes_per_second=read_rate, nodes_per_rack=None)
            for each in (measured, computed)
        ]
        assert storms[0] == storms[1]


@pytest.mark.parametrize("strategy", ["every-replica", "read-once-broadcast", "parallel-read-exchange"])
@pytest.mark.parametrize("node_rate", ["1 GB/s", "100 GB/s"])
def test_a_job_alone_is_back_when_its_own_restore_ends_passing_on_included(strategy: str, node_rate: str) -> None:
    asked = document(checkpoint={"restore": strategy})
    asked["jobs"][0]["scenario"]["parallelism"] = {"data": 64}
    asked["storage"]["profile"]["node_read_bytes_per_second"] = node_rate
    (load,) = loads_of(asked)
    (power,) = find_restore_storms([load], read_bytes_per_second=80e9, nodes_per_rack=None)
    assert power.last_back_seconds == pytest.approx(load.report.restore.seconds)
    assert power.last_back_alone_seconds == pytest.approx(load.report.restore.seconds)


def test_the_read_rate_to_buy_brings_all_back_exactly_in_time() -> None:
    loads = loads_of(
        document(
            num_jobs=100,
            storage={
                "profile": {
                    "write_bytes_per_second": 4e10,
                    "read_bytes_per_second": 8e10,
                    "node_read_bytes_per_second": "5 GB/s",
                }
            },
        )
    )
    rate = read_bytes_per_second_for_recovery(loads, recovery_seconds=600)
    assert rate is not None
    assert max(back_seconds(loads, [100], read_bytes_per_second=rate)) == pytest.approx(600, rel=1e-9)
    assert max(back_seconds(loads, [100], read_bytes_per_second=rate * 0.999)) > 600
    assert read_bytes_per_second_for_recovery(loads, recovery_seconds=READ_BYTES / 5e9 * 0.999) is None


@pytest.mark.parametrize("reliability", [{"restart_seconds": 300}, {"relaunch_seconds": 60}])
def test_with_the_read_rate_to_buy_the_answer_has_all_back_in_time(reliability: dict[str, float]) -> None:
    asked = document(num_jobs=100, reliability={"mtbf_seconds": "1d"} | reliability, horizon_seconds="4h")
    for recovery in (290, 310, 3600):
        rate = CLUSTER.answer(asked | {"targets": {"recovery_seconds": recovery}}).required.read_bytes_per_second
        assert (rate is None) is (recovery < reliability.get("restart_seconds", 0))
        if rate is not None:
            asked["storage"]["profile"]["read_bytes_per_second"] = rate
            assert CLUSTER.answer(asked).storms[-1].last_back_seconds == pytest.approx(recovery)


def test_a_stall_that_any_rate_meets_asks_for_what_the_jobs_write_on_average() -> None:
    checkpoint = {"format": "torch-dist", "mode": "async", "interval_seconds": "1h"}
    asked = document(checkpoint=checkpoint, horizon_seconds="3h", targets={"p99_stall_seconds": 60})
    report = CLUSTER.answer(asked)
    assert report.required.write_bytes_per_second == pytest.approx(report.write.mean_bytes_per_second)
    assert report.required.write_utilization_fraction == pytest.approx(1.0)
    assert any("It leaves no reserve" in warning for warning in report.warnings)


def test_the_write_rate_to_buy_keeps_99_percent_of_stalls_in_time() -> None:
    asked = document(num_jobs=100, horizon_seconds="8d", targets={"p99_stall_seconds": 4.0})
    report = CLUSTER.answer(asked)
    rate = report.required.write_bytes_per_second
    assert rate is not None
    assert report.required.write_utilization_fraction == pytest.approx(100 * 112_423_657_472 / 14_400 / rate)
    assert not any("no reserve" in warning for warning in report.warnings)
    assert not report.meets_targets
    for factor, meets in ((1.0, True), (0.97, False)):
        asked["storage"]["profile"]["write_bytes_per_second"] = rate * factor
        again = CLUSTER.answer(asked | {"targets": {}})
        stalls = again.jobs[0].simulated_stalls
        assert stalls is not None
        assert (stalls.p99_seconds <= 4.0) is meets


def test_a_stall_that_the_jobs_own_nodes_exceed_has_no_rate() -> None:
    loads = loads_of(
        document(storage={"profile": {"write_bytes_per_second": 4e10, "node_write_bytes_per_second": 1e9}})
    )
    arguments = {"read_bytes_per_second": None, "horizon_seconds": 1e6, "seed": 1, "progress": ignore_progress}
    assert write_bytes_per_second_for_p99(loads, p99_stall_seconds=112.0, **arguments) is None  # type: ignore[arg-type]  # as named


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num_jobs": 20_001}, "jobs.0.count must be at most 20000"),
        ({"horizon_seconds": "3h"}, "horizon_seconds must cover the max interval"),
        ({"num_jobs": 20_000, "horizon_seconds": "20y"}, "horizon_seconds"),
        ({"num_jobs": 20_000, "horizon_seconds": "2000d"}, "must give at most 2,000,000"),
        ({"reliability": {"mtbf_seconds": "1 s"}}, "must give at most 2,000,000"),
        ({"storage": {"profile": {"read_bytes_per_second": 1}}}, "storage.profile.write_bytes_per_second is required"),
        ({"checkpoint": {"format": "deepspeed"}}, "jobs.0.scenario.checkpoint.format"),
        (
            {
                "checkpoint": {"tiers": [{"kind": "host-memory", "interval_seconds": 60}]},
                "reliability": {"mtbf_seconds": "1h"},
            },
            "jobs.0.scenario.checkpoint.tiers.0.recovered_fraction is required",
        ),
        ({"jobs": []}, "jobs must have at least 1 entries, got []: add"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_the_limit(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        CLUSTER.answer(document(**changes))  # type: ignore[arg-type]  # fields by name
    assert str(refused.value).startswith(sentence) or sentence in str(refused.value)


def test_a_job_with_a_storage_of_its_own_and_a_name_used_twice_are_refused() -> None:
    asked = document()
    with pytest.raises(InvalidInput, match="two groups of one name"):
        CLUSTER.answer(asked | {"jobs": asked["jobs"] * 2})
    asked["jobs"][0]["scenario"]["storage"] = asked["storage"]
    with pytest.raises(InvalidInput, match="storage of its own"):
        CLUSTER.answer(asked)


def test_without_a_read_rate_restores_take_no_time_and_a_warning_says_so() -> None:
    report = CLUSTER.answer(document(storage={"profile": {"write_bytes_per_second": "40 GB/s"}}))
    assert report.read is None
    assert report.storms == []
    assert any("No read bandwidth given" in warning for warning in report.warnings)
