"""A fit recovers the limits of a known system, and says what the runs could not see."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from sizing.storage.calibration import Calibration, calibrate, predict
from sizing.storage.calibration.calibration import LimitEstimate
from sizing.storage.calibration.fit_data import select_fit_data
from sizing.storage.calibration.least_squares import fit_many, fit_one, log_seconds, losses
from sizing.storage.calibration.limit_shape import design_of
from sizing.storage.calibration.suggestions import suggest_runs
from sizing.storage.limits import transfer
from sizing.storage.measurement import BenchmarkResult
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import Direction, Rates
from tests.sizing.storage.calibration.simulation import FULL_SCAN, GB, TRUTH, demand, measurement, result, true_seconds

SHARED = ("file-system", "node", "writer")


def limits(calibration: Calibration, direction: Direction = "write") -> dict[str, LimitEstimate]:
    fit = calibration.fit(direction)
    assert fit is not None
    return {limit.resource: limit for limit in fit.limits}


@pytest.mark.parametrize("seed", range(2))
def test_a_full_scan_recovers_every_limit_of_writes_and_reads_within_8_percent(seed: int) -> None:
    calibration = calibrate([result(seed=seed)], num_draws=50)
    for direction in ("write", "read"):
        for found in limits(calibration, direction).values():
            if found.resource in SHARED:
                assert found.verdict == "measured"
                assert found.value == pytest.approx(TRUTH.figures()[found.field], rel=0.08)
                assert found.interval is not None
                assert found.value is not None
                assert found.interval[0] < found.value < found.interval[1]


def test_without_noise_the_limits_are_exact() -> None:
    calibration = calibrate([result(noise=1e-6, outliers=0)], num_draws=50)
    for field, value in calibration.profile.figures().items():
        assert value == pytest.approx(TRUTH.figures()[field], rel=0.01)


def test_a_limit_that_no_run_reached_is_a_lower_bound_and_gets_no_number_in_the_profile() -> None:
    far = TRUTH.with_rates("write", file_system_bytes_per_second=1e13)
    calibration = calibrate([result(truth=far, operations=["write"])], num_draws=50)
    found = limits(calibration)["file-system"]
    assert (found.verdict, found.interval, found.num_binding) == ("lower-bound", None, 0)
    assert "never reached" in found.reason
    assert found.value == pytest.approx(8 * 8e9, rel=0.06)
    assert calibration.profile.write.file_system_bytes_per_second is None


def test_limits_that_runs_cannot_tell_apart_are_both_lower_bounds() -> None:
    """Eight writers on 1 and 2 nodes: bootstrap intervals alone would look fine."""
    cells = list(itertools.product((1, 2), (8,), (1 * GB, 2 * GB, 4 * GB)))
    for seed in range(2):
        found = limits(calibrate([result(cells, seed=seed, operations=["write"])], num_draws=50))
        assert {found[name].verdict for name in SHARED} == {"lower-bound"}
        assert "cannot separate it from writer" in found["node"].reason
        assert found["node"].value == pytest.approx(8e9, rel=0.3)
        assert found["writer"].value == pytest.approx(1e9, rel=0.3)


def test_one_node_cannot_tell_the_node_from_the_file_system() -> None:
    cells = list(itertools.product((1,), (1, 2, 4, 8, 16), (1 * GB, 4 * GB)))
    calibration = calibrate([result(cells, operations=["write"])], num_draws=50)
    found = limits(calibration)
    assert found["writer"].verdict == "measured"
    assert {found["node"].verdict, found["file-system"].verdict} == {"lower-bound"}
    assert calibration.profile.write.file_system_bytes_per_second == pytest.approx(8e9, rel=0.1)
    assert calibration.profile.write.node_bytes_per_second == pytest.approx(8e9, rel=0.1)


def test_a_limit_that_binds_in_two_configurations_is_not_measured() -> None:
    cells = [*itertools.product((1, 2, 4), (1, 4, 16), (1 * GB, 4 * GB)), (16, 16, 1 * GB), (16, 16, 4 * GB)]
    found = limits(calibrate([result(cells, noise=0.01, outliers=0, operations=["write"])], num_draws=50))
    assert found["file-system"].num_binding == 2
    assert found["file-system"].verdict == "lower-bound"
    assert "3 are required" in found["file-system"].reason


def test_the_time_of_each_file_is_seen_where_files_vary_and_not_where_they_do_not() -> None:
    truth = TRUTH.with_rates("write", file_seconds=0.2)
    few = result(truth=truth, operations=["write"], noise=0.02, outliers=0)
    found = limits(calibrate([few], num_draws=50))
    assert found["per-file"].verdict == "unknown"
    assert "cannot separate it from fixed" in found["per-file"].reason
    assert found["fixed"].value == pytest.approx(0.1 + 0.2, rel=0.1)
    slower = truth.with_rates("write", fixed_seconds=0.1 + 3 * 0.2)
    many = result(truth=slower, operations=["write"], noise=0.02, outliers=0, run_id="20261121T130000Z-def")
    with_files = [m.model_copy(update={"num_files": 4 * m.num_ranks}) for m in many.measurements]
    found = limits(calibrate([few, many.model_copy(update={"measurements": with_files})], num_draws=50))
    assert found["per-file"].verdict == "measured"
    assert found["per-file"].value == pytest.approx(0.2, rel=0.1)
    assert found["fixed"].value == pytest.approx(0.1, rel=0.25)


def test_a_single_size_gives_cautious_rates_and_says_so() -> None:
    cells = list(itertools.product((1, 2, 4, 8), (1, 2, 4, 8, 16), (1 * GB,)))
    truth = TRUTH.with_rates("write", fixed_seconds=0.05)
    calibration = calibrate([result(cells, truth=truth, operations=["write"], noise=0.02, outliers=0)], num_draws=50)
    found = limits(calibration)
    assert "cannot separate it from file-system" in found["metadata"].reason
    for name in SHARED:
        assert 0.85 < (found[name].value or 0) / TRUTH.figures()[found[name].field] < 1.03
    assert any(
        warning.startswith("One size: all writes moved about 1.000 GB per rank") for warning in calibration.warnings
    )
    assert "one size cannot separate" in " ".join(suggestion.reason for suggestion in suggest_runs(calibration))


def test_outliers_do_not_move_the_limits() -> None:
    cells = list(itertools.product((1, 2, 4, 8, 16), (1, 4, 16), (1 * GB, 2 * GB, 4 * GB)))
    clean, dirty = (
        limits(calibrate([result(cells, outliers=share, operations=["write"])], num_draws=50)) for share in (0, 0.1)
    )
    for name in SHARED:
        assert dirty[name].value == pytest.approx(clean[name].value or 0, rel=0.05)


def test_an_outlier_is_named() -> None:
    slow = result(noise=0.02, outliers=0, operations=["write"])
    worst = slow.measurements[7]
    late = [3 * s for s in worst.seconds]
    changed = worst.model_copy(update={"seconds": late, "bytes_per_second": worst.bytes_per_second / 3})
    measurements = [*slow.measurements[:7], changed, *slow.measurements[8:]]
    warnings = calibrate([slow.model_copy(update={"measurements": measurements})], num_draws=50).warnings
    assert any("1 node(s) x 8 rank(s)" in w and "longer than predicted" in w for w in warnings)


def test_equal_input_gives_equal_output() -> None:
    run = result(FULL_SCAN[::3])
    assert calibrate([run], num_draws=20) == calibrate([run], num_draws=20)


def test_many_fits_at_once_find_what_scipy_finds() -> None:
    series = select_fit_data([result(seed=1)], "write")
    design, measured = design_of(series.demand), series.log_seconds
    chosen = np.array([True, True, True, False, True, False, False, False])
    part = type(design)(design.coefficients[:, chosen], design.is_shared[chosen])
    draws = measured + np.random.default_rng(0).normal(0, 0.05, (10, len(measured)))
    start = np.tile(fit_one(part, measured, noise=0.05), (10, 1))
    together, loss = fit_many(part, draws, noise=0.05, start=start)
    for row in range(10):
        alone = fit_one(part, draws[row], noise=0.05)
        residuals = log_seconds(part, alone)[0] - draws[row]
        assert losses(residuals, np.ones(len(measured)), noise=0.05) == pytest.approx(loss[row], abs=1e-4)
        assert together[row][:3] == pytest.approx(alone[:3], abs=1e-4)


def test_slopes_are_those_of_the_log_time() -> None:
    series = select_fit_data([result(seed=1)], "write")
    design = design_of(series.demand)
    parameters = np.log([1 / 40e9, 1 / 8e9, 1 / 1.1e9, 1 / 0.3e9, 0.1, 0.01, 1e-3, 1e-9])
    _, slopes = log_seconds(design, parameters)
    for column in range(design.num_terms):
        step = np.zeros(design.num_terms)
        step[column] = 1e-6
        more, less = log_seconds(design, parameters + step)[0], log_seconds(design, parameters - step)[0]
        assert slopes[:, column] == pytest.approx((more - less) / 2e-6, abs=1e-6)


def test_reads_alone_give_a_calibration_of_reads() -> None:
    calibration = calibrate([result(operations=["restore"])], num_draws=50)
    assert calibration.write is None
    assert limits(calibration, "read")["node"].value == pytest.approx(12e9, rel=0.06)
    assert calibration.profile.write.node_bytes_per_second is None


def test_the_grade_sums_up() -> None:
    cells = list(itertools.product((1, 2), (8,), (1 * GB, 2 * GB, 4 * GB)))
    for chosen, grade in ((FULL_SCAN, "A"), (cells, "C"), (FULL_SCAN[:3], "D")):
        run = result(chosen, noise=0.02, outliers=0, operations=["write"])
        inside = calibrate([run], num_draws=50).inside
        assert inside is not None
        assert inside.grade == grade


def test_nothing_is_measured_by_as_many_configurations_as_limits() -> None:
    """Three terms explain any three times exactly, with bootstrap intervals of no width."""
    cells = [(1, 1, GB), (1, 16, GB), (8, 16, 4 * GB)]
    calibration = calibrate([result(cells, noise=0.03, outliers=0, operations=["write"])], num_draws=50)
    found = limits(calibration)
    assert "measured" not in {limit.verdict for limit in found.values()}
    assert "no configuration checks it" in found["fixed"].reason
    assert found["fixed"].interval is None
    assert calibration.write is not None
    assert all(np.ptp(np.log(draws)) > 0.1 for draws in calibration.write.draws.values())


def test_good_writes_do_not_hide_bad_reads_in_the_grade() -> None:
    writes = result(noise=0.02, outliers=0, operations=["write"])
    reads = result(FULL_SCAN[:3], noise=0.02, outliers=0, operations=["restore"], run_id="20261121T130000Z-def")
    grades = [calibrate(runs, num_draws=50).inside for runs in ([writes], [writes, reads])]
    assert [use.grade for use in grades if use is not None] == ["A", "D"]


def test_profiles_of_fits_answer_as_their_system_does() -> None:
    profile = calibrate([result(noise=0.01, outliers=0)], num_draws=50).profile
    assert isinstance(profile, StorageProfile)
    assert profile.write.node_bytes_per_second == pytest.approx(8e9, rel=0.02)


def test_direct_restores_of_one_node_and_of_what_other_nodes_wrote_are_fitted_together() -> None:
    found = result(noise=0.02, outliers=0)
    rows = [
        row.model_copy(update={"cache_policy": "other-node"})
        if row.operation == "restore" and row.num_nodes > 1
        else row
        for row in found.measurements
    ]
    calibration = calibrate([found.model_copy(update={"measurements": rows})], num_draws=50)
    assert calibration.read is not None
    assert len(calibration.read.points) == len(FULL_SCAN)
    assert not any("have other settings" in warning for warning in calibration.warnings)


LONG_FIXED = StorageProfile.of(
    write=Rates(
        file_system_bytes_per_second=40e9, node_bytes_per_second=30e9, writer_bytes_per_second=2e9, fixed_seconds=0.5
    )
)


@pytest.mark.parametrize("seed", range(2))
def test_with_one_size_a_long_fixed_time_counts_in_the_rates_which_are_lower_bounds(seed: int) -> None:
    cells = tuple(itertools.product((1, 2), (1, 2, 4, 8, 16), (GB,)))
    run = result(cells, truth=LONG_FIXED, noise=0.02, outliers=0, seed=seed, operations=["write"])
    calibration = calibrate([run], num_draws=50)
    found = limits(calibration)
    for name in SHARED:
        assert found[name].verdict == "lower-bound"
        assert 0.4 < (found[name].value or 0) / getattr(LONG_FIXED, found[name].field) < 1.05
    assert found["fixed"].verdict == "unknown"
    assert (
        found["writer"].reason
        == "all runs have one size, so it cannot be separated from the fixed time, which it contains"
    )
    assert found["node"].reason == "never reached: no run was limited by it"
    first, second = suggest_runs(calibration)
    assert (first.bytes_per_rank, second.bytes_per_rank) == (4 * GB, 4 * GB), "a second size, and 5 s"
    assert "the node limit of writes is a lower bound: never reached" in second.reason
    seen, large = (predict(calibration, [demand((2, 16, size))], direction="write") for size in (GB, 16 * GB))
    assert seen is not None
    assert large is not None
    assert seen.low_seconds < true_seconds((2, 16, GB), truth=LONG_FIXED) < seen.high_seconds
    assert large.seconds > true_seconds((2, 16, 16 * GB), truth=LONG_FIXED)


def test_with_two_sizes_the_same_fixed_time_is_told_from_the_rates() -> None:
    cells = tuple(itertools.product((1, 2), (1, 2, 4, 8, 16), (GB, 4 * GB)))
    run = result(cells, truth=LONG_FIXED, noise=0.02, outliers=0, operations=["write"])
    found = limits(calibrate([run], num_draws=100))
    assert found["fixed"].verdict == found["writer"].verdict == "measured"
    assert found["fixed"].value == pytest.approx(0.5, rel=0.1)
    assert found["writer"].value == pytest.approx(2e9, rel=0.1)


def test_of_engines_with_as_many_configurations_the_one_that_shows_the_storage_counts() -> None:
    several = [result(operations=["write"], run_id=name, engine=name) for name in ("torch-save", "direct")]
    for results in (several, several[::-1]):
        assert calibrate(results, num_draws=10).engine == "direct"


def test_an_interval_holds_its_own_value_however_noisy_the_runs() -> None:
    """Two sizes by up to four ranks of one node, off by up to a factor of three as on a busy machine."""
    cells = list(itertools.product((1,), (1, 2, 4), (GB // 20, GB // 5)))
    fit = calibrate([result(cells, noise=0.6, seed=2, operations=["write"])], num_draws=100).write
    assert fit is not None
    held = [limit for limit in fit.limits if limit.interval is not None]
    for limit in held:
        assert limit.value is not None
        assert limit.interval is not None
        assert limit.interval[0] <= limit.value <= limit.interval[1]
    assert held


def test_uneven_writes_show_the_rates_of_their_largest_rank_and_fullest_node() -> None:
    """Rank 0 writes half as much again as the mean, as with weights beside its share of an optimizer."""
    measurements = []
    for cell in FULL_SCAN:
        even = demand(cell)
        num_ranks, num_nodes, size = int(even.num_streams), int(even.num_nodes), cell[2]
        sizes = [size] * num_ranks
        if num_ranks > 1:
            moved = size // 2 // (num_ranks - 1)
            sizes = [size + moved * (num_ranks - 1), *[size - moved] * (num_ranks - 1)]
        of_nodes = np.reshape(sizes, (num_nodes, -1)).sum(axis=1)
        uneven = replace(
            even,
            largest_over_mean=max(sizes) / size,
            fullest_node_over_mean=float(of_nodes.max() * num_nodes / sum(sizes)),
        )
        found = transfer(TRUTH, [uneven], direction="write")
        assert found is not None
        measurements.append(measurement(cell, "write", [float(found.seconds)] * 3, rank_bytes=sizes))
    run = result(cells=FULL_SCAN[:1], operations=["write"]).model_dump(mode="json") | {"measurements": measurements}
    calibration = calibrate([BenchmarkResult.model_validate(run)], num_draws=50)
    for found_limit in limits(calibration).values():
        if found_limit.resource in SHARED and found_limit.verdict == "measured":
            assert found_limit.value == pytest.approx(TRUTH.figures()[found_limit.field], rel=0.02)
    assert {"node", "writer"} <= {each.resource for each in limits(calibration).values() if each.verdict == "measured"}


def test_times_that_noise_hides_show_no_rate_above_the_highest_that_was_seen() -> None:
    """Restores of some tenths of a second on a busy machine, none of them faster than 1.1 GB/s."""
    seconds = {
        (1, 1, 33_112_743): 0.1274,
        (1, 1, 64_503_000): 0.0865,
        (1, 2, 33_112_743): 0.2074,
        (1, 2, 64_503_000): 0.1213,
    }
    rows = [measurement(cell, "restore", [measured] * 5) for cell, measured in seconds.items()]
    document = result(FULL_SCAN[:1]).model_dump(mode="json") | {"measurements": rows}
    calibration = calibrate([BenchmarkResult.model_validate(document)], num_draws=50)
    found = limits(calibration, "read")
    assert found["file-system"].verdict == "lower-bound"
    assert found["file-system"].value == pytest.approx(2 * 64_503_000 / 0.1213, rel=0.4)
    assert (calibration.profile.read.file_system_bytes_per_second or 0) < 2 * 64_503_000 / 0.1213
    assert "the noise hides what bytes take" in found["fixed"].reason


def test_a_time_of_each_save_that_bytes_hardly_change_leaves_the_rate_unknown() -> None:
    """A fixed second, to which bytes add three hundredths at most: a rate of 32 GB/s, where 1 GB/s was seen."""
    truth = StorageProfile.of(write=Rates(file_system_bytes_per_second=32e9, fixed_seconds=1.0))
    cells = list(itertools.product((1, 2), (1, 2, 4), (GB // 32, GB // 8)))
    found = limits(calibrate([result(cells, truth=truth, noise=0.001, outliers=0, operations=["write"])], num_draws=50))
    assert found["file-system"].verdict == "lower-bound"
    assert found["file-system"].value == pytest.approx(GB / (1 + 1 / 32), rel=0.01)
