"""Every target that is asked for is shown, the missed ones first, with what would meet them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from sizing.explore.requirements.solver import requirements
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.summary import sections

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
    assert shown["stall"] == ("19.76 s", True)
    assert shown["recovery (RTO)"] == ("92.13 s", True)


def test_a_missed_target_says_what_would_meet_it_or_why_nothing_does() -> None:
    remedies = {check.target: check.remedy for check in answer(scenario_from(copy.deepcopy(MISSED))).targets}
    assert remedies["max_stall_seconds"] == "min write bandwidth 987.8 GB/s would meet it"
    assert remedies["recovery_seconds"] == "no storage meets it: detection and relaunch alone take 30.00 s"
    assert "one checkpoint every" in (remedies["min_goodput_fraction"] or "")


def test_where_node_and_file_system_are_short_the_remedy_names_both() -> None:
    asked = copy.deepcopy(MISSED)
    asked["storage"]["profile"]["node_write_bytes_per_second"] = "0.5 GB/s"
    remedies = {check.target: check.remedy for check in answer(scenario_from(asked)).targets}
    assert "write bandwidth per node" in (remedies["max_stall_seconds"] or "")


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
    needed = requirements(asked).needed
    joint = needed.write_bytes_per_second if field.startswith("write") else needed.read_bytes_per_second
    assert joint == pytest.approx(getattr(answer(scenario_from(asked)).required, field), rel=1e-9)


def test_what_to_buy_for_a_goodput_target_is_the_joint_solution_of_require() -> None:
    asked = copy.deepcopy(MISSED) | {"targets": {"min_goodput_fraction": 0.8, "max_stall_seconds": 1}}
    bought, needed = answer(scenario_from(asked)).needed_together, requirements(asked).needed
    assert bought["storage.profile.write_bytes_per_second"] == needed.write_bytes_per_second
    assert bought.get("storage.profile.read_bytes_per_second") == needed.read_bytes_per_second
    assert "checkpoint.interval_seconds" not in bought


def test_what_no_storage_meets_names_what_takes_too_long_or_what_unlimited_bandwidth_reaches() -> None:
    asked = copy.deepcopy(MISSED)
    del asked["storage"]["profile"]["planning_seconds_per_rank"]
    asked["reliability"]["relaunch_seconds"] = 300
    remedies = {check.target: check.remedy for check in answer(scenario_from(asked)).targets}
    assert remedies["max_stall_seconds"] == "no storage meets it at any interval: planning alone takes 3.00 s"
    reached = (remedies["min_goodput_fraction"] or "").removeprefix(
        "no storage meets it at any interval: unlimited bandwidth reaches "
    )
    assert 0.25 < float(reached.removesuffix(" %")) / 100 < 0.9
