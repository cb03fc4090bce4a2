"""Backup and restore of a SQLite database, also while it is served."""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import make_url

from service.database.audit import TERMINAL
from service.database.schema import is_known, migrated_database
from service.errors import CannotServe

_SECONDS_TO_WAIT = 30.0
"""Max wait for a writer of a running service to finish; its transactions take milliseconds."""
_DAMAGES = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
_REPLACE = "stop the service, move the file away with its -wal and -shm, and restore a backup"


def back_up(database_url: str, target: Path) -> None:
    """Copy a database, as it is at one moment, into a new file that is complete and on disk on return.

    Raises CannotServe where the file exists or cannot be written, or the database is not SQLite.
    """
    source = _sqlite_file(database_url)
    if not source.is_file():
        raise _unusable(source, "does not exist", "set --database-url or DATABASE_URL")
    if target.exists():
        raise _unusable(target, "exists already", "give the name of a new file")
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with _explained(target, "cannot be written"):
            draft.touch(mode=0o600)
            with _opened(source) as ours, _opened(draft) as theirs, _sound(source, _REPLACE):
                ours.backup(theirs)
                theirs.execute("PRAGMA journal_mode = DELETE").close()  # one file, with nothing beside it
                _check(theirs)
        _sync(draft)
        draft.replace(target)
        _sync(target.parent)
    finally:
        draft.unlink(missing_ok=True)


def restore(database_url: str, backup: Path) -> Path | None:
    """Replace a database by a backup. The previous database is backed up first, into the returned file.

    A service on that database goes on with the restored one. Raises CannotServe where the backup is not sound, and
    then nothing has changed.
    """
    target = _sqlite_file(database_url)
    if target.exists() and backup.exists() and target.samefile(backup):
        raise _unusable(backup, "is the database itself", "give a file of ckpt-serve backup")
    with (
        _explained(backup, "is not a readable backup"),
        _opened(backup) as theirs,
        _sound(backup, "use another backup"),
    ):
        _check(theirs)
        _check_version(theirs, backup)
        before = None
        if target.exists():
            before = target.with_name(f"{target.name}.before-restore-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}")
            back_up(database_url, before)
        migrated_database(database_url).close()  # makes it where it is missing
        with _explained(target, "cannot be written"), _opened(target) as ours:
            theirs.backup(ours)
    database = migrated_database(database_url)
    with database.writing() as session:
        TERMINAL.record(session, "restore", backup.name)
    database.close()
    return before


def _sqlite_file(database_url: str) -> Path:
    url = make_url(database_url)
    if url.get_backend_name() != "sqlite" or not url.database:
        raise CannotServe.of(
            "database_url", "must be a SQLite database", value=None, remedy="use pg_dump and pg_restore for PostgreSQL"
        )
    return Path(url.database).absolute()


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=_SECONDS_TO_WAIT)) as connection:
        yield connection


@contextmanager
def _explained(path: Path, rule: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise _unusable(path, f"{rule} ({error})", "check the file and the free space") from None


@contextmanager
def _sound(path: Path, remedy: str) -> Iterator[None]:
    """Explain an error where the database at `path` is damaged."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", _DAMAGES[0]) not in _DAMAGES:
            raise
        raise _unusable(path, f"is damaged ({error})", remedy) from None


def _check(connection: sqlite3.Connection) -> None:
    (result,) = connection.execute("PRAGMA integrity_check").fetchone()
    if result != "ok":
        raise sqlite3.DatabaseError(" ".join(result.split()))


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    if not connection.execute("SELECT name FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
        raise _unusable(path, "is not a database of this service", "give a file of ckpt-serve backup")
    revisions = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    if not all(is_known(revision) for (revision,) in revisions):
        raise _unusable(path, "has the schema of a later version", "restore it with that version")


def _unusable(path: Path, rule: str, remedy: str) -> Exception:
    return CannotServe.of(str(path), rule, value=None, remedy=remedy)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
