"""The schema of the database: brought to this version's, and compared with it."""

from __future__ import annotations

import functools
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from service.database.connection import Database, open_database, reason_of
from service.errors import CannotServe

_POSTGRESQL_LOCK = 0x636B7074
"""Any number that no other program locks in this database; this is `ckpt`."""


def migrated_database(url: str) -> Database:
    """The database at a URL, at this version's schema.

    Raises CannotServe where the database cannot be used.
    """
    database = open_database(url)
    migrate(database)
    return database


def migrate(database: Database) -> None:
    """Bring the database to this version's schema; workers that start at once wait for each other.

    Raises CannotServe where the database cannot be used.
    """
    try:
        with database.writing() as session:
            connection = session.connection()
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _POSTGRESQL_LOCK})
            if not is_current(connection):
                command.upgrade(_config(connection), "head")
    except DBAPIError as error:
        raise CannotServe.of(
            f"the database {database.name}",
            f"cannot be used ({reason_of(error)})",
            value=None,
            remedy="check that it exists and is writable",
        ) from None
    except CommandError:
        raise CannotServe.of(
            f"the database {database.name}",
            "has the schema of a later version",
            value=None,
            remedy="use that version, or another database",
        ) from None


def is_current(connection: Connection) -> bool:
    """Whether the schema is the one of this version."""
    return MigrationContext.configure(connection).get_current_revision() == _head()


def is_known(revision: str) -> bool:
    """Whether a schema is of this version or an earlier one."""
    return revision in {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}


@functools.cache
def _head() -> str | None:
    return ScriptDirectory.from_config(_config()).get_current_head()


def _config(connection: Connection | None = None) -> Config:
    config = Config(attributes={"connection": connection})
    folder = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
