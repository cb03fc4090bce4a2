"""The chart of a calibration draws what was measured, what is predicted and what each limit would allow alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sizing.present.calibrations import calibration_chart
from sizing.storage.calibration import calibrate
from tests.sizing.present.gallery import calibration
from tests.sizing.storage.calibration.simulation import GB, TRUTH, result, true_seconds


def views(row: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of the lines, points and limits of writes (0) or restores (1), and of their misses."""
    scaling, misses = calibration_chart(calibration())["vconcat"][2 * row : 2 * row + 2]
    lines, points, limits = (scaling["layer"][place]["data"]["values"] for place in (1, 2, 3))
    return lines, points, limits, misses["layer"][1]["data"]["values"]


@pytest.mark.parametrize(("row", "operation"), [(0, "write"), (1, "restore")])
def test_lines_run_through_what_the_storage_takes_to_twice_the_nodes_measured(row: int, operation: str) -> None:
    """The truth of 1 to 16 nodes with 4 GB per rank: within the miss that 2 % of noise leaves."""
    lines = views(row)[0]
    assert {line["ranks"] for line in lines} == {"1", "2", "4", "8", "16"}
    assert (min(line["num_nodes"] for line in lines), max(line["num_nodes"] for line in lines)) == (1, 16)
    for line in lines:
        assert line["low_bytes_per_second"] < line["bytes_per_second"] < line["high_bytes_per_second"]
        if line["num_nodes"] in (1, 2, 4, 8, 16):
            cell = int(line["num_nodes"]), int(line["ranks"]), 4 * GB
            rate = 4 * GB * cell[0] * cell[1] / true_seconds(cell, operation=operation)
            assert line["bytes_per_second"] == pytest.approx(rate, rel=0.1)


@pytest.mark.parametrize("row", [0, 1])
def test_lines_have_sixteen_points_to_each_doubling_of_the_nodes(row: int) -> None:
    nodes = [line["num_nodes"] for line in views(row)[0] if line["ranks"] == "1"]
    assert np.diff(np.log2(nodes)) == pytest.approx(1 / 16)


@pytest.mark.parametrize(("row", "operation"), [(0, "write"), (1, "restore")])
def test_points_are_the_measurements_of_the_largest_size(row: int, operation: str) -> None:
    measured = {
        (m.num_nodes, f"{m.num_ranks // m.num_nodes}", m.bytes_per_second)
        for m in result(noise=0.02, outliers=0).measurements
        if m.operation == operation and m.bytes_per_rank == 4 * GB
    }
    points = {(point["num_nodes"], point["ranks"], point["bytes_per_second"]) for point in views(row)[1]}
    assert points == measured


@pytest.mark.parametrize(
    ("row", "node", "file_system"),
    [
        (0, TRUTH.write.node_bytes_per_second, TRUTH.write.file_system_bytes_per_second),
        (1, TRUTH.read.node_bytes_per_second, TRUTH.read.file_system_bytes_per_second),
    ],
)
def test_a_node_limit_grows_with_the_nodes_and_that_of_the_file_system_does_not(
    row: int, node: float, file_system: float
) -> None:
    ends = {(limit["limit"].split(" limit")[0], limit["num_nodes"]): limit for limit in views(row)[2]}
    for nodes in (1, 16):
        assert ends["node", nodes]["bytes_per_second"] == pytest.approx(node * nodes, rel=0.1)
        assert ends["file-system", nodes]["bytes_per_second"] == pytest.approx(file_system, rel=0.1)
    labels = calibration_chart(calibration())["vconcat"][2 * row]["layer"][4]["data"]["values"]
    assert labels == [limit for limit in views(row)[2] if limit["num_nodes"] == 16]


def test_a_limit_that_was_not_reached_is_labelled_apart_from_one_that_was() -> None:
    """Two nodes of 8 GB/s never reach the 40 GB/s of the file system."""
    small = [(nodes, ranks, size * GB) for nodes in (1, 2) for ranks in (1, 2, 4, 8, 16) for size in (1, 4)]
    chart = calibration_chart(calibrate([result(small, noise=0.02, outliers=0, operations=("write",))], num_draws=50))
    view = chart["vconcat"][0]
    ends = view["layer"][3]["data"]["values"]
    file_system, node = sorted({end["limit"] for end in ends})
    assert node == "node limit"
    assert file_system.removeprefix("file-system limit")


@pytest.mark.parametrize(("row", "direction"), [(0, "write"), (1, "read")])
def test_half_of_the_misses_are_below_the_median_that_the_title_says(row: int, direction: str) -> None:
    misses = views(row)[3]
    fit = calibration().fit(direction)  # type: ignore[arg-type]  # the two directions, as the parameters say them
    assert fit is not None
    assert len(misses) == len(fit.points) == 40
    for miss, point in zip(misses, fit.points, strict=True):
        assert (1 + miss["miss_fraction"]) * miss["held_out_seconds"] == pytest.approx(point.seconds)
        assert miss["what"].startswith(f"{point.num_streams} ranks on {point.num_nodes} nodes, ")


@pytest.mark.parametrize(("nodes", "named"), [((1,), [1, 2]), ((1, 2), [1, 2, 4]), ((3, 6), [3, 6, 12])])
def test_the_axis_of_nodes_names_whole_numbers(nodes: tuple[int, ...], named: list[int]) -> None:
    """It reaches to twice what was measured; its own ticks would stand at 1.1 and 1.2 nodes."""
    cells = [(count, ranks, size * GB) for count in nodes for ranks in (1, 2, 4, 8) for size in (1, 4)]
    measured = calibrate([result(cells, noise=0.02, outliers=0, operations=("write",))], num_draws=50)
    scaling = calibration_chart(measured)["vconcat"][0]
    assert scaling["layer"][0]["encoding"]["x"]["axis"] == {"values": named, "format": "d"}
