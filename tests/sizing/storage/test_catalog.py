"""Published storage systems are what their sources say, and answer a scenario by name."""

from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.published import published
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.storage.catalog import storage_profiles
from sizing.storage.storage import Storage, resolve_storage

GUIDANCE = published("storage_guidance")
GIB = 2**30


def report(storage: dict[str, Any]) -> SizingReport:
    document = {
        "model": {"preset": "megatron-1t"},
        "parallelism": {"tensor": 8, "pipeline": 64, "data": 6},
        "cluster": {"node": "dgx-a100"},
        "checkpoint": {"format": "megatron", "observed_bytes": "13.8 TB"},
        "storage": storage,
    }
    return answer(scenario_from(document))


@pytest.mark.parametrize("quality", ["good", "better", "best"])
@pytest.mark.parametrize(("size", "key"), [("1su", "scalable_unit_32_nodes"), ("4su", "four_scalable_units")])
def test_superpod_guidance_is_as_published(quality: str, size: str, key: str) -> None:
    facts, profile = GUIDANCE["dgx_superpod_h100"], storage_profiles()[f"dgx-superpod-h100-{size}-{quality}"].profile
    system = [profile.read.file_system_bytes_per_second, profile.write.file_system_bytes_per_second]
    node = [profile.read.node_bytes_per_second, profile.write.node_bytes_per_second]
    assert [rate and rate / 1e9 for rate in system] == facts[key][quality]
    assert [rate and rate / 1e9 for rate in node] == facts["single_node"][quality]


@pytest.mark.parametrize(
    ("name", "key"),
    [("4x-gen4", "four_gen4"), ("4x-gen5", "four_gen5"), ("8x-gen5", "eight_gen5")],
)
def test_local_nvme_is_as_published_and_limits_the_node_alone(name: str, key: str) -> None:
    profile = storage_profiles()[f"local-nvme-raid0-{name}"].profile
    read, write = GUIDANCE["local_nvme_raid0"][key]
    assert profile.figures() == {
        "node_write_bytes_per_second": write * 1e9,
        "node_read_bytes_per_second": read * 1e9,
    }


@pytest.mark.parametrize(
    "entry", [e for e in storage_profiles().values() if e.basis == "achieved"], ids=lambda e: e.name
)
def test_mlperf_rates_are_bytes_over_the_slowest_ranks_seconds(entry: Any) -> None:
    workloads = published("mlperf_storage_checkpoint")["workloads"]
    row = next(
        row
        for row in GUIDANCE["mlperf_storage_v3_results"]["rows"]
        if f"{entry.num_nodes} hosts" in row["system"] and f"checkpointing {row['model']}," in entry.source
    )
    size = workloads[row["model"]]["total_gib"] * GIB
    assert entry.profile.write.file_system_bytes_per_second == pytest.approx(size / row["write_seconds"], rel=2e-3)
    assert (entry.profile.read.file_system_bytes_per_second is None) == ("read_seconds" not in row)
    if "read_seconds" in row:
        assert entry.profile.read.file_system_bytes_per_second == pytest.approx(size / row["read_seconds"], rel=2e-3)


def test_buffered_writers_of_a_dgx_a100_bind_at_8_gb_per_second_and_direct_ones_do_not() -> None:
    buffered = report({"preset": "dgx-a100-storage-network"}).write
    direct = report({"preset": "dgx-a100-storage-network", "io": "direct"}).write
    assert buffered is not None
    assert direct is not None
    assert (buffered.bottleneck, direct.bottleneck) == ("page-cache", "node")
    assert buffered.even_seconds == pytest.approx(
        13.8e12 / (64 * GUIDANCE["dgx_a100"]["buffered_writer_limit_bytes_per_second_per_node"])
    )
    assert direct.even_seconds == pytest.approx(13.8e12 / (64 * 50e9))


def test_rates_that_other_numbers_of_nodes_achieved_are_named() -> None:
    warnings = " ".join(report({"preset": "mlperf-v3-hpe-e2000"}).warnings)
    assert "what 16 nodes achieved, and here 64 write" in warnings


def test_every_entry_has_a_rate_and_resolves_by_name() -> None:
    for name, entry in storage_profiles().items():
        resolved = resolve_storage(Storage(preset=name))
        assert resolved is not None
        assert resolved.profile == entry.profile
        assert resolved.published == entry


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidInput, match=r"storage\.preset must be a name of the catalog.*mlperf-v3-hpe-e2000"):
        report({"preset": "mlperf-hpe"})


@pytest.mark.parametrize("storage", [{}, {"preset": "mlperf-v3-hpe-e2000", "profile": {"write_bytes_per_second": 1e9}}])
def test_storage_is_exactly_one_kind(storage: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="must have exactly one of preset, profile"):
        report(storage)
