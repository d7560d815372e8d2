"""The analyzer's tables at revision 2, the oldest whose databases are opened."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tacit.adapters.databases.upsert import Int64
from tacit.aggregator.first_tables import create_common_tables

revision = "0002"
down_revision = None


def upgrade() -> None:
    """Create every table."""
    create_common_tables()
    op.create_table(
        "aggregates",
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("report_count", Int64, nullable=False),
        sa.Column("numbers", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("task_id"),
    )
    op.create_table(
        "looks",
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", Int64, nullable=False),
        sa.Column("tenths", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "number"),
    )
