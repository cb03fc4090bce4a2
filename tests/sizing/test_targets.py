"""Every target that is asked for is shown, the missed ones first, with what would meet them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from sizing.field_paths import with_field
from sizing.present.targets import verdict
from sizing.questions.answer.first_screen import first_screen
from sizing.questions.answer.words import sections
from sizing.questions.registry import REQUIRE
from sizing.questions.require.words import requirements_summary
from sizing.report import answer
from sizing.run import remedies
from sizing.run.write import CACHED_PLANS
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.units import min_rate_text, percent_text, seconds_text

MISSED: dict[str, Any] = {
    "model": {"preset": "llama-3.1-70b"},
    "training": {"distributed_optimizer": True},
    "parallelism": {"tensor": 8, "pipeline": 4, "data": 16},
    "cluster": {"node": "dgx-h100"},
    "checkpoint": {"format": "torch-dist", "interval_seconds": "30s"},
    "storage": {
        "profile": {
            "write_bytes_per_second": "50 GB/s",
            "read_bytes_per_second": "50 GB/s",
            "planning_seconds_per_rank": 0,
        }
    },
    "reliability": {"mtbf_seconds": "5min", "detection_seconds": 0, "relaunch_seconds": 30},
    "targets": {"min_goodput_fraction": 0.9, "max_stall_seconds": 1, "recovery_seconds": 10},
}


def test_all_missed_targets_are_shown_before_the_size_with_what_was_found() -> None:
    report = answer(scenario_from(copy.deepcopy(MISSED)))
    first = sections(report)[0]
    assert first.title == "Targets"
    shown = {row.label: (row.figure, "MISSED" in row.meaning) for row in first.rows}
    assert shown["goodput (ETTR)"] == ("23.9 %", True)
    assert shown["stall"] == (seconds_text(report.checkpoint.total_bytes / 50e9), True)
    assert shown["recovery (RTO)"] == (seconds_text(30 + report.restore.read_bytes / 50e9), True)


def test_a_missed_target_says_what_would_meet_it_or_why_nothing_does() -> None:
    report = answer(scenario_from(copy.deepcopy(MISSED)))
    said = {check.target: check.remedy for check in report.targets}
    rate = min_rate_text(report.checkpoint.total_bytes / MISSED["targets"]["max_stall_seconds"])
    assert said["max_stall_seconds"] == f"min write bandwidth {rate} would meet it"
    assert said["recovery_seconds"] == "no storage meets it: detection and relaunch alone take 30.00 s"
    assert "one checkpoint every" in (said["min_goodput_fraction"] or "")


def test_where_node_and_file_system_are_short_the_remedy_names_both() -> None:
    asked = copy.deepcopy(MISSED)
    asked["storage"]["profile"]["node_write_bytes_per_second"] = "0.5 GB/s"
    said = {check.target: check.remedy for check in answer(scenario_from(asked)).targets}
    assert "write bandwidth per node" in (said["max_stall_seconds"] or "")


def test_targets_that_are_met_come_after_those_that_are_missed_and_need_no_remedy() -> None:
    asked = copy.deepcopy(REFERENCE_SCENARIO) | {"targets": {"max_overhead_fraction": 0.5, "max_stall_seconds": 1}}
    report = answer(scenario_from(asked))
    assert ["MISSED" in row.meaning for row in sections(report)[0].rows] == [True, False]
    assert {check.target: check.remedy for check in report.targets}["max_overhead_fraction"] is None


@pytest.mark.parametrize("field", ["write_bytes_per_second", "restore_bytes_per_second"])
def test_the_required_block_is_the_joint_solution_also_where_a_node_is_short(field: str) -> None:
    asked = copy.deepcopy(MISSED) | {"targets": {"max_stall_seconds": 30, "recovery_seconds": 400}}
    asked["storage"]["profile"] |= {"node_write_bytes_per_second": "0.5 GB/s", "node_read_bytes_per_second": "0.5 GB/s"}
    asked["checkpoint"]["interval_seconds"] = "30min"
    needed = REQUIRE.answer(asked).needed
    joint = needed.write_bytes_per_second if field.startswith("write") else needed.read_bytes_per_second
    assert joint == pytest.approx(getattr(answer(scenario_from(asked)).required, field), rel=1e-9)


def test_what_to_buy_for_a_goodput_target_is_the_joint_solution_of_require() -> None:
    asked = copy.deepcopy(MISSED) | {"targets": {"min_goodput_fraction": 0.8, "max_stall_seconds": 1}}
    bought, needed = answer(scenario_from(asked)).needed_together, REQUIRE.answer(asked).needed
    assert bought["storage.profile.write_bytes_per_second"] == needed.write_bytes_per_second
    assert bought.get("storage.profile.read_bytes_per_second") == needed.read_bytes_per_second
    assert "checkpoint.interval_seconds" not in bought


def test_what_no_storage_meets_names_what_takes_too_long_or_what_unlimited_bandwidth_reaches() -> None:
    asked = copy.deepcopy(MISSED)
    del asked["storage"]["profile"]["planning_seconds_per_rank"]
    asked["reliability"]["relaunch_seconds"] = 300
    said = {check.target: check.remedy for check in answer(scenario_from(asked)).targets}
    assert said["max_stall_seconds"] == (
        "no storage meets it at any interval: planning (assumed 3.52 ms per rank, may be 0.115 ms to 6.92 ms) alone "
        f"takes 1.80 s; with {CACHED_PLANS}, min write bandwidth 1.050 TB/s would meet it"
    )
    reached = (said["min_goodput_fraction"] or "").removeprefix(
        "no storage meets it at any interval: unlimited bandwidth reaches "
    )
    assert 0.25 < float(reached.removesuffix(" %")) / 100 < 0.9


def test_a_goodput_that_no_storage_meets_says_what_it_is_with_shorter_detection_and_relaunch() -> None:
    """The figure that is said is that of a run with the lower ends of both, and unlimited bandwidth."""
    open_times = {"failures_per_node_day": 0.1}
    asked = REFERENCE_SCENARIO | {"reliability": open_times, "targets": {"min_goodput_fraction": 0.99}}
    said = {check.target: check.remedy for check in answer(asked).targets}["min_goodput_fraction"] or ""
    reached, _, with_less = said.partition(", and ")
    assert with_less.endswith(" with detection 0 s (assumed 72.60 s) and relaunch 5.0 min (assumed 7.5 min)")
    stated = asked | {"reliability": open_times | {"detection_seconds": 0, "relaunch_seconds": 300}}
    at_ends = {check.target: check.remedy for check in answer(stated).targets}["min_goodput_fraction"] or ""
    assert at_ends.endswith(f"unlimited bandwidth reaches {with_less.partition(' with ')[0]}")
    assert reached != at_ends


def test_saves_that_take_longer_than_the_interval_are_said_to_do_so() -> None:
    asked = REFERENCE_SCENARIO | {"checkpoint": REFERENCE_SCENARIO["checkpoint"] | {"interval_seconds": 20}}
    report = answer(asked)
    times = f"{report.overhead.fraction:.3g} x the interval"
    assert 2 < (report.overhead.fraction or 0.0) < 3
    assert f"overhead: saves take {times} (max 5.00 %, the default)" in verdict(report)
    assert times in [row.figure for section in sections(report) for row in section.rows if row.label == "overhead"]
    open_failures = answer({name: block for name, block in asked.items() if name != "reliability"})
    assert times in [row.figure for row in first_screen(open_failures).figures if row.label == "Overhead"]


def test_cached_plans_and_the_rate_said_with_them_meet_the_stall() -> None:
    asked = copy.deepcopy(MISSED)
    del asked["storage"]["profile"]["planning_seconds_per_rank"]
    asked["storage"]["profile"]["write_bytes_per_second"] = "1.050 TB/s"
    asked["checkpoint"]["cached_plans"] = True
    assert {check.target: check.met for check in answer(asked).targets}["max_stall_seconds"]


def test_detection_that_nobody_stated_is_named_with_its_range_where_it_alone_takes_too_long() -> None:
    asked = copy.deepcopy(MISSED) | {"targets": {"recovery_seconds": 330}}
    asked["reliability"] = {"mtbf_seconds": "8h", "relaunch_seconds": 300}
    (check,) = (check for check in answer(asked).targets if check.target == "recovery_seconds")
    said = (
        "detection (assumed 72.60 s, may be 0 s to 10.0 min) and relaunch alone take 6.2 min, "
        "but 5.0 min with detection 0 s"
    )
    assert check.remedy == f"no storage meets it: {said}"
    assert any(row.reason.endswith(said) for row in REQUIRE.answer(asked).requirements)


def without_read_rate(**targets: float) -> dict[str, Any]:
    """A run whose restore has no time, as nobody gave a read rate."""
    asked = copy.deepcopy(MISSED) | {"targets": targets, "reliability": {"mtbf_seconds": "8h"}}
    asked["checkpoint"]["interval_seconds"] = "30min"
    del asked["storage"]["profile"]["read_bytes_per_second"]
    return asked


def test_goodput_within_its_target_only_without_the_restore_is_not_known_to_be_met() -> None:
    report = answer(without_read_rate(min_goodput_fraction=0.85))
    (check,) = (check for check in report.targets if check.target == "min_goodput_fraction")
    assert check.met is None
    assert (check.found or 0.0) > 0.85
    assert report.interval.leaves_out_restore
    assert f"not known: goodput at most {percent_text(check.found or 0.0)} (min 85.0 %)" in verdict(report)
    assert "the run loses at least" in verdict(report)
    (lost,) = (row for row in first_screen(report).figures if row.label == "Lost time")
    assert lost.figure.startswith("at least")


def test_goodput_that_is_missed_without_the_restore_is_missed() -> None:
    checks = answer(without_read_rate(min_goodput_fraction=0.99)).targets
    assert {check.target: check.met for check in checks}["min_goodput_fraction"] is False


def test_a_measured_restart_says_of_goodput_what_a_read_rate_does() -> None:
    asked = without_read_rate(min_goodput_fraction=0.8)
    asked["reliability"]["restart_seconds"] = 600
    report = answer(asked)
    assert {check.target: check.met for check in report.targets}["min_goodput_fraction"]
    assert not report.interval.leaves_out_restore
    assert "at least" not in verdict(report)


@pytest.mark.parametrize("profile", [{"write_bytes_per_second": "50 GB/s"}, None])
def test_what_to_buy_for_goodput_holds_a_read_rate_where_none_is_given_and_then_meets_it(
    profile: dict[str, Any] | None,
) -> None:
    asked = without_read_rate(min_goodput_fraction=0.85)
    asked["storage"] = {"profile": profile} if profile else None
    bought = answer(asked).needed_together
    needed = REQUIRE.answer(asked).needed
    assert bought["storage.profile.read_bytes_per_second"] == needed.read_bytes_per_second
    for path, value in bought.items():
        asked = with_field({**asked, "storage": asked["storage"] or {"profile": {}}}, path, value)
    assert all(check.met for check in answer(asked).targets)
    less = with_field(asked, "storage.profile.read_bytes_per_second", 0.99 * (needed.read_bytes_per_second or 0.0))
    assert not all(check.met for check in answer(less).targets)


def test_require_does_not_call_targets_met_that_need_a_rate_that_is_not_given() -> None:
    summary = requirements_summary(REQUIRE.answer(without_read_rate(min_goodput_fraction=0.85)))
    assert summary.verdict == "Not known to meet all targets: not given read bandwidth, file system."
    assert not summary.misses


SLOW: dict[str, Any] = {
    "model": {"preset": "llama-3.1-70b"},
    "parallelism": {"tensor": 8, "pipeline": 4, "data": 16},
    "cluster": {"node": "dgx-h100"},
    "checkpoint": {"format": "torch-dist", "interval_seconds": "10min"},
    "storage": {"profile": {"write_bytes_per_second": "20 GB/s", "read_bytes_per_second": "20 GB/s"}},
}
NODES_SHORT = {"write_bytes_per_second": "20 GB/s", "node_write_bytes_per_second": "0.2 GB/s"}
COPIES_SLOWLY = {"write_bytes_per_second": "20 GB/s", "device_to_host_bytes_per_second": "50 MB/s"}
IN_FRONT = {
    "kind": "local-nvme",
    "interval_seconds": "2min",
    "recovered_fraction": 0.9,
    "storage": {"profile": {"node_write_bytes_per_second": "5 GB/s", "node_read_bytes_per_second": "9 GB/s"}},
}
FIELDS = {
    "min write bandwidth": "storage.profile.write_bytes_per_second",
    "min GPU-to-host bandwidth": "storage.profile.device_to_host_bytes_per_second",
    "one checkpoint every": "checkpoint.interval_seconds",
}
MISSED_DEFAULTS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "the file system is short": (SLOW, {"min write bandwidth", "one checkpoint every"}),
    "nodes are short": (SLOW | {"storage": {"profile": NODES_SHORT}}, {"one checkpoint every"}),
    "exports stall, and nodes are short": (
        SLOW
        | {"checkpoint": SLOW["checkpoint"] | {"export": {"every": 2, "written_by": "rank-0"}}}
        | {"storage": {"profile": NODES_SHORT}},
        {"one checkpoint every"},
    ),
    "the copy is slow": (
        SLOW | {"checkpoint": SLOW["checkpoint"] | {"mode": "async"}, "storage": {"profile": COPIES_SLOWLY}},
        {"min GPU-to-host bandwidth", "one checkpoint every"},
    ),
    "a tier is in front": (
        SLOW | {"checkpoint": SLOW["checkpoint"] | {"tiers": [IN_FRONT]}},
        {"min write bandwidth", "one checkpoint every"},
    ),
}


@pytest.mark.parametrize("name", MISSED_DEFAULTS)
def test_a_missed_default_says_what_would_meet_it_and_each_way_alone_does_as_it_is_written(name: str) -> None:
    asked, expected = MISSED_DEFAULTS[name]
    (check,) = answer(asked).targets
    assert check.met is False
    ways = (check.remedy or "").removesuffix(" would meet it").split(", or ")
    named = {label: way.removeprefix(f"{label} ") for way in ways for label in FIELDS if way.startswith(label)}
    assert set(named) == expected
    for label, value in named.items():
        assert answer(with_field(asked, FIELDS[label], value)).targets[0].met, (label, value)


def test_a_tier_in_front_that_alone_misses_the_default_leaves_no_single_way() -> None:
    tier = IN_FRONT | {"storage": {"profile": {"node_write_bytes_per_second": "0.5 GB/s"}}}
    (check,) = answer(SLOW | {"checkpoint": SLOW["checkpoint"] | {"tiers": [tier]}}).targets
    assert check.remedy == "no bandwidth alone and no interval that the tiers allow meets it"


def test_a_missed_default_is_not_solved_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """To solve takes a hundred times as long as to answer."""
    monkeypatch.setattr(remedies, "joint_solution", None)
    monkeypatch.setattr(remedies, "last_that_meets", None)
    assert answer(SLOW).targets[0].remedy
