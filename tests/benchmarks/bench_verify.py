"""`ckpt-bench verify` against reading the same bytes in the same way, cold. Prints ratios, judges nothing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch

from io_bench.target.directory import page_cache
from io_bench.verification import reading
from io_bench.verification.checksums import Checksums, checksums_of
from io_bench.verification.verify import files_of, verified
from tests.benchmarks.pairs import Rates, ratios, shown

NUM_PAIRS = 7
NUM_TENSORS, TENSOR_BYTES = 16, 64 << 20
NUM_THREADS = 4

pytestmark = pytest.mark.benchmark


class NoChecksum:
    def update(self, _: Any) -> None: ...

    def hexdigest(self) -> str:
        return ""


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    tensors = {str(number): torch.randint(255, (TENSOR_BYTES,), dtype=torch.uint8) for number in range(NUM_TENSORS)}
    torch.save(tensors, tmp_path / "rank-00000.pt")
    return tmp_path


def cold_rate(folder: Path, checksums: Checksums | None = None) -> Rates:
    for path in folder.iterdir():
        with path.open("rb") as file:
            page_cache.drop(file.fileno())
    begun = time.perf_counter()
    found = verified(folder, checksums=checksums, num_threads=NUM_THREADS, progress=lambda _: None)
    return {"read": found.total_bytes / (time.perf_counter() - begun)}


@pytest.mark.parametrize("is_listed", [False, True], ids=["CRC-32 of the records", "XXH3-128 of a list"])
def test_checking_against_reading_alone(is_listed: bool, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = checksums_of(*files_of(checkpoint), num_threads=NUM_THREADS, progress=lambda _: None) if is_listed else None

    def read_alone() -> Rates:
        with monkeypatch.context() as patched:
            patched.setattr(reading, "checksum", lambda _: NoChecksum())
            return cold_rate(checkpoint, known)

    title = "XXH3-128 of a list" if is_listed else "CRC-32 of the records"
    kept = ratios(lambda: cold_rate(checkpoint, known), read_alone, num_pairs=NUM_PAIRS)
    shown(f"verify by {title} / reading alone", kept)
