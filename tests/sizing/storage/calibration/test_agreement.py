"""Runs of another state of the storage: left out and named, so that the others can be fitted."""

import math
import re
from datetime import UTC, datetime

import pytest

from sizing.errors import InvalidInput
from sizing.storage.calibration import Publisher, calibrate, predict, select_agreeing
from sizing.storage.calibration.agreement import find_odd_run
from sizing.storage.calibration.fit_data import select_fit_data
from sizing.storage.measurement import BenchmarkResult
from sizing.storage.rates import DIRECTIONS
from sizing.storage.terms import Demand
from tests.sizing.storage.calibration.simulation import FULL_SCAN, result
from tests.sizing.storage.calibration.truths import Truth


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


MIB = 2**20
SMALL = ((1, 1, 64 * MIB, 1), (1, 1, 256 * MIB, 1), (1, 2, 256 * MIB, 1))
SMALL_STORAGE = Truth(lambda cell: cell[0] * cell[1] * cell[2] / 0.4e9)
LIKE = {
    "like-1": (965e6, 412e6, 1287e6),
    "like-2": (360e6, 247e6, 508e6),
    "like-3": (432e6, 296e6, 748e6),
}
"""Median and 95 % interval of the write rate in three like runs within four minutes: one host, two ranks, a shared
drive, five repetitions each, as measured."""


def like_run(run_id: str, rates: tuple[float, float, float], *, num_repetitions: int = 5) -> BenchmarkResult:
    """A run of two ranks with so many repetitions, of which the median and the 95 % interval have these rates."""
    median, low, high = rates
    scanned = SMALL_STORAGE.scan([(1, 2, 64 * MIB, 1)], seed=0)
    found = scanned.measurements[0]
    seconds = [found.total_bytes / rate for rate in (median, low, high, median, median)[:num_repetitions]]
    changed = {
        "seconds": seconds,
        "first_done_seconds": seconds,
        "rank_seconds": [[each] * found.num_ranks for each in seconds],
        "bytes_per_second": median,
        "rate_interval_bytes_per_second": (low, high) if num_repetitions > 1 else (median, median),
    }
    return scanned.model_copy(update={"run_id": run_id, "measurements": [found.model_copy(update=changed)]})


def test_like_runs_whose_own_intervals_overlap_are_fitted_together_and_named() -> None:
    scanned = SMALL_STORAGE.scan(SMALL, seed=1)
    alone = calibrate([scanned], num_draws=50)
    found = calibrate([scanned, *(like_run(*each) for each in LIKE.items())], num_draws=50)
    assert alone.write is not None
    assert found.write is not None
    assert set(LIKE) < set(found.run_ids)
    assert [warning for warning in found.warnings if warning.startswith("Like runs")] == [
        "Like runs differ by a factor of 2.68: the write of 1 node(s) x 2 rank(s), 67.11 MB each took 0.139 s in run "
        "like-1 and 0.373 s in run like-2. As the spread of their own repetitions may explain it, both count, and "
        "every interval of a prediction is at least so wide to either side"
    ]
    assert not any(warning.startswith("Like runs") for warning in alone.warnings)
    assert found.write.run_error_fraction >= math.log(965 / 360)
    own = predict(found, [Demand(134e6, 2, 1, 2)], direction="write")
    assert own is not None
    assert own.low_seconds < own.seconds * 360 / 965
    assert own.high_seconds > own.seconds * 965 / 360


@pytest.mark.parametrize(
    ("other", "num_repetitions"),
    [((190e6, 180e6, 200e6), 5), ((360e6, 247e6, 508e6), 1)],
    ids=["intervals apart by more than two", "one repetition, which says nothing of its spread"],
)
def test_like_runs_are_refused_where_their_own_intervals_do_not_explain_it(
    other: tuple[float, float, float], num_repetitions: int
) -> None:
    runs = [
        like_run("fast", LIKE["like-1"], num_repetitions=num_repetitions),
        like_run("slow", other, num_repetitions=num_repetitions),
    ]
    with pytest.raises(InvalidInput, match="contradict each other"):
        calibrate([SMALL_STORAGE.scan(SMALL, seed=1), *runs])


def test_an_interval_that_its_repetitions_do_not_have_explains_nothing() -> None:
    fast, slow = like_run("fast", (965e6, 960e6, 970e6)), like_run("slow", (360e6, 350e6, 370e6))
    claimed = [
        run.model_copy(
            update={
                "measurements": [run.measurements[0].model_copy(update={"rate_interval_bytes_per_second": (1.0, 1e12)})]
            }
        )
        for run in (fast, slow)
    ]
    with pytest.raises(InvalidInput, match="contradict each other"):
        calibrate([SMALL_STORAGE.scan(SMALL, seed=1), *claimed])
