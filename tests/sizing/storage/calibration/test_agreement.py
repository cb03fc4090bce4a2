"""Runs of another state of the storage: left out and named, so that the others can be fitted."""

import re
from datetime import UTC, datetime

import pytest

from sizing.errors import InvalidInput
from sizing.storage.calibration import Publisher, calibrate, select_agreeing
from sizing.storage.calibration.agreement import find_odd_run
from sizing.storage.calibration.fit_data import select_fit_data
from sizing.storage.measurement import BenchmarkResult
from sizing.storage.rates import DIRECTIONS
from tests.sizing.storage.calibration.simulation import FULL_SCAN, result


def slowed(found: BenchmarkResult, times: float) -> BenchmarkResult:
    """The same run on storage that is slower by a factor."""
    measurements = [
        measured.model_copy(
            update={
                "seconds": [seconds * times for seconds in measured.seconds],
                "first_done_seconds": [seconds * times for seconds in measured.first_done_seconds],
                "rank_seconds": [[seconds * times for seconds in ranks] for ranks in measured.rank_seconds],
                "bytes_per_second": measured.bytes_per_second / times,
            }
        )
        for measured in found.measurements
    ]
    return found.model_copy(update={"measurements": measurements})


CELLS = FULL_SCAN[:12]
OURS = [result(FULL_SCAN[:12], run_id=f"ours-{number}", seed=number, outliers=0) for number in range(3)]
FOREIGN = slowed(result(FULL_SCAN[:12], run_id="foreign", outliers=0), 5.0)


@pytest.mark.parametrize("position", [0, 1, 3])
def test_one_foreign_run_is_left_out_wherever_it_stands(position: int) -> None:
    runs = [*OURS[:position], FOREIGN, *OURS[position:]]
    with pytest.raises(InvalidInput, match="contradict each other"):
        calibrate(runs)
    kept, left_out = select_agreeing(runs)
    assert kept == OURS
    assert list(left_out) == ["foreign"]
    assert " s in run ours-" in left_out["foreign"]
    assert " s in run foreign" in left_out["foreign"]
    assert calibrate(kept, num_draws=50).run_ids == ("ours-0", "ours-1", "ours-2")


def test_of_two_runs_that_contradict_each_other_the_older_is_left_out() -> None:
    assert [list(select_agreeing(pair)[1]) for pair in ([OURS[0], FOREIGN], [FOREIGN, OURS[0]])] == [
        ["foreign"],
        ["ours-0"],
    ]


def source(name: str, *, day: int, is_owner: bool = False) -> Publisher:
    return Publisher(name, is_owner, datetime(2026, 1, day, tzinfo=UTC))


FLOOD = [slowed(result(FULL_SCAN[:12], run_id=f"flood-{n}", seed=n, outliers=0), 0.1) for n in range(3)]
THEIRS = result(FULL_SCAN[:12], run_id="theirs", seed=9, outliers=0)


@pytest.mark.parametrize(
    ("sources", "kept"),
    [
        ((source("a", day=2), source("b", day=3)), ["ours-0", "ours-1"]),
        ((source("a", day=3), source("b", day=2)), ["flood-0", "flood-1", "flood-2"]),
        ((source("a", day=3, is_owner=True), source("b", day=2)), ["ours-0", "ours-1"]),
        ((source("a", day=2), source("a", day=2)), ["flood-0", "flood-1", "flood-2"]),
    ],
    ids=["the earlier token", "the earlier token, which may be wrong", "an owner", "of one token, the majority"],
)
def test_many_runs_of_one_source_do_not_outvote_another(sources: tuple[Publisher, Publisher], kept: list[str]) -> None:
    ours, theirs = sources
    by_run = {**dict.fromkeys(["ours-0", "ours-1"], ours), **dict.fromkeys([run.run_id for run in FLOOD], theirs)}
    agreed, left_out = select_agreeing([*FLOOD, *OURS[:2]], sources=by_run)
    assert sorted(run.run_id for run in agreed) == kept
    assert set(left_out) == by_run.keys() - set(kept)


def test_two_sources_outvote_one_even_of_an_owner() -> None:
    owner, agent, other = source("a", day=1, is_owner=True), source("b", day=2), source("c", day=3)
    by_run = dict.fromkeys([run.run_id for run in FLOOD], owner) | {"ours-0": agent, "theirs": other}
    assert [run.run_id for run in select_agreeing([*FLOOD, OURS[0], THEIRS], sources=by_run)[0]] == ["ours-0", "theirs"]


def test_a_slow_measurement_of_an_early_source_goes_before_it_speaks_against_others() -> None:
    measured = OURS[0].measurements
    slow = slowed(OURS[0].model_copy(update={"measurements": measured[:1]}), 3.0).measurements
    odd = OURS[0].model_copy(update={"measurements": [*slow, *measured[1:]]})
    early, late = source("a", day=1), source("b", day=2)
    by_run = {"ours-0": early, "ours-1": early, "ours-2": early, "theirs": late}
    kept, left_out = select_agreeing([odd, OURS[1], OURS[2], THEIRS], sources=by_run)
    assert [len(run.measurements) for run in kept] == [23, 24, 24, 24]
    assert list(left_out) == ["ours-0"]


def test_a_run_that_contradicts_itself_is_left_out() -> None:
    torn = OURS[0].model_copy(update={"measurements": [*OURS[0].measurements, *FOREIGN.measurements]})
    kept, left_out = select_agreeing([torn, *OURS[1:]])
    assert (kept, list(left_out)) == (OURS[1:], ["ours-0"])


def test_one_slow_measurement_is_left_out_without_its_run() -> None:
    measured = OURS[1].measurements
    slow = slowed(OURS[1].model_copy(update={"measurements": measured[:1]}), 3.0).measurements
    odd = OURS[1].model_copy(update={"measurements": [*slow, *measured[1:]]})
    kept, left_out = select_agreeing([OURS[0], odd, OURS[2]])
    assert [len(run.measurements) for run in kept] == [24, 23, 24]
    assert (kept[1].measurements, list(left_out)) == (measured[1:], ["ours-1"])


def test_runs_that_agree_are_all_kept() -> None:
    assert select_agreeing(OURS) == (OURS, {})


@pytest.mark.parametrize(("factor", "percent", "way"), [(1.25, 25, "longer"), (0.8, 20, "less")])
def test_the_run_that_is_odd_in_every_configuration_is_named_once(factor: float, percent: float, way: str) -> None:
    still = [result(CELLS, run_id=f"run-{seed}", seed=seed, noise=0.01, outliers=0) for seed in range(2)]
    odd = slowed(result(CELLS, run_id="odd", noise=0.01, outliers=0), factor)
    sentences = list(find_odd_run(select_fit_data([*still, odd], "write")))
    assert len(sentences) == 1
    found = re.match(r"run odd took ([\d.]+) % (longer|less) than the others in all 12 write conf", sentences[0])
    assert found is not None, sentences
    assert float(found[1]) == pytest.approx(percent, abs=2)
    assert found[2] == way


def test_of_two_runs_that_differ_the_slower_one_is_named() -> None:
    odd = slowed(result(CELLS, run_id="odd", noise=0.01, outliers=0), 1.25)
    (sentence,) = find_odd_run(
        select_fit_data([result(CELLS, run_id="run", seed=1, noise=0.01, outliers=0), odd], "write")
    )
    assert sentence.startswith("run odd took ")


@pytest.mark.parametrize("seed", range(5))
def test_no_run_is_odd_where_noise_alone_makes_them_differ(seed: int) -> None:
    runs = [result(CELLS, run_id=f"run-{number}", seed=3 * seed + number, outliers=0) for number in range(3)]
    assert not any(list(find_odd_run(select_fit_data(runs, direction))) for direction in DIRECTIONS)


def test_runs_that_share_fewer_than_three_configurations_are_not_held_against_each_other() -> None:
    odd = slowed(result(CELLS[:2], run_id="odd", noise=0.01, outliers=0), 1.5)
    assert not list(find_odd_run(select_fit_data([result(CELLS, run_id="run"), odd], "write")))
