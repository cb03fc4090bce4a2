"""Runs of another state of the storage: left out and named, so that the others can be fitted."""

import pytest

from sizing.errors import InvalidInput
from sizing.storage.calibration import agreeing, calibrate
from sizing.storage.measurement import BenchmarkResult
from tests.sizing.storage.calibration.simulation import FULL_SCAN, result


def slowed(found: BenchmarkResult, times: float) -> BenchmarkResult:
    """The same run on storage that is slower by a factor."""
    measurements = [
        measured.model_copy(
            update={
                "seconds": [seconds * times for seconds in measured.seconds],
                "bytes_per_second": measured.bytes_per_second / times,
            }
        )
        for measured in found.measurements
    ]
    return found.model_copy(update={"measurements": measurements})


OURS = [result(FULL_SCAN[:12], run_id=f"ours-{number}", seed=number, outliers=0) for number in range(3)]
FOREIGN = slowed(result(FULL_SCAN[:12], run_id="foreign", outliers=0), 5.0)


@pytest.mark.parametrize("position", [0, 1, 3])
def test_one_foreign_run_is_left_out_wherever_it_stands(position: int) -> None:
    runs = [*OURS[:position], FOREIGN, *OURS[position:]]
    with pytest.raises(InvalidInput, match="contradict each other"):
        calibrate(runs)
    kept, left_out = agreeing(runs)
    assert kept == OURS
    assert list(left_out) == ["foreign"]
    assert " s in run ours-" in left_out["foreign"]
    assert " s in run foreign" in left_out["foreign"]
    assert calibrate(kept, num_draws=50).run_ids == ("ours-0", "ours-1", "ours-2")


def test_of_two_runs_that_contradict_each_other_the_older_is_left_out() -> None:
    assert [list(agreeing(pair)[1]) for pair in ([OURS[0], FOREIGN], [FOREIGN, OURS[0]])] == [["foreign"], ["ours-0"]]


def test_a_run_that_contradicts_itself_is_left_out() -> None:
    torn = OURS[0].model_copy(update={"measurements": [*OURS[0].measurements, *FOREIGN.measurements]})
    kept, left_out = agreeing([torn, *OURS[1:]])
    assert (kept, list(left_out)) == (OURS[1:], ["ours-0"])


def test_one_slow_measurement_is_left_out_without_its_run() -> None:
    measured = OURS[1].measurements
    slow = slowed(OURS[1].model_copy(update={"measurements": measured[:1]}), 3.0).measurements
    odd = OURS[1].model_copy(update={"measurements": [*slow, *measured[1:]]})
    kept, left_out = agreeing([OURS[0], odd, OURS[2]])
    assert [len(run.measurements) for run in kept] == [24, 23, 24]
    assert (kept[1].measurements, list(left_out)) == (measured[1:], ["ours-1"])


def test_runs_that_agree_are_all_kept() -> None:
    assert agreeing(OURS) == (OURS, {})
