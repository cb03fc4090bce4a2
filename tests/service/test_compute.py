"""The processes beside the server: within their limits, replaced when they end, gone with their server."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from starlette.testclient import TestClient

from service.answers.heavy import sizing_in
from service.answers.progress import ProgressWatch, report_progress_to
from service.app import create_app
from service.compute.pool import MAX_WAITING_PER_WORKER, ComputePool
from service.compute.worker import COMPUTING, ComputeWorker, start_in_thread
from service.errors import Busy, NotReady, OutOfTime, ProcessEnded, TakesTooLong
from service.reports import ReportSubject
from service.settings import Settings
from service.telemetry import Metrics
from sizing.errors import InvalidInput
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from tests.service.computed import (
    crawl,
    eat,
    end_by,
    fail,
    go_half_way,
    heed_nothing,
    keep,
    leave,
    nap,
    process_id,
    refuse,
    refuse_for_now,
    sleep,
    sleep_as,
    sleep_over_a_file,
    stay_busy,
    wait_for,
)
from tests.testbed.processes import SECONDS_UNTIL_STUCK, until


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may take as long to start as a busy machine makes it."""
    monkeypatch.setattr("service.compute.pool.SECONDS_TO_WAIT", SECONDS_UNTIL_STUCK)
    monkeypatch.setattr("service.compute.worker.SECONDS_TO_START", SECONDS_UNTIL_STUCK)


def test_more_large_questions_than_can_wait_are_refused_at_once(tmp_path: Path) -> None:
    pool = ComputePool(Settings(database_url=f"sqlite:///{tmp_path}/x.db", compute_workers=1), Metrics())

    async def ask_all() -> list[bytes | BaseException]:
        return await asyncio.gather(*(pool.run(nap) for _ in range(12)), return_exceptions=True)

    try:
        answers = asyncio.run(ask_all())
    finally:
        pool.close()
    assert answers[:MAX_WAITING_PER_WORKER] == [b"rested"] * MAX_WAITING_PER_WORKER
    assert [type(answer) for answer in answers[MAX_WAITING_PER_WORKER:]] == [Busy] * 4


def test_a_question_whose_turn_does_not_come_in_time_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pool = ComputePool(Settings(database_url=f"sqlite:///{tmp_path}/x.db", compute_workers=1), Metrics())

    turn_ends = tmp_path / "the turn ends"

    async def ask() -> None:
        first = asyncio.create_task(pool.run(wait_for, str(turn_ends)))
        with monkeypatch.context() as patience:
            patience.setattr("service.compute.pool.SECONDS_TO_WAIT", 0.03)
            others = await asyncio.gather(*(pool.run(nap) for _ in range(2)), return_exceptions=True)
        assert [type(answer) for answer in others] == [Busy] * 2
        turn_ends.touch()
        assert await first == b"found"
        assert await pool.run(nap) == b"rested"

    try:
        asyncio.run(ask())
    finally:
        pool.close()


def test_what_is_read_in_a_turn_is_read_one_at_a_time(tmp_path: Path) -> None:
    pool = ComputePool(Settings(database_url=f"sqlite:///{tmp_path}/x.db", compute_workers=1), Metrics())
    limit_writes, most = 0, 0

    async def read_and_ask() -> bytes:
        nonlocal limit_writes, most
        async with pool.turn() as ask:
            limit_writes += 1
            most = max(most, limit_writes)
            await asyncio.sleep(0.01)
            answer = await ask(nap)
            limit_writes -= 1
        return answer

    async def all_at_once() -> list[bytes]:
        return await asyncio.gather(*(read_and_ask() for _ in range(4)))

    try:
        assert asyncio.run(all_at_once()) == [b"rested"] * 4
    finally:
        pool.close()
    assert most == 1


def test_who_is_refused_for_others_is_told_when_to_come_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("service.compute.pool.MAX_WAITING_PER_WORKER", 0)
    with TestClient(create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db"))) as client:
        refused = client.post("/v1/requirements", json=REFERENCE_SCENARIO)
        assert (refused.status_code, refused.json()["code"]) == (503, "busy")
        assert int(refused.headers["retry-after"]) > 0
        assert client.post("/v1/sizings", json=REFERENCE_SCENARIO).status_code == 200


@pytest.mark.long
def test_a_process_that_is_stopped_is_replaced() -> None:
    worker = ComputeWorker(max_seconds=SECONDS_UNTIL_STUCK, max_bytes=512 * 1024**2)
    try:
        assert worker.ask(eat, (3,)) == b"xxx"
        with pytest.raises(TakesTooLong, match=r"needs more than 512.0 MiB of memory"):
            worker.ask(eat, (2 * 1024**3,))
        with pytest.raises(InvalidInput, match="a must be b, got 1: give b"):
            worker.ask(refuse, ())
        with pytest.raises(NotReady, match="must be ready"):
            worker.ask(refuse_for_now, ())
        with pytest.raises(RuntimeError, match="nobody expects this"):
            worker.ask(fail, ())
        with pytest.raises(TakesTooLong, match=r"not answered: its process .* was ended by SIGKILL"):
            worker.ask(end_by, (signal.SIGKILL,))
        with pytest.raises(RuntimeError, match="ended with exit code 3"):
            worker.ask(leave, (3,))
        assert worker.ask(eat, (3,)) == b"xxx"
    finally:
        worker.stop()


def test_what_is_kept_of_other_questions_refuses_nobody_for_memory() -> None:
    worker = ComputeWorker(max_seconds=SECONDS_UNTIL_STUCK, max_bytes=768 * 1024**2)
    try:
        first = worker.ask(keep, (450 * 1024**2,))
        assert worker.ask(keep, (450 * 1024**2,)) != first, "a new process, as the first has no room for both"
    finally:
        worker.stop()


def test_a_process_that_is_killed_while_it_answers_gets_no_further_question() -> None:
    worker = ComputeWorker(max_seconds=SECONDS_UNTIL_STUCK, max_bytes=2**30)
    try:
        first = worker.ask(keep, (450 * 1024**2,))
        worker.give_up()  # of a question whose answer has just come; freeing its memory takes a while
        assert worker.ask(process_id, ()) != first
    finally:
        worker.stop()


def test_a_question_that_takes_too_long_is_stopped_and_leaves_no_file(tmp_path: Path) -> None:
    asleep = tmp_path / "asleep"
    worker = ComputeWorker(max_seconds=1, max_bytes=2**30)
    with pytest.raises(TakesTooLong, match="takes longer than 1 seconds"):
        worker.ask(sleep_over_a_file, (str(asleep),))
    process, file = asleep.read_text().split()
    assert has_ended(int(process))
    assert not Path(file).exists()


class Looks:
    """The looks of the service at how long a process has had its question, of which those after its turn count."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, seconds_of_a_turn: float) -> None:
        monkeypatch.setattr("service.compute.pool.SECONDS_OF_A_TURN", seconds_of_a_turn)
        real: Any = ComputeWorker.__dict__["seconds_asked"].fget
        self.num_after_turn = 0

        def looked(worker: ComputeWorker) -> float:
            seconds = float(real(worker))
            self.num_after_turn += seconds > seconds_of_a_turn
            return seconds

        monkeypatch.setattr(ComputeWorker, "seconds_asked", property(looked))

    async def two_after_the_turn(self) -> None:
        """Wait for two more: what the first decides has come about at the second."""
        until_then = self.num_after_turn + 2
        while self.num_after_turn < until_then:
            await asyncio.sleep(0.01)


def test_a_question_that_has_had_its_turn_gives_way_to_other_clients(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    looks = Looks(monkeypatch, seconds_of_a_turn=0.2)
    pool = ComputePool(Settings(database_url=f"sqlite:///{tmp_path}/x.db", compute_workers=1), Metrics())

    async def ask() -> None:
        before = await pool.run(process_id, client="a")
        long = asyncio.create_task(pool.run(stay_busy, client="a", may_be_job=True))
        own = asyncio.create_task(pool.run(nap, client="a"))
        await looks.two_after_the_turn()
        assert not long.done(), "nobody else waits"
        assert await pool.run(process_id, client="b") == before, "the process goes on with the next question"
        with pytest.raises(OutOfTime, match="others wait for their turn: send it as a job"):
            await long
        assert await own == b"rested"

    try:
        asyncio.run(ask())
    finally:
        pool.close()


def test_a_question_that_cannot_be_a_job_keeps_its_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    looks = Looks(monkeypatch, seconds_of_a_turn=0.01)
    pool = ComputePool(Settings(database_url=f"sqlite:///{tmp_path}/x.db", compute_workers=1), Metrics())
    turn_ends = tmp_path / "the turn ends"

    async def ask() -> None:
        first = asyncio.create_task(pool.run(wait_for, str(turn_ends), client="a"))
        other = asyncio.create_task(pool.run(nap, client="b"))
        await looks.two_after_the_turn()
        turn_ends.touch()
        assert (await first, await other) == (b"found", b"rested")

    try:
        asyncio.run(ask())
    finally:
        pool.close()


def test_a_question_that_does_not_heed_is_ended_with_its_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("service.compute.pool.SECONDS_OF_A_TURN", 0.01)
    monkeypatch.setattr("service.compute.worker.SECONDS_TO_GIVE_WAY", 0.1)
    pool = ComputePool(Settings(database_url=f"sqlite:///{tmp_path}/x.db", compute_workers=1), Metrics())
    asleep = tmp_path / "asleep"

    async def ask() -> None:
        long = asyncio.create_task(pool.run(heed_nothing, str(asleep), client="a", may_be_job=True))
        while not asleep.exists():
            await asyncio.sleep(0.01)
        assert await pool.run(nap, client="b") == b"rested"
        with pytest.raises(OutOfTime):
            await long

    try:
        asyncio.run(ask())
    finally:
        pool.close()
    assert has_ended(int(asleep.read_text()))


def test_a_question_tells_how_far_it_is_and_is_given_up_as_soon_as_that_says_it_takes_too_long() -> None:
    heard: list[float] = []
    worker = ComputeWorker(max_seconds=SECONDS_UNTIL_STUCK, max_bytes=2**30, is_estimated=True)
    try:
        assert worker.ask(go_half_way, (), progress=heard.append) == b"half"
        assert heard == [0.5]
        with pytest.raises(OutOfTime, match="would take longer than"):
            worker.ask(crawl, (), progress=heard.append)
        assert worker.ask(eat, (3,)) == b"xxx"
    finally:
        worker.stop()
    assert set(heard) == {0.5, 1e-9}


def test_a_sizing_tells_how_far_it_is() -> None:
    document: dict[str, Any] = {"model": {"preset": "gpt2-medium"}, "parallelism": {"data": 40}}
    heard: list[float] = []
    with report_progress_to(heard.append):
        sizing_in("json", ReportSubject(document), scenario_from(document))
    assert len(heard) > 3
    assert heard == sorted(heard)
    assert 0 < heard[0] < 0.5
    assert heard[-1] == 1


def test_the_rate_so_far_says_how_long_a_question_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("service.answers.progress.monotonic", lambda: clock[0])
    heard: list[float] = []
    waited_for, job = (ProgressWatch(heard.append, max_seconds=most) for most in (30, None))
    waited_for(0.001)  # too early to judge
    clock[0] += 0.9
    waited_for(0.002)  # too early to tell
    clock[0] += 1.2
    waited_for(0.08)  # 2.1 s of 26 s
    clock[0] += 1.1
    job(0.01)
    with pytest.raises(OutOfTime, match="would take longer than 30 seconds"):
        waited_for(0.1)  # 3.2 s of 32 s
    assert heard == [0.001, 0.08, 0.01, 0.1]


@pytest.mark.long
def test_a_worker_has_a_limit_of_memory_and_its_processes_have_their_own() -> None:
    code = (
        "from service.compute.worker import ComputeWorker\nfrom executors.worker import limit_memory\n"
        "from tests.service.computed import eat, eat_and_count\n"
        "if __name__ == '__main__':\n"
        "    limit_memory(512 * 1024**2)\n"
        "    worker = ComputeWorker(max_seconds=3600, max_bytes=2**31)\n"
        "    print(worker.ask(eat_and_count, (600 * 1024**2,)).decode())\n"
        "    try:\n        eat(600 * 1024**2)\n"
        "    except MemoryError:\n        print('no memory')\n"
        "    worker.stop()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=SECONDS_UNTIL_STUCK
    )
    assert done.stdout.split("\n")[:2] == [str(600 * 1024**2), "no memory"]


def test_where_no_memory_is_left_the_answer_is_to_come_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def answered_again(*_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr("service.compute.sizings.Sizings.answer_again", answered_again)
    with TestClient(create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db"))) as client:
        refused = client.post("/v1/sizings", json=REFERENCE_SCENARIO)
    assert (refused.status_code, refused.json()["code"]) == (503, "busy")


def test_a_question_ends_with_its_server(tmp_path: Path) -> None:
    asleep = tmp_path / "asleep"
    code = (
        "from service.compute.worker import ComputeWorker\nfrom tests.service.computed import sleep_as\n"
        f"if __name__ == '__main__': ComputeWorker(max_seconds=3600, max_bytes=2**30).ask(sleep_as, ({str(asleep)!r},))"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as server:
        until(lambda: asleep.exists() and asleep.read_text())
        server.kill()
    until(lambda: has_ended(int(asleep.read_text())))


def has_ended(pid: int) -> bool:
    """Whether nothing runs in a process any more; somebody else may not have asked yet how it ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_questions_that_are_asked_when_the_server_stops_may_be_asked_again(tmp_path: Path) -> None:
    asleep = tmp_path / "asleep"
    worker = ComputeWorker(max_seconds=SECONDS_UNTIL_STUCK, max_bytes=2**30)

    def stop() -> None:
        until(asleep.exists)
        worker.stop()

    stopping = threading.Thread(target=stop)
    stopping.start()
    with pytest.raises(Busy):
        worker.ask(sleep_as, (str(asleep),))
    stopping.join()


@contextmanager
def what_forks_it_stopped(pid: int) -> Iterator[None]:
    """Stop the process that has forked a computing one and forks the next, and let it go on afterwards."""
    forks = psutil.Process(pid).ppid()
    assert forks != os.getpid()
    os.kill(forks, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(forks, signal.SIGCONT)


def test_a_question_whose_process_cannot_start_is_refused_in_time_and_the_next_finds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = ComputeWorker(max_seconds=SECONDS_UNTIL_STUCK, max_bytes=2**30)
    try:
        first = int(worker.ask(process_id, ()))
        with what_forks_it_stopped(first):
            monkeypatch.setattr("service.compute.worker.SECONDS_TO_END", 0.1)
            with pytest.raises(ProcessEnded, match="was ended by an unknown signal"):
                worker.ask(end_by, (signal.SIGKILL,))
            monkeypatch.setattr("service.compute.worker.SECONDS_TO_START", 0.1)
            num_threads = set()
            for _ in range(3):
                with pytest.raises(Busy, match=r"could not start a process for the question within 0.1 seconds"):
                    worker.ask(nap, ())
                num_threads.add(threading.active_count())
            assert len(num_threads) == 1, "all of them wait for the same process"
        monkeypatch.setattr("service.compute.worker.SECONDS_TO_START", SECONDS_UNTIL_STUCK)
        assert worker.ask(nap, ()) == b"rested"
    finally:
        worker.stop()


def test_a_process_that_starts_when_nobody_wants_it_any_more_is_killed() -> None:
    worker = ComputeWorker(max_seconds=SECONDS_UNTIL_STUCK, max_bytes=2**30)
    late = COMPUTING.Process(target=sleep, daemon=True)
    try:
        with what_forks_it_stopped(int(worker.ask(process_id, ()))):
            assert start_in_thread(late, then=lambda: None).cancel()
            assert late.pid is None
    finally:
        worker.stop()
    until(lambda: late.pid is not None and has_ended(late.pid))
