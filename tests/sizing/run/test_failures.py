"""Failures are given in one of four ways, and say how long a recovery takes."""

from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.frameworks.framework import HUNG_FRACTION
from sizing.published import published
from sizing.questions.registry import REQUIRE
from sizing.report import answer
from sizing.run.failures import Reliability, mtbf_seconds
from sizing.scenario import scenario_from
from tests.sizing.run.scenarios import ASYNC, document, report

COMPONENTS = [
    {"name": "GPU", "per": "gpu", "mtbf_seconds": "50000h"},
    {"name": "node", "per": "node", "failures_per_hour": 1e-5},
    {"name": "switch", "count": 24, "mtbf_seconds": "200000h", "loss_domain": "rack"},
    {"name": "software", "mtbf_seconds": "100h", "loss_domain": "process"},
]
PER_HOUR = {"GPU": 3072 / 50_000, "node": 384e-5, "switch": 24 / 200_000, "software": 0.01}


@pytest.mark.parametrize(
    ("given_rate", "expected"),
    [
        ({"failures_per_node_day": 0.0065}, 34615.38461538462),
        ({"failures_per_gpu_hour": 1e-5}, 3600 / (1e-5 * 3072)),
        ({"mtbf_seconds": "9h"}, 32400.0),
        ({"components": COMPONENTS}, 3600 / sum(PER_HOUR.values())),
    ],
)
def test_failures_are_given_per_node_day_per_gpu_hour_for_the_job_or_by_component(
    given_rate: dict[str, Any], expected: float
) -> None:
    reliability = Reliability.model_validate(given_rate)
    assert reliability.job_mtbf_seconds(num_nodes=384, num_gpus=3072) == pytest.approx(expected)


def test_components_say_which_failures_lose_less_than_a_domain() -> None:
    reliability = Reliability.model_validate({"components": COMPONENTS})
    total = sum(PER_HOUR.values())
    shares = {
        "process": 0.0,
        "node": PER_HOUR["software"] / total,
        "rack": 1 - PER_HOUR["switch"] / total,
        "job": 1.0,
    }
    found = {name: reliability.smaller_than_fraction(name, num_nodes=384, num_gpus=3072) for name in shares}  # type: ignore[arg-type]  # names of domains
    assert found == pytest.approx(shares)


def test_llama_3s_interruptions_give_its_published_mtbf() -> None:
    row = published("reliability")["rows"][0]
    rate = row["failures_per_node_day"] / 86_400
    assert mtbf_seconds(rate, num_components=row["num_gpus"] / 8) == pytest.approx(row["mtbf_seconds"], rel=1e-3)


@pytest.mark.parametrize(("gpus", "half_a_digit"), [(16_384, 0.05), (131_072, 0.005)])
def test_meta_projects_the_time_to_failure_of_larger_jobs(gpus: int, half_a_digit: float) -> None:
    facts = published("reliability")["rows"][1]
    hours = facts["projected_mttf_hours"][f"{gpus} GPUs"]
    mtbf = mtbf_seconds(facts["failures_per_node_day"][0] / 86_400, num_components=gpus / 8)
    assert mtbf / 3600 == pytest.approx(hours, abs=half_a_digit)


def test_reading_counts_unless_a_restart_was_measured() -> None:
    computed = report(ASYNC).interval
    measured = report(ASYNC, reliability={"relaunch_seconds": 0.0, "restart_seconds": 2400}).interval
    assert computed.recovery_seconds == pytest.approx(360 + (report(ASYNC).restore.seconds or 0))
    assert measured.recovery_seconds == 2460


def test_failures_that_hang_make_the_detection_and_a_midpoint_the_relaunch_where_nobody_says() -> None:
    """Of 100 failures 12.1 hang, until a collective ends after 10 min."""
    found = report(ASYNC, reliability=None)
    assert found.restore.time_to_first_step_seconds == found.restore.seconds
    unsaid = report(document(ASYNC, reliability=None) | {"reliability": {"mtbf_seconds": "9h"}})
    assert (unsaid.restore.time_to_first_step_seconds or 0) - (unsaid.restore.seconds or 0) == pytest.approx(72.6 + 450)
    assert unsaid.interval.recovery_seconds == unsaid.restore.time_to_first_step_seconds
    rows = {row.field: row for row in unsaid.assumptions if row.field.startswith("reliability.")}
    assert {name: row.value for name, row in rows.items()} == {
        "reliability.detection_seconds": 72.6,
        "reliability.relaunch_seconds": 450,
    }
    assert rows["reliability.detection_seconds"].reason.startswith("default: 12.1 % of failures hang until")
    assert rows["reliability.relaunch_seconds"].reason.startswith("default: midpoint of 5.0 min to 10.0 min: ")
    assert all("arXiv" in row.reason for row in rows.values())


def test_the_share_of_failures_that_hang_is_as_published() -> None:
    (fleet,) = (row for row in published("failure_rates")["rows"] if row["system"] == "ByteDance, fleet of ByteRobust")
    failures = fleet["implicit_failures"] + fleet["explicit_failures"]
    assert pytest.approx(fleet["implicit_failures"] / failures, abs=5e-4) == HUNG_FRACTION
    shares = fleet["shares_percent"]
    by_incidents = shares["job hang"] / (100 - shares["code or data adjustment (manual restart)"])
    assert by_incidents == pytest.approx(HUNG_FRACTION, abs=2e-3)


def test_a_recovery_target_without_reliability_is_told_what_is_left_out() -> None:
    asked = document(ASYNC, reliability=None)
    (told,) = [w for w in report(asked, targets={"recovery_seconds": 60}).warnings if "restore alone" in w]
    assert told.endswith("Detection takes 0 to 600 s and relaunch 300 to 600 s")
    assert not any("restore alone" in warning for warning in report(asked).warnings)
    assert not any("restore alone" in w for w in report(ASYNC, targets={"recovery_seconds": 60}).warnings)


def test_no_relaunch_is_assumed_beside_a_measured_restart() -> None:
    rate = {"mtbf_seconds": "9h", "restart_seconds": "40min"}
    found = report(document(ASYNC, reliability=None) | {"reliability": rate})
    assert found.interval.recovery_seconds == pytest.approx(72.6 + 2400)
    fields = [row.field for row in found.assumptions if row.field.startswith("reliability.")]
    assert fields == ["reliability.detection_seconds"]


def test_a_recovery_shorter_than_detection_and_relaunch_is_not_blamed_on_the_storage() -> None:
    asked = document(ASYNC, reliability=None) | {
        "reliability": {"mtbf_seconds": "9h"},
        "targets": {"recovery_seconds": "5min"},
    }
    reasons = " ".join(row.reason for row in REQUIRE.answer(asked).requirements)
    assert (
        "detection (assumed 72.60 s, may be 0 s to 10.0 min) and relaunch (assumed 7.5 min, may be 5.0 min to 10.0 min) "
        "alone take 8.7 min"
    ) in reasons


def test_a_restart_shorter_than_the_reading_is_doubted() -> None:
    warnings = report(reliability={"restart_seconds": 80}).warnings
    assert any("is shorter than the restore, which reads for 82.80 s" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mtbf_seconds": 0}, "mtbf_seconds must be at least 1 ms, got 0"),
        ({"mtbf_seconds": 60, "failures_per_node_day": 1}, "must have exactly one of"),
        ({"components": []}, "components must have at least 1 entries"),
        ({"components": [{"name": "GPU"}]}, "must have exactly one of failures_per_hour, mtbf_seconds"),
        ({"mtbf_seconds": 60, "restart_seconds": 1, "relaunch_seconds": 1}, "exactly one of restart_seconds"),
    ],
)
def test_failures_that_make_no_sense_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        scenario_from(document(ASYNC, reliability=None) | {"reliability": fields})


def test_a_checkpoint_or_a_recovery_longer_than_the_mtbf_is_said_to_be_impossible() -> None:
    found = report(reliability={"failures_per_node_day": 10})
    assert any("most saves are interrupted" in warning for warning in found.warnings)
    slow = report(reliability={"restart_seconds": "1d"})
    assert any("most recoveries are interrupted" in warning for warning in slow.warnings)


def test_405b_on_16384_gpus_loses_less_than_a_tenth_only_with_what_its_run_must_state() -> None:
    """Llama 3 publishes over 90 % of useful time, and neither interval nor restart (arXiv 2407.21783, section 3.3.4)."""
    (run,) = (row for row in published("run_goodput")["rows"] if row["run"] == "Llama 3 405B")
    rate = {"write_bytes_per_second": "2 TB/s", "read_bytes_per_second": "2 TB/s"}
    document = {
        "model": {"preset": "llama-3.1-405b"},
        "parallelism": {"tensor": 8, "pipeline": 16, "data": run["gpus"] // 128},
        "cluster": {"node": "dgx-h100"},
        "storage": {"profile": rate},
        "reliability": {"mtbf_seconds": 3600 * run["derived"]["hours_between_unexpected"]},
    }
    saved: dict[str, Any] = {"interval_seconds": "30min"}
    lost = []
    steps: list[dict[str, Any]] = [
        {},
        {"cached_plans": True},
        {"interval_seconds": "5min"},
        {"restore": "parallel-read-exchange"},
    ]
    for said in steps:
        saved |= said
        lost.append(answer(document | {"checkpoint": saved}).interval.lost_at_interval_fraction or 0.0)
    published_loss = 1 - run["effective_training_time_percent_over"] / 100
    assert lost == sorted(lost, reverse=True)
    assert [loss < published_loss for loss in lost] == [False, False, False, True]
