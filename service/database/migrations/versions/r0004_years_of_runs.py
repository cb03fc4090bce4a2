"""What years of runs need: withdrawals, owners, retention, limits of tokens, keys of retries, and series of rates.

It only adds, so that instances of the version before go on beside it.
"""

from collections.abc import Iterator
from datetime import datetime

import sqlalchemy as sa
from alembic import op
from pydantic import ValidationError

from sizing.storage.measurement import BenchmarkResult
from sizing.storage.rate_changes import series_of

revision = "r0004"
down_revision = "r0003"

_ADDED = (
    ("storage_systems", "keep_runs_seconds", sa.Double),
    ("storage_systems", "keep_num_runs", sa.Integer),
    ("calibrations", "left_out", sa.JSON),
)
_TABLES = ("withdrawals", "storage_system_owners", "idempotency_keys", "token_systems")


def upgrade() -> None:
    """Add the tables and columns, and find the series of what was measured before."""
    _create_tables()
    for table, column, kind in _ADDED:
        op.add_column(table, sa.Column(column, kind()))
    op.add_column("measurements", sa.Column("series", sa.String(300)))
    op.create_index("ix_measurements_engine", "measurements", ["engine", "run_id", "num_nodes"])
    _fill_series(op.get_bind())


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_measurements_engine", "measurements")
    op.drop_column("measurements", "series")
    for table, column, _ in _ADDED:
        op.drop_column(table, column)
    for table in _TABLES:
        op.drop_table(table)


def _create_tables() -> None:
    op.create_table(
        "token_systems",
        _token(),
        sa.Column("system_name", sa.String(100), nullable=False),
        sa.PrimaryKeyConstraint("token_id", "system_name", name="pk_token_systems"),
        _reference("token_systems", "token_id", "tokens"),
    )
    op.create_table(
        "idempotency_keys",
        _token(),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("made_id", sa.Uuid(), nullable=False),
        _moment("at"),
        sa.PrimaryKeyConstraint("token_id", "key", name="pk_idempotency_keys"),
        _reference("idempotency_keys", "token_id", "tokens"),
    )
    op.create_table(
        "storage_system_owners",
        sa.Column("system_id", sa.Integer(), nullable=False),
        _token(),
        sa.PrimaryKeyConstraint("system_id", "token_id", name="pk_storage_system_owners"),
        _reference("storage_system_owners", "system_id", "storage_systems"),
        _reference("storage_system_owners", "token_id", "tokens"),
    )
    op.create_table(
        "withdrawals",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("reason", sa.String(2000), nullable=False),
        _moment("at"),
        _token(),
        sa.PrimaryKeyConstraint("run_id", name="pk_withdrawals"),
        _reference("withdrawals", "run_id", "runs"),
        _reference("withdrawals", "token_id", "tokens"),
    )
    for table in ("storage_system_owners", "withdrawals"):
        op.create_index(f"ix_{table}_token_id", table, ["token_id"])


def _fill_series(connection: sa.Connection) -> None:
    """One document at a time: each may have 16 MiB."""
    documents = sa.table("run_documents", sa.column("run_id", sa.Uuid()), sa.column("document", sa.Text()))
    measurements = sa.table(
        "measurements", sa.column("run_id", sa.Uuid()), sa.column("position", sa.Integer()), sa.column("series")
    )
    for run_id in connection.scalars(sa.select(documents.c.run_id)).all():
        of_run = sa.select(documents.c.document).where(documents.c.run_id == run_id)
        document: str = connection.execute(of_run).scalar_one()
        for position, series in _series_in(document):
            of_it = (measurements.c.run_id == run_id, measurements.c.position == position)
            connection.execute(sa.update(measurements).where(*of_it).values(series=series))


def _series_in(document: str) -> Iterator[tuple[int, str | None]]:
    """Nothing of a document that this version does not read."""
    try:
        result = BenchmarkResult.model_validate_json(document)
    except ValidationError:
        return
    yield from enumerate(map(series_of, result.measurements))


def _token() -> sa.Column[int]:
    return sa.Column("token_id", sa.Integer(), nullable=False)


def _moment(name: str) -> sa.Column[datetime]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False)


def _reference(table: str, column: str, to: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{to}.id"], name=f"fk_{table}_{column}_{to}")
