"""Schema 1: create the attester's tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the first version of every table."""
    op.create_table(
        "challenges",
        sa.Column("challenge", sa.LargeBinary(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("challenge"),
    )
    op.create_index(op.f("ix_challenges_expires"), "challenges", ["expires"], unique=False)
    op.create_table(
        "quotas",
        sa.Column("stable_id", sa.LargeBinary(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("slot", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("request_hash", sa.LargeBinary(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("stable_id", "epoch", "slot"),
    )
    op.create_index(op.f("ix_quotas_expires"), "quotas", ["expires"], unique=False)


def downgrade() -> None:
    """Drop all of the attester's tables."""
    for table in ("quotas", "challenges"):
        op.drop_table(table)
