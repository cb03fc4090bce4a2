"""A calibration knows where it is wrong: systems of known behaviour, most of them no roofline, scanned on 1 to 8 nodes."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from pydantic import ValidationError

from sizing.storage.calibration import Calibration, calibrate, predict
from sizing.storage.calibration.calibration import UseGrade
from sizing.storage.calibration.suggestions import suggest_runs
from sizing.storage.limits import transfer
from sizing.storage.terms import Demand
from sizing.units import percent_text
from tests.sizing.storage.calibration.simulation import GB, result
from tests.sizing.storage.calibration.truths import FAR, INSIDE, PLAIN, SCAN, SMOOTH, TRUTHS, Cell, Truth, roofline


def demand(cell: Cell) -> Demand:
    """What a configuration asks of the storage."""
    nodes, ranks, size, files = cell
    return Demand(nodes * ranks * size, nodes * ranks, nodes, nodes * ranks * files)


def is_covered(calibration: Calibration, truth: Truth, cell: Cell, draws: np.random.Generator) -> bool:
    """Whether the interval holds a new measurement."""
    found = predict(calibration, [demand(cell)], direction=truth.direction)
    assert found is not None
    return bool(found.low_seconds <= np.median(truth.repetitions(cell, draws)) <= found.high_seconds)


PLACES = ("inside", "4 times the nodes", "16 times")


@dataclass
class Tally:
    """What calibrations of one truth came to: by place new measurements covered, and the ratios of intervals' ends."""

    grades: Counter[str] = field(default_factory=Counter)
    covered: dict[str, list[bool]] = field(default_factory=lambda: {place: [] for place in PLACES})
    covered_of_good: dict[str, list[bool]] = field(default_factory=lambda: {place: [] for place in PLACES})
    ratios: dict[str, list[float]] = field(default_factory=lambda: {place: [] for place in PLACES})
    good: Counter[str] = field(default_factory=Counter)
    silent: int = 0
    missed: int = 0

    def add(self, calibration: Calibration, truth: Truth, seed: int) -> None:
        """Hold one calibration against eight new measurements at each place."""
        draws = np.random.default_rng(10_000 + seed)
        assert calibration.inside is not None
        assert calibration.beyond is not None
        self.grades[f"{calibration.inside.grade}, {calibration.beyond.grade}"] += 1
        inside = [INSIDE[place] for place in draws.choice(len(INSIDE), 8, replace=False)]
        for place, cells in zip(PLACES, (inside, *FAR), strict=True):
            use = calibration.inside if place == "inside" else calibration.beyond
            covered = [is_covered(calibration, truth, cell, draws) for cell in cells]
            self.covered[place] += covered
            if use.grade in "AB":
                self.covered_of_good[place] += covered
                self.good[place] += 1
            found = [predict(calibration, [demand(cell)], direction=truth.direction) for cell in cells]
            self.ratios[place] += [each.ratio for each in found if each is not None]
            self.silent += use.grade != "A" and not use.reasons
        fit = calibration.fit(truth.direction)
        assert fit is not None
        if calibration.beyond.grade in "AB":
            self.missed += any(each.worst_error_fraction > 0.1 for each in fit.frontiers)


def share(values: Sequence[bool]) -> str:
    return percent_text(float(np.mean(values))) if values else "-"


@pytest.mark.exhaustive(minutes=5)
def test_of_every_kind_of_storage_ten_scans_are_covered_or_graded_c_or_d() -> None:
    num_scans, found = 10, {name: Tally() for name in TRUTHS}
    for (name, truth), seed in itertools.product(TRUTHS.items(), range(num_scans)):
        found[name].add(calibrate([truth.scan(truth.cells, seed)], num_draws=300), truth, seed)
    print(f"| storage | covered {', '.join(PLACES)} | width | grades inside, beyond |\n| --- | --- | --- | --- |")
    for name, row in found.items():
        grades = "; ".join(f"{grades}: {count}" for grades, count in row.grades.most_common())
        covered = ", ".join(share(row.covered[place]) for place in PLACES)
        widths = ", ".join(f"{np.median(row.ratios[place]):.3g}" for place in PLACES)
        print(f"| {name} | {covered} | {widths} | {grades} |")
    for name, row in found.items():
        assert row.silent == row.missed == 0, name
        beyond = [row.covered_of_good[place] for place in PLACES[1:]]
        assert all(np.mean(covered) >= 0.85 for covered in beyond if covered), name
        assert all(np.mean(covered) >= 0.8 for covered in row.covered_of_good.values() if covered), name
    inside = [hit for row in found.values() for hit in row.covered_of_good["inside"]]
    assert 0.85 <= np.mean(inside) <= 0.95
    for name in SMOOTH:
        assert 0.85 <= np.mean(found[name].covered["inside"]) <= 0.95, name
    for name in PLAIN:
        assert found[name].good["4 times the nodes"] >= 0.8 * num_scans, name
        assert np.median(found[name].ratios["4 times the nodes"]) < 2, name
        assert np.median(found[name].ratios["16 times"]) < 6, name


@functools.cache
def calibration_of(name: str) -> Calibration:
    """One scan of a kind of storage, with noise of its own."""
    seed = list(TRUTHS).index(name)
    return calibrate([TRUTHS[name].scan(TRUTHS[name].cells, seed)], num_draws=100)


@pytest.mark.parametrize("name", TRUTHS)
def test_what_is_predicted_of_a_measured_configuration_is_what_the_table_of_the_calibration_says(name: str) -> None:
    calibration, direction = calibration_of(name), TRUTHS[name].direction
    fit = calibration.fit(direction)
    assert fit is not None
    rates = calibration.profile.rates(direction).document(direction)
    assert rates == fit.chosen | {each.field: each.profile_value for each in fit.limits if each.profile_value}
    fastest = max(point.bytes_per_second for point in fit.points)
    for limit in fit.limits:
        if limit.resource == "file-system" and limit.verdict == "lower-bound":
            assert limit.value is not None
            assert limit.value <= fastest * (1 + 1e-9)
    for point in fit.points:
        cell = (
            point.num_nodes,
            point.num_streams // point.num_nodes,
            point.total_bytes // point.num_streams,
            point.num_files // point.num_streams,
        )
        found = predict(calibration, [demand(cell)], direction=direction)
        answered = transfer(calibration.profile, [demand(cell)], direction=direction)
        assert found is not None
        assert answered is not None
        assert found.seconds == pytest.approx(point.predicted_seconds, rel=1e-9)
        assert float(answered.seconds) == pytest.approx(point.predicted_seconds, rel=1e-9)


def test_a_scan_of_every_kind_of_storage_is_covered_or_graded_c_or_d() -> None:
    inside = list[bool]()
    for name, truth in TRUTHS.items():
        row = Tally()
        row.add(calibration_of(name), truth, seed=list(TRUTHS).index(name))
        assert all(np.mean(covered) >= 0.75 for covered in row.covered_of_good.values() if covered), (name, row)
        assert row.silent == 0, name
        inside += row.covered_of_good["inside"]
        if name in PLAIN:
            assert row.good["4 times the nodes"], (name, row)
            assert np.median(row.ratios["4 times the nodes"]) < 2, (name, row)
    assert 0.85 <= np.mean(inside) <= 0.97


@pytest.mark.parametrize(
    ("name", "inside", "beyond"),
    [
        ("slow node, of the largest runs", "the others wait for node 6: it was last in", "the others wait for node 6"),
        ("slow node, of most runs", "the others wait for node 2: it was last in", "the others wait for node 2"),
        ("slow target", "the slowest rank took more than 1.5 times as long", "look for a slow storage target"),
        ("read cache, never exceeded", "", "no run read more than 512.0 GB in all, which the memory of servers may"),
        ("read cache, once exceeded", "", "only the runs with the largest"),
        ("file system reached by 8 nodes", "", "only the runs with the largest nodes show write_bytes_per_second"),
        ("file system never reached", "", "at 32 nodes the ends of the interval differ by a factor of "),
    ],
)
def test_each_use_has_its_grade_and_says_why(name: str, inside: str, beyond: str) -> None:
    found = calibration_of(name)
    assert found.inside is not None
    assert found.beyond is not None
    assert found.beyond.grade in "CD"
    assert found.beyond.grade == found.grade
    assert any(beyond in reason for reason in found.beyond.reasons)
    if inside:
        assert found.inside.grade == "C"
        assert any(inside in reason for reason in found.inside.reasons)
    else:
        assert found.inside == UseGrade(grade="A")


@pytest.fixture(scope="module")
def contended() -> Calibration:
    return calibration_of("B / (1 + 0.2 writers)")


def test_a_rate_that_falls_with_writers_is_found_and_predicted_at_eight_times_the_nodes(contended: Calibration) -> None:
    assert contended.profile.write.writer_contention_fraction == pytest.approx(0.2 / 1.2, rel=0.25)
    draws, truth = np.random.default_rng(1), TRUTHS["B / (1 + 0.2 writers)"]
    assert all(is_covered(contended, truth, cell, draws) for cells in FAR for cell in cells)


def test_a_cache_that_fills_is_found_with_its_size_and_what_comes_after() -> None:
    found = calibration_of("100 GB cache, then a fifth").profile
    assert found.write.beyond_cache_bytes_per_second == pytest.approx(4e9, rel=0.1)
    assert found.write.cache_bytes == pytest.approx(80e9, rel=0.25)  # it drains a fifth of what fills it


def test_times_that_add_up_are_found_as_the_softest_knee() -> None:
    assert calibration_of("limits that add").profile.write.knee_power == 1.0


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
        seeing, unseeing = (predict(each, [demand(cell)], direction="write") for each in (wrong, blind))
        assert seeing is not None
        assert unseeing is not None
        assert seeing.low_seconds == unseeing.low_seconds
        assert seeing.high_seconds / unseeing.high_seconds > miss
    before = (2, 2, 1 * GB, 1)
    pair = [predict(each, [demand(before)], direction="write") for each in (wrong, blind)]
    assert pair[0] == pair[1]


def test_the_next_run_goes_where_the_model_is_wrong(wrong: Calibration) -> None:
    first = suggest_runs(wrong)[0]
    assert (first.num_nodes, first.ranks_per_node) == (8, 4)
    assert "the model of writes is wrong here" in first.reason


def test_one_slow_configuration_among_good_neighbours_stays_an_outlier() -> None:
    lone = Truth(lambda cell: roofline(cell) * (2.0 if cell == (2, 4, GB, 1) else 1.0))
    found = calibrate([lone.scan(SCAN, 0)], num_draws=50)
    assert found.write is not None
    assert found.write.wrong_here == ()
    assert any(warning.startswith("Outlier: 2 node(s) x 4 rank(s)") for warning in found.warnings)


def test_a_limit_that_only_the_largest_runs_show_is_named() -> None:
    fit = calibration_of("file system reached by 8 nodes").write
    assert fit is not None
    (nodes,) = (frontier for frontier in fit.frontiers if frontier.axis == "nodes")
    assert nodes.only_here == ("write_bytes_per_second",)
    assert nodes.worst_error_fraction == pytest.approx(1 - 40 / 64, rel=0.1)


def test_a_limit_that_the_most_nodes_alone_show_may_be_of_each_of_them() -> None:
    """Of racks of 8 nodes each further rack brings an uplink: four times the load in the same time."""
    truth, draws = TRUTHS["racks of 8 nodes, 2:1"], np.random.default_rng(0)
    found = calibration_of("racks of 8 nodes, 2:1")
    assert all(is_covered(found, truth, cell, draws) for cells in FAR for cell in cells)
    here, far = (predict(found, [demand((nodes, 16, 4 * GB, 1))], direction="write") for nodes in (8, 32))
    assert here is not None
    assert far is not None
    assert far.seconds > 3.9 * here.seconds
    assert far.low_seconds < here.seconds


def test_the_contention_that_a_slow_node_pretends_is_not_measured() -> None:
    fit = calibration_of("slow node, of the largest runs").write
    assert fit is not None
    verdicts = {limit.resource: limit.verdict for limit in fit.limits}
    assert (verdicts["file-system"], verdicts["contention"]) == ("lower-bound", "unknown")


def test_contention_of_nodes_that_was_seen_at_one_number_of_them_leaves_no_useful_prediction() -> None:
    found = predict(calibration_of("file system reached by 8 nodes"), [demand((64, 16, 4 * GB, 1))], direction="write")
    assert found is not None
    assert not found.is_useful
    assert found.high_seconds > 64 / 8 * 0.8 * found.seconds


def test_true_is_no_number_of_a_calibration(contended: Calibration) -> None:
    document = contended.model_dump(mode="json")
    document["write"]["covered"]["num_nodes"] = [True, 8]
    document["profile"]["write_stripe_count"] = True
    document["schema_version"] = True
    with pytest.raises(ValidationError) as refused:
        Calibration.model_validate(document)
    places = {".".join(map(str, error["loc"])) for error in refused.value.errors()}
    assert places == {"schema_version", "write.covered.num_nodes.0", "profile.write_stripe_count"}


def test_documents_of_version_1_are_still_read(contended: Calibration) -> None:
    document = contended.model_dump(mode="json") | {"schema_version": 1}
    for name in ("grade_reasons", "inside", "beyond"):
        del document[name]
    for name in ("frontiers", "wrong_here", "chosen", "not_excluded", "stragglers"):
        del document["write"][name]
    for limit in document["write"]["limits"]:
        del limit["profile_value"]
    old = Calibration.model_validate(document)
    assert old.write is not None
    assert predict(old, [demand((8, 8, GB, 1))], direction="write") is not None


def test_a_limit_that_only_the_largest_runs_show_is_said_once_for_all_that_is_largest() -> None:
    cells = [(2, 1, 4 * GB), (8, 2, GB), (1, 8, 4 * GB), (4, 8, 4 * GB), (8, 1, GB)]
    found = calibrate([result(cells, noise=0.0, outliers=0, operations=["write"])], num_draws=50)
    assert found.write is not None
    assert [frontier.only_here for frontier in found.write.frontiers] == [("fixed_write_seconds",)] * 3
    assert [reason for reason in found.grade_reasons if "fixed_write_seconds" in reason] == [
        "writes: only the runs with the largest nodes or ranks or bytes show fixed_write_seconds, so no smaller run "
        "confirms it"
    ]
