"""Documents of runs in a table of their own, and an index for lists of a system's runs."""

import sqlalchemy as sa
from alembic import op

revision = "r0003"
down_revision = "r0002"


def upgrade() -> None:
    """Move the documents."""
    op.create_table(
        "run_documents",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_run_documents"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_documents_run_id_runs"),
    )
    op.execute("INSERT INTO run_documents (run_id, document) SELECT id, document FROM runs")
    op.drop_column("runs", "document")
    op.drop_index("ix_runs_system_id", "runs")
    op.create_index("ix_runs_system_id_id", "runs", ["system_id", "id", "published_at"])


def downgrade() -> None:
    """Move them back."""
    op.add_column("runs", sa.Column("document", sa.Text(), nullable=False, server_default=""))
    op.execute("UPDATE runs SET document = (SELECT document FROM run_documents WHERE run_id = runs.id)")
    op.drop_index("ix_runs_system_id_id", "runs")
    op.create_index("ix_runs_system_id", "runs", ["system_id"])
    op.drop_table("run_documents")
