"""The copy to host memory, here from host memory: where there is a GPU, a run times the same one."""

from __future__ import annotations

import pytest
import torch

from io_bench.engines import EnginePlan
from io_bench.measure.plan import WriterPlan
from io_bench.payload import payload
from io_bench.payload.byte_source import POOL_BYTES
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory, TensorSpec
from tests.benchmarks import bench_gpu


def test_every_byte_passes_through_the_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "SNAPSHOT_BYTES", 1000)
    weights = torch.arange(1_100, dtype=torch.float32)
    copied = payload.Snapshot({"model": {"w": weights, "empty": torch.empty(0)}, "step": 1}, Device("cpu"))
    copied.copy()
    last = weights.view(torch.uint8)[4000:]
    assert torch.equal(copied._buffer[: len(last)], last)
    assert torch.equal(copied._buffer[len(last) :], weights.view(torch.uint8)[3400:4000])


@pytest.mark.parametrize(("num_values", "passing_bytes"), [(1 << 20, payload.SNAPSHOT_BYTES), (1 << 27, 1 << 29)])
def test_what_passes_through_host_memory_is_planned_there(num_values: int, passing_bytes: int) -> None:
    inventory = Inventory((TensorSpec("model", "w", (num_values,), "float32"),))
    engine_plan = EnginePlan(("f",), 0, host_bytes=1000, gpu_bytes=2000)
    plan = WriterPlan.of(inventory, engine_plan, device=Device("cuda:0"), transfer=None)
    assert plan.host_bytes == 1000 + passing_bytes
    assert plan.gpu_bytes == pytest.approx(2000 + 4 * num_values + POOL_BYTES, abs=1 << 16)


def test_rates_of_the_copy_are_those_of_all_its_bytes_and_a_link_is_told_by_its_lanes() -> None:
    """What `make test-gpu` prints, here from host memory."""
    assert all(1e6 < rate < 1e13 for rate in bench_gpu.copy_rates(1 << 20, Device("cpu")).values())
    assert bench_gpu.link_bytes_per_second("5, 16\n") == pytest.approx(63e9, rel=0.01)
    assert bench_gpu.link_bytes_per_second("[N/A], [N/A]\n") is None
