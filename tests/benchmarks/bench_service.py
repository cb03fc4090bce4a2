"""Answers per second of one worker against an empty route, and how long answers take at half load; by wrk."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from sizing.scenario import REFERENCE_SCENARIO
from tests.benchmarks.pairs import Rates, ratios, shown
from tests.service.conftest import serving
from tests.service.test_soak import resident_mib_through
from tests.testbed.wrk import NUM_CONNECTIONS, ONE_LAYOUT, OTHER_LAYOUTS, loaded

pytestmark = pytest.mark.benchmark

NUM_PAIRS = 5
SECONDS = 5
SOAK_SECONDS = 600


def answers_per_second(url: str, directory: Path, *, body: str = ONE_LAYOUT) -> Rates:
    """The rate of requests, as a measurement of `ratios`."""
    return {"answers per second": loaded(url, directory, seconds=SECONDS, body=body).answers_per_second}


@contextmanager
def empty_route(log: Path) -> Iterator[str]:
    """The address of the route that computes nothing."""
    command = [sys.executable, "-m", "uvicorn", "tests.benchmarks.empty_route:app", "--port", "8757", "--no-access-log"]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            for _ in range(200):
                if "running on" in log.read_text():
                    break
                time.sleep(0.1)
            yield "http://127.0.0.1:8757/"
        finally:
            process.terminate()


@contextmanager
def service(directory: Path) -> Iterator[str]:
    """The address of the route that answers."""
    database = f"sqlite:///{directory}/service.sqlite3"
    flags = ("--port", "0", "--database-url", database, "--requests-per-second", "0")
    with serving(directory / "service.log", *flags) as (_, address):
        yield f"{address}/v1/sizings"


def test_answers_per_second(tmp_path: Path) -> None:
    with service(tmp_path) as answers, empty_route(tmp_path / "empty.log") as empty:
        assert httpx.post(empty, json=REFERENCE_SCENARIO).status_code == 200
        for kind, body, reference in (
            ("over an empty route", ONE_LAYOUT, empty),
            ("over an empty asynchronous route", ONE_LAYOUT, f"{empty}async"),
            ("of another layout each, over an empty route", OTHER_LAYOUTS, empty),
        ):
            kept = ratios(
                partial(answers_per_second, answers, tmp_path, body=body),
                partial(answers_per_second, reference, tmp_path),
                num_pairs=NUM_PAIRS,
            )
            shown(f"POST /v1/sizings {kind}", kept)
        full = statistics.median(
            loaded(answers, tmp_path, seconds=SECONDS).answers_per_second for _ in range(NUM_PAIRS)
        )
        pause = 1000 * NUM_CONNECTIONS / (full / 2)
        half = loaded(answers, tmp_path, seconds=2 * SECONDS, milliseconds=pause)
        print(
            f"\n{full:.0f} answers per second; at {half.answers_per_second:.0f}, "
            f"99 % within {half.p99_seconds * 1e3:.1f} ms"
        )


def test_memory_stays_flat(tmp_path: Path) -> None:
    shown_mib = ", ".join(f"{mib:.0f}" for mib in resident_mib_through(tmp_path, seconds=SOAK_SECONDS))
    print(f"\nresident MiB through {SOAK_SECONDS} s of load: {shown_mib}")
