"""Limits that end jobs: what each needs by hand, where it applies, and published kills that do not hold."""

from __future__ import annotations

from typing import Any

import pytest

from sizing.published import published
from sizing.report import SizingReport
from sizing.run.job_limits import JobLimit, p99_seconds
from tests.sizing.run.scenarios import report

LLAMA_8B = {"preset": "llama-3.1-8b"}
KILLS = {row["id"]: row for row in published("job_kills")["rows"]}
GIB = 1024**3


def answered(framework: str, *, gpus: int = 64, storage: dict[str, Any] | None = None, **blocks: Any) -> SizingReport:
    rates = {"write_bytes_per_second": "1 GB/s", "read_bytes_per_second": "2 GB/s"} | (storage or {})
    asked = {"model": LLAMA_8B, "training": {"framework": framework}, "parallelism": {"data": gpus}}
    return report(asked | {"storage": {"profile": rates}}, **blocks)


def limits_of(found: SizingReport) -> dict[str, JobLimit]:
    return {row.name: row for row in found.job_limits}


def test_ranks_that_write_nothing_wait_for_all_of_a_full_state_dict() -> None:
    one = {"process_write_bytes_per_second": "1 GB/s"}
    found = answered("fsdp2", storage=one, checkpoint={"format": "full", "observed_bytes": "700 GB"})
    row = limits_of(found)["collective-timeout"]
    assert row.needed == pytest.approx(700.0)
    assert (row.limit, row.holds) == (600.0, False)
    assert row.setting.endswith("timedelta(seconds=1440))")  # twice as much, in whole minutes
    warned = [each for each in found.warnings if "does not hold" in each]
    assert len(warned) == 1
    assert row.setting in warned[0]
    held = answered("fsdp2", storage=one, checkpoint={"format": "full", "observed_bytes": "590 GB"})
    assert limits_of(held)["collective-timeout"].holds


def test_ranks_that_write_the_same_do_not_wait_for_one_another() -> None:
    asked = {"model": {"num_parameters": 8 * 10**9}, "training": {"framework": "fsdp2"}, "parallelism": {"data": 8}}
    slow = report(asked | {"storage": {"profile": {"write_bytes_per_second": "10 MB/s"}}})
    assert limits_of(slow)["collective-timeout"].needed == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize(
    ("framework", "seconds", "line"),
    [
        ("fsdp2", 600, "init_process_group(timeout=timedelta(seconds=600))"),
        ("torchtitan", 100, "[comm] train_timeout_seconds = 120"),
        ("megatron", 600, "--distributed-timeout-minutes 10"),
        ("deepspeed", 600, "DEEPSPEED_TIMEOUT=10"),
        ("maxtext", 1200, "orbax.checkpoint.AsyncOptions(timeout_secs=1200)"),
    ],
)
def test_the_timeout_and_the_line_that_sets_it_are_those_of_the_framework(
    framework: str, seconds: int, line: str
) -> None:
    row = limits_of(answered(framework, gpus=8, storage={"write_bytes_per_second": "1 TB/s"}))["collective-timeout"]
    assert row.limit == seconds
    assert row.setting.endswith(line)
    assert row.source


def test_a_first_save_of_2048_ranks_plans_for_longer_than_nccl_waits() -> None:
    kill = KILLS["pytorch-163548"]
    found = answered("fsdp2", gpus=kill["ranks"], checkpoint={"cached_plans": False})
    row = limits_of(found)["planning-timeout"]
    assert row.needed == pytest.approx(2048 * 90 / 256)
    assert row.needed >= kill["planning_seconds"]
    assert row.holds is False
    over_gloo = answered("fsdp2", gpus=kill["ranks"], checkpoint={"cached_plans": False, "mode": "async"})
    assert limits_of(over_gloo)["planning-timeout"].limit == 1800


def test_the_copy_of_a_staged_save_ends_a_job_as_it_did_with_veomni() -> None:
    kill = KILLS["veomni-1176"]
    num_bytes = round(kill["copied_gib"] * GIB)
    rate = {"write_bytes_per_second": num_bytes / kill["copied_seconds"]}
    row = limits_of(answered("fsdp2", storage=rate, checkpoint={"format": "full", "observed_bytes": num_bytes}))
    assert row["collective-timeout"].needed == pytest.approx(kill["copied_seconds"])
    assert row["collective-timeout"].limit == kill["limit_seconds"]
    assert row["collective-timeout"].holds is False


def test_an_asynchronous_save_connects_all_ranks_over_gloo() -> None:
    kill = KILLS["gloo-327"]
    row = limits_of(answered("torchtitan", gpus=1536, checkpoint={"mode": "async"}))["open-files"]
    assert (row.needed, row.limit, row.holds) == (1 + 1535, 1024, False)
    assert kill["ranks"] <= 1536
    assert limits_of(answered("torchtitan", gpus=1536))["open-files"].needed == 1


def test_gpu_0_gathers_plans_of_64_ranks_over_nccl_in_11_gb() -> None:
    found = answered("fsdp2", gpus=64)
    row = limits_of(found)["gpu-memory"]
    held_bytes = found.training.gpu_state_bytes + (found.training.gathered_bytes or 0)
    assert row.needed == pytest.approx(held_bytes + KILLS["pytorch-151030"]["gpu_0_extra_gb"] * 1e9)
    assert row.needs.startswith("training without activations, and 11.00 GB on GPU 0 for channels to all ranks")
    assert row.limit == 80e9
    assert "gpu-memory" not in limits_of(answered("fsdp2", gpus=64, checkpoint={"mode": "async"}))
    assert "gpu-memory" not in limits_of(answered("deepspeed", gpus=64))


def test_a_full_state_dict_takes_its_largest_tensor_whole_on_every_gpu() -> None:
    found = answered("fsdp2", checkpoint={"format": "full"})
    embedding_bytes = 128_256 * 4096 * 4
    held_bytes = found.training.gpu_state_bytes + (found.training.gathered_bytes or 0)
    assert found.training.gathered_bytes
    assert limits_of(found)["gpu-memory"].needed == held_bytes + embedding_bytes


def test_the_larger_of_save_and_restore_must_fit_the_node() -> None:
    node = {"gpus_per_node": 8, "gpu": "h100", "gpu_memory_bytes": "80 GB", "host_memory_bytes": "90 GB"}
    found = answered("deepspeed", gpus=8, cluster={"node_spec": node})
    row = limits_of(found)["host-memory"]
    assert (row.needed, row.limit, row.holds) == (found.host_memory.restore_bytes, 90e9 * 0.95 - 430 * 1024**2, False)
    assert not any("does not hold" in each for each in found.warnings)  # a warning of its own tells it


def test_shared_memory_is_half_of_the_host_s() -> None:
    found = answered("torchtitan", gpus=8, checkpoint={"mode": "async"})
    row = limits_of(found)["shared-memory"]
    assert (row.needed, row.limit) == (found.host_memory.staged_bytes, 2**40)
    assert "--shm-size=98g" in row.setting  # of 96.4 GB
    assert "shared-memory" not in limits_of(answered("torchtitan", gpus=8))


def test_drives_of_the_nodes_must_hold_the_checkpoints_of_the_fullest_node() -> None:
    asked = {"model": LLAMA_8B, "training": {"framework": "fsdp2"}, "parallelism": {"data": 8}}
    drives = {"storage": {"preset": "local-nvme-raid0-8x-gen5"}, "retention": {"keep_last": 3}}
    found = report(asked | drives)
    row = limits_of(found)["free-space"]
    assert (row.needed, row.limit) == (4 * found.layout.max_node_bytes, 30.72e12)
    shared = limits_of(answered("fsdp2", gpus=8))["free-space"]
    assert (shared.limit, shared.holds) == (None, None)


@pytest.mark.parametrize(
    ("retention", "export"),
    [
        ({"keep_weights_every": 1, "run_seconds": "60d"}, None),
        ({"free_fraction": 0.5, "keep_last": 200}, None),
        ({}, {"every": 1, "keep": 3000}),
    ],
)
def test_drives_of_one_node_hold_all_that_the_capacity_counts(
    retention: dict[str, Any], export: dict[str, Any] | None
) -> None:
    asked = {"model": LLAMA_8B, "training": {"framework": "megatron"}, "parallelism": {"data": 8}}
    drives = {"storage": {"preset": "local-nvme-raid0-8x-gen5"}, "cluster": {"node": "dgx-h100"}}
    checkpoint = {"interval_seconds": "30min"} | ({"export": export} if export else {})
    found = report(asked | drives, retention=retention, checkpoint=checkpoint)
    row = limits_of(found)["free-space"]
    assert row.needed == pytest.approx(found.capacity.usable_bytes)
    assert (row.limit, row.holds) == (30.72e12, False)


def test_the_fullest_of_many_nodes_holds_its_share_and_the_exports_of_rank_0() -> None:
    asked = {"model": LLAMA_8B, "training": {"framework": "fsdp2"}, "parallelism": {"data": 64}}
    drives = {"storage": {"preset": "local-nvme-raid0-8x-gen5"}, "checkpoint": {"export": {"every": 1}}}
    found = report(asked | drives)
    row = limits_of(found)["free-space"]
    assert row.needed == pytest.approx(2 * found.layout.max_node_bytes + 2 * 2 * 8_030_261_248, rel=1e-6)


@pytest.mark.parametrize(("disk", "holds"), [("10 GB", False), ("1 TB", True)])
def test_a_disk_that_is_given_is_the_limit_of_free_space(disk: str, *, holds: bool) -> None:
    found = answered("fsdp2", gpus=8, retention={"disk_bytes": disk})
    row = limits_of(found)["free-space"]
    assert (row.needed, row.limit, row.holds) == (found.capacity.usable_bytes, found.capacity.disk_bytes, holds)
    assert sum("Free space" in each or "a disk of" in each for each in found.warnings) == (not holds)


def test_a_save_must_end_within_the_notice_of_a_preemption() -> None:
    spot = {"preemption": {"per_hour": 0.1, "notice_seconds": 30, "capacity_wait_seconds": 600}, "mtbf_seconds": "1d"}
    found = answered("deepspeed", gpus=8, reliability=spot)
    row = limits_of(found)["preemption-notice"]
    assert found.write is not None
    assert (row.needed, row.limit, row.holds) == (found.write.seconds, 30.0, False)
    assert sum("notice" in warning for warning in found.warnings) == 1
    assert "preemption-notice" not in limits_of(answered("deepspeed", gpus=8))


def test_objects_of_an_archive_have_a_size_parts_and_requests() -> None:
    archive = {
        "kind": "object-store",
        "interval_seconds": "8h",
        "storage": {"profile": {"write_bytes_per_second": 1e8}},
    }
    checkpoint = {"format": "full", "tiers": [archive]}
    rows = limits_of(answered("fsdp2", model={"preset": "llama-3.1-70b"}, checkpoint=checkpoint))
    file_bytes = 12 * 70_553_706_496
    assert rows["object-size"].needed == pytest.approx(file_bytes, rel=1e-6)
    assert rows["object-size"].limit == 5 * 1024**4
    assert rows["object-parts"].needed == -(-file_bytes // (50 * 1024**2)) > 10_000
    assert rows["object-parts"].holds is False
    part_bytes = int(rows["object-parts"].setting.split("=")[1].rstrip(")"))
    assert file_bytes / part_bytes <= 10_000
    assert rows["object-request"].needed == pytest.approx(50 * 1024**2 / 1e8, rel=0.01)
    assert "object-size" not in limits_of(answered("fsdp2"))


def test_no_nccl_watchdog_ends_a_jax_job() -> None:
    assert "nccl-heartbeat" not in limits_of(answered("maxtext", gpus=8))
    assert limits_of(answered("fsdp2"))["nccl-heartbeat"].holds is None


def test_the_99th_percentile_lies_beyond_the_95th() -> None:
    assert p99_seconds(100.0, p95_seconds=130.0) == pytest.approx(100.0 * 1.3**1.41430, rel=1e-5)


@pytest.mark.parametrize("written_by", ["rank-0", "every-rank"])
def test_an_export_by_one_rank_is_held_against_the_wait_of_the_others(written_by: str) -> None:
    """794 GB at 1.25 GB/s are 635.2 s, and NCCL ends ranks that wait for 600 s."""
    found = report(
        {
            "model": {"num_parameters": "397B", "num_active_parameters": "17B", "num_experts": 512},
            "training": {"framework": "fsdp2"},
            "parallelism": {"pipeline": 8, "expert": 32, "data": 32},
            "checkpoint": {"export": {"every": 1, "written_by": written_by}},
            "storage": {
                "profile": {"write_bytes_per_second": "100 GB/s", "writer_write_bytes_per_second": "1.25 GB/s"}
            },
        }
    )
    row = limits_of(found).get("export-timeout")
    said = [each for each in found.warnings if each.startswith("Export timeout of 10.0 min does not hold")]
    if written_by == "every-rank":
        assert (row, said) == (None, [])
    else:
        assert row is not None
        assert row.needed == pytest.approx(635.2, rel=0.01)
        assert (row.limit, len(said)) == (600, 1)
