"""What a calibration leaves open of times and rates is left open of the figures that follow, and of the verdict."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from sizing.field_paths import value_at
from sizing.guesses.figures import LOST, OVERHEAD
from sizing.present.guesses import span_text
from sizing.present.targets import target_rows, verdict
from sizing.questions.answer.first_screen import first_screen
from sizing.questions.answer.run_rows import cost_rows, time_rows
from sizing.report import SizingReport, answer
from sizing.storage.calibration import Calibration, calibrate
from sizing.storage.rates import DIRECTIONS, Rates
from sizing.storage.terms import Demand, total_seconds
from sizing.units import percent_text, seconds_text
from tests.sizing.storage.calibration.simulation import FULL_SCAN, GB, Cell, result
from tests.sizing.storage.calibration.truths import Truth

ONE_NODE = tuple((1, ranks, size * GB) for ranks in (1, 2, 4) for size in (1, 2, 4))
SCENARIO: dict[str, Any] = {
    "model": {"preset": "megatron-1t"},
    "training": {"optimizer": "adam"},
    "parallelism": {"tensor": 8, "pipeline": 64, "data": 6},
    "checkpoint": {"mode": "sync", "format": "megatron", "interval_seconds": 1200, "restore": "every-replica"},
    "reliability": {"mtbf_seconds": "24h", "detection_seconds": 60, "relaunch_seconds": 300},
    "targets": {"max_overhead_fraction": 0.05},
}
TIMES = {"write": "write.seconds", "read": "restore.seconds"}
FIGURES = (*TIMES.values(), OVERHEAD, LOST, "interval.optimal_period_seconds")


@cache
def storage(cells: tuple[Cell, ...]) -> dict[str, Any]:
    return {"calibration": calibrate([result(cells, noise=0.02, outliers=0)], num_draws=200).model_dump(mode="json")}


def asked(cells: tuple[Cell, ...], **blocks: Any) -> SizingReport:
    return answer(SCENARIO | blocks | {"storage": storage(cells)})


@pytest.fixture(scope="module")
def report() -> SizingReport:
    """Of 384 nodes, by a scan of one."""
    return asked(ONE_NODE)


def at_pace(report: SizingReport, path: str, place: int, direction: str) -> SizingReport:
    """The answer with storage that takes as long as one end of the interval of a time, for each term alike."""
    factor = report.prediction_intervals[path][place] / value_at(report, path)
    profile = dict(storage(ONE_NODE)["calibration"]["profile"])
    for name, value in profile.items():
        if f"{direction}_" in name and isinstance(value, float):
            profile[name] = value / factor if name.endswith("_per_second") else value * factor
    return answer(SCENARIO | {"storage": {"profile": profile}})


def test_figures_have_the_least_and_largest_value_of_storage_at_the_ends_of_its_intervals(report: SizingReport) -> None:
    ends = [at_pace(report, TIMES[direction], place, direction) for direction in DIRECTIONS for place in (0, 1)]
    for path in FIGURES:
        values = [value_at(each, path) for each in (report, *ends)]
        known = [1.0 if value is None and path == LOST else value for value in values]
        assert report.prediction_intervals[path] == pytest.approx((min(known), max(known))), path
    assert report.prediction_intervals[LOST][1] == 1.0, "the longest save takes longer than the interval"


@pytest.mark.parametrize("knee_power", [None, 2.0])
def test_a_slowed_storage_takes_that_much_longer(knee_power: float | None) -> None:
    rates = Rates(
        file_system_bytes_per_second=40e9,
        node_bytes_per_second=8e9,
        writer_bytes_per_second=1e9,
        files_per_second=1e3,
        file_seconds=0.01,
        planning_seconds_per_rank=1e-3,
        commit_seconds=0.2,
        fixed_seconds=0.5,
        cache_bytes=1e9,
        beyond_cache_bytes_per_second=2e9,
        node_contention_fraction=0.1,
        knee_power=knee_power,
    )
    demands = [Demand(4e11, 64, 8, 128, num_planned_ranks=64, metadata_bytes=1e6), Demand(1e9, 8, 8, 8)]
    assert total_seconds(rates.slowed(3.0), demands) == pytest.approx(3.0 * total_seconds(rates, demands))


def test_what_moves_within_the_intervals_has_them_beside_it_and_the_calibration_is_named(report: SizingReport) -> None:
    screen = first_screen(report)
    rows = {row.label: row for row in screen.figures}
    for label, path in (("Write time", "write.seconds"), ("Restore time", "restore.seconds"), ("Lost time", LOST)):
        text = percent_text if path == LOST else seconds_text
        low, high = map(text, report.prediction_intervals[path])
        assert rows[label].figure.startswith("~")
        useless = "" if path == LOST else "no useful prediction: "
        assert rows[label].meaning.startswith(f"{useless}{span_text(low, high)}; ")
    assert screen.mark_meaning == "~ moves by more than 10.0 % within the 90 % intervals of the calibration"
    with_guess = first_screen(asked(ONE_NODE, reliability={"mtbf_seconds": "24h"}))
    assert with_guess.mark_meaning == f"{screen.mark_meaning}, or with what is assumed: detection"


def test_a_target_between_the_ends_of_an_interval_cannot_be_decided(report: SizingReport) -> None:
    """Overhead of 1.9 % to more than the whole interval, and of 2.3 % as predicted."""
    (check,) = report.targets
    assert check.met
    assert check.found_interval == report.prediction_intervals[OVERHEAD]
    screen = first_screen(report)
    assert verdict(report).startswith("Cannot be decided from these measurements: overhead ")
    assert f"; the run loses {percent_text(value_at(report, LOST))} of its time, " in verdict(report)
    assert "to 100 % within the 90 % intervals of the calibration." in verdict(report)
    assert (screen.misses, screen.is_weak) == (False, True)
    assert "not decided by the calibration" in target_rows(report.targets)[0].meaning
    assert "not decided by the calibration" in next(iter(cost_rows(report))).meaning


def test_a_target_that_is_missed_as_predicted_and_not_decided_is_neither_missed_nor_remedied() -> None:
    report = asked(ONE_NODE, targets={"max_overhead_fraction": 0.02})
    assert report.targets[0].met is False
    screen = first_screen(report)
    assert screen.verdict.startswith("Cannot be decided")
    assert (screen.misses, screen.remedies) == (False, ())


def test_a_target_that_both_ends_miss_is_missed_beside_one_that_is_not_decided() -> None:
    report = asked(ONE_NODE, targets={"max_stall_seconds": 10, "max_overhead_fraction": 0.05})
    screen = first_screen(report)
    assert screen.verdict.startswith("Misses 1 of 2 targets: stall 28.01 s (max 10.00 s); cannot be decided from these")
    assert screen.misses
    assert len(screen.remedies) == 1


def test_a_narrow_interval_decides_and_leaves_figures_as_they_are() -> None:
    near = {"tensor": 8, "pipeline": 8}
    small = {"model": {"num_parameters": 10**10}, "parallelism": near, "reliability": {"mtbf_seconds": "24h"}}
    report = asked(FULL_SCAN, **small)
    (check,) = report.targets
    low, high = check.found_interval or (0.0, 0.0)
    assert low < (check.found or 0.0) < high < 1.1 * low
    assert check.is_decided
    screen = first_screen(report)
    assert screen.verdict.startswith("Meets the target")
    assert "calibration" not in screen.mark_meaning
    assert not next(row for row in screen.figures if row.label == "Write time").figure.startswith("~")


def test_without_a_calibration_nothing_is_open() -> None:
    (check,) = answer(SCENARIO | {"storage": {"profile": {"write_bytes_per_second": "500 GB/s"}}}).targets
    assert check.found_interval is None
    assert check.is_decided


@pytest.fixture(scope="module")
def noisy() -> tuple[Calibration, SizingReport]:
    """One node of eight ranks that read ten times the bytes, by three noisy configurations of small files."""
    truth = Truth(lambda cell: cell[0] * cell[1] * cell[2] / 0.5e9, operation="restore", tail=0.9)
    found = calibrate([truth.scan([(1, 1, GB // 16, 1), (1, 2, GB // 16, 1), (1, 2, GB // 4, 1)], 23)], num_draws=50)
    layout = {"model": {"preset": "llama-3.1-8b"}, "parallelism": {"tensor": 4, "data": 2}}
    return found, answer(layout | {"storage": {"calibration": found}})


def test_no_end_of_an_interval_beats_ten_times_the_highest_rate_that_a_run_got(
    noisy: tuple[Calibration, SizingReport],
) -> None:
    calibration, report = noisy
    assert calibration.read is not None
    highest = 10 * max(point.bytes_per_second for point in calibration.read.points)
    low, high = report.prediction_intervals["restore.seconds"]
    assert low == pytest.approx(report.restore.read_bytes / highest)
    assert high > 4 * low
    assert report.prediction_intervals["restore.bytes_per_second"][1] == pytest.approx(highest)


def test_an_interval_too_wide_to_decide_by_is_called_no_useful_prediction_in_its_rows(
    noisy: tuple[Calibration, SizingReport],
) -> None:
    _, report = noisy
    ends = span_text(*map(seconds_text, report.prediction_intervals["restore.seconds"]))
    first = next(row for row in first_screen(report).figures if row.label == "Restore time")
    assert first.meaning.startswith(f"no useful prediction: {ends}; all ranks read ")
    below = next(row for row in time_rows(report) if not row.label)
    assert (below.figure, below.meaning.partition(", ")[0]) == ("no useful prediction", f"90 % interval: {ends}")


def test_a_low_grade_says_in_which_figures_a_layout_is_beyond_what_was_measured(
    noisy: tuple[Calibration, SizingReport],
) -> None:
    _, report = noisy
    graded = [warning for warning in report.warnings if warning.startswith("The calibration has grade ")]
    assert [warning.partition(": ")[0] for warning in graded] == [
        "The calibration has grade D beyond what was measured, as this layout is in ranks per node, bytes per rank, "
        "files per rank"
    ]
