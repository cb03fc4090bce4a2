"""Tiers in front of the storage save what they survive; each takes, holds and costs what its row says."""

from typing import Any

import numpy as np
import pytest

from sizing.errors import InvalidInput
from sizing.frameworks.framework import Deletion
from sizing.questions.answer.first_screen import key_figures
from sizing.report import SizingReport
from sizing.run.evaluation import evaluate
from sizing.run.figures import with_arrays
from sizing.run.tier_rows import TierRow, archive_warnings, missing_read_rates
from sizing.scenario import scenario_from
from sizing.sized_layout import size_layout
from sizing.units import percent_text
from tests.sizing.run.scenarios import ARCHIVE, ASYNC, NVME, PEERS, report, tiered, write_of

BYTES = 14 * 405_853_388_800
LARGEST_SHARE = 4 * (128_256 // 8) * 16_384
"""Bytes of the rank with most: a tensor rank's rows of the embedding in fp32, dealt whole."""
COPY_SECONDS = LARGEST_SHARE / 20e9
NODE_BYTES = 8 * LARGEST_SHARE
"""Of the first node, whose 8 tensor ranks have such rows each."""


def rows(found: SizingReport) -> dict[str, TierRow]:
    return {row.kind: row for row in found.tiers}


def stall_of(found: SizingReport) -> float | None:
    (check,) = [check for check in found.targets if check.target == "max_stall_seconds"]
    return check.found


def test_without_tiers_there_are_no_rows() -> None:
    assert report(ASYNC).tiers == []


def test_each_tier_has_a_row_with_its_times() -> None:
    found = report(tiered(PEERS, NVME, ARCHIVE))
    peers, nvme, storage, archive = found.tiers
    assert [row.kind for row in found.tiers] == ["peer-memory", "local-nvme", "storage", "object-store"]
    assert peers.stall_seconds == pytest.approx(COPY_SECONDS, rel=1e-6)
    assert peers.drain_seconds == pytest.approx(NODE_BYTES / 400e9, rel=1e-6)
    assert nvme.stall_seconds == storage.stall_seconds == archive.stall_seconds == 0
    assert nvme.drain_seconds == pytest.approx(NODE_BYTES / 26e9, rel=1e-6)
    assert storage.drain_seconds == pytest.approx(nvme.drain_seconds + BYTES / 100e9, rel=1e-6)
    assert archive.drain_seconds == pytest.approx(BYTES / 10e9, rel=1e-6)


def test_a_save_that_drains_from_a_slow_tier_waits_until_its_copy_is_read() -> None:
    slow = {"profile": {"node_write_bytes_per_second": "1 GB/s", "node_read_bytes_per_second": "10 MB/s"}}
    nvme, storage = report(tiered(NVME | {"storage": slow})).tiers
    assert nvme.drain_seconds == pytest.approx(NODE_BYTES / 1e9, rel=1e-6)
    reading = storage.drain_seconds - nvme.drain_seconds
    assert BYTES / 100e9 < BYTES / 2048 / 10e6 < reading <= (nvme.restore_seconds or 0)


def test_tiers_that_are_saved_to_at_one_moment_stall_training_one_after_the_other() -> None:
    rates = {"profile": {"write_bytes_per_second": "200 GB/s", "read_bytes_per_second": "50 GB/s"}}
    files = {"kind": "shared-file-system", "interval_seconds": "20min", "recovered_fraction": 0.95, "storage": rates}
    asked = tiered(NVME, files, mode="sync", targets={"max_stall_seconds": 60})
    found = report(asked)
    assert stall_of(found) == pytest.approx(sum(row.stall_seconds for row in found.tiers), rel=1e-12)
    rate = found.required.write_bytes_per_second
    again = report(asked, storage={"profile": ASYNC["storage"]["profile"] | {"write_bytes_per_second": rate}})
    assert stall_of(again) == pytest.approx(60, rel=1e-6)


def test_the_first_tier_that_survives_a_failure_recovers_it() -> None:
    peers, nvme, storage, archive = report(tiered(PEERS, NVME, ARCHIVE)).tiers
    assert [row.used_fraction for row in (peers, nvme, storage)] == pytest.approx([0.8, 0.1, 0.1])
    assert [row.recovered_fraction for row in (peers, nvme, storage)] == pytest.approx([0.8, 0.9, 1.0])
    assert archive.used_fraction is None
    assert peers.recovery_seconds == pytest.approx(360 + (peers.restore_seconds or 0))
    assert (peers.restore_seconds or 0) < (nvme.restore_seconds or 0) < (storage.restore_seconds or 0)


def test_components_say_what_a_tier_survives() -> None:
    components = [
        {"name": "software", "mtbf_seconds": "10h", "loss_domain": "process"},
        {"name": "node", "per": "node", "mtbf_seconds": "40960h", "loss_domain": "node"},
        {"name": "rack", "mtbf_seconds": "100h", "loss_domain": "rack"},
    ]
    rates = [1 / 10, 2048 / 40_960, 1 / 100]
    host = {"kind": "host-memory", "interval_seconds": 30}
    peers = {key: value for key, value in PEERS.items() if key != "recovered_fraction"}
    found = rows(report(tiered(host, peers, reliability={"failures_per_node_day": None, "components": components})))
    assert [row.used_fraction for row in found.values()] == pytest.approx([rate / sum(rates) for rate in rates])


def test_a_tier_recovers_also_what_the_tiers_in_front_of_it_survive() -> None:
    """Of a software failure for each of nodes, NVMe alone survives half; peers in front of it are said to survive 0.9."""
    components = [
        {"name": "software", "mtbf_seconds": "10h", "loss_domain": "process"},
        {"name": "node", "mtbf_seconds": "10h", "loss_domain": "node"},
    ]
    nvme = {key: value for key, value in NVME.items() if key != "recovered_fraction"}
    failures = {"failures_per_node_day": None, "components": components}
    found = rows(report(tiered(PEERS | {"recovered_fraction": 0.9}, nvme, reliability=failures)))["local-nvme"]
    assert found.recovered_fraction == pytest.approx(0.9)
    assert found.used_fraction == 0
    assert "or those of a tier in front of it" in (TierRow.model_fields["recovered_fraction"].description or "")


def test_a_tier_that_costs_more_than_it_saves_is_named_with_both_losses() -> None:
    """NVMe that reads at 100 KB/s restores for hours, and recovers 0.1 of the failures all the same."""
    slow = {"profile": {"node_write_bytes_per_second": "26 GB/s", "node_read_bytes_per_second": "100 KB/s"}}
    found, without = report(tiered(PEERS, NVME | {"storage": slow})), report(tiered(PEERS))
    assert found.tiers[1].used_fraction == pytest.approx(0.1)
    with_it, without_it = (percent_text(each.interval.lost_at_interval_fraction or 0) for each in (found, without))
    (warning,) = [each for each in found.warnings if "costs more than it saves" in each]
    assert warning.startswith(
        f"The local-nvme tier costs more than it saves: the run loses {with_it} of its time with it and {without_it} "
        "without it. Remove it (checkpoint.tiers.1)"
    )


def test_tiers_that_save_more_than_they_cost_are_not_named() -> None:
    assert not any("costs more" in warning for warning in report(tiered(PEERS, NVME, ARCHIVE)).warnings)


def test_a_tier_is_not_held_against_a_run_whose_restores_are_not_counted() -> None:
    rates = {"write_bytes_per_second": "100 GB/s", "planning_seconds_per_rank": 0}
    slow = {"profile": {"node_write_bytes_per_second": "26 GB/s", "node_read_bytes_per_second": "1 MB/s"}}
    found = report(tiered(NVME | {"storage": slow}) | {"storage": {"profile": rates}})
    assert not any("costs more" in warning for warning in found.warnings)


def test_tiers_raise_the_goodput() -> None:
    slow = report(ASYNC, checkpoint={"interval_seconds": "1h"}).interval
    fast = report(tiered(PEERS, NVME)).interval
    assert fast.method == "first-order"
    assert (fast.goodput_at_interval_fraction or 0) > (slow.goodput_at_interval_fraction or 0) + 0.1


def test_the_overhead_adds_up_over_the_tiers() -> None:
    found = report(tiered(PEERS, NVME, mode="sync"))
    assert found.overhead.fraction == pytest.approx(sum(row.overhead_fraction for row in found.tiers))
    assert {check.target: check.found for check in report(tiered(PEERS, targets={"max_stall_seconds": 9})).targets}[
        "max_stall_seconds"
    ] == pytest.approx(COPY_SECONDS, rel=1e-6)


def test_a_synchronous_tier_stalls_for_its_whole_write() -> None:
    found = rows(report(tiered(NVME, mode="sync")))
    assert found["local-nvme"].stall_seconds == pytest.approx(NODE_BYTES / 26e9, rel=1e-6)
    assert found["storage"].stall_seconds == pytest.approx(write_of(report(ASYNC, checkpoint={"mode": "sync"})).seconds)


def test_an_archive_is_copied_to_while_training_goes_on() -> None:
    with_archive, without = report(tiered(NVME, ARCHIVE, mode="sync")), report(tiered(NVME, mode="sync"))
    assert with_archive.tiers[-1].stall_seconds == 0
    assert with_archive.tiers[-1].drain_seconds == pytest.approx(BYTES / 10e9, rel=1e-6)
    assert with_archive.overhead == without.overhead


@pytest.mark.parametrize(
    ("deletion", "rate", "kept", "needed"),
    [
        ("after-save", "1 GB/s", 1, 2),  # 5,682 s to copy, a save every 3,600 s
        ("after-save", "1 GB/s", 2, None),
        ("after-save", "0.2 GB/s", 2, 8),  # 28,410 s
        ("after-save", "2 GB/s", 1, None),  # 2,841 s
        ("before-save", "1.5 GB/s", 1, 2),  # 3,788 s and a save
        ("before-save", "1.6 GB/s", 1, 2),  # 3,551 s and a save of 57 s
        ("before-save", "1.7 GB/s", 1, None),  # 3,342 s and a save
    ],
)
def test_a_checkpoint_is_kept_until_it_is_copied_to_the_object_store(
    deletion: Deletion, rate: str, kept: int, needed: int | None
) -> None:
    rows = report(tiered(ARCHIVE | {"storage": {"profile": {"write_bytes_per_second": rate}}})).tiers
    warnings = list(archive_warnings(rows, keep_last=kept, deletion=deletion))
    assert [each.partition("Keep ")[2] for each in warnings] == ([f"{needed} (retention.keep_last)"] if needed else [])


def test_a_copy_that_outlasts_the_checkpoints_kept_is_told() -> None:
    slow = ARCHIVE | {"storage": {"profile": {"write_bytes_per_second": "1 GB/s"}}}
    assert any("A copy to the object-store tier takes 94." in each for each in report(tiered(slow)).warnings)
    kept = report(tiered(slow, retention={"keep_last": 2})).warnings
    assert not any("A copy to the object-store" in each for each in kept)


def test_each_tier_is_held_against_its_capacity() -> None:
    answered = report(tiered(PEERS | {"keep": 2}, NVME | {"capacity_bytes": "1 GB"}, ARCHIVE))
    found = rows(answered)
    assert found["peer-memory"].node_bytes == 2 * 3 * 8 * answered.layout.max_rank_bytes
    assert found["peer-memory"].capacity_bytes == answered.host_memory.usable_bytes
    assert found["peer-memory"].fits
    assert found["local-nvme"].fits is False
    assert found["object-store"].stored_bytes == pytest.approx(BYTES * 31, rel=1e-6)
    assert found["object-store"].cost == pytest.approx(BYTES * 31 / 1e12 * 20, rel=1e-6)
    assert found["object-store"].mean_bytes_per_second == pytest.approx(BYTES / 86_400, rel=1e-6)
    warnings = report(tiered(NVME | {"capacity_bytes": "1 GB"})).warnings
    assert any("The local-nvme tier must hold" in warning for warning in warnings)


def test_each_tier_says_what_its_saves_wear() -> None:
    """Of 144 intervals of 600 s in a day, the fraction that trains; a node of 8 H100 has 30.72 TB of NVMe."""
    found = report(tiered(PEERS, NVME, ARCHIVE))
    peers, nvme, storage, archive = found.tiers
    for row in (peers, nvme, storage, archive):
        assert row.saves_per_day is not None
        assert row.written_bytes_per_day == pytest.approx(BYTES * row.replicas * row.saves_per_day, rel=1e-6)
    assert 0.8 * 144 < (nvme.saves_per_day or 0) < 144
    assert nvme.drive_writes_per_day == pytest.approx(NODE_BYTES * (nvme.saves_per_day or 0) / 30.72e12, rel=1e-6)
    assert [row.drive_writes_per_day for row in (peers, storage, archive)] == [None] * 3
    assert found.recovery is not None
    assert found.capacity.written_bytes_per_day == pytest.approx(BYTES * found.recovery.saves_per_day, rel=1e-6)
    assert found.capacity.written_bytes_per_day == pytest.approx(storage.written_bytes_per_day)


def test_without_failures_a_tier_is_written_once_an_interval() -> None:
    scenario = tiered(NVME)
    del scenario["reliability"]
    nvme, storage = report(scenario).tiers
    assert nvme.written_bytes_per_day == pytest.approx(144 * BYTES, rel=1e-6)
    assert storage.written_bytes_per_day == pytest.approx(24 * BYTES, rel=1e-6)


def test_tiers_on_one_device_of_a_node_are_judged_together() -> None:
    slower = NVME | {"interval_seconds": "20min", "keep": 500}
    drives: dict[str, Any] = {
        "cluster": {"node": None, "node_spec": {"gpus_per_node": 8, "local_nvme_bytes": 1000 * NODE_BYTES}}
    }
    found = report(tiered(NVME | {"keep": 600}, slower, **drives))
    first, second, _ = found.tiers
    assert (first.node_bytes, second.node_bytes) == (601 * NODE_BYTES, 501 * NODE_BYTES)
    assert first.device_bytes == second.device_bytes == 1102 * NODE_BYTES
    assert (first.fits, second.fits) == (False, False)
    (together,) = [each for each in found.warnings if "must hold" in each]
    assert together.startswith("checkpoint.tiers.0 (local-nvme) and checkpoint.tiers.1 (local-nvme) share a device")
    own = report(tiered(NVME | {"keep": 600}, slower | {"capacity_bytes": 600 * NODE_BYTES}, **drives))
    assert [row.fits for row in own.tiers] == [True, True, None]


def test_tiers_in_memory_have_the_room_of_host_memory() -> None:
    """A node has 2 TiB, 2.199 TB, of which the system keeps 5 %: 253 checkpoints of 8.4 GB, 2.127 TB, do not fit."""
    found = report(tiered({"kind": "host-memory", "interval_seconds": 60, "recovered_fraction": 0.5, "keep": 252}))
    assert found.tiers[0].capacity_bytes == found.host_memory.usable_bytes
    assert found.tiers[0].fits is found.host_memory.fits is False


@pytest.mark.parametrize("framework", ["megatron", "maxtext"])
def test_host_memory_holds_what_the_tiers_in_memory_say(framework: str) -> None:
    """Experts lie unevenly, and Orbax compresses what it writes: both blocks count the same bytes of the fullest node."""
    host = {"kind": "host-memory", "interval_seconds": 30, "recovered_fraction": 0.5}
    scenario = tiered(
        host,
        PEERS,
        model={"preset": "deepseek-v3"},
        parallelism={"tensor": 1, "pipeline": 1, "data": 128, "expert": 64},
    )
    scenario["training"] = {"framework": framework}
    del scenario["checkpoint"]["format"], scenario["checkpoint"]["optimizer_sharding"]
    found = report(scenario)
    memory = [row for row in found.tiers if row.kind.endswith("memory")]
    assert found.host_memory.tier_bytes == pytest.approx(sum(row.node_bytes or 0 for row in memory), rel=1e-9)
    assert found.host_memory.tier_bytes == pytest.approx(memory[0].device_bytes, rel=1e-9)


def test_tiers_in_memory_count_against_the_host() -> None:
    found = report(tiered(PEERS | {"keep": 2}))
    assert found.host_memory.staged_bytes == 0
    assert found.host_memory.tier_bytes == 2 * 3 * 8 * found.layout.max_rank_bytes


def test_a_tier_that_drains_for_longer_than_its_interval_says_so() -> None:
    slow = {
        "preset": None,
        "profile": {"node_write_bytes_per_second": "30 MB/s", "node_read_bytes_per_second": "1 GB/s"},
    }
    found = report(tiered(NVME | {"interval_seconds": 60, "storage": slow}))
    assert any("The local-nvme tier drains for 280." in warning for warning in found.warnings)


def test_a_tier_without_a_read_rate_is_named_by_its_field() -> None:
    field = "checkpoint.tiers.1.storage.profile.node_read_bytes_per_second"
    only_written = {"profile": {"node_write_bytes_per_second": "2 GB/s"}}
    found = report(tiered(PEERS, NVME | {"storage": only_written}))
    assert found.interval.leaves_out_restore
    assert missing_read_rates(found.tiers) == [field]
    assert any(warning.endswith(f"leaves out the restore. Give {field}") for warning in found.warnings)
    (lost,) = [row for row in key_figures(found) if row.label == "Lost time"]
    assert f"restore left out: give {field}" in lost.meaning
    assert "give storage.profile" not in lost.meaning


def test_without_tiers_the_read_rate_of_the_storage_is_missing() -> None:
    assert missing_read_rates([]) == ["storage.profile.read_bytes_per_second"]


def test_a_tier_that_adds_nothing_is_named() -> None:
    found = report(tiered(PEERS, NVME | {"recovered_fraction": 0.8}))
    why = "a tier in front of it recovers every failure that it recovers"
    assert f"The local-nvme tier is not needed: {why}. Remove it" in found.warnings


def test_a_tier_whose_copies_survive_no_failure_is_named() -> None:
    found = report(tiered(NVME | {"recovered_fraction": 0}))
    assert "The local-nvme tier is not needed: its copies survive no failure. Remove it" in found.warnings


def test_three_tiers_as_published_need_an_average_rate() -> None:
    """500 GB every 600 s to the shared store: 0.83 GB/s on average, 4.2 to 8.3 GB/s to drain in 60 to 120 s."""
    blocks: dict[str, Any] = {"checkpoint": {"observed_bytes": "500 GB"}}
    found = report(tiered({"kind": "host-memory", "interval_seconds": 60, "recovered_fraction": 0.5}, interval="10min"))
    assert found.tiers[-1].mean_bytes_per_second == pytest.approx(BYTES / 600, rel=1e-6)
    document = tiered({"kind": "host-memory", "interval_seconds": 60, "recovered_fraction": 0.5}, interval="10min")
    document["checkpoint"] |= blocks["checkpoint"]
    small = report(document, storage={"profile": {"write_bytes_per_second": "4.2 GB/s"}})
    assert small.tiers[-1].mean_bytes_per_second == pytest.approx(0.83e9, rel=0.01)
    assert small.tiers[-1].drain_seconds == pytest.approx(120, rel=0.01)


@pytest.mark.parametrize(
    ("tiers", "message"),
    [
        ([NVME, PEERS], "must have tiers in the order of their intervals"),
        ([PEERS | {"interval_seconds": "1h"}], "not below the 3600 s of the main storage"),
        (
            [PEERS | {"interval_seconds": 70}],
            "checkpoint has an interval of 3600 s behind a tier with one of 70 s, of which it is no whole multiple: "
            "give it 3570 s or 3640 s",
        ),
        ([PEERS, NVME | {"interval_seconds": 90}], "interval of 90 s behind a tier with one of 60 s.*: give it 120 s"),
        ([ARCHIVE, PEERS], "has a tier after an object-store.*put object stores last"),
        ([ARCHIVE | {"interval_seconds": 60}], "interval of 60 s, below the 3600 s of the main storage"),
        ([PEERS, NVME | {"recovered_fraction": 0.5}], "survives fewer failures than the tier before it"),
        ([ARCHIVE | {"mode": "sync"}], "must not be sync behind the main storage.*remove mode"),
        ([PEERS | {"replicas": 1}], "must have replicas of 2 or more with kind peer-memory"),
        ([{"kind": "host-memory", "interval_seconds": 1, "replicas": 2}], "must have replicas 1 with kind host-memory"),
        (
            [{"kind": "local-nvme", "interval_seconds": 60}],
            "needs storage: the rates of a local-nvme.*give the tier a storage",
        ),
        (
            [{"kind": "host-memory", "interval_seconds": 60}],
            r"tiers\.0\.recovered_fraction is required, as reliability",
        ),
        ([PEERS | {"interval_seconds": 0}], "interval_seconds must be at least 1 ms"),
        ([PEERS | {"recovered_fraction": 1.5}], "recovered_fraction must be at most 1"),
    ],
)
def test_tiers_that_make_no_sense_are_refused(tiers: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        report(tiered(*tiers))


def test_peer_memory_needs_the_network_between_nodes() -> None:
    cluster = {"node": None, "node_spec": {"gpus_per_node": 8}}
    with pytest.raises(InvalidInput, match=r"is peer-memory, and the compute network of this node is not published"):
        report(tiered(PEERS), cluster=cluster)


@pytest.mark.parametrize(
    ("degrees", "replicas", "message"),
    [
        (
            {"tensor": 8},
            None,
            r"tiers\.0\.replicas must be at most the nodes of the layout, 1, .*, got 2: use kind host-memory, or more GPUs",
        ),
        ({"tensor": 8, "data": 2}, 3, r"tiers\.0\.replicas must be at most .* 2, .*, got 3: give 2 replicas"),
    ],
)
def test_each_copy_in_peer_memory_needs_a_node_of_its_own(
    degrees: dict[str, Any], replicas: int | None, message: str
) -> None:
    small: dict[str, Any] = {"model": {"preset": "llama-3.1-8b"}, "parallelism": {"pipeline": 1, "data": 1} | degrees}
    with pytest.raises(InvalidInput, match=message):
        report(tiered(PEERS | ({"replicas": replicas} if replicas else {}), **small))


def test_as_many_copies_in_peer_memory_as_nodes_are_accepted() -> None:
    small: dict[str, Any] = {
        "model": {"preset": "llama-3.1-8b"},
        "parallelism": {"tensor": 8, "pipeline": 1, "data": 2},
    }
    assert rows(report(tiered(PEERS, **small)))["peer-memory"].replicas == 2


def test_a_synchronous_tier_needs_no_copy_rate() -> None:
    cluster = {"node": None, "node_spec": {"gpus_per_node": 8}}
    storage = {"profile": {"write_bytes_per_second": "100 GB/s"}}
    found = report(tiered(NVME, mode="sync"), cluster=cluster, storage=storage)
    assert rows(found)["local-nvme"].stall_seconds == pytest.approx(NODE_BYTES / 26e9, rel=1e-6)


def test_a_scenario_with_tiers_survives_its_own_json() -> None:
    scenario = scenario_from(tiered(PEERS, NVME, ARCHIVE))
    assert type(scenario).model_validate_json(scenario.model_dump_json()) == scenario


def _nvme(rate: str, **fields: Any) -> dict[str, Any]:
    rates = {"node_write_bytes_per_second": rate, "node_read_bytes_per_second": rate}
    return {
        "kind": "local-nvme",
        "interval_seconds": 600,
        "recovered_fraction": 0.8,
        "storage": {"profile": rates},
    } | fields


def test_the_required_write_rate_leaves_the_tiers_their_stall() -> None:
    checkpoint = {"interval_seconds": 3600, "tiers": [_nvme("30 GB/s")]}
    rate = report(checkpoint=checkpoint).required.write_bytes_per_second
    again = report(checkpoint=checkpoint, storage={"profile": {"write_bytes_per_second": rate}})
    assert again.overhead.fraction == pytest.approx(0.05, rel=1e-9)
    assert (rate or 0) > 1.2 * (report(checkpoint={"interval_seconds": 3600}).required.write_bytes_per_second or 0)


def test_no_write_rate_is_enough_where_the_tiers_alone_miss_a_target() -> None:
    slow = {"interval_seconds": 3600, "tiers": [_nvme("3 GB/s")]}
    for targets in ({}, {"max_overhead_fraction": 1, "max_stall_seconds": 10}):
        found = report(checkpoint=slow, targets=targets)
        assert found.required.write_bytes_per_second is None
        (missed,) = [check for check in found.targets if check.met is False]
        assert missed.remedy
        assert "write bandwidth" not in missed.remedy


def test_the_required_write_rate_of_a_sweep_is_that_of_each_answer() -> None:
    scenario = scenario_from(tiered({"kind": "host-memory", "interval_seconds": 30, "recovered_fraction": 0.5}, PEERS))
    limits = np.array([1e-5, 1e-3, 0.05])
    inputs = with_arrays(scenario, {"targets.max_overhead_fraction": limits}).run_inputs
    required = evaluate(size_layout(scenario).workload, inputs).report.required
    for index, limit in enumerate(limits):
        one = report(scenario.model_dump(exclude_none=True), targets={"max_overhead_fraction": limit}).required
        rate = np.broadcast_to(np.asarray(required.device_to_host_bytes_per_second), limits.shape)[index]
        assert (one.device_to_host_bytes_per_second or np.nan) == pytest.approx(rate, rel=1e-9, nan_ok=True)


def test_the_required_copy_rate_is_for_the_tier_that_copies() -> None:
    rates = {"write_bytes_per_second": "1 TB/s", "planning_seconds_per_rank": 0}
    scenario = tiered(PEERS, storage={"profile": rates})
    rate = report(scenario).required.device_to_host_bytes_per_second
    assert rate == pytest.approx(LARGEST_SHARE / (0.05 * 60), rel=1e-6)
    profile = rates | {"device_to_host_bytes_per_second": rate}
    assert report(scenario, storage={"profile": profile}).overhead.fraction == pytest.approx(0.05, rel=1e-6)
