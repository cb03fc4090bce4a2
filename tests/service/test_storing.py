"""Whatever waits to be stored, questions, catalogs and lists are answered."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.service.conftest import bearer, created_token, gauge, result_document, serving
from tests.testbed.processes import SECONDS_UNTIL_STUCK, until

NUM_INGESTS = 60
"""More than the server has threads."""
RUNS = "/v1/storage-systems/s/runs"


@pytest.mark.long
def test_ingests_that_wait_for_the_writer_take_no_thread_from_others(tmp_path: Path) -> None:
    file = tmp_path / "sizing.sqlite3"
    url = f"sqlite:///{file}"
    arguments = ("--port", "0", "--database-url", url, "--requests-per-second", "0")
    with (
        serving(tmp_path / "log", *arguments) as (_, address),
        httpx.Client(base_url=address, timeout=SECONDS_UNTIL_STUCK) as client,
        ThreadPoolExecutor(NUM_INGESTS) as pool,
        closing(sqlite3.connect(file, isolation_level=None)) as other,
    ):
        headers = bearer(created_token(url, "agents"))
        assert client.post("/v1/storage-systems", json={"name": "s"}, headers=headers).status_code == 201

        def publish(number: int) -> int:
            document = result_document(f"run-{number}")
            return httpx.post(
                f"{address}{RUNS}", json=document, headers=headers, timeout=SECONDS_UNTIL_STUCK
            ).status_code

        other.execute("BEGIN IMMEDIATE")
        waiting = [pool.submit(publish, number) for number in range(NUM_INGESTS)]
        until_in_progress(client, NUM_INGESTS - 10)
        for path in ("/healthz", "/readyz", "/v1/models/gpt2", "/v1/storage-systems", RUNS):
            assert client.get(path).status_code == 200, path
        assert client.post("/v1/sizings", json={"model": {"preset": "gpt2"}}).status_code == 200
        assert client.post("/v1/requirements", json={"model": {"preset": "gpt2"}}).status_code == 200
        other.execute("ROLLBACK")
        statuses = [publishing.result() for publishing in waiting]
        assert set(statuses) <= {201, 503}
        assert len(client.get(RUNS, params={"limit": 200}).json()["items"]) == statuses.count(201) > NUM_INGESTS / 2


def until_in_progress(client: httpx.Client, num_requests: int) -> None:
    until(lambda: gauge(client, "ckpt_http_requests_in_progress") > num_requests)
