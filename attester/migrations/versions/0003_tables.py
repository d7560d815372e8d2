"""The attester's tables at revision 3, the oldest whose databases are opened."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = None


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "quotas",
        sa.Column("stable_id", sa.LargeBinary(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("slot", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("request_hash", sa.LargeBinary(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("stable_id", "epoch", "slot"),
    )
    op.create_index("ix_quotas_expires", "quotas", ["expires"], unique=False)
    op.create_table(
        "issuance",
        sa.Column("epoch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("slot", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("devices", sa.BigInteger(), nullable=False),
        sa.Column("requested", sa.BigInteger(), nullable=False),
        sa.Column("answered", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("epoch", "slot"),
    )
    op.create_table(
        "used_challenges",
        sa.Column("challenge", sa.LargeBinary(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("challenge"),
    )
    op.create_index("ix_used_challenges_expires", "used_challenges", ["expires"], unique=False)
    op.create_table(
        "challenge_floor",
        sa.Column("only", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("only"),
    )
