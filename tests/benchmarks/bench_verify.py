"""`ckpt-bench verify` against reading the same bytes in the same way, cold. Prints ratios, judges nothing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch

from io_bench.checks import file_regions
from io_bench.checks.verify import Checksums, checksums_of, files_of, verify_checkpoint
from io_bench.target import page_cache
from tests.benchmarks.pairs import Rates, ratios, shown

NUM_PAIRS = 7
TENSOR_BYTES = {"16 tensors": 16 * [64 << 20], "one tensor": [1 << 30], "50,000 tensors": 50_000 * [20 << 10]}
NUM_THREADS = 4

pytestmark = pytest.mark.benchmark


class NoChecksum:
    def update(self, _: Any) -> None: ...

    def hexdigest(self) -> str:
        return "0"  # hexadecimal, as those of pieces are put together


@pytest.fixture(params=TENSOR_BYTES)
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    sizes = TENSOR_BYTES[request.param]
    tensors = {str(number): torch.randint(255, (size,), dtype=torch.uint8) for number, size in enumerate(sizes)}
    torch.save(tensors, tmp_path / "rank-00000.pt")
    return tmp_path


def cold_rate(folder: Path, checksums: Checksums | None = None) -> Rates:
    for path in folder.iterdir():
        with path.open("rb") as file:
            page_cache.drop(file.fileno())
    begun, begun_cpu = time.perf_counter(), time.process_time()
    found = verify_checkpoint(folder, checksums=checksums, num_threads=NUM_THREADS, progress=lambda _: None)
    seconds, cpu_seconds = time.perf_counter() - begun, time.process_time() - begun_cpu
    return {"read": found.total_bytes / seconds, "bytes per second of processor": found.total_bytes / cpu_seconds}


@pytest.mark.parametrize("is_listed", [False, True], ids=["CRC-32 of the records", "XXH3-128 of a list"])
def test_checking_against_reading_alone(is_listed: bool, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = checksums_of(*files_of(checkpoint), num_threads=NUM_THREADS, progress=lambda _: None) if is_listed else None

    def read_alone() -> Rates:
        with monkeypatch.context() as patched:
            patched.setattr(file_regions, "checksum", lambda _: NoChecksum())
            return cold_rate(checkpoint, known)

    title = "XXH3-128 of a list" if is_listed else "CRC-32 of the records"
    kept = ratios(lambda: cold_rate(checkpoint, known), read_alone, num_pairs=NUM_PAIRS)
    shown(f"verify by {title} / reading alone", kept)
