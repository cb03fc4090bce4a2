"""Answers per second of one worker against an empty route, and how long answers take at half load; by wrk."""

from __future__ import annotations

import json
import re
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

pytestmark = pytest.mark.benchmark

NUM_PAIRS = 5
SECONDS = 5
CONNECTIONS = 8
SOAK_SECONDS = 600

SCRIPT = """\
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
function request() return wrk.format(nil, nil, nil, string.format([[{body}]], math.random(1, 100000))) end
function delay() return {milliseconds} end
"""
ONE_LAYOUT = json.dumps(REFERENCE_SCENARIO)
OTHER_LAYOUTS = json.dumps(
    REFERENCE_SCENARIO
    | {"parallelism": REFERENCE_SCENARIO["parallelism"] | {"data": "%d"}, "cluster": {"node": "dgx-a100"}}
).replace('"%d"', "%d")
"""With a random number of replicas in each request."""


def wrk(
    url: str, directory: Path, *, body: str = ONE_LAYOUT, milliseconds: float = 0, seconds: int = SECONDS
) -> tuple[float, float]:
    """Requests per second, and the 99th percentile of the time of one in seconds."""
    script = directory / "post.lua"
    script.write_text(SCRIPT.format(body=body, milliseconds=round(milliseconds)))
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-s", str(script), url]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds + 60).stdout
    assert "Non-2xx" not in said, said
    assert "Socket errors" not in said, said
    rate = re.search(r"Requests/sec:\s+([\d.]+)", said)
    slowest = re.search(r"99%\s+([\d.]+)(us|ms|s)", said)
    assert rate is not None
    assert slowest is not None
    return float(rate[1]), float(slowest[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1.0}[slowest[2]]


def answers_per_second(url: str, directory: Path, *, body: str = ONE_LAYOUT) -> Rates:
    """The rate of requests, as a measurement of `ratios`."""
    return {"answers per second": wrk(url, directory, body=body)[0]}


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
def service(directory: Path) -> Iterator[tuple[str, int]]:
    """The address of the route that answers, and the process that serves it."""
    database = f"sqlite:///{directory}/service.sqlite3"
    flags = ("--port", "0", "--database-url", database, "--requests-per-second", "0")
    with serving(directory / "service.log", *flags) as (process, address):
        yield f"{address}/v1/sizings", process.pid


def test_answers_per_second(tmp_path: Path) -> None:
    with service(tmp_path) as (answers, _), empty_route(tmp_path / "empty.log") as empty:
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
        full = statistics.median(wrk(answers, tmp_path)[0] for _ in range(NUM_PAIRS))
        pause = 1000 * CONNECTIONS / (full / 2)
        rate, slowest = wrk(answers, tmp_path, milliseconds=pause, seconds=2 * SECONDS)
        print(f"\n{full:.0f} answers per second; at {rate:.0f}, 99 % within {slowest * 1e3:.1f} ms")


def test_memory_stays_flat(tmp_path: Path) -> None:
    with service(tmp_path) as (answers, pid):
        sizes = []
        for _ in range(10):
            wrk(answers, tmp_path, seconds=SOAK_SECONDS // 10)
            sizes.append(int(re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[0]) / 1024)
    print(f"\nresident MiB through {SOAK_SECONDS} s of load: {', '.join(f'{size:.0f}' for size in sizes)}")
