"""The memory of a worker under load, shortened from the ten minutes of the benchmark."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.service.conftest import serving
from tests.testbed.wrk import OTHER_LAYOUTS, loaded

READING_SECONDS = 6
NUM_WARM_ANSWERS = 12_000
"""Answers while caches fill: the layouts kept, and which of the last 10,000 are quick."""
NUM_ANSWERS = 10_000


def resident_mib_through(directory: Path, *, num_answers: int) -> list[float]:
    """Resident memory of a worker that answers another layout in each request: once its caches are full, and from then
    on, until it has given so many answers more.
    """
    database = f"sqlite:///{directory}/soak.sqlite3"
    arguments = ("--port", "0", "--database-url", database, "--requests-per-second", "0")
    readings, num_answered = [], 0.0
    with serving(directory / "soak.log", *arguments) as (process, address):
        while num_answered < NUM_WARM_ANSWERS + num_answers:
            load = loaded(f"{address}/v1/sizings", directory, seconds=READING_SECONDS, body=OTHER_LAYOUTS)
            num_answered += load.answers_per_second * READING_SECONDS
            if num_answered >= NUM_WARM_ANSWERS:
                readings.append(psutil.Process(process.pid).memory_info().rss / 2**20)
    return readings


@pytest.mark.exhaustive(minutes=4)
def test_memory_stays_flat_under_load(tmp_path: Path) -> None:
    readings = resident_mib_through(tmp_path, num_answers=NUM_ANSWERS)
    assert readings[-1] - readings[0] < 2, readings  # 200 bytes of each answer would be seen
