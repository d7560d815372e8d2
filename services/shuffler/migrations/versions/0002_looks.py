"""Looks at the number of bundles of recipes that are filling."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tacit.adapters.databases.upsert import Int64

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """The table starts empty: no look was told before."""
    op.create_table(
        "looks",
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", Int64, nullable=False),
        sa.Column("tenths", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "number"),
    )
