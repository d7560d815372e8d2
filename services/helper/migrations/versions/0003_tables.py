"""The helper's tables at revision 3, the oldest whose databases are opened."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tacit.adapters.databases.migrate import keep_out_of_line
from tacit.aggregator.first_tables import create_common_tables

revision = "0003"
down_revision = None


def upgrade() -> None:
    """Create every table."""
    create_common_tables()
    op.create_table(
        "aggregation_jobs",
        sa.Column("job_id", sa.LargeBinary(), nullable=False),
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("response", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("job_id"),
    )
    op.create_index(op.f("ix_aggregation_jobs_task_id"), "aggregation_jobs", ["task_id"], unique=False)
    op.create_table(
        "aggregate_shares",
        sa.Column("share_id", sa.LargeBinary(), nullable=False),
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("response", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("share_id"),
    )
    op.create_index(op.f("ix_aggregate_shares_task_id"), "aggregate_shares", ["task_id"], unique=False)
    keep_out_of_line(op.get_bind(), "aggregation_jobs", "response")
