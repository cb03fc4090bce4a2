"""A calibration knows where it is wrong: systems of known behaviour, most of them no roofline, scanned on 1 to 8 nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from sizing.storage.calibration import Calibration, calibrate, predicted
from sizing.storage.calibration.suggestions import suggestions
from sizing.storage.terms import Demand
from sizing.units import percent_text
from tests.sizing.storage.calibration.simulation import GB
from tests.sizing.storage.calibration.truths import FAR, INSIDE, PLAIN, SCAN, TRUTHS, Cell, Truth, roofline


def demand(cell: Cell) -> Demand:
    """What a configuration asks of the storage."""
    nodes, ranks, size, files = cell
    return Demand(nodes * ranks * size, nodes * ranks, nodes, nodes * ranks * files)


def is_covered(calibration: Calibration, truth: Truth, cell: Cell, draws: np.random.Generator) -> bool:
    """Whether the interval holds a new measurement."""
    found = predicted(calibration, [demand(cell)], direction="write")
    assert found is not None
    return bool(found.low_seconds <= np.median(truth.repetitions(cell, draws)) <= found.high_seconds)


@dataclass
class Tally:
    """What many draws of one truth came to."""

    grades: Counter[str] = field(default_factory=Counter)
    inside: list[bool] = field(default_factory=list)
    far: list[bool] = field(default_factory=list)
    far_of_good: list[bool] = field(default_factory=list)
    silent: int = 0
    missed: int = 0
    missed_as_measured: int = 0

    @property
    def good(self) -> int:
        """Draws with A or B."""
        return self.grades["A"] + self.grades["B"]


def tally(truth: Truth, num_draws: int) -> Tally:
    """Calibrations of as many scans, each held against eight new measurements inside and against all far ones."""
    found = Tally()
    for seed in range(num_draws):
        calibration = calibrate([truth.scan(truth.cells, seed)], num_draws=300)
        fit, draws = calibration.write, np.random.default_rng(10_000 + seed)
        assert fit is not None
        found.grades[calibration.grade] += 1
        chosen = (INSIDE[place] for place in draws.choice(len(INSIDE), 8, replace=False))
        found.inside += [is_covered(calibration, truth, cell, draws) for cell in chosen]
        far = [is_covered(calibration, truth, cell, draws) for cell in FAR]
        found.far += far
        if calibration.grade in "AB":
            found.far_of_good += far
            found.missed += any(each.worst_error_fraction > 0.1 for each in fit.frontiers)
            found.missed_as_measured += any(each.worst_measured_error_fraction > 0.1 for each in fit.frontiers)
        elif not calibration.grade_reasons:
            found.silent += 1
    return found


def share(values: Sequence[bool]) -> str:
    return percent_text(float(np.mean(values))) if values else "-"


@pytest.mark.long(minutes=3)
def test_intervals_cover_and_grades_tell_what_is_predicted_from_what_is_not() -> None:
    num_draws = 20
    found = {name: tally(truth, num_draws) for name, truth in TRUTHS.items()}
    print("| truth | covered inside | covered at 8 times the nodes | the same of A and B | A or B | grades |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, row in found.items():
        grades = ", ".join(f"{grade} {count}" for grade, count in sorted(row.grades.items()))
        print(
            f"| {name} | {share(row.inside)} | {share(row.far)} | {share(row.far_of_good)} "
            f"| {percent_text(row.good / num_draws)} | {grades} |"
        )
    everything = [hit for row in found.values() for hit in row.inside]
    print("all inside", share(everything), {name: row.missed_as_measured for name, row in found.items()})
    assert all(0.85 <= np.mean(row.inside) <= 0.95 for row in found.values())
    assert all(np.mean(row.far_of_good) >= 0.85 for row in found.values() if row.far_of_good)
    assert all(row.missed == row.silent == 0 for row in found.values())
    assert all(found[name].good >= 0.8 * num_draws for name in PLAIN)


@pytest.fixture(scope="module")
def contended() -> Calibration:
    return calibrate([TRUTHS["B / (1 + 0.2 writers)"].scan(SCAN, 0)], num_draws=100)


def test_a_rate_that_falls_with_writers_is_found_and_predicted_at_eight_times_the_nodes(contended: Calibration) -> None:
    assert contended.profile.writer_write_contention_fraction == pytest.approx(0.2 / 1.2, rel=0.25)
    draws, truth = np.random.default_rng(1), TRUTHS["B / (1 + 0.2 writers)"]
    assert all(is_covered(contended, truth, cell, draws) for cell in FAR)


def test_a_cache_that_fills_is_found_with_its_size_and_what_comes_after() -> None:
    found = calibrate([TRUTHS["100 GB cache, then a fifth"].scan(SCAN, 0)], num_draws=50).profile
    assert found.beyond_cache_write_bytes_per_second == pytest.approx(4e9, rel=0.1)
    assert found.write_cache_bytes == pytest.approx(80e9, rel=0.25)  # it drains a fifth of what fills it


def test_times_that_add_up_are_found_as_the_softest_knee() -> None:
    assert calibrate([TRUTHS["limits that add"].scan(SCAN, 0)], num_draws=50).profile.write_knee_power == 1.0


def cliff(cell: Cell) -> float:
    """What no term of the model has: the largest runs take 1.6 times as long on 8 nodes alone."""
    return roofline(cell) * (1.6 if cell[0] == 8 and cell[1] == 4 else 1.0)


@pytest.fixture(scope="module")
def wrong() -> Calibration:
    return calibrate([Truth(cliff).scan(SCAN, 0)], num_draws=100)


def test_where_neighbours_miss_alike_the_model_is_wrong_and_the_grade_is_c_at_most(wrong: Calibration) -> None:
    assert wrong.write is not None
    assert {(found.num_nodes, found.num_streams) for found in wrong.write.wrong_here} == {(8, 32)}
    assert wrong.grade in "CD"
    assert any("the model is wrong in 2 configuration(s)" in reason for reason in wrong.grade_reasons)
    assert any(warning.startswith("The model is wrong here: 8 node(s) x 4 rank(s)") for warning in wrong.warnings)
    assert not any(warning.startswith("Outlier") for warning in wrong.warnings)


def test_the_interval_is_wider_on_the_side_of_the_miss_alone(wrong: Calibration) -> None:
    assert wrong.write is not None
    blind = wrong.model_copy(update={"write": wrong.write.model_copy(update={"wrong_here": ()})})
    here, far = (8, 4, 4 * GB, 1), (64, 4, 4 * GB, 1)
    for cell, miss in ((here, 1.5), (far, 4.0)):
        seeing, unseeing = (predicted(each, [demand(cell)], direction="write") for each in (wrong, blind))
        assert seeing is not None
        assert unseeing is not None
        assert seeing.low_seconds == unseeing.low_seconds
        assert seeing.high_seconds / unseeing.high_seconds > miss
    before = (2, 2, 1 * GB, 1)
    pair = [predicted(each, [demand(before)], direction="write") for each in (wrong, blind)]
    assert pair[0] == pair[1]


def test_the_next_run_goes_where_the_model_is_wrong(wrong: Calibration) -> None:
    first = suggestions(wrong)[0]
    assert (first.num_nodes, first.ranks_per_node) == (8, 4)
    assert "the model of writes is wrong here" in first.reason


def test_one_slow_configuration_among_good_neighbours_stays_an_outlier() -> None:
    lone = Truth(lambda cell: roofline(cell) * (2.0 if cell == (2, 4, GB, 1) else 1.0))
    found = calibrate([lone.scan(SCAN, 0)], num_draws=50)
    assert found.write is not None
    assert found.write.wrong_here == ()
    assert any(warning.startswith("Outlier: 2 node(s) x 4 rank(s)") for warning in found.warnings)


def test_a_limit_that_only_the_largest_runs_show_is_named() -> None:
    late = Truth(lambda cell: roofline(cell, file_system=40e9))
    fit = calibrate([late.scan(SCAN, 0)], num_draws=50).write
    assert fit is not None
    (nodes,) = (frontier for frontier in fit.frontiers if frontier.axis == "nodes")
    assert nodes.only_here == ("write_bytes_per_second",)


def test_contention_of_nodes_that_was_seen_at_one_number_of_them_leaves_no_useful_prediction() -> None:
    late = calibrate([Truth(lambda cell: roofline(cell, file_system=40e9)).scan(SCAN, 0)], num_draws=50)
    found = predicted(late, [demand((64, 16, 4 * GB, 1))], direction="write")
    assert found is not None
    assert not found.is_useful
    assert found.high_seconds > 64 / 8 * 0.8 * found.seconds


def test_documents_of_version_1_are_still_read(contended: Calibration) -> None:
    document = contended.model_dump(mode="json") | {"schema_version": 1}
    del document["grade_reasons"]
    for name in ("frontiers", "wrong_here", "chosen", "not_excluded"):
        del document["write"][name]
    old = Calibration.model_validate(document)
    assert old.write is not None
    assert predicted(old, [demand((8, 8, GB, 1))], direction="write") is not None
