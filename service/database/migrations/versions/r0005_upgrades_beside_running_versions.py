"""What upgrades beside running versions need: what the schema serves, and what scenarios answered when they were saved.

Versions before it know no schema but their own: they go on answering beside it, and say that they are not ready.
"""

import sqlalchemy as sa
from alembic import op

revision = "r0005"
down_revision = "r0004"
serves_from = "r0005"


def upgrade() -> None:
    """Add the table with its one row, and the columns."""
    support = op.create_table(
        "schema_support",
        sa.Column("serves_from", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("serves_from", name="pk_schema_support"),
    )
    op.bulk_insert(support, [{"serves_from": serves_from}])
    op.add_column("scenarios", sa.Column("code_version", sa.String(50)))
    op.add_column("scenarios", sa.Column("figures", sa.JSON()))


def downgrade() -> None:
    """Drop them."""
    op.drop_column("scenarios", "figures")
    op.drop_column("scenarios", "code_version")
    op.drop_table("schema_support")
