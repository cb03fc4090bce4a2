"""Of jobs, how far each is and whose token asked for it.

It only adds: a version before knows neither, and its jobs are in nobody's list.
"""

import sqlalchemy as sa
from alembic import op

revision = "r0008"
down_revision = "r0007"


def upgrade() -> None:
    """Add the columns."""
    op.add_column("jobs", sa.Column("progress_fraction", sa.Double()))
    # SQLite takes a reference with its column alone, and so does PostgreSQL.
    op.execute("ALTER TABLE jobs ADD COLUMN token_id INTEGER CONSTRAINT fk_jobs_token_id_tokens REFERENCES tokens (id)")
    op.create_index("ix_jobs_token_id", "jobs", ["token_id", "created_at"])


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_jobs_token_id", "jobs")
    op.drop_column("jobs", "token_id")
    op.drop_column("jobs", "progress_fraction")
