"""The tables that the first migration of every aggregator creates, frozen as they were then. A later change of them is
a migration of each aggregator, and of ``tacit.aggregator.schema``."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tacit.adapters.databases.upsert import Int64


def create_common_tables() -> None:
    """Create the tables of the log, of tasks, and of the outcomes of reports, their sums and their releases."""
    _log_and_tasks()
    _outcomes()
    _sums()


def _log_and_tasks() -> None:
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
        "rejections",
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("count", Int64, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "cause"),
    )


def _sums() -> None:
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
        "census_shares",
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("report_count", Int64, nullable=False),
        sa.Column("agg_share", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("task_id"),
    )
