"""Lists of years of runs and of scenarios: how long a page takes over HTTP, on SQLite and on PostgreSQL."""

from __future__ import annotations

import contextlib
import functools
import statistics
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy import insert, text

from service.database import Database
from service.database.schema import migrated_database
from service.database.tables import MeasurementRow, RunDocumentRow, RunRow, ScenarioRow, StorageSystemRow, TokenRow
from service.reports import figures_in
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from tests.service.conftest import BOTH, new_database_url, new_postgresql_server, serving
from tests.testbed.processes import SECONDS_UNTIL_STUCK

pytestmark = pytest.mark.benchmark

NUM_RUNS = 50_000
NUM_REPETITIONS = 15
DOCUMENT = "x" * 20_000
"""As long as a result of two ranks with its samples."""
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
RUNS = "/v1/storage-systems/old/runs"
QUESTIONS = {
    "first page of 50": RUNS,
    "first page of 200": f"{RUNS}?limit=200",
    "page from the middle": f"{RUNS}?cursor={UUID(int=NUM_RUNS // 2)}",
    "of an engine": f"{RUNS}?engine=direct",
    "of an engine of one run in 10,000": f"{RUNS}?engine=rare",
    "of an engine of none": f"{RUNS}?engine=none",
    "of many nodes": f"{RUNS}?min_num_nodes=1000",
    "published since": f"{RUNS}?published_since=2024-06-01T00:00:00Z",
    "published before, far back": f"{RUNS}?published_before=2024-01-02T00:00:00Z",
    "withdrawn": f"{RUNS}?withdrawn=true",
    "trend": "/v1/storage-systems/old/trend",
    "alarms": "/v1/storage-systems/old/alarms",
    "first 50 scenarios": "/v1/scenarios",
    "first 200 scenarios": "/v1/scenarios?limit=200",
    "50 scenarios from the middle": f"/v1/scenarios?cursor={UUID(int=NUM_RUNS // 2)}",
}


def fill(database: Database) -> None:
    """Years of runs of four measurements each, and as many scenarios with the figures of their answers."""
    figures = figures_in(answer(scenario_from(REFERENCE_SCENARIO)).model_dump(mode="json"))
    with database.writing() as session:
        connection = session.connection()
        token = {"id": 1, "name": "agents", "secret_hash": b"", "scope": "publish", "created_at": FIRST}
        system = {"id": 1, "name": "old", "description": "", "created_at": FIRST, "token_id": 1}
        connection.execute(insert(TokenRow), [token])
        connection.execute(insert(StorageSystemRow), [system])
        for start in range(0, NUM_RUNS, 1000):
            numbers = range(start, start + 1000)
            connection.execute(insert(RunRow), [run(number) for number in numbers])
            connection.execute(
                insert(RunDocumentRow), [{"run_id": UUID(int=number), "document": DOCUMENT} for number in numbers]
            )
            connection.execute(insert(MeasurementRow), [found for number in numbers for found in measurements(number)])
            connection.execute(insert(ScenarioRow), [saved(number, figures) for number in numbers])


def run(number: int) -> dict[str, Any]:
    return {
        "id": UUID(int=number),
        "run_id": f"run-{number}",
        "system_id": 1,
        "digest": b"\0" * 32,
        "published_at": FIRST + timedelta(minutes=20 * number),
        "token_id": 1,
    }


def saved(number: int, figures: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": UUID(int=number),
        "name": f"scenario {number}",
        "scenario": REFERENCE_SCENARIO,
        "created_at": FIRST + timedelta(minutes=20 * number),
        "token_id": 1,
        "code_version": "0.1.0",
        "figures": figures,
    }


def measurements(number: int) -> list[dict[str, Any]]:
    engine = "rare" if number % 10_000 == 1 else ("direct", "torch-save")[number % 2]
    return [
        {
            "run_id": UUID(int=number),
            "position": position,
            "engine": engine,
            "operation": ("write", "restore")[position % 2],
            "num_nodes": 1 + position // 2,
            "num_ranks": 8,
            "bytes_per_second": 1e9 * (1 + number % 7 / 100),
            "verified": True,
            "series": f"{engine} {position}",
        }
        for position in range(4)
    ]


@pytest.mark.parametrize("kind", BOTH)
def test_pages_of_50_000_runs(kind: str, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        start = functools.cache(lambda: stack.enter_context(new_postgresql_server()))
        print_pages(kind, new_database_url(kind, tmp_path, start), tmp_path)


def print_pages(kind: str, url: str, tmp_path: Path) -> None:
    database = migrated_database(url)
    fill(database)
    if kind == "postgresql":  # as its autovacuum does within a minute; SQLite is served without
        with database.writing() as session:
            session.execute(text("ANALYZE"))
    database.close()
    arguments = ("--port", "0", "--database-url", url, "--requests-per-second", "0")
    with (
        serving(tmp_path / "log", *arguments) as (_, address),
        httpx.Client(base_url=address, timeout=SECONDS_UNTIL_STUCK) as client,
    ):
        print(f"\n{kind}, {NUM_RUNS:,} runs and scenarios, milliseconds: median, max of {NUM_REPETITIONS}")
        for question, path in QUESTIONS.items():
            taken = sorted(milliseconds(client, path) for _ in range(NUM_REPETITIONS))
            print(f"{question:36} {statistics.median(taken):8.1f} {taken[-1]:8.1f}")


def milliseconds(client: httpx.Client, path: str) -> float:
    start = time.perf_counter()
    assert client.get(path).status_code == 200
    return 1000 * (time.perf_counter() - start)
