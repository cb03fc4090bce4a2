"""Questions that are answered later, and their results."""

import sqlalchemy as sa
from alembic import op

revision = "r0006"
down_revision = "r0005"


def upgrade() -> None:
    """Add the tables."""
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "jobs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(50), nullable=False),
        sa.Column("form", sa.String(20), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("code_version", sa.String(50), nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("started_at", moment),
        sa.Column("ended_at", moment),
        sa.Column("heartbeat_at", moment, nullable=False),
        sa.Column("max_seconds", sa.Double(), nullable=False),
        sa.Column("problem_code", sa.String(50)),
        sa.Column("problems", sa.JSON()),
        sa.Column("result_bytes", sa.Integer()),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("ix_jobs_state_ended_at", "jobs", ["state", "ended_at"])
    op.create_table(
        "job_results",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_job_results_job_id_jobs"),
        sa.PrimaryKeyConstraint("job_id", name="pk_job_results"),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("job_results")
    op.drop_table("jobs")
