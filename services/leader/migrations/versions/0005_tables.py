"""The leader's tables at revision 5, the oldest whose databases are opened."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tacit.adapters.databases.migrate import keep_out_of_line
from tacit.adapters.databases.upsert import Int64
from tacit.aggregator.first_tables import create_common_tables

revision = "0005"
down_revision = None

STORE_REPORTS = """
CREATE FUNCTION store_reports(
    writers bigint, since double precision, closable bytea[],
    task_ids bytea[], report_ids bytea[], digests bytea[], bodies bytea[]
) RETURNS boolean LANGUAGE plpgsql
SET plan_cache_mode TO force_generic_plan
SET enable_seqscan TO off SET enable_hashjoin TO off SET enable_mergejoin TO off
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(writers);
    IF EXISTS (
            SELECT FROM (SELECT DISTINCT unnest(task_ids)) AS u (task_id)
            WHERE NOT EXISTS (SELECT FROM tasks t WHERE t.task_id = u.task_id AND t.state = 'active')
        )
        OR EXISTS (SELECT FROM reports r WHERE r.report_id = ANY(report_ids))
        OR EXISTS (
            SELECT FROM unnest(task_ids, report_ids) AS u (task_id, report_id)
            JOIN outcomes o ON o.task_id = u.task_id AND o.report_id = u.report_id
        )
        OR EXISTS (SELECT FROM releases e WHERE e.task_id = ANY(closable))
    THEN
        RETURN false;
    END IF;
    WITH made AS (
        INSERT INTO reports (seq, task_id, report_id, digest, body)
        SELECT nextval('report_seqs'), * FROM unnest(task_ids, report_ids, digests, bodies)
        RETURNING reports.seq, reports.task_id
    )
    INSERT INTO pending (seq, task_id, since, size, members)
    SELECT min(made.seq), made.task_id, store_reports.since, count(*), string_agg(int8send(made.seq), ''::bytea)
    FROM made GROUP BY made.task_id;
    RETURN true;
END
$$
"""
"""Stores new reports in one statement: all of them, or none if one is known, a batch of a task among ``closable`` was
released, or a task among them is not active. Every query in it sees what was committed before it got the writers' lock,
and a task ends only under that lock. Its plans are made once, with one index lookup per report, because the tables grow
after that."""


def upgrade() -> None:
    """Create every table, and on PostgreSQL the function that stores reports."""
    create_common_tables()
    _jobs()
    _collections()
    _reports()
    op.create_table(
        "looks",
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", Int64, nullable=False),
        sa.Column("tenths", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "number"),
    )
    keep_out_of_line(op.get_bind(), "reports", "body")
    keep_out_of_line(op.get_bind(), "aggregation_jobs", "request", "members")
    keep_out_of_line(op.get_bind(), "pending", "members")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("CREATE SEQUENCE report_seqs")
        op.execute(STORE_REPORTS)


def _jobs() -> None:
    """Aggregation jobs and leader-selected batches."""
    op.create_table(
        "aggregation_jobs",
        sa.Column("job_id", sa.LargeBinary(), nullable=False),
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("batch_id", sa.LargeBinary(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("members", sa.LargeBinary(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt", sa.Float(), nullable=False),
        sa.Column("holder", Int64, nullable=False),
        sa.Column("lease_until", sa.Float(), nullable=False),
        sa.Column("expired", sa.Integer(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("job_id"),
    )
    op.create_index("jobs_by_state", "aggregation_jobs", ["state", "next_attempt"], unique=False)
    op.create_index("jobs_by_task", "aggregation_jobs", ["task_id", "state"], unique=False)
    op.create_table(
        "batches",
        sa.Column("seq", Int64, nullable=False),
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("batch_id", sa.LargeBinary(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("batch_id"),
    )
    op.create_index("batches_by_task", "batches", ["task_id", "state"], unique=False)


def _collections() -> None:
    """Create the table ``collection_jobs``."""
    op.create_table(
        "collection_jobs",
        sa.Column("job_id", sa.LargeBinary(), nullable=False),
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("batch_id", sa.LargeBinary(), nullable=True),
        sa.Column("share_request", sa.LargeBinary(), nullable=False),
        sa.Column("response", sa.LargeBinary(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("job_id"),
    )
    op.create_index("collections_by_task", "collection_jobs", ["task_id", "state"], unique=False)


def _reports() -> None:
    """Create the tables that hold uploaded reports."""
    op.create_table(
        "reports",
        sa.Column("seq", Int64, autoincrement=False, nullable=False),
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("report_id", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
        postgresql_partition_by="RANGE (seq)",
    )
    op.create_index("reports_by_id", "reports", ["report_id"], unique=False)
    op.create_table(
        "pending",
        sa.Column("seq", Int64, autoincrement=False, nullable=False),
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("members", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("pending_by_task", "pending", ["task_id", "seq"], unique=False)
