"""The processes beside the server: within their limits, replaced when they end, gone with their server."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.compute.pool import MOST_WAITING_PER_WORKER, ComputePool
from service.compute.worker import ComputeWorker
from service.errors import Busy, NotReady, TakesTooLong
from service.settings import Settings
from service.telemetry.metrics import Metrics
from sizing.errors import InvalidInput
from sizing.scenario import REFERENCE_SCENARIO
from tests.service.computed import eat, end_by, fail, leave, nap, refuse, refuse_for_now, sleep


def test_more_large_questions_than_can_wait_are_refused_at_once(tmp_path: Path) -> None:
    pool = ComputePool(Settings(database_url=f"sqlite:///{tmp_path}/x.db", compute_workers=1), Metrics())

    async def ask_all() -> list[bytes | BaseException]:
        return await asyncio.gather(*(pool.run(nap) for _ in range(12)), return_exceptions=True)

    try:
        answers = asyncio.run(ask_all())
    finally:
        pool.close()
    assert answers[:MOST_WAITING_PER_WORKER] == [b"rested"] * MOST_WAITING_PER_WORKER
    assert [type(answer) for answer in answers[MOST_WAITING_PER_WORKER:]] == [Busy] * 4


def test_a_question_whose_turn_does_not_come_in_time_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pool = ComputePool(Settings(database_url=f"sqlite:///{tmp_path}/x.db", compute_workers=1), Metrics())

    async def ask_thrice() -> list[bytes | BaseException]:
        await pool.run(nap)  # starts the process
        monkeypatch.setattr("service.compute.pool.SECONDS_TO_WAIT", 0.03)
        return await asyncio.gather(*(pool.run(nap) for _ in range(3)), return_exceptions=True)

    async def ask_then() -> bytes:
        return await pool.run(nap)

    try:
        answers = asyncio.run(ask_thrice())
        assert answers[0] == b"rested"
        assert [type(answer) for answer in answers[1:]] == [Busy] * 2
        assert asyncio.run(ask_then()) == b"rested"
    finally:
        pool.close()


def test_what_is_read_in_a_turn_is_read_one_at_a_time(tmp_path: Path) -> None:
    pool = ComputePool(Settings(database_url=f"sqlite:///{tmp_path}/x.db", compute_workers=1), Metrics())
    in_turn, most = 0, 0

    async def read_and_ask() -> bytes:
        nonlocal in_turn, most
        async with pool.turn() as ask:
            in_turn += 1
            most = max(most, in_turn)
            await asyncio.sleep(0.01)
            answer = await ask(nap)
            in_turn -= 1
        return answer

    async def all_at_once() -> list[bytes]:
        return await asyncio.gather(*(read_and_ask() for _ in range(4)))

    try:
        assert asyncio.run(all_at_once()) == [b"rested"] * 4
    finally:
        pool.close()
    assert most == 1


def test_who_is_refused_for_others_is_told_when_to_come_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("service.compute.pool.MOST_WAITING_PER_WORKER", 0)
    with TestClient(create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db"))) as client:
        refused = client.post("/v1/requirements", json=REFERENCE_SCENARIO)
        assert (refused.status_code, refused.json()["code"]) == (503, "busy")
        assert int(refused.headers["retry-after"]) > 0
        assert client.post("/v1/sizings", json=REFERENCE_SCENARIO).status_code == 200


def test_a_process_that_is_stopped_is_replaced() -> None:
    worker = ComputeWorker(max_seconds=3, max_bytes=512 * 1024**2)
    try:
        assert worker.ask(eat, (3,)) == b"xxx"
        with pytest.raises(TakesTooLong, match=r"takes more than 512.0 MiB of memory"):
            worker.ask(eat, (2 * 1024**3,))
        with pytest.raises(TakesTooLong, match="takes more than 3 seconds"):
            worker.ask(sleep, ())
        with pytest.raises(InvalidInput, match="a must be b, got 1: give b"):
            worker.ask(refuse, ())
        with pytest.raises(NotReady, match="must be ready"):
            worker.ask(refuse_for_now, ())
        with pytest.raises(RuntimeError, match="nobody expects this"):
            worker.ask(fail, ())
        with pytest.raises(TakesTooLong, match=r"not answered, for its process .* was ended by SIGKILL"):
            worker.ask(end_by, (signal.SIGKILL,))
        with pytest.raises(RuntimeError, match="ended with exit code 3"):
            worker.ask(leave, (3,))
        assert worker.ask(eat, (3,)) == b"xxx"
    finally:
        worker.stop()


def test_a_question_ends_with_its_server(tmp_path: Path) -> None:
    file = tmp_path / "counted"
    code = (
        "from service.compute.worker import ComputeWorker\nfrom tests.service.computed import count_in\n"
        f"if __name__ == '__main__': ComputeWorker(max_seconds=60, max_bytes=2**30).ask(count_in, ({str(file)!r},))"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as server:
        until(lambda: file.exists() and file.stat().st_size > 0)
        server.kill()
    until(lambda: not grows(file))


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def grows(file: Path) -> bool:
    size = file.stat().st_size
    time.sleep(0.5)
    return file.stat().st_size > size


def test_questions_that_are_asked_when_the_server_stops_may_be_asked_again() -> None:
    worker = ComputeWorker(max_seconds=60, max_bytes=2**30)
    assert worker.ask(eat, (1,)) == b"x"
    stopping = threading.Timer(0.5, worker.stop)
    stopping.start()
    with pytest.raises(Busy):
        worker.ask(sleep, ())
    stopping.join()
