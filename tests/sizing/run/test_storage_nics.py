"""Adapters that a cluster states bound writes, reads and all that is solved for; storage cannot raise them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.questions.registry import REQUIRE, SWEEP
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO
from sizing.storage.joint_rates import joint_rates
from sizing.storage.limits import transfer
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import Rates
from sizing.storage.terms import Demand
from tests.examples import examples
from tests.sizing.run.scenarios import document, report, write_of

FAST: dict[str, Any] = {"profile": {"write_bytes_per_second": "100 TB/s", "read_bytes_per_second": "200 TB/s"}}
NICS: dict[str, Any] = {"node": "dgx-a100", "storage_nics": {"num": 2, "bytes_per_second": "200 Gb/s"}}
_HIDDEN, _CUT_LAYER, _WHOLE_LAYER = 25_600, 12 * 25_600**2 + 7 * 25_600, 6 * 25_600
_LAYERS = 128 * (_CUT_LAYER + 8 * _WHOLE_LAYER)
_FIRST_STAGE = _LAYERS / 64 + 51_200 * _HIDDEN + 8 * 2_048 * _HIDDEN
"""Values that the 8 tensor ranks of the first stage hold: 2 of 128 layers, and the embeddings."""
_ALL_STAGES = _LAYERS + 2 * 51_200 * _HIDDEN + 8 * 2_048 * _HIDDEN + 8 * 2 * _HIDDEN
"""Those of all stages; the last repeats the embedding of tokens and has the final norm."""
NODE_BYTES = 13.8e12 * _FIRST_STAGE / _ALL_STAGES
"""What the first of 64 nodes writes of 13.8 TB."""
WRITE_SECONDS = NODE_BYTES / 50e9
"""Through 2 adapters of 25 GB/s."""
READ_SECONDS = WRITE_SECONDS
"""The first node of each of 6 replicas reads what that of the first one wrote."""


def asked(**blocks: Any) -> dict[str, Any]:
    """The reference case behind its adapters, on storage that is faster than these."""
    return document(document(REFERENCE_SCENARIO, storage=None), **{"cluster": NICS, "storage": FAST, **blocks})


def test_writes_and_restores_take_what_the_adapters_take_and_say_so() -> None:
    found = answer(asked())
    assert write_of(found).seconds == pytest.approx(WRITE_SECONDS)
    assert write_of(found).bottleneck == "storage-network"
    assert write_of(found).per_node_bytes_per_second == pytest.approx(13.8e12 / 64 / WRITE_SECONDS)
    assert found.restore.read_seconds == pytest.approx(READ_SECONDS)
    assert found.restore.bottleneck == "storage-network"
    assert {limit.resource for limit in write_of(found).limits} == {"storage-network", "file-system"}


def test_without_figures_of_the_user_the_catalogs_bound_nothing() -> None:
    found = report(storage=FAST)
    assert write_of(found).seconds == pytest.approx(0.138)
    assert write_of(found).bottleneck == "file-system"


def test_adapters_alone_give_no_time() -> None:
    found = answer(asked(storage={"profile": {"write_bytes_per_second": "100 TB/s"}}))
    assert found.restore.seconds is None


def test_slower_storage_still_limits() -> None:
    found = answer(asked(storage={"profile": {"write_bytes_per_second": "273 GB/s"}}))
    assert write_of(found).seconds == pytest.approx(13.8e12 / 273e9)
    assert write_of(found).bottleneck == "file-system"


def test_drives_of_the_nodes_are_not_behind_the_adapters() -> None:
    found = answer(asked(storage={"preset": "local-nvme-raid0-8x-gen5"}, cluster=NICS | {"storage_nics": "1x10Gb/s"}))
    assert write_of(found).bottleneck == "node"
    assert write_of(found).seconds == pytest.approx(NODE_BYTES / 26e9)


def test_a_tier_in_the_nodes_does_not_pass_the_adapters_and_one_outside_does() -> None:
    slow = NICS | {"storage_nics": "1 x 10 Gb/s"}
    shared = {"kind": "shared-file-system", "interval_seconds": "20min", "recovered_fraction": 0.95, "storage": FAST}
    nvme = {
        "kind": "local-nvme",
        "interval_seconds": "10min",
        "recovered_fraction": 0.9,
        "storage": {"preset": "local-nvme-raid0-8x-gen5"},
    }
    rows = {row.kind: row for row in answer(asked(cluster=slow, checkpoint={"tiers": [nvme, shared]})).tiers}
    assert rows["local-nvme"].stall_seconds == pytest.approx(NODE_BYTES / 26e9)
    assert rows["shared-file-system"].stall_seconds == pytest.approx(NODE_BYTES / 1.25e9)


def test_every_row_of_a_sweep_is_bound_as_its_own_answer() -> None:
    rates = [1e11, 1e12, 1e13, 1e14]
    varied = asked(storage={"profile": {"write_bytes_per_second": rates, "read_bytes_per_second": "200 TB/s"}})
    found = SWEEP.answer({"scenario": varied, "figures": ["write.seconds", "restore.read_seconds"]})
    seconds = [row[found.columns.index("write.seconds")] for row in found.rows]
    assert seconds == pytest.approx([max(13.8e12 / rate, WRITE_SECONDS) for rate in rates])


def test_adapters_themselves_can_be_swept_beside_storage_in_the_nodes() -> None:
    varied = asked(
        cluster={"storage_nics": ["1 x 200 Gb/s", "4 x 200 Gb/s"]},
        storage={"preset": ["local-nvme-raid0-8x-gen5", "dgx-superpod-h100-4su-best"]},
    )
    found = SWEEP.answer({"scenario": varied, "figures": ["write.seconds", "write.bottleneck"]})
    by_row = {(row[0], row[1]): row[-2:] for row in found.rows}
    assert len(by_row) == 4
    assert {value[1] for key, value in by_row.items() if "local-nvme-raid0-8x-gen5" in key} == {"node"}


def test_a_target_that_the_adapters_miss_is_met_by_no_storage_and_the_reason_names_them() -> None:
    found = answer(asked(targets={"max_stall_seconds": 2, "recovery_seconds": 3}))
    assert found.required.write_bytes_per_second is None
    assert found.required.restore_bytes_per_second is None
    remedies = [check.remedy for check in found.targets if check.met is False]
    assert len(remedies) == 2
    assert all(remedy and "the adapters of the nodes are too slow" in remedy for remedy in remedies)
    solved = REQUIRE.answer(asked(targets={"max_stall_seconds": 2, "recovery_seconds": 3}))
    assert solved.targets_beyond_storage == ["max_stall_seconds", "recovery_seconds"]
    assert solved.needed.write_bytes_per_second == pytest.approx(13.8e12 / 720)  # for max_overhead_fraction
    assert solved.needed.read_bytes_per_second is None
    missed = [row for row in solved.requirements if row.status == "none"]
    assert {row.target for row in missed} == {"max_stall_seconds", "recovery_seconds"}
    assert all("limited by storage-network (the adapters of cluster.storage_nics)" in row.reason for row in missed)


def test_goodput_that_faster_adapters_would_reach_is_said_to_be_held_by_them() -> None:
    slow = asked(cluster=NICS | {"storage_nics": "1 x 1 Gb/s"}, targets={"min_goodput_fraction": 0.99})
    rows = [row for row in REQUIRE.answer(slow).requirements if row.target == "min_goodput_fraction"]
    assert rows[0].status == "none"
    assert "limited by storage-network" in rows[0].reason


@given(
    nics=st.floats(1e9, 1e11),
    node=st.none() | st.floats(1e8, 1e13),
    stall=st.floats(0.5, 500),
    recovery=st.floats(0.5, 500),
)
@examples(40)
def test_nothing_above_the_adapters_is_asked_for_and_what_is_asked_for_meets_the_targets(
    nics: float, node: float | None, stall: float, recovery: float
) -> None:
    profile = {"write_bytes_per_second": 1e9, "read_bytes_per_second": 1e9}
    if node is not None:
        profile |= {"node_write_bytes_per_second": node, "node_read_bytes_per_second": node}
    question = asked(
        cluster=NICS | {"storage_nics": {"num": 1, "bytes_per_second": nics}},
        storage={"profile": profile},
        targets={"max_stall_seconds": stall, "recovery_seconds": recovery},
    )
    solved = REQUIRE.answer(question)
    needed = solved.needed
    taken = {"max_stall_seconds": NODE_BYTES / nics, "recovery_seconds": 6 * 13.8e12 / (384 * nics)}
    beyond = [target for target, seconds in taken.items() if seconds > question["targets"][target]]
    assert solved.targets_beyond_storage == beyond
    if beyond:
        return
    assert needed.write_bytes_per_second is not None
    assert needed.read_bytes_per_second is not None
    assert needed.write_bytes_per_second <= 64 * nics * (1 + 1e-9)
    assert needed.read_bytes_per_second <= 384 * nics * (1 + 1e-9)
    beside = {path.rsplit(".", 1)[1]: rate for path, rate in needed.together_with.items() if "profile" in path}
    assert all(rate <= nics * (1 + 1e-9) for field, rate in beside.items() if field.startswith("node_"))
    rates = {
        "write_bytes_per_second": needed.write_bytes_per_second,
        "read_bytes_per_second": needed.read_bytes_per_second,
    }
    met = answer(question | {"storage": {"profile": profile | rates | beside}})
    assert all(check.met for check in met.targets)


@st.composite
def steps_through_adapters(draw: st.DrawFn) -> list[Demand]:
    """Up to three, by unlike numbers of ranks on unlike numbers of nodes."""
    network = draw(st.floats(1e9, 1e11))
    groups = draw(st.lists(st.tuples(st.sampled_from([8, 64, 512]), st.floats(1e9, 1e13)), min_size=1, max_size=3))
    return [
        Demand(num_bytes, ranks, draw(st.sampled_from([1, ranks // 8])), ranks, node_network_bytes_per_second=network)
        for ranks, num_bytes in groups
    ]


@given(steps=steps_through_adapters(), slack=st.floats(0.5, 0.999) | st.floats(1.001, 5))
def test_the_rates_of_one_time_are_the_least_that_take_no_longer(steps: list[Demand], slack: float) -> None:
    profile = StorageProfile.of(
        read=Rates(file_system_bytes_per_second=1, node_bytes_per_second=1, writer_bytes_per_second=1)
    )
    joint = joint_rates(profile, steps, direction="read")
    through = float(sum(step.network_seconds for step in steps))
    shared = float(joint.shared_seconds(through * slack))
    assert (shared > 0) == (slack > 1)
    if slack < 1:
        return

    def seconds(factor: float) -> float:
        rates = {name: float(rate) for name, rate in joint.rates(shared * factor).items()}
        moved = transfer(profile.with_rates("read", **rates), steps, direction="read")
        assert moved is not None
        return float(moved.seconds)

    assert seconds(1) <= through * slack * (1 + 1e-9)
    assert seconds(1.01) > through * slack
