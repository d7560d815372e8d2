"""Schema 1: create the shuffler's tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tacit.adapters.upsert import Int64

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the first version of every table."""
    _log_and_tasks()
    _outcomes()
    _messages()


def _log_and_tasks() -> None:
    """Tables of the log and of tasks."""
    op.create_table(
        "log_state",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "leaves",
        sa.Column("position", Int64, autoincrement=False, nullable=False),
        sa.Column("leaf", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("position"),
    )
    op.create_table(
        "tasks",
        sa.Column("recipe_hash", sa.LargeBinary(), nullable=False),
        sa.Column("task_id", sa.LargeBinary(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("recipe", sa.LargeBinary(), nullable=False),
        sa.Column("token_key_spki", sa.LargeBinary(), nullable=False),
        sa.Column("opt_in", sa.LargeBinary(), nullable=False),
        sa.Column("void", sa.LargeBinary(), nullable=False, server_default=sa.text("''")),
        sa.PrimaryKeyConstraint("recipe_hash"),
        sa.UniqueConstraint("task_id"),
    )


def _outcomes() -> None:
    """Outcomes of reports, and their sums."""
    op.create_table(
        "outcomes",
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("report_id", sa.LargeBinary(), nullable=False),
        sa.Column("nullifier", sa.LargeBinary(), nullable=True),
        sa.Column("code", sa.Integer(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("bucket", sa.LargeBinary(), nullable=True),
        sa.Column("job_id", sa.LargeBinary(), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("task_id", "report_id"),
        sa.UniqueConstraint("nullifier", name="one_report_per_nullifier"),
    )
    op.create_index("outcomes_by_bucket", "outcomes", ["task_id", "bucket"], unique=False)
    op.create_table(
        "buckets",
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("bucket", sa.LargeBinary(), nullable=False),
        sa.Column("shard", Int64, autoincrement=False, nullable=False),
        sa.Column("count", Int64, nullable=False),
        sa.Column("checksum", sa.LargeBinary(), nullable=False),
        sa.Column("first_time", Int64, nullable=False),
        sa.Column("last_time", Int64, nullable=False),
        sa.Column("agg_share", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "bucket", "shard"),
    )
    op.create_table(
        "releases",
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("selector", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "selector"),
    )
    op.create_table(
        "rejections",
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("count", Int64, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "cause"),
    )


def _messages() -> None:
    """Create the tables of bundles, and of messages that are left to send. (No census has a shuffler.)"""
    op.create_table(
        "census_shares",
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("report_count", Int64, nullable=False),
        sa.Column("agg_share", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("task_id"),
    )
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


def downgrade() -> None:
    """Drop all of the shuffler's tables."""
    op.drop_index("outcomes_by_bucket", table_name="outcomes")
    for table in (
        "outgoing",
        "kept",
        "census_shares",
        "rejections",
        "releases",
        "buckets",
        "outcomes",
        "tasks",
        "leaves",
    ):
        op.drop_table(table)
    op.drop_table("log_state")
