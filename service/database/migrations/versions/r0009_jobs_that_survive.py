"""Of jobs, the question, the owner, the attempts and the parts that are there, so that another process can go on.

It only adds: a version before stores none of this, and its jobs end with its process.
"""

import sqlalchemy as sa
from alembic import op

revision = "r0009"
down_revision = "r0008"


def upgrade() -> None:
    """Add the columns and the tables."""
    op.add_column("jobs", sa.Column("owner", sa.Uuid()))
    op.add_column("jobs", sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"))
    op.create_table(
        "job_questions",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_job_questions_job_id_jobs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", name="pk_job_questions"),
    )
    op.create_table(
        "job_parts",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("start", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("stop", sa.BigInteger(), nullable=False),
        sa.Column("versions", sa.String(200), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_job_parts_job_id_jobs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "start", name="pk_job_parts"),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("job_parts")
    op.drop_table("job_questions")
    op.drop_column("jobs", "attempts")
    op.drop_column("jobs", "owner")
