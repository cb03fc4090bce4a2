"""Costly sizings are computed beside the server, questions of clients that are gone not at all."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from fastapi import FastAPI, Request
from starlette.testclient import TestClient

from service.app import create_app
from service.compute.pool import ClientCompute, ComputePool
from service.database.tokens import NewToken, create_token
from service.errors import ClientGone
from service.settings import Settings
from service.telemetry import Metrics
from sizing.report import answer
from sizing.scenario import scenario_from
from tests.service.computed import nap, sleep_as, wait_for
from tests.service.conftest import bearer
from tests.service.test_compute import has_ended
from tests.service.test_cost import UNLIKE_STAGES
from tests.service.test_fair_turns import settled
from tests.testbed.processes import SECONDS_UNTIL_STUCK, until


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.compute.pool.SECONDS_TO_WAIT", SECONDS_UNTIL_STUCK)
    monkeypatch.setattr("service.compute.worker.SECONDS_TO_START", SECONDS_UNTIL_STUCK)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[ComputePool]:
    made = ComputePool(Settings(database_url=f"sqlite:///{tmp_path}/x.db"), Metrics())
    yield made
    made.close()


def num_computed_beside(client: TestClient) -> float:
    text = client.get("/metrics").text
    lines = [line for line in text.splitlines() if line.startswith("ckpt_compute_duration_seconds_count")]
    return sum(float(line.split()[-1]) for line in lines)


def test_costly_sizings_are_computed_beside_the_server_whoever_asks(tmp_path: Path) -> None:
    app = create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db"))
    token = create_token(app.state.database, NewToken(name="writer", scope="write"))
    expected = json.loads(answer(scenario_from(UNLIKE_STAGES)).model_dump_json())
    small: dict[str, Any] = {"model": {"preset": "gpt2"}}
    with TestClient(app) as client:
        assert client.post("/v1/sizings", json=small).status_code == 200
        assert num_computed_beside(client) == 0
        assert client.post("/v1/sizings", json=UNLIKE_STAGES).json() == expected
        assert num_computed_beside(client) == 1
        table = client.post("/v1/sizings", json=UNLIKE_STAGES, headers={"accept": "text/csv"})
        assert f"\r\ncheckpoint.total_bytes,{expected['checkpoint']['total_bytes']}\r\n" in table.text
        new = {"name": "many stages", "scenario": UNLIKE_STAGES}
        link = client.post("/v1/scenarios", json=new, headers=bearer(token)).headers["location"]
        assert num_computed_beside(client) == 3
        assert client.get(f"{link}/report").json() == expected
        assert num_computed_beside(client) == 4


def test_a_scenario_to_save_without_an_answer_is_refused_with_its_place(tmp_path: Path) -> None:
    app = create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db"))
    token = create_token(app.state.database, NewToken(name="writer", scope="write"))
    new = {"name": "odd", "scenario": {"model": {"preset": "gpt2"}, "parallelism": {"tensor": 7}}}
    with TestClient(app) as client:
        refused = client.post("/v1/scenarios", json=new, headers=bearer(token))
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "scenario.parallelism.tensor")


class Connection:
    """A client's connection, until it is closed."""

    def __init__(self, host: str, *, app: FastAPI | None = None, token: str = "") -> None:
        self.closed = asyncio.Event()
        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        self.request = Request({"type": "http", "client": (host, 1), "headers": headers, "app": app}, self.receive)

    async def receive(self) -> dict[str, Any]:
        await self.closed.wait()
        return {"type": "http.disconnect"}


def test_a_question_whose_client_is_gone_is_ended(
    pool: ComputePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.compute.pool.SECONDS_TO_LET_END", 0.01)
    asleep = tmp_path / "asleep"

    async def ask() -> None:
        connection = Connection("192.0.2.1")
        asking = asyncio.create_task(ClientCompute(pool, connection.request).run(sleep_as, str(asleep)))
        await asyncio.to_thread(until, lambda: asleep.exists() and asleep.read_text())
        assert psutil.pid_exists(int(asleep.read_text()))
        connection.closed.set()
        with pytest.raises(ClientGone):
            await asking
        assert has_ended(int(asleep.read_text()))
        assert await pool.run(nap) == b"rested"

    asyncio.run(ask())


def test_a_question_whose_client_is_gone_before_its_turn_is_never_asked(pool: ComputePool, tmp_path: Path) -> None:
    turn_ends, asleep = tmp_path / "the turn ends", tmp_path / "asleep"

    async def ask() -> None:
        first = asyncio.create_task(pool.run(wait_for, str(turn_ends)))
        connection = Connection("192.0.2.1")
        gone = asyncio.create_task(ClientCompute(pool, connection.request).run(sleep_as, str(asleep)))
        await asyncio.sleep(0)
        connection.closed.set()
        with pytest.raises(ClientGone):
            await gone
        turn_ends.touch()
        assert await first == b"found"
        assert await pool.run(nap) == b"rested"
        assert not asleep.exists()

    asyncio.run(ask())


def test_a_client_with_many_questions_does_not_keep_the_processes_from_others(
    pool: ComputePool, tmp_path: Path
) -> None:
    turn_ends = tmp_path / "the turn ends"

    async def ask() -> None:
        answered: list[str] = []

        async def answer_to(host: str) -> None:
            await ClientCompute(pool, Connection(host).request).run(wait_for, str(turn_ends))
            answered.append(host)

        many = [asyncio.create_task(answer_to("192.0.2.1")) for _ in range(8)]
        await settled()
        other = asyncio.create_task(answer_to("198.51.100.7"))
        await settled()
        turn_ends.touch()
        ends = await asyncio.gather(*many, other, return_exceptions=True)
        assert answered.index("198.51.100.7") <= 2
        assert sum(end is not None for end in ends) == 1, "the last of the many gave way"

    asyncio.run(ask())


def test_users_behind_one_proxy_have_turns_of_their_own_by_their_tokens(tmp_path: Path) -> None:
    app, turn_ends = create_app(Settings(database_url=f"sqlite:///{tmp_path}/y.db")), tmp_path / "the turn ends"
    pool, waiting = app.state.compute, app.state.metrics.compute_waiting
    tokens = {name: create_token(app.state.database, NewToken(name=name, scope="read")) for name in ("alice", "bob")}

    async def ask() -> None:
        answered: list[str] = []

        async def answer_to(name: str, host: str) -> None:
            request = Connection(host, app=app, token=tokens[name]).request
            await ClientCompute(pool, request).run(wait_for, str(turn_ends))
            answered.append(name)

        many = [asyncio.create_task(answer_to("alice", f"192.0.2.{number}")) for number in range(6)]
        await asyncio.to_thread(until, lambda: waiting.collect()[0].samples[0].value == 6)
        other = asyncio.create_task(answer_to("bob", "192.0.2.1"))
        await asyncio.to_thread(until, lambda: waiting.collect()[0].samples[0].value == 7)
        turn_ends.touch()
        await asyncio.gather(*many, other)
        assert answered.index("bob") <= 2

    try:
        asyncio.run(ask())
    finally:
        pool.close()
