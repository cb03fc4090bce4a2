"""Schema of the database: the revisions that this version works on, and the migration to one of them.

A migration that only adds (an expansion) leaves every version at work that knows what the schema serves. One that drops
what earlier versions use (a contraction) names in `serves_from` the revision that a version must know to go on; it
waits until it is asked for. What the schema serves stands in the database, so that a version can judge a later one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection, select, text, update
from sqlalchemy.exc import DBAPIError

from service.database.connection import Database, is_locked, open_database, reason_of
from service.database.tables import SchemaSupportRow
from service.errors import CannotServe
from sizing.errors import InvalidInput

_POSTGRESQL_LOCK = 0x636B7074
"""Any number that no other program locks in this database; this is `ckpt`."""
_LOCK_TIMEOUT_MILLISECONDS = 5000
"""Max wait for a table that a migration changes: requests queue behind it, for less time than a client or proxy
waits."""
_WHEN_LOCKED = "run ckpt-serve migrate again when no long transaction uses the database"
_FIRST_THAT_SAYS = "r0005"
"""The revision from which on a database says what it serves."""


@dataclass(frozen=True, slots=True)
class SchemaState:
    """State of a database's schema; None for what an empty or an early database does not say."""

    revision: str | None
    serves_from: str | None
    """The revision that a version must know to work on it."""

    @property
    def is_too_early(self) -> bool:
        """Whether the schema lacks what this version uses."""
        return self.revision is None or self.revision in _revisions()[: _revisions().index(accepted_from())]

    @property
    def is_too_late(self) -> bool:
        """Whether the schema belongs to a later version and lacks what this one uses."""
        return self.revision not in (None, *_revisions()) and (self.serves_from or "") not in _revisions()

    @property
    def left(self) -> Sequence[Script]:
        """Migrations that this version still has for the database, the earliest first."""
        revisions = _revisions()
        if self.revision is not None and self.revision not in revisions:
            return ()
        return _scripts()[revisions.index(self.revision) + 1 if self.revision else 0 :]


def migrated_database(url: str) -> Database:
    """Open the database at a URL and migrate it to a schema that this version works on.

    Raises CannotServe where the database cannot be used.
    """
    database = open_database(url)
    migrate(database)
    return database


def migrate(database: Database, *, contract: bool = False) -> SchemaState:
    """Migrate as far as every version that the database serves can follow. Simultaneous workers take turns.

    Args: `contract`, to go as far as the versions go on that know the present revision: the others have ended.
    SQLite goes all the way, for no two versions share a file. So does a database that does not say what it serves.
    Raises CannotServe where the database cannot be used.
    """
    try:
        with database.writing(is_patient=True) as session:
            connection = session.connection()
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _POSTGRESQL_LOCK})
                connection.execute(text(f"SET LOCAL lock_timeout = {_LOCK_TIMEOUT_MILLISECONDS}"))
            state = _upgrade(connection, contract=contract)
            require_accepted(state, f"the database {database.name}")
            return state
    except DBAPIError as error:
        raise CannotServe.of(
            f"the database {database.name}",
            f"cannot be used ({reason_of(error)})",
            value=None,
            remedy=_WHEN_LOCKED if is_locked(error) else "check that it exists and is writable",
        ) from None


def state_of(connection: Connection) -> SchemaState:
    """Return the state of the database's schema."""
    revision = MigrationContext.configure(connection).get_current_revision()
    early = _revisions()[: _revisions().index(_FIRST_THAT_SAYS)]
    says = revision not in (None, *early)
    return SchemaState(revision, connection.scalar(select(SchemaSupportRow.serves_from)) if says else None)


def require_accepted(state: SchemaState, field: str, error: type[InvalidInput] = CannotServe) -> None:
    """Refuse a schema that this version does not work on. Raises `error`, about `field`."""
    if state.is_too_late:
        rule, remedy = "has the schema of a later version", "use that version, or another database"
        raise error.of(field, rule, value=None, remedy=remedy)
    if state.is_too_early:
        rule = f"must have a schema of revision {accepted_from()} to {_revisions()[-1]}"
        remedy = "run ckpt-serve migrate"
        if state.serves_from:
            remedy += f", with --contract once no version runs that does not know revision {state.revision}"
        raise error.of(field, rule, value=state.revision, remedy=remedy)


def accepted_from() -> str:
    """Return the earliest revision that this version works on. Later ones only drop what this version does not use."""
    return [script.revision for script in _scripts() if (_serves_from(script) or script.revision) >= script.revision][
        -1
    ]


def known_to() -> str:
    """Return the latest revision that this version knows."""
    return _revisions()[-1]


def serves_from(revision: str) -> str:
    """Return the revision that a version must know to work on a schema of `revision`."""
    return max(_serves_from(script) or "" for script in _scripts() if script.revision <= revision)


def is_known(revision: str) -> bool:
    """Tell whether a schema is of this version or an earlier one."""
    return revision in _revisions()


def _upgrade(connection: Connection, *, contract: bool) -> SchemaState:
    """Run the migrations that are allowed now, and return the state. A later version's schema is left alone."""
    state = state_of(connection)
    oldest = state.revision if contract else state.serves_from
    if connection.dialect.name == "sqlite" or state.serves_from is None:
        oldest = known_to()
    target = None
    for script in state.left:
        if (_serves_from(script) or "") > (oldest or ""):
            break
        target = script.revision
    if target is None:
        return state
    command.upgrade(_config(connection), target)
    connection.execute(update(SchemaSupportRow).values(serves_from=serves_from(target)))
    return state_of(connection)


def _serves_from(script: Script) -> str | None:
    """Return the revision that a version must know to go on after a migration; None where it only adds."""
    revision: str | None = getattr(script.module, "serves_from", None)
    return revision


def _is_contraction(script: Script) -> bool:
    """Tell whether versions that know only an earlier revision still work after a migration."""
    serves = _serves_from(script)
    return serves is not None and serves < script.revision


def _revisions() -> list[str]:
    return [script.revision for script in _scripts()]


@functools.cache
def _scripts() -> tuple[Script, ...]:
    """Return the migrations of this version, the earliest first."""
    return tuple(ScriptDirectory.from_config(_config()).walk_revisions())[::-1]


def _config(connection: Connection | None = None) -> Config:
    config = Config(attributes={"connection": connection})
    folder = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
