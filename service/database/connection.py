"""Connection to the database: which kinds there are, and how each is set up."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import URL, Connection, Engine, Select, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.orm import InstrumentedAttribute, Session

from service.errors import CannotServe
from sizing.errors import InvalidInput

_SQLITE_PRAGMAS = ("synchronous = FULL", "foreign_keys = ON")
_SQLITE_SECONDS_TO_MIGRATE = 60
"""Max wait for another process that migrates, unless the URL has a timeout. It takes a tenth of a second on a quiet
machine, and seconds on a busy one, where Python's sqlite3 waits for 5 s."""
_SECONDS_BETWEEN_TRIES = 0.01
"""Pause before the next try to set a write-ahead log, which takes milliseconds."""
_SQLITE_LOCK = "sqlite_lock"
_IS_PATIENT = "is_patient"
"""Option of a connection whose statements may take any time, as those of a migration do."""
_POSTGRESQL_DISK_FULL = "53100"
_POSTGRESQL_LOCKED = "55P03"
_POSTGRESQL_CONNECTIONS = 10
"""Max connections per worker; a request waits for a free one."""
_SECONDS_TO_CONNECT = 10
"""Max time to connect to the server, and for a connection of the pool to become free. A guess: a server in reach
answers in milliseconds; too short fails requests during a failover, too long lets them pile up."""
_CONNECTION_OPTIONS: dict[str, int] = {
    "connect_timeout": _SECONDS_TO_CONNECT,
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
"""A server that is gone without a word, as after a failover, is given up within half a minute; Linux alone takes a
quarter of an hour. What the URL says goes before these (libpq's names). `service.database.silence` bounds the wait for
one that is there and says nothing."""


@dataclass(frozen=True, slots=True)
class Database:
    """Open database. Reading and writing are transactions that end with their `with` block."""

    engine: Engine
    turn: AbstractContextManager[object] = field(default_factory=nullcontext)
    """Lock of the one writer of this process: threads queue here in order, where SQLite would poll."""
    watched: Callable[[], AbstractContextManager[object]] = nullcontext
    """Held by each transaction: refuses at once where the server is silent and another already waits for it."""

    @property
    def name(self) -> str:
        """URL of the database without its password."""
        return self.engine.url.render_as_string(hide_password=True)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Begin a transaction that reads."""
        with self.watched(), Session(self.engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def writing(self, *, is_patient: bool = False) -> Iterator[Session]:
        """Begin a transaction that writes. In SQLite it waits for the write lock at the start.

        Args: `is_patient`, for statements that may take any time.
        """
        engine = self.engine.execution_options(**{_SQLITE_LOCK: "IMMEDIATE", _IS_PATIENT: is_patient})
        with self.turn, self.watched(), Session(engine, expire_on_commit=False) as session, session.begin():
            yield session

    def close(self) -> None:
        """Close the connections."""
        self.engine.dispose()


def open_database(url: str) -> Database:
    """Open the database at a URL. Nothing is read or written yet.

    Raises CannotServe for a URL that names no database that the service can use.
    """
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            return Database(_sqlite(parsed), threading.Lock())
        return _postgresql(parsed)
    except (ArgumentError, ValueError):
        # The value is not shown: it may hold a password.
        remedy = "give sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"
        raise _unusable("must be the URL of a SQLite or PostgreSQL database", remedy) from None


def is_full(error: DBAPIError) -> bool:
    """Tell whether the database failed because it has no space left."""
    if isinstance(error.orig, sqlite3.Error):
        return getattr(error.orig, "sqlite_errorname", "") == "SQLITE_FULL"
    return getattr(error.orig, "sqlstate", "") == _POSTGRESQL_DISK_FULL


def is_locked(error: DBAPIError) -> bool:
    """Tell whether PostgreSQL gave up waiting for a table that others use."""
    return getattr(error.orig, "sqlstate", "") == _POSTGRESQL_LOCKED


def reason_of(error: DBAPIError) -> str:
    """Return the database's message in one line."""
    return " ".join(str(error.orig).split())


def _sqlite(url: URL) -> Engine:
    name = url.database or ":memory:"
    if name == ":memory:" or name.startswith("file:") or not name.isprintable():
        raise _unusable("must name a file", "give sqlite:///FILE")
    path = Path(name).absolute()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(f"is in a directory that cannot be created ({error.strerror})", "choose another file") from None
    engine = create_engine(url.set(drivername="sqlite", database=str(path)), hide_parameters=True)

    seconds_to_migrate = float(str(url.query.get("timeout", _SQLITE_SECONDS_TO_MIGRATE)))
    was_opened = threading.Event()

    @event.listens_for(engine, "do_connect")
    def require_file(_dialect: object, _record: object, arguments: list[Any], options: dict[str, Any]) -> None:
        if was_opened.is_set():  # a file that has gone since is not made anew, empty
            arguments[:], options["uri"] = [f"{path.as_uri()}?mode=rw"], True

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _: object) -> None:
        was_opened.set()
        connection.isolation_level = None  # Python's sqlite3 would begin transactions late, and never for DDL
        for pragma in _SQLITE_PRAGMAS:
            connection.execute(f"PRAGMA {pragma}").close()
        set_write_ahead_log(connection, seconds_to_wait=seconds_to_migrate)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        usual = connection.exec_driver_sql("PRAGMA busy_timeout").scalar() if options.get(_IS_PATIENT) else None
        if usual is not None:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(1000 * seconds_to_migrate)}")
        connection.exec_driver_sql(f"BEGIN {options.get(_SQLITE_LOCK, 'DEFERRED')}")
        if usual is not None:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {usual}")

    return engine


def set_write_ahead_log(connection: sqlite3.Connection, *, seconds_to_wait: float) -> None:
    """Let a file have a write-ahead log, also while other processes do so or write before it has one.

    SQLite refuses at once to set it then, whatever its timeout. Raises OperationalError after `seconds_to_wait`.
    """
    give_up_at = time.monotonic() + seconds_to_wait
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").close()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > give_up_at:
                raise
        time.sleep(_SECONDS_BETWEEN_TRIES)


def _postgresql(url: URL) -> Database:
    if url.get_backend_name() not in ("postgresql", "postgres"):
        raise ValueError(url.drivername)
    try:
        from service.database.silence import bound_silence  # noqa: PLC0415 - it needs the driver

        engine = create_engine(
            url.set(drivername="postgresql+psycopg"),
            hide_parameters=True,
            pool_pre_ping=True,
            pool_size=_POSTGRESQL_CONNECTIONS,
            max_overflow=0,
            pool_timeout=_SECONDS_TO_CONNECT,
            connect_args={name: value for name, value in _CONNECTION_OPTIONS.items() if name not in url.query},
        )
        silence = bound_silence(engine, patient_option=_IS_PATIENT)
        return Database(engine, watched=silence.watched)
    except ModuleNotFoundError:
        raise _unusable(
            "needs the PostgreSQL driver, which is not installed", "run: pip install 'psycopg[binary]'"
        ) from None


def _unusable(rule: str, remedy: str) -> InvalidInput:
    return CannotServe.of("database_url", rule, value=None, remedy=remedy)


_Row = TypeVar("_Row")


def list_newest(
    session: Session,
    query: Select[_Row],
    row_id: InstrumentedAttribute[UUID],
    *,
    limit: int,
    before: UUID | None,
) -> Sequence[_Row]:
    """List at most `limit` rows of a query, the newest first by their ids, from those before the id `before`."""
    if before is not None:
        query = query.where(row_id < before)
    return session.scalars(query.order_by(row_id.desc()).limit(limit)).all()
