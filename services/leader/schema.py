"""The Leader's tables: uploads, aggregation jobs, leader-selected batches, collection jobs."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

from tacit.adapters.upsert import Int64
from tacit.aggregator.schema import CommonTables

MIGRATIONS = "services.leader.migrations"

METADATA = MetaData()
COMMON = CommonTables(METADATA)

REPORTS = Table(
    "reports",
    METADATA,
    Column("seq", Int64, primary_key=True),
    Column("task_id", LargeBinary, nullable=False),
    Column("report_id", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("state", Text, nullable=False),
    Column("job_id", LargeBinary),
    Column("place", Integer),
    Column("code", Integer),
    Column("cause", Text),
    Column("body", LargeBinary, nullable=False),
    UniqueConstraint("task_id", "report_id", name="one_report_per_id"),
    Index("reports_by_state", "task_id", "state"),
    Index("reports_by_job", "job_id"),
)
JOBS = Table(
    "aggregation_jobs",
    METADATA,
    Column("job_id", LargeBinary, primary_key=True),
    Column("task_id", LargeBinary, nullable=False),
    Column("batch_id", LargeBinary),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt", Float, nullable=False),
    Column("location", Text, nullable=False),
    Column("request", LargeBinary, nullable=False),
    Index("jobs_by_state", "state"),
)
BATCHES = Table(
    "batches",
    METADATA,
    Column("seq", Int64, primary_key=True),
    Column("task_id", LargeBinary, nullable=False),
    Column("batch_id", LargeBinary, nullable=False, unique=True),
    Column("state", Text, nullable=False),
    Index("batches_by_task", "task_id", "state"),
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
)
