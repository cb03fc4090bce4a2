"""Answers per second and processor time of an answer against an empty route, and how long answers take at half load."""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urljoin

import httpx
import psutil
import pytest

from service.compute.pool import MAX_WAITING_PER_WORKER
from sizing.questions.simulate.request import REFERENCE_SIMULATION
from sizing.scenario import REFERENCE_SCENARIO
from tests.benchmarks.pairs import Rates, ratios, shown
from tests.service.conftest import serving
from tests.service.test_soak import resident_mib_through
from tests.testbed.processes import SECONDS_UNTIL_STUCK, until
from tests.testbed.wrk import NUM_CONNECTIONS, ONE_LAYOUT, OTHER_INTERVALS, OTHER_LAYOUTS, Load, loaded

pytestmark = pytest.mark.benchmark

NUM_PAIRS = 5
SECONDS = 5
NUM_SOAK_ANSWERS = 100_000
HEAVY = REFERENCE_SIMULATION | {"run_seconds": "10y"}
"""Nine million failures: a second and a half of one core."""


@dataclass(frozen=True)
class Server:
    """A server process, and the route of it that is asked."""

    process: int
    url: str

    def rates(self, directory: Path, *, body: str) -> Rates:
        """Answers per second of the clock, and per second of all processors, its own processes counted."""
        before = self._processor_seconds()
        load = loaded(self.url, directory, seconds=SECONDS, body=body)
        used = self._processor_seconds() - before
        num_answers = load.answers_per_second * SECONDS
        return {"answers per second": load.answers_per_second, "answers per processor second": num_answers / used}

    def _processor_seconds(self) -> float:
        main = psutil.Process(self.process)
        return sum(sum(each.cpu_times()[:2]) for each in (main, *main.children(recursive=True)))


@contextmanager
def empty_route(log: Path) -> Iterator[Server]:
    """The route that computes nothing, without a thread."""
    command = [sys.executable, "-m", "uvicorn", "tests.benchmarks.empty_route:app", "--port", "8757", "--no-access-log"]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            until(lambda: "running on" in log.read_text())
            yield Server(process.pid, "http://127.0.0.1:8757/async")
        finally:
            process.terminate()


@contextmanager
def service(directory: Path, *, num_workers: int = 1) -> Iterator[Server]:
    """The route that answers."""
    database = f"sqlite:///{directory}/service.sqlite3"
    flags = ("--port", "0", "--database-url", database, "--requests-per-second", "0", "--workers", str(num_workers))
    with serving(directory / f"service-{num_workers}.log", *flags) as (process, address):
        yield Server(process.pid, f"{address}/v1/sizings")


KINDS = {
    "the same question": ONE_LAYOUT,
    "another interval each": OTHER_INTERVALS,
    "another layout each": OTHER_LAYOUTS,
}


def test_answers_over_an_empty_asynchronous_route(tmp_path: Path) -> None:
    with service(tmp_path) as answers, empty_route(tmp_path / "empty.log") as empty:
        assert httpx.post(empty.url, json=REFERENCE_SCENARIO).status_code == 200
        for kind, body in KINDS.items():
            ours = partial(answers.rates, tmp_path, body=body)
            shown(
                f"POST /v1/sizings, {kind}",
                ratios(ours, partial(empty.rates, tmp_path, body=ONE_LAYOUT), num_pairs=NUM_PAIRS),
            )


def test_two_workers_over_one(tmp_path: Path) -> None:
    with service(tmp_path) as one, service(tmp_path, num_workers=2) as two:
        kept = ratios(
            partial(two.rates, tmp_path, body=OTHER_INTERVALS),
            partial(one.rates, tmp_path, body=OTHER_INTERVALS),
            num_pairs=NUM_PAIRS,
        )
        shown("Two workers over one, another interval each", kept)


def test_waiting_at_half_load_alone_and_beside_a_full_heavy_pool(tmp_path: Path) -> None:
    with service(tmp_path) as answers:
        full = statistics.median(
            loaded(answers.url, tmp_path, seconds=SECONDS, body=OTHER_INTERVALS).answers_per_second
            for _ in range(NUM_PAIRS)
        )
        pause = 1000 * NUM_CONNECTIONS / (full / 2)
        half = partial(loaded, answers.url, tmp_path, seconds=2 * SECONDS, body=OTHER_INTERVALS, milliseconds=pause)
        print(f"\n{full:.0f} answers per second")
        print(f"alone: {waiting(half())}")
        with full_heavy_pool(answers):
            print(f"beside a full heavy pool: {waiting(half())}")


def waiting(load: Load) -> str:
    """How long answers took under a load."""
    return f"at {load.answers_per_second:.0f} answers per second, 99 % within {load.p99_seconds * 1e3:.1f} ms"


@contextmanager
def full_heavy_pool(answers: Server) -> Iterator[None]:
    """As many heavy questions as the service lets wait, and as soon as one is answered, the next."""
    has_ended = threading.Event()
    statuses: list[int] = []

    def ask() -> None:
        with httpx.Client(timeout=SECONDS_UNTIL_STUCK) as client:
            while not has_ended.is_set():
                statuses.append(client.post(urljoin(answers.url, "simulations"), json=HEAVY).status_code)

    with ThreadPoolExecutor(MAX_WAITING_PER_WORKER) as pool:
        asking = [pool.submit(ask) for _ in range(MAX_WAITING_PER_WORKER)]
        try:
            until(lambda: statuses)
            yield
        finally:
            has_ended.set()
        for each in asking:
            each.result()
    print(f"{statuses.count(200)} of {len(statuses)} heavy questions answered")


def test_memory_stays_flat(tmp_path: Path) -> None:
    shown_mib = ", ".join(f"{mib:.0f}" for mib in resident_mib_through(tmp_path, num_answers=NUM_SOAK_ANSWERS))
    print(f"\nresident MiB through {NUM_SOAK_ANSWERS:,} answers: {shown_mib}")
