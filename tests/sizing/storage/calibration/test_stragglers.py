"""Nodes and ranks for which the others wait are found in the times of ranks, and named."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from sizing.storage.calibration import calibrate
from sizing.storage.calibration.fit_data import RunMeasurement
from sizing.storage.calibration.stragglers import find_stragglers
from sizing.storage.calibration.suggestions import suggest_runs
from sizing.storage.measurement import BenchmarkResult, Measurement
from tests.sizing.storage.calibration.simulation import GB, measurement, result, true_seconds

NODES = ("n1/a", "n1/a", "n2/b", "n2/b", "n3/c", "n3/c", "n4/d", "n4/d")
"""Host and boot of the node of each rank."""


def row(of_ranks: Sequence[float], *, nodes: tuple[str, ...] = NODES) -> RunMeasurement:
    """Three repetitions of two ranks on each node."""
    cell = (len(of_ranks) // 2, 2, GB)
    seconds = {"rank_seconds": [list(of_ranks)] * 3}
    found = Measurement.model_validate(measurement(cell, "write", [max(of_ranks)] * 3, **seconds))
    return RunMeasurement("run", found, nodes)


SLOW = (1.0, 1.0, 1.0, 1.0, 1.0, 1.2, 1.0, 1.0)


def test_the_node_that_is_last_in_every_run_is_named_by_its_host() -> None:
    (found,) = find_stragglers([row(SLOW)] * 5)
    assert found.sentence.startswith("the others wait for n3: it was last in 5 configurations, late by 20.0 %")
    (unnamed,) = find_stragglers([row(SLOW, nodes=())] * 5)
    assert unnamed.sentence.startswith("the others wait for node 3: ")


@pytest.mark.parametrize(
    "rows",
    [
        [row(SLOW)] * 2,
        [row([1.09 if rank == 5 else 1.0 for rank in range(8)])] * 20,
        [row([1.4 if rank == place % 8 else 1.0 for rank in range(8)]) for place in range(16)],
        [row([1.0, 1.0, 3.0, 3.0], nodes=NODES[:4])] * 20,
    ],
    ids=["twice", "less than a tenth", "each in turn", "one of two nodes"],
)
def test_nobody_is_named_for(rows: Sequence[RunMeasurement]) -> None:
    assert list(find_stragglers(rows)) == []


def test_ranks_of_changing_nodes_that_take_more_than_one_and_a_half_times_the_median_point_to_a_target() -> None:
    uneven = [row([ratio if rank == place % 8 else 1.0 for rank in range(8)]) for place, ratio in enumerate([1.52] * 8)]
    even = [row([1.0] * 8)]
    (found,) = find_stragglers([*uneven, *even * 24])
    assert found.sentence.startswith("in 8 of 32 configurations the slowest rank took more than 1.5 times")
    assert list(find_stragglers([*uneven, *even * 25])) == []


def test_limits_that_a_straggler_decides_are_lower_bounds_and_no_more_nodes_are_suggested() -> None:
    """The third of 16 nodes takes 3 times as long, so that the file system seems to give a third of its 40 GB/s."""
    cells = list(itertools.product((1, 2, 4, 8, 16), (1, 4, 16), (GB, 4 * GB)))
    measurements = []
    for nodes, ranks, size in cells:
        seconds = true_seconds((nodes, ranks, size))
        of_ranks = [seconds * (3.0 if rank // ranks == 2 else 1.0) for rank in range(nodes * ranks)]
        repetitions = [[each * factor for each in of_ranks] for factor in (0.98, 1.0, 1.02)]
        changed = {"rank_seconds": repetitions, "first_done_seconds": [min(each) for each in repetitions]}
        measurements.append(measurement((nodes, ranks, size), "write", [max(each) for each in repetitions], **changed))
    document = result(cells[:1]).model_dump() | {"measurements": measurements}
    calibration = calibrate([BenchmarkResult.model_validate(document)], num_draws=50)
    assert calibration.write is not None
    found = {limit.resource: limit for limit in calibration.write.limits}
    assert (found["file-system"].verdict, found["file-system"].interval) == ("lower-bound", None)
    assert found["file-system"].reason.startswith("where it binds, the others waited for a straggler")
    assert (found["file-system"].value or 0) < 40e9
    assert found["fixed"].verdict == "unknown"
    assert not any("lower bound" in suggestion.reason for suggestion in suggest_runs(calibration))
