"""Storage systems, benchmark runs, calibrations, and the audit log."""

from datetime import datetime

import sqlalchemy as sa
from alembic import op

revision = "r0002"
down_revision = "r0001"


def upgrade() -> None:
    """Create the tables."""
    _create_storage_systems()
    _create_runs()
    _create_calibrations()
    _create_audit_log()


def downgrade() -> None:
    """Drop the tables."""
    for table in ("audit_log", "calibration_runs", "calibrations", "measurements", "runs", "storage_systems"):
        op.drop_table(table)


def _create_storage_systems() -> None:
    op.create_table(
        "storage_systems",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("description", sa.String(2000), nullable=False),
        _moment("created_at"),
        sa.Column("token_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_storage_systems"),
        sa.UniqueConstraint("name", name="uq_storage_systems_name"),
        _reference("storage_systems", "token_id", "tokens"),
    )
    _index("storage_systems", "token_id")


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("system_id", sa.Integer(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        _moment("published_at"),
        sa.Column("token_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.UniqueConstraint("run_id", name="uq_runs_run_id"),
        _reference("runs", "system_id", "storage_systems"),
        _reference("runs", "token_id", "tokens"),
    )
    op.create_table(
        "measurements",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("engine", sa.String(64), nullable=False),
        sa.Column("operation", sa.String(20), nullable=False),
        sa.Column("num_nodes", sa.Integer(), nullable=False),
        sa.Column("num_ranks", sa.Integer(), nullable=False),
        sa.Column("bytes_per_second", sa.Double(), nullable=False),
        sa.Column("verified", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "position", name="pk_measurements"),
        _reference("measurements", "run_id", "runs"),
    )
    _index("runs", "system_id", "token_id")


def _create_calibrations() -> None:
    op.create_table(
        "calibrations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("system_id", sa.Integer(), nullable=False),
        sa.Column("calibration", sa.JSON(), nullable=False),
        sa.Column("code_version", sa.String(50), nullable=False),
        _moment("created_at"),
        sa.Column("token_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_calibrations"),
        _reference("calibrations", "system_id", "storage_systems"),
        _reference("calibrations", "token_id", "tokens"),
    )
    op.create_table(
        "calibration_runs",
        sa.Column("calibration_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.PrimaryKeyConstraint("calibration_id", "run_id", name="pk_calibration_runs"),
        _reference("calibration_runs", "calibration_id", "calibrations"),
        _reference("calibration_runs", "run_id", "runs"),
    )
    _index("calibrations", "system_id", "token_id")
    _index("calibration_runs", "run_id")


def _create_audit_log() -> None:
    op.create_table(
        "audit_log",
        sa.Column("id", sa.Uuid(), nullable=False),
        _moment("at"),
        sa.Column("token_id", sa.Integer()),
        sa.Column("action", sa.String(50), nullable=False),
        sa.Column("subject", sa.String(200), nullable=False),
        sa.Column("request_id", sa.String(64)),
        sa.PrimaryKeyConstraint("id", name="pk_audit_log"),
        _reference("audit_log", "token_id", "tokens"),
    )
    _index("audit_log", "token_id")


def _moment(name: str) -> sa.Column[datetime]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False)


def _reference(table: str, column: str, to: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{to}.id"], name=f"fk_{table}_{column}_{to}")


def _index(table: str, *columns: str) -> None:
    for column in columns:
        op.create_index(f"ix_{table}_{column}", table, [column])
