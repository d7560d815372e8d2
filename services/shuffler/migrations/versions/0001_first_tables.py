"""The shuffler's first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tacit.aggregator.first_tables import create_common_tables

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create every table: those of every aggregator, bundles, and messages that are left to send."""
    create_common_tables()
    op.create_table(
        "kept",
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("first", sa.LargeBinary(), nullable=False),
        sa.Column("records", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "first"),
    )
    op.create_table(
        "outgoing",
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "number"),
    )
