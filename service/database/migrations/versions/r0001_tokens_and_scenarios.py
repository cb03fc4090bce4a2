"""Tokens and scenarios."""

import sqlalchemy as sa
from alembic import op

revision = "r0001"
down_revision = None


def upgrade() -> None:
    """Create the two tables."""
    op.create_table(
        "tokens",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("scope", sa.String(20), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("name", name="uq_tokens_name"),
    )
    op.create_table(
        "scenarios",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("scenario", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("token_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_scenarios"),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name="fk_scenarios_token_id_tokens"),
    )
    op.create_index("ix_scenarios_token_id", "scenarios", ["token_id"])


def downgrade() -> None:
    """Drop the two tables."""
    op.drop_table("scenarios")
    op.drop_table("tokens")
