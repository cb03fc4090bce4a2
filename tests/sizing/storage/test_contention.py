"""Contention, caches that fill and soft knees reach every answer: times, arrays, required rates; or are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sizing.errors import InvalidInput
from sizing.questions.cluster.request import REFERENCE_CLUSTER
from sizing.questions.registry import CLUSTER
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.storage.joint_rates import joint_rates
from sizing.storage.limits import transfer
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import DIRECTIONS, Direction
from sizing.storage.terms import Demand

PROFILE: dict[str, Any] = {
    "{}_bytes_per_second": 40e9,
    "node_{}_bytes_per_second": 8e9,
    "writer_{}_bytes_per_second": 1e9,
}
SHAPES: tuple[dict[str, Any], ...] = (
    {"writer_{}_contention_fraction": 0.02, "node_{}_contention_fraction": 0.1},
    {"{}_cache_bytes": 10**11, "beyond_cache_{}_bytes_per_second": 5e9},
    {"{}_knee_power": 1.0},
    {"{}_knee_power": 2.0, "writer_{}_contention_fraction": 0.02},
)


def profile(shape: dict[str, Any], direction: Direction = "write") -> StorageProfile:
    figures = {name.format(direction): value for name, value in (PROFILE | shape).items()}
    return StorageProfile.model_validate(figures)


def seconds(shape: dict[str, Any], demand: Demand, direction: Direction = "write") -> float:
    found = transfer(profile(shape, direction), [demand], direction=direction)
    assert found is not None
    return float(found.seconds)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_each_shape_takes_what_its_definition_says(direction: Direction) -> None:
    """400 GB of 100 streams on 10 nodes: 10 s by the file system, 5 s by nodes, 4 s by streams."""
    demand = Demand(400e9, 100, 10, 100)
    assert seconds(SHAPES[0], demand, direction) == pytest.approx(10 * (1 + 0.02 * 99 + 0.1 * 9))
    assert seconds(SHAPES[1], demand, direction) == pytest.approx((400 - 100) / 5)
    assert seconds(SHAPES[2], demand, direction) == pytest.approx(10 + 5 + 4)
    assert seconds(SHAPES[3], demand, direction) == pytest.approx(np.hypot(np.hypot(10 * 2.98, 5), 4))


def test_less_than_the_cache_holds_is_not_slowed_down() -> None:
    small = Demand(80e9, 100, 10, 100)
    assert seconds(SHAPES[1], small) == seconds({}, small) == pytest.approx(2.0)


@pytest.mark.parametrize("shape", SHAPES)
def test_arrays_answer_as_their_rows(shape: dict[str, Any]) -> None:
    nodes = np.array([1.0, 4.0, 64.0])
    together = transfer(profile(shape), [Demand(nodes * 8e10, nodes * 8, nodes, nodes * 8)], direction="write")
    assert together is not None
    alone = [seconds(shape, Demand(n * 8e10, n * 8, n, n * 8)) for n in nodes]
    assert np.asarray(together.seconds) == pytest.approx(alone)


@pytest.mark.parametrize("shape", SHAPES)
def test_joint_rates_take_the_time_that_was_asked_for(shape: dict[str, Any]) -> None:
    demand, asked = Demand(400e9, 100, 10, 100), 90.0
    joint = joint_rates(profile(shape), [demand], direction="write")
    rates = {name: float(rate) for name, rate in joint.rates(joint.shared_seconds(asked)).items()}
    found = transfer(profile(shape).with_rates("write", **rates), [demand], direction="write")
    assert found is not None
    assert found.seconds == pytest.approx(asked)


def test_no_rate_is_enough_where_the_full_cache_alone_takes_longer() -> None:
    joint = joint_rates(profile(SHAPES[1]), [Demand(400e9, 100, 10, 100)], direction="write")
    assert joint.shared_seconds(59.0) <= 0
    assert joint.shared_seconds(61.0) > 0


def test_a_report_counts_contention_and_says_what_it_leaves() -> None:
    storage = REFERENCE_SCENARIO["storage"]["profile"]
    slow, fast = (
        answer(scenario_from(REFERENCE_SCENARIO | {"storage": {"profile": storage | more}}))
        for more in ({"writer_write_contention_fraction": 0.01}, {})
    )
    assert slow.write is not None
    assert fast.write is not None
    assert slow.write.seconds == pytest.approx(
        fast.write.seconds * (1 + 0.01 * (slow.layout.num_writers - 1)), rel=0.01
    )
    assert any(warning.startswith("Contention: of the ") for warning in slow.warnings)


@pytest.mark.parametrize("field", ["writer_write_contention_fraction", "write_knee_power", "write_cache_bytes"])
def test_jobs_that_share_storage_need_one_rate(field: str) -> None:
    shared = REFERENCE_CLUSTER["storage"]["profile"] | {field: 2}
    with pytest.raises(InvalidInput, match=f"{field} make it depend on who writes"):
        CLUSTER.answer(REFERENCE_CLUSTER | {"storage": {"profile": shared}})
