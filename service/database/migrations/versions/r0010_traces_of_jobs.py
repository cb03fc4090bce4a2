"""Of jobs, the span of the request that each comes from, so that another process goes on in its trace.

It only adds: a version before stores none, and such a job begins a trace of its own.
"""

import sqlalchemy as sa
from alembic import op

revision = "r0010"
down_revision = "r0009"


def upgrade() -> None:
    """Add the column."""
    op.add_column("job_questions", sa.Column("traceparent", sa.String(55)))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("job_questions", "traceparent")
