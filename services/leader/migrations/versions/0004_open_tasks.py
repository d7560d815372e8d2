"""Reports are stored in one statement only for tasks whose row says that they are active."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

STORE_REPORTS = """
CREATE OR REPLACE FUNCTION store_reports(
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
"""The function as before, except that it stores nothing if a task among them is not active. Every query in it sees what
was committed before it got the writers' lock, and a task ends only under that lock."""


def upgrade() -> None:
    """Replace the function ``store_reports`` (PostgreSQL only)."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(STORE_REPORTS)


def downgrade() -> None:
    """Do nothing: the older code has no need of the reports that the new function refuses."""
