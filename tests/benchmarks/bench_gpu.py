"""From GPU memory: the copy to the host against the link, `direct` and `kvikio` against fio. Prints, judges nothing."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from io_bench.engines import ENGINES, EngineOptions
from io_bench.payload.device import Device
from io_bench.payload.inventory import inventory_of
from io_bench.payload.payload import Snapshot
from tests.benchmarks.bench_direct import BLOCK_BYTES, DEPTH, rates_of_fio
from tests.benchmarks.pairs import engine_run, payload_of, ratios, shown

GPU = Device("cuda:0")
INVENTORY = inventory_of(4 << 30)
NUM_PAIRS = 5
NUM_COPIES = 5
_PCIE_BYTES_PER_SECOND_PER_LANE = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""By generation, after encoding: PCI Express Base Specification 6.0, table of link rates."""

pytestmark = [pytest.mark.benchmark, pytest.mark.gpu]


def copy_rates(num_bytes: int, device: Device) -> dict[str, float]:
    """Bytes per second to the host: to pinned memory, to any memory, and of the snapshot that a run times."""
    content = torch.zeros(num_bytes, dtype=torch.uint8, device=device.name)
    pinned = torch.empty(num_bytes, dtype=torch.uint8, pin_memory=device.is_gpu)
    pageable = torch.zeros(num_bytes, dtype=torch.uint8)
    copies: dict[str, Callable[[], object]] = {
        "pinned": lambda: pinned.copy_(content, non_blocking=True),
        "any memory": lambda: pageable.copy_(content),
        "snapshot": Snapshot({"model": {"weights": content}}, device).copy,
    }
    return {name: num_bytes / min(_seconds(copy, device) for _ in range(NUM_COPIES)) for name, copy in copies.items()}


def link_bytes_per_second(lanes: str) -> float | None:
    """Of what nvidia-smi prints of generation and lanes, as "5, 16"; None where it is something else."""
    generation, _, count = lanes.partition(",")
    if not (generation.strip().isdecimal() and count.strip().isdecimal()):
        return None
    rate = _PCIE_BYTES_PER_SECOND_PER_LANE.get(int(generation))
    return None if rate is None else rate * int(count)


def _seconds(copy: Callable[[], object], device: Device) -> float:
    device.synchronize()
    started = time.perf_counter()
    copy()
    device.synchronize()
    return time.perf_counter() - started


def test_the_copy_to_the_host_against_the_link() -> None:
    query = ["nvidia-smi", "--query-gpu=pcie.link.gen.max,pcie.link.width.max", "--format=csv,noheader", "--id=0"]
    link = link_bytes_per_second(subprocess.run(query, capture_output=True, text=True, check=True).stdout)
    for name, rate in copy_rates(INVENTORY.num_bytes, GPU).items():
        share = f"{rate / link:.2f} of the link's {link / 1e9:.1f}" if link else "of a link whose rate is not known"
        print(f"\nGPU to host, {name}: {rate / 1e9:.2f} GB/s, {share}")


@pytest.mark.usefixtures("fio")
@pytest.mark.parametrize("name", ["direct", "kvikio"])
def test_from_gpu_memory_against_fio_from_host_memory(name: str, tmp_path: Path) -> None:
    options = EngineOptions(block_bytes=BLOCK_BYTES, num_threads=DEPTH)
    with engine_run(ENGINES[name](options), payload_of(INVENTORY, GPU), tmp_path, device=GPU) as run:
        kept = ratios(
            run.rates_without_creation,
            lambda: rates_of_fio(tmp_path, INVENTORY.num_bytes, engine="libaio"),
            num_pairs=NUM_PAIRS,
        )
    shown(f"{name} from GPU memory / fio from host memory", kept)
