"""The runs that are suggested: how they are started, and that no other would tell more."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from pydantic import JsonValue

from sizing.storage.calibration import Calibration, calibrate
from sizing.storage.calibration.fit_data import RunMeasurement, select_fit_data
from sizing.storage.calibration.suggestions import Suggestion, suggest_runs
from sizing.storage.limits import transfer
from sizing.storage.measurement import SHORT_SECONDS
from sizing.storage.rates import DIRECTIONS, Direction
from tests.sizing.storage.calibration.simulation import GB, TRUTH, demand, result, true_seconds

NODES, RANKS, SIZES = (1, 2, 4, 8), (1, 2, 4, 8, 16), (1 * GB, 2 * GB, 4 * GB)
FIELDS = {
    "file-system": "{}_bytes_per_second",
    "node": "node_{}_bytes_per_second",
    "writer": "writer_{}_bytes_per_second",
}


RENDEZVOUS = "--node-rank NODE_RANK --nproc-per-node"


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    """Every limit was reached, at two sizes and several numbers of nodes: there is only left to narrow."""
    cells = list(itertools.product((1, 2, 4, 6, 8), RANKS, (1 * GB, 4 * GB)))
    return calibrate([result(cells, noise=0.05, outliers=0)], num_draws=100)


@pytest.mark.parametrize(
    ("nodes", "ranks", "command"),
    [
        (1, 1, "ckpt-bench run"),
        (1, 4, "ckpt-bench run --ranks 4"),
        (2, 4, f"torchrun --nnodes 2 {RENDEZVOUS} 4 --master-addr FIRST_NODE -m io_bench run"),
        (2, 1, f"torchrun --nnodes 2 {RENDEZVOUS} 1 --master-addr FIRST_NODE -m io_bench run"),
    ],
)
def test_a_suggestion_is_a_command_to_start_on_each_node(nodes: int, ranks: int, command: str) -> None:
    suggestion = Suggestion("write", nodes, ranks, GB, "because")
    assert suggestion.command(rows_of()) == f"{command} --target DIR --engine direct --bytes-per-rank 1GB"


@pytest.mark.parametrize(("file_bytes", "payload"), [(36214903, "35MB"), (36214902, "35MB"), (4 * 36214903, "140MB")])
def test_what_is_typed_writes_the_files_that_were_measured_where_they_were(file_bytes: int, payload: str) -> None:
    """Files are larger than their payload, and `--bytes-per-rank` is the payload."""
    rows = rows_of({"target": "/mnt/one, /mnt/my two"}, payload_bytes_per_rank=35 * 10**6, block_bytes=4 << 20)
    flags = "--target '/mnt/one,/mnt/my two' --engine direct --block-size 4MiB"
    command = Suggestion("write", 1, 1, file_bytes, "because").command(rows)
    assert command == f"ckpt-bench run {flags} --bytes-per-rank {payload}"
    elsewhere = rows_of({"target": "/mnt/other"}, payload_bytes_per_rank=35 * 10**6)
    assert "--target DIR " in Suggestion("write", 1, 1, file_bytes, "because").command((*rows, *elsewhere))


def rows_of(environment: dict[str, JsonValue] | None = None, **changed: Any) -> tuple[RunMeasurement, ...]:
    """One write of files of 36,214,903 bytes."""
    run = result([(1, 1, 36214903)], operations=["write"], **changed)
    return select_fit_data([run.model_copy(update={"environment": environment or {}})], "write").rows


def test_no_suggested_run_is_too_short_to_count(calibration: Calibration) -> None:
    one_size = [(nodes, ranks, GB) for nodes in (1, 2, 4) for ranks in (1, 4, 16)]
    for found in (calibration, calibrate([result(one_size, noise=0.02, outliers=0)], num_draws=50)):
        for each in suggest_runs(found):
            cell = (each.num_nodes, each.ranks_per_node, each.bytes_per_rank)
            assert min(true_seconds(cell), true_seconds(cell, operation="restore")) > 0.8 * SHORT_SECONDS


def test_where_all_limits_were_reached_one_run_each_way_narrows_the_widest(calibration: Calibration) -> None:
    found = suggest_runs(calibration)
    assert [suggestion.direction for suggestion in found] == list(DIRECTIONS)
    for suggestion, operation in zip(found, ("writes", "restores"), strict=True):
        assert f"of {operation}, the widest interval, from " in suggestion.reason


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_no_other_run_inside_the_range_that_takes_long_enough_would_narrow_it_more(
    calibration: Calibration, direction: Direction
) -> None:
    (suggestion,) = (one for one in suggest_runs(calibration) if one.direction == direction)
    best = max(
        told_by(calibration, direction, suggestion.reason, cell)
        for cell in itertools.product(NODES, RANKS, SIZES)
        if min(true_seconds(cell), true_seconds(cell, operation="restore")) > 1.1 * SHORT_SECONDS
    )
    cell = (suggestion.num_nodes, suggestion.ranks_per_node, suggestion.bytes_per_rank)
    assert told_by(calibration, direction, suggestion.reason, cell) >= best * (1 - 1e-6)


def told_by(calibration: Calibration, direction: Direction, reason: str, cell: tuple[int, int, int]) -> float:
    """The share of the limit's variance that a noisy run explains: the squared correlation of both logarithms."""
    fit = calibration.fit(direction)
    assert fit is not None
    (resource,) = (name for name in FIELDS if f"narrows the {name} limit" in reason)
    limits = np.log(fit.draws[FIELDS[resource].format(direction)])
    profile = calibration.profile.model_dump(exclude_none=True)
    seconds = []
    for place in range(len(limits)):
        drawn = {field: values[place] for field, values in fit.draws.items()}
        moved = transfer(calibration.profile.model_copy(update=profile | drawn), [demand(cell)], direction=direction)
        assert moved is not None
        seconds.append(float(moved.seconds))
    times = np.log(seconds)
    shared = np.mean(times * limits) - np.mean(times) * np.mean(limits)
    return float(shared**2 / (np.var(limits) * (np.var(times) + fit.noise_fraction**2)))


@pytest.mark.parametrize(("nodes", "between"), [((1, 2, 4, 8), 6), ((1, 2, 4, 7), 5), ((2, 3, 4, 5), None)])
def test_a_limit_that_only_the_most_nodes_show_is_looked_for_at_fewer(
    nodes: tuple[int, ...], between: int | None
) -> None:
    """The file system gives 35 GB/s, and a node 8: four nodes do not reach it, five do, barely."""
    truth = TRUTH.with_rates("write", file_system_bytes_per_second=35e9)
    cells = list(itertools.product(nodes, RANKS, (1 * GB, 4 * GB)))
    runs = [result(cells, truth=truth, operations=["write"], noise=0.01, outliers=0)]
    found = [one for one in suggest_runs(calibrate(runs, num_draws=100)) if one.reason.startswith("only the writes")]
    assert [(one.num_nodes, one.ranks_per_node, one.bytes_per_rank) for one in found] == (
        [(between, 16, 4 * GB)] if between else []
    )
