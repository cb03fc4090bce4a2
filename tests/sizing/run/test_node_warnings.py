"""Rates that no node carries, and that nobody publishes of its writers, are said in one sentence with the remedy."""

from typing import Any

import pytest

from sizing.published import published
from sizing.questions.registry import REQUIRE
from sizing.report import answer
from sizing.storage.catalog import max_node_rate, node_rates
from tests.sizing.run.scenarios import document, write_of

GUIDANCE = published("storage_guidance")

ON_8_NODES: dict[str, Any] = {
    "model": {"preset": "llama-3.1-405b"},
    "parallelism": {"tensor": 8, "pipeline": 8},
    "checkpoint": {"format": "megatron"},
    "cluster": {"node": "dgx-h200"},
    "storage": {"profile": {"write_bytes_per_second": "5 TB/s", "read_bytes_per_second": "5 TB/s"}},
}


def warnings(base: dict[str, Any] = ON_8_NODES, **blocks: Any) -> list[str]:
    """Those of a node's rates."""
    words = ("writing node would", "reading node would", "would have to", "storage.profile.node_")
    return [text for text in answer(document(base, **blocks)).warnings if any(word in text for word in words)]


def storage(**rates: str) -> dict[str, Any]:
    return {"profile": rates}


def test_5_terabytes_per_second_through_8_dgx_h200_are_more_than_all_their_adapters() -> None:
    assert write_of(answer(ON_8_NODES)).per_node_bytes_per_second == pytest.approx(625e9)
    assert warnings() == [
        f"Each {does} 625.0 GB/s, more than the 600.0 GB/s of all its adapters (compute 8 x 400 Gb/s, storage and "
        f"management 2 x 2 ports of 400 Gb/s). Give cluster.storage_nics, or a lower storage.profile.{field}"
        for does, field in (
            ("writing node would send", "node_write_bytes_per_second"),
            ("reading node would receive", "node_read_bytes_per_second"),
        )
    ]


def test_the_remedies_bound_the_answer_and_end_the_warning() -> None:
    own = warnings(cluster={"storage_nics": "2 x 400 Gb/s"})
    assert not any("adapters" in text for text in own)
    rates = storage(
        **ON_8_NODES["storage"]["profile"], node_write_bytes_per_second="8 GB/s", node_read_bytes_per_second="40 GB/s"
    )
    assert warnings(storage=rates) == []


def test_a_published_storage_network_is_compared_alone() -> None:
    (written,) = warnings(cluster={"node": "dgx-a100"}, storage=storage(write_bytes_per_second="401 GB/s"))
    assert "more than the 50.00 GB/s of its storage network (2 x 200 Gb/s)" in written
    (read,) = warnings(
        cluster={"node": "dgx-a100"},
        storage=storage(write_bytes_per_second="1 GB/s", read_bytes_per_second="401 GB/s"),
    )
    assert read.startswith(
        "Each reading node would receive 50.12 GB/s, more than the 50.00 GB/s of its storage network"
    )


def test_a_node_of_the_users_own_is_compared_with_what_it_states() -> None:
    node = {"gpus_per_node": 8, "storage_network_bytes_per_second": "100 Gb/s"}
    asked = document(ON_8_NODES, storage=storage(write_bytes_per_second="200 GB/s"))
    (warning,) = warnings(asked | {"cluster": {"node_spec": node}})
    assert "send 25.00 GB/s, more than the 12.50 GB/s of its storage network (100 Gb/s)" in warning
    assert warnings(asked | {"cluster": {"node_spec": {"gpus_per_node": 8}}})[0].startswith("Each writer")


def test_a_given_node_rate_that_does_not_decide_is_compared_too() -> None:
    rates = storage(write_bytes_per_second="8 GB/s", node_write_bytes_per_second="60 GB/s")
    (warning,) = warnings(cluster={"node": "dgx-a100"}, storage=rates)
    assert warning.startswith("storage.profile.node_write_bytes_per_second is 60.00 GB/s, more than the 50.00 GB/s")


def test_a_rate_that_is_the_adapters_own_is_no_excess() -> None:
    assert warnings(
        cluster={"node": "dgx-a100"},
        storage=storage(write_bytes_per_second="400 GB/s", node_read_bytes_per_second="40 GB/s"),
    ) == [
        "Each writer would have to write 6.250 GB/s, 50.00 GB/s per node; the most that VAST Data 2024 (8 buffered "
        "writers of a DGX A100) gives is 8.000 GB/s per node. Measure it with ckpt-bench, or give a lower "
        "storage.profile.node_write_bytes_per_second"
    ]


def test_drives_in_the_nodes_pass_no_adapters_and_have_figures_of_their_own() -> None:
    asked = {key: value for key, value in ON_8_NODES.items() if key != "storage"}
    local = {"storage": {"preset": "local-nvme-raid0-8x-gen5"}}
    assert warnings(asked | local | {"cluster": {"node": "azure-nd-a100-v4"}}) == []


def test_a_tier_is_held_against_the_same_figures() -> None:
    tier = {
        "kind": "shared-file-system",
        "interval_seconds": "10min",
        "recovered_fraction": 0.9,
        "storage": {"profile": {"write_bytes_per_second": "5 TB/s"}},
    }
    slow = storage(write_bytes_per_second="8 GB/s")
    (warning,) = warnings(checkpoint={"tiers": [tier]}, storage=slow)
    assert warning.startswith("The shared-file-system tier: Each writing node would send 625.0 GB/s")
    drives = tier | {"kind": "local-nvme", "storage": {"profile": {"node_write_bytes_per_second": "30 GB/s"}}}
    (warning,) = warnings(checkpoint={"tiers": [drives]}, storage=slow)
    assert "the most that DeepNVMe 2025 (eight Gen5 drives) gives is 26.00 GB/s per node" in warning


@pytest.mark.parametrize(
    ("io", "gigabytes_per_second", "source"),
    [
        ("buffered", 8.1, "VAST Data 2024"),
        ("direct", 20.1, "NVIDIA DGX SuperPOD"),
        ("buffered", 7.9, None),
        ("direct", 19.9, None),
    ],
)
def test_writers_are_held_against_the_most_that_is_published_for_their_way(
    io: str, gigabytes_per_second: float, source: str | None
) -> None:
    rates = storage(write_bytes_per_second=f"{8 * gigabytes_per_second} GB/s") | {"io": io}
    found = warnings(storage=rates)
    assert bool(found) == (source is not None)
    assert all(str(source) in text for text in found)


@pytest.mark.parametrize(("gigabytes_per_second", "is_said"), [(40.1, True), (39.9, False)])
def test_readers_are_held_against_the_best_single_node(gigabytes_per_second: float, is_said: bool) -> None:
    rates = storage(write_bytes_per_second="8 GB/s", read_bytes_per_second=f"{8 * gigabytes_per_second} GB/s")
    found = [text for text in warnings(storage=rates) if text.startswith("Each reader would have to read")]
    assert bool(found) == is_said


def test_what_was_measured_is_worth_more_than_a_publication() -> None:
    measured = {"run_id": "r", "engine": "torch-save", "num_nodes": 8, "num_ranks": 64}
    rates = {"profile": {"write_bytes_per_second": "400 GB/s", "measured": measured}}
    assert warnings(storage=rates) == []


def test_one_writer_is_held_against_what_a_whole_node_gives() -> None:
    rates = storage(write_bytes_per_second="9 GB/s", process_write_bytes_per_second="9 GB/s")
    full = {"framework": "fsdp2"}
    (warning,) = warnings(
        training=full,
        checkpoint={"format": "full"},
        parallelism={"tensor": 1, "pipeline": 1, "data": 64},
        storage=rates,
    )
    assert warning.startswith("Each writer would have to write 9.000 GB/s, 9.000 GB/s per node; the most that VAST")


def test_one_writer_of_an_export_is_held_against_them_by_itself() -> None:
    fastest = {"process_write_bytes_per_second": "100 TB/s"}
    slow = storage(write_bytes_per_second="40 GB/s", read_bytes_per_second="40 GB/s", **fastest)
    assert warnings(storage=slow) == []
    (warning,) = warnings(storage=slow, checkpoint={"export": {"every": 1, "written_by": "rank-0"}})
    assert warning.startswith("The export: Each writer would have to write 40.00 GB/s, 40.00 GB/s per node; the most")
    both = warnings(storage=slow | {"io": "direct"}, checkpoint={"export": {"every": 1, "written_by": "afterwards"}})
    assert [text.partition(" GB/s")[0] for text in both] == ["The export: Each writer would have to write 2.353"]
    rates = storage(**ON_8_NODES["storage"]["profile"], **fastest)
    fast = warnings(checkpoint={"export": {"every": 1, "written_by": "rank-0"}}, storage=rates)[-1]
    assert fast.startswith("The export: Each writing node would send 5.000 TB/s, more than the 600.0 GB/s of all its")
    bounded = slow["profile"] | {"writer_write_bytes_per_second": "1 GB/s"}
    assert warnings(storage={"profile": bounded}, checkpoint={"export": {"every": 1, "written_by": "rank-0"}}) == []


def test_an_export_by_every_rank_repeats_nothing() -> None:
    own = warnings(checkpoint={"export": {"every": 1, "written_by": "every-rank"}})
    assert own[:2] == warnings()
    assert len(set(own)) == len(own)


def test_a_conversion_is_held_against_what_one_node_does() -> None:
    asked = warnings(
        training={"framework": "deepspeed"},
        parallelism={"tensor": 8, "pipeline": 1, "data": 8, "zero_stage": 1},
        checkpoint={"format": "deepspeed", "export": {"every": 1, "format": "deepspeed-universal"}},
        storage=storage(write_bytes_per_second="60 GB/s", read_bytes_per_second="60 GB/s"),
    )
    own = [text for text in asked if text.startswith("The export: ")]
    assert [text.split()[3] for text in own] == ["writer", "reader"]
    assert all(", 60.00 GB/s per node; the most" in text for text in own)


def test_a_publication_over_storage_is_held_against_them_and_none_over_the_network() -> None:
    sent = {"interval_seconds": 60, "over": "storage", "num_replicas": 1}
    slow = storage(write_bytes_per_second="60 GB/s", read_bytes_per_second="60 GB/s")
    (warning,) = warnings(training={"reinforcement": {"publication": sent}}, storage=slow)
    assert warning.startswith("The publication: Each reader would have to read 7.500 GB/s, 60.00 GB/s per node")
    over_network = {"reinforcement": {"publication": sent | {"over": "network"}}}
    assert warnings(training=over_network, storage=slow) == []


def test_rates_that_targets_need_are_compared_as_well() -> None:
    tight = {"max_stall_seconds": 0.7, "recovery_seconds": 1}
    sentence = "To meet the targets, each writing node would send 1.015 TB/s, more than the 600.0 GB/s of all its"
    assert any(text.startswith(sentence) for text in answer(document(ON_8_NODES, targets=tight)).warnings)
    solved = REQUIRE.answer(document(ON_8_NODES, targets=tight)).warnings
    assert sum(text.startswith("To meet the targets, each") for text in solved) == 2
    easy = answer(document(ON_8_NODES, targets={"max_stall_seconds": 60})).warnings
    assert not any(text.startswith("To meet the targets") for text in easy)


def test_every_figure_is_the_published_one() -> None:
    node, drives = GUIDANCE["dgx_superpod_h100"]["single_node"]["best"], GUIDANCE["local_nvme_raid0"]["eight_gen5"]
    buffered = GUIDANCE["dgx_a100"]["buffered_writer_limit_bytes_per_second_per_node"]
    assert max_node_rate("write", "shared-file-system", "buffered").bytes_per_second == buffered
    assert max_node_rate("write", "shared-file-system", "direct").bytes_per_second == node[1] * 1e9
    for io in ("buffered", "direct"):
        assert max_node_rate("read", "shared-file-system", io).bytes_per_second == node[0] * 1e9
        assert max_node_rate("write", "local-nvme", io).bytes_per_second == drives[1] * 1e9
        assert max_node_rate("read", "local-nvme", io).bytes_per_second == drives[0] * 1e9
    assert all(rate.bytes_per_second > 0 and rate.source for rate in node_rates())
