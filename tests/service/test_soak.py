"""The memory of a worker under load, shortened from the ten minutes of the benchmark."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.service.conftest import serving
from tests.testbed.wrk import OTHER_LAYOUTS, loaded

NUM_READINGS = 10
NUM_WARM = 3
"""Readings while caches fill: the layouts kept, and which of the last 10,000 are quick."""


def resident_mib_through(directory: Path, *, seconds: int) -> list[float]:
    """Resident memory of a worker, read at equal times while it answers another layout in each request."""
    database = f"sqlite:///{directory}/soak.sqlite3"
    arguments = ("--port", "0", "--database-url", database, "--requests-per-second", "0")
    readings = []
    with serving(directory / "soak.log", *arguments) as (process, address):
        for _ in range(NUM_READINGS):
            loaded(f"{address}/v1/sizings", directory, seconds=seconds // NUM_READINGS, body=OTHER_LAYOUTS)
            readings.append(psutil.Process(process.pid).memory_info().rss / 2**20)
    return readings


@pytest.mark.long
def test_memory_stays_flat_under_load(tmp_path: Path) -> None:
    readings = resident_mib_through(tmp_path, seconds=60)
    warm = readings[NUM_WARM:]
    assert warm[-1] - warm[0] < 3, readings  # 200 bytes of each of 15,000 answers would be seen
