"""Schema 1: create the issuer's tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the first version of every table."""
    op.create_table(
        "slot_keys",
        sa.Column("epoch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("slot", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("private_key", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("epoch", "slot"),
    )
    op.create_table(
        "directories",
        sa.Column("epoch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("leaf", sa.LargeBinary(), nullable=False),
        sa.Column("log_index", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("epoch"),
    )
    op.create_table(
        "issuance",
        sa.Column("epoch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("slot", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("epoch", "slot"),
    )
