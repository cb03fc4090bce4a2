"""The runs that are suggested: how they are started, and that no other would tell more."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sizing.storage.calibration import Calibration, calibrate
from sizing.storage.calibration.suggestions import Suggestion, suggest_runs
from sizing.storage.limits import transfer
from sizing.storage.rates import DIRECTIONS, Direction
from tests.sizing.storage.calibration.simulation import GB, TRUTH, demand, result

NODES, RANKS, SIZES = (1, 2, 4, 8), (1, 2, 4, 8, 16), (1 * GB, 2 * GB, 4 * GB)
FIELDS = {
    "file-system": "{}_bytes_per_second",
    "node": "node_{}_bytes_per_second",
    "writer": "writer_{}_bytes_per_second",
}


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    """Every limit was reached, at two sizes and several numbers of nodes: there is only left to narrow."""
    cells = list(itertools.product((1, 2, 4, 6, 8), RANKS, (1 * GB, 4 * GB)))
    return calibrate([result(cells, noise=0.05, outliers=0)], num_draws=100)


@pytest.mark.parametrize(
    ("nodes", "ranks", "command"),
    [
        (1, 1, "ckpt-bench run"),
        (1, 4, "torchrun --nproc-per-node 4 -m io_bench run"),
        (2, 4, "torchrun --nnodes 2 --nproc-per-node 4 -m io_bench run"),
        (2, 1, "torchrun --nnodes 2 --nproc-per-node 1 -m io_bench run"),
    ],
)
def test_a_suggestion_is_a_command_to_start_on_each_node(nodes: int, ranks: int, command: str) -> None:
    suggestion = Suggestion("write", nodes, ranks, GB, "because")
    assert suggestion.command("direct") == f"{command} --target DIR --engine direct --bytes-per-rank 1000000000"


def test_where_all_limits_were_reached_one_run_each_way_narrows_the_widest(calibration: Calibration) -> None:
    found = suggest_runs(calibration)
    assert [suggestion.direction for suggestion in found] == list(DIRECTIONS)
    for suggestion, operation in zip(found, ("writes", "restores"), strict=True):
        assert f"of {operation}, the widest interval, from " in suggestion.reason


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_no_other_run_inside_the_range_would_narrow_it_more(calibration: Calibration, direction: Direction) -> None:
    (suggestion,) = (one for one in suggest_runs(calibration) if one.direction == direction)
    told = {
        cell: told_by(calibration, direction, suggestion.reason, cell)
        for cell in itertools.product(NODES, RANKS, SIZES)
    }
    best = max(told.values())
    assert told[suggestion.num_nodes, suggestion.ranks_per_node, suggestion.bytes_per_rank] == pytest.approx(best)


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
