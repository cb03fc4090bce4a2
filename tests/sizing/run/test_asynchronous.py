"""Asynchronous saving stalls for the copy, drains before the next save, and counts only once drained."""

import math
from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.scenario import scenario_from
from tests.sizing.run.scenarios import ASYNC, document, report, write_of

BYTES = 14 * 405_853_388_800
COPY_SECONDS = BYTES / 16_384 / 20e9
WRITE_SECONDS = BYTES / 100e9


def test_training_stalls_for_the_copy_and_the_rest_drains() -> None:
    write = write_of(report(ASYNC))
    assert write.stall_seconds == pytest.approx(COPY_SECONDS, rel=1e-6)
    assert write.drain_seconds == pytest.approx(WRITE_SECONDS, rel=1e-6)
    assert write.seconds == pytest.approx(write.stall_seconds + write.drain_seconds)


def test_a_drain_counts_as_work_lost_at_each_failure() -> None:
    found = report(ASYNC)
    interval, write = found.interval, write_of(found)
    recovery = 60 + 300 + (found.restore.seconds or 0)
    mtbf = 86_400 / (0.0038 * 2048)
    tau = 600 - write.stall_seconds
    expected = tau * math.exp(-(recovery + write.drain_seconds) / mtbf) / (mtbf * math.expm1(600 / mtbf))
    assert interval.recovery_seconds == pytest.approx(recovery)
    assert interval.goodput_at_interval_fraction == pytest.approx(expected, rel=1e-9)
    assert found.restore.time_to_first_step_seconds == interval.recovery_seconds


def test_a_save_that_has_not_drained_delays_the_next_one() -> None:
    found = report(ASYNC, checkpoint={"interval_seconds": 30})
    write, interval = write_of(found), found.interval
    assert interval.effective_interval_seconds == pytest.approx(write.stall_seconds + write.drain_seconds)
    assert found.overhead.fraction == pytest.approx(write.stall_seconds / (write.stall_seconds + write.drain_seconds))
    assert found.capacity.written_bytes_per_day == pytest.approx(86_400 / write.seconds * BYTES, rel=1e-6)
    assert any("the next save cannot start" in warning for warning in found.warnings)


def test_the_best_interval_leaves_time_to_drain() -> None:
    found = report(ASYNC, storage={"profile": {"write_bytes_per_second": "5 GB/s"}})
    assert found.interval.optimal_seconds == pytest.approx(write_of(found).drain_seconds)


def test_the_least_write_rate_drains_within_the_interval_exactly() -> None:
    required = report(ASYNC).required
    assert required.write_target == "interval_seconds"
    at_the_limit = {"write_bytes_per_second": required.write_bytes_per_second, "device_to_host_bytes_per_second": 20e9}
    again = report(ASYNC, storage={"profile": at_the_limit})
    assert write_of(again).seconds == pytest.approx(600, rel=1e-9)


def test_the_least_copy_rate_stalls_for_what_the_target_allows() -> None:
    required = report(ASYNC, targets={"max_stall_seconds": 2}).required
    assert required.device_to_host_bytes_per_second == pytest.approx(BYTES / 16_384 / 2, rel=1e-6)


def test_without_a_copy_rate_the_line_rate_of_the_link_is_assumed() -> None:
    found = report(ASYNC, storage={"profile": {"write_bytes_per_second": "100 GB/s"}})
    assert write_of(found).stall_seconds == pytest.approx(BYTES / 16_384 / 63e9, rel=1e-6)
    assert "storage.profile.device_to_host_bytes_per_second" in {assumption.field for assumption in found.assumptions}


def test_a_node_without_a_published_link_needs_a_copy_rate() -> None:
    blocks: dict[str, Any] = {
        "storage": {"profile": {"write_bytes_per_second": "100 GB/s"}},
        "cluster": {"node": None, "node_spec": {"gpus_per_node": 8}},
    }
    with pytest.raises(InvalidInput, match="device_to_host_bytes_per_second is required for the copy to host memory"):
        report(ASYNC, **blocks)


def test_what_is_staged_must_fit_the_host_memory() -> None:
    memory = report(ASYNC).host_memory
    assert memory.staged_bytes == pytest.approx(BYTES / 2048, rel=0.2)
    assert memory.fits
    small = {"node": None, "node_spec": {"gpus_per_node": 8, "host_memory_bytes": "1 GB", "pcie_generation": 5}}
    found = report(ASYNC, cluster=small)
    assert found.host_memory.fits is False
    assert any("of host memory per node" in warning for warning in found.warnings)


@pytest.mark.parametrize("name", ["megatron", "megatron-distributed-optimizer"])
def test_formats_that_only_save_synchronously_refuse(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"checkpoint.mode must be sync with format {name}"):
        report(document(ASYNC, checkpoint={"format": name}))


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"checkpoint\.mode must be one of 'sync' or 'async'"):
        scenario_from(document(ASYNC, checkpoint={"mode": "lazy"}))


@pytest.mark.parametrize("profile", [{"write_bytes_per_second": "1 TB/s"}, None])
def test_the_required_rate_counts_a_copy_at_the_rate_of_the_links(profile: dict[str, Any] | None) -> None:
    storage = None if profile is None else {"profile": profile}
    base = document(ASYNC, storage=None)
    required = report(base, **({"storage": storage} if storage else {})).required
    again = report(base, storage={"profile": {"write_bytes_per_second": required.write_bytes_per_second}})
    assert write_of(again).seconds == pytest.approx(600, rel=1e-9)
