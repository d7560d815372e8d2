"""The Leader's tables: uploads, aggregation jobs, leader-selected batches, collection jobs.

On PostgreSQL ``reports`` is partitioned by ``seq`` into slices that are dropped as a whole. Therefore only ``seq`` can
be unique there, and if two processes take an upload of the same report id at the same moment, the duplicate is noticed
only when its outcome is recorded.

A row of ``pending`` is a group of one task's reports that were stored together: ``members`` are their sequence numbers,
8 bytes each, and ``seq`` is the least of them. ``forwarded`` has the tasks whose shuffler has said that it has
forwarded everything.
"""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Sequence,
    Table,
    Text,
    event,
)

from tacit.adapters.databases.upsert import Int64, keep_out_of_line
from tacit.aggregator.schema import CommonTables, looks_table

MIGRATIONS = "services.leader.migrations"

METADATA = MetaData()
COMMON = CommonTables(METADATA)
LOOKS = looks_table(METADATA)

FORWARDED = Table(
    "forwarded",
    METADATA,
    Column("task_id", LargeBinary, primary_key=True),
    info={
        "holds": "the tasks whose shuffler has said that it has forwarded everything",
        "kept": "until `retention` after the task's end",
    },
)
REPORTS = Table(
    "reports",
    METADATA,
    Column("seq", Int64, primary_key=True, autoincrement=False),
    Column("task_id", LargeBinary, nullable=False),
    Column("report_id", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("reports_by_id", "report_id"),
    postgresql_partition_by="RANGE (seq)",
    info={
        "holds": "reports that were acknowledged: task, id, digest and bytes",
        "kept": "until the report is decided",
    },
)
PENDING = Table(
    "pending",
    METADATA,
    Column("seq", Int64, primary_key=True, autoincrement=False),
    Column("task_id", LargeBinary, nullable=False),
    Column("since", Float, nullable=False),
    Column("size", Integer, nullable=False),
    Column("members", LargeBinary, nullable=False),
    Index("pending_by_task", "task_id", "seq"),
    info={
        "holds": (
            "which reports have no job, and since when, by group of reports of one task that were stored "
            "together; of one task at most `limits.pending_floor`, or twice what its recipe expects"
        ),
        "kept": "until a job has them",
    },
)
JOBS = Table(
    "aggregation_jobs",
    METADATA,
    Column("job_id", LargeBinary, primary_key=True),
    Column("task_id", LargeBinary, nullable=False),
    Column("batch_id", LargeBinary),
    Column("state", Text, nullable=False),
    Column("members", LargeBinary, nullable=False),
    Column("size", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt", Float, nullable=False),
    Column("holder", Int64, nullable=False),
    Column("lease_until", Float, nullable=False),
    Column("expired", Integer, nullable=False),
    Column("cause", Text, nullable=False),
    Column("location", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Index("jobs_by_state", "state", "next_attempt"),
    Index("jobs_by_task", "task_id", "state"),
    info={
        "holds": (
            "batch, state, members, lease, attempts, cause of the last failure, SHA-256 of the exact request (P14), "
            "where the helper keeps its answer and when it is to be deleted there"
        ),
        "kept": (
            "members and digest until it is answered, the place of the answer until that is deleted, the rest until "
            "`retention` after the task's end"
        ),
    },
)
BATCHES = Table(
    "batches",
    METADATA,
    Column("seq", Int64, primary_key=True),
    Column("task_id", LargeBinary, nullable=False),
    Column("batch_id", LargeBinary, nullable=False, unique=True),
    Column("state", Text, nullable=False),
    Index("batches_by_task", "task_id", "state"),
    info={
        "holds": "the state of a leader-selected batch",
        "kept": "until `retention` after the task's end",
    },
)
COLLECTIONS = Table(
    "collection_jobs",
    METADATA,
    Column("job_id", LargeBinary, primary_key=True),
    Column("task_id", LargeBinary, nullable=False),
    Column("state", Text, nullable=False),
    Column("request", LargeBinary, nullable=False),
    Column("batch_id", LargeBinary),
    Column("share_request", LargeBinary, nullable=False),
    Column("response", LargeBinary, nullable=False),
    Column("problem", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt", Float, nullable=False),
    Index("collections_by_task", "task_id", "state"),
    info={
        "holds": "state, the collector's request, the exact request for the helper, response or problem",
        "kept": (
            "the request for the helper until its share is here, the response until it is deleted, the rest "
            "until `retention` after the task's end"
        ),
    },
)
_STORE_REPORTS = """
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

Sequence("report_seqs", metadata=METADATA)
_MAKE_FUNCTION = DDL(_STORE_REPORTS)  # type: ignore[no-untyped-call]
event.listen(METADATA, "after_create", _MAKE_FUNCTION.execute_if(dialect="postgresql"))
keep_out_of_line(REPORTS, "body")
keep_out_of_line(JOBS, "digest", "members")
keep_out_of_line(PENDING, "members")
