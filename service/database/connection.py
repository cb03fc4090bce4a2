"""Connections to SQLite or PostgreSQL, and the migrations that run when the service starts."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from sizing.errors import InvalidInput

MIGRATION_LOCK = 7_305_221_904
_SQLITE_BUSY_MILLISECONDS = 10_000


def opened(database_url: str) -> Engine:
    """The database with all migrations applied.

    Raises InvalidInput where the URL is wrong or the database cannot be opened.
    """
    try:
        engine = create_engine(database_url, pool_pre_ping=True)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise _cannot_open(database_url, str(error)) from None
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _set_pragmas)
    try:
        migrate(engine)
    except OperationalError as error:
        raise _cannot_open(database_url, str(error.orig)) from None
    return engine


def migrate(engine: Engine) -> None:
    """Bring the database to the newest revision; of several processes that try, one does it."""
    with engine.connect() as connection, _only_one(connection):
        configuration = _alembic()
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, "head")
        connection.commit()


def is_ready(engine: Engine) -> bool:
    """Whether the database answers and has the newest revision."""
    with engine.connect() as connection:
        connection.execute(text("SELECT 1"))
        current = MigrationContext.configure(connection).get_current_revision()
    return current == ScriptDirectory.from_config(_alembic()).get_current_head()


def shown_url(engine: Engine) -> str:
    """The database's URL without its password."""
    return engine.url.render_as_string(hide_password=True)


@contextmanager
def _only_one(connection: Connection) -> Iterator[None]:
    """Hold the lock under which migrations run."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
        yield
        return
    database = connection.engine.url.database or ""
    lock = Path(f"{database}.lock") if database else Path(tempfile.gettempdir()) / "checkpoint-sizing.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _set_pragmas(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout = {_SQLITE_BUSY_MILLISECONDS}",
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _alembic() -> Config:
    configuration = Config()
    configuration.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return configuration


def _cannot_open(database_url: str, reason: str) -> InvalidInput:
    try:
        shown = make_url(database_url).render_as_string(hide_password=True)
    except ArgumentError:
        shown = "text that is no URL"
    return InvalidInput.of(
        "--database-url",
        f"must be a database that can be opened ({' '.join(reason.split())})",
        value=shown,
        remedy="give for example sqlite:////srv/sizing.sqlite3 in a folder that exists and is writable",
    )
