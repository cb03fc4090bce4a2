"""Predictions hold what they promise inside the measured range, and widen outside it."""

import itertools

import numpy as np
import pytest

from sizing.storage.calibration import Calibration, Prediction, calibrate, predict
from sizing.storage.profile import StorageProfile
from sizing.storage.terms import Demand
from tests.sizing.storage.calibration.simulation import FULL_SCAN, GB, TRUTH, Cell, demand, result, true_seconds


def prediction(calibration: Calibration, cell: Cell) -> Prediction:
    found = predict(calibration, [demand(cell)], direction="write")
    assert found is not None
    return found


def width(found: Prediction) -> float:
    return float(found.high_seconds) / float(found.low_seconds)


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return calibrate([result(noise=0.02)])


@pytest.mark.parametrize("cell", [(1, 1, GB), (2, 16, 2 * GB), (6, 8, 4 * GB), (8, 16, 4 * GB)])
def test_configurations_inside_the_range_are_predicted_within_5_percent(calibration: Calibration, cell: Cell) -> None:
    found = prediction(calibration, cell)
    assert found.seconds == pytest.approx(true_seconds(cell), rel=0.05)
    assert found.low_seconds < true_seconds(cell) < found.high_seconds
    assert found.extrapolated == ()


def test_held_out_nodes_are_predicted_from_the_others() -> None:
    rest = [cell for cell in FULL_SCAN if cell[0] != 4]
    found = calibrate([result(rest, operations=["write"])])
    for cell in set(FULL_SCAN) - set(rest):
        assert prediction(found, cell).seconds == pytest.approx(true_seconds(cell), rel=0.06)


def test_what_lies_outside_is_named_and_wider_the_farther_it_lies(calibration: Calibration) -> None:
    inside, near, far = (prediction(calibration, (nodes, 8, 4 * GB)) for nodes in (8, 16, 128))
    assert near.extrapolated == far.extrapolated == ("nodes",)
    assert width(inside) < width(near) < width(far)
    assert prediction(calibration, (8, 8, 40 * GB)).extrapolated == ("bytes per rank",)
    assert prediction(calibration, (8, 32, GB)).extrapolated == ("ranks per node",)


def test_a_limit_that_was_never_reached_may_begin_right_beyond_what_was_seen() -> None:
    far = TRUTH.with_rates("write", file_system_bytes_per_second=1e13)
    found = calibrate([result(truth=far, operations=["write"])])
    cell = (512, 16, 4 * GB)
    wide = prediction(found, cell)
    total = 512 * 16 * 4e9
    assert wide.seconds == pytest.approx(total / (512 * 8e9) + 0.1, rel=0.06)
    assert wide.high_seconds > total / (8 * 8e9)
    assert wide.low_seconds < true_seconds(cell, truth=far) < wide.high_seconds


def test_rival_explanations_both_lie_inside_the_interval() -> None:
    cells = list(itertools.product((1,), (1, 2, 4, 8, 16), (GB, 4 * GB)))
    found = calibrate([result(cells, operations=["write"])])
    asked = prediction(found, (4, 16, 4 * GB))
    by_node, by_system = 4 * 16 * 4e9 / (4 * 8e9), 4 * 16 * 4e9 / 8e9
    assert asked.low_seconds < by_node < by_system < asked.high_seconds


def test_arrays_are_predicted_as_their_rows(calibration: Calibration) -> None:
    nodes = np.array([1.0, 2.0, 8.0, 64.0])
    together = predict(calibration, [Demand(nodes * 8e9, nodes * 8, nodes, nodes * 8)], direction="write")
    assert together is not None
    rows = [prediction(calibration, (int(n), 8, GB)) for n in nodes]
    for name in ("seconds", "low_seconds", "high_seconds"):
        assert np.asarray(getattr(together, name)) == pytest.approx([getattr(row, name) for row in rows])


def test_steps_of_a_restore_add_up(calibration: Calibration) -> None:
    step = demand((8, 8, GB))
    one, two = (predict(calibration, [step] * n, direction="read") for n in (1, 2))
    assert one is not None
    assert two is not None
    assert two.seconds == pytest.approx(2 * one.seconds, rel=0.1)


def test_a_direction_that_was_not_calibrated_is_not_predicted() -> None:
    found = calibrate([result(operations=["write"])], num_draws=50)
    assert predict(found, [demand((1, 1, GB))], direction="read") is None


def test_the_files_that_saves_create_slowly_do_not_slow_down_predicted_restores() -> None:
    truth = TRUTH.model_copy(update={"files_per_second": 50.0})
    found = calibrate([result(truth=truth, noise=0.02, outliers=0)], num_draws=50)
    assert found.read is not None
    assert found.profile.write.files_per_second == pytest.approx(50, rel=0.1)
    for point in found.read.points:
        cell = (point.num_nodes, point.num_streams // point.num_nodes, point.total_bytes // point.num_streams)
        restore = predict(found, [demand(cell)], direction="read")
        assert restore is not None
        assert restore.seconds == pytest.approx(point.seconds, rel=0.1)


def slowed(factor: float) -> StorageProfile:
    """The truth on a day on which every transfer takes that much longer."""
    write = TRUTH.write
    return TRUTH.with_rates(
        "write",
        file_system_bytes_per_second=(write.file_system_bytes_per_second or 0.0) / factor,
        node_bytes_per_second=(write.node_bytes_per_second or 0.0) / factor,
        writer_bytes_per_second=(write.writer_bytes_per_second or 0.0) / factor,
        fixed_seconds=(write.fixed_seconds or 0.0) * factor,
    )


def test_a_prediction_is_as_unsure_as_the_days_differ() -> None:
    """Three days 15 % apart: Student's t of two degrees of freedom, 2.92, times that in either direction at least."""
    runs = [
        result(truth=slowed(factor), run_id=run, noise=0.02, outliers=0, operations=["write"])
        for run, factor in (("a", 0.85), ("b", 1.0), ("c", 1.18))
    ]
    found = predict(calibrate(runs, num_draws=100), [demand((2, 4, 2 * GB))], direction="write")
    assert found is not None
    assert found.ratio > np.exp(2 * 2.92 * 0.15)
    alike = [
        result(run_id=run, seed=seed, noise=0.02, outliers=0, operations=["write"]) for seed, run in enumerate("abc")
    ]
    fit = calibrate(alike, num_draws=100).write
    assert fit is not None
    assert fit.run_error_fraction == 0.0
