"""Links that read one saved scenario without a token, and people who log in.

It only adds. A link goes with its scenario, also where a version deletes that which knows no links.
"""

import sqlalchemy as sa
from alembic import op

revision = "r0007"
down_revision = "r0006"


def upgrade() -> None:
    """Add the tables."""
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "sharing_links",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("scenario_id", sa.Uuid(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("expires_at", moment),
        sa.Column("token_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["scenario_id"], ["scenarios.id"], name="fk_sharing_links_scenario_id_scenarios", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name="fk_sharing_links_token_id_tokens"),
        sa.PrimaryKeyConstraint("id", name="pk_sharing_links"),
    )
    op.create_index("ix_sharing_links_scenario_id", "sharing_links", ["scenario_id"])
    op.create_index("ix_sharing_links_token_id", "sharing_links", ["token_id"])
    op.create_table(
        "people",
        sa.Column("token_id", sa.Integer(), nullable=False),
        sa.Column("issuer", sa.String(255), nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("sessions", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name="fk_people_token_id_tokens"),
        sa.PrimaryKeyConstraint("token_id", name="pk_people"),
        sa.UniqueConstraint("subject", "issuer", name="uq_people_subject"),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("people")
    op.drop_table("sharing_links")
