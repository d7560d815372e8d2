"""The Helper's tables: verified reports, aggregation jobs, aggregate shares."""

from __future__ import annotations

from sqlalchemy import Column, Integer, LargeBinary, MetaData, Table, Text

from tacit.aggregator.schema import CommonTables

MIGRATIONS = "services.helper.migrations"

METADATA = MetaData()
COMMON = CommonTables(METADATA)

REPORTS = Table(
    "reports",
    METADATA,
    Column("task_id", LargeBinary, primary_key=True),
    Column("report_id", LargeBinary, primary_key=True),
    Column("code", Integer, nullable=False),
    Column("cause", Text, nullable=False),
)
JOBS = Table(
    "aggregation_jobs",
    METADATA,
    Column("job_id", LargeBinary, primary_key=True),
    Column("task_id", LargeBinary, nullable=False, index=True),
    Column("response", LargeBinary, nullable=False),
)
SHARES = Table(
    "aggregate_shares",
    METADATA,
    Column("share_id", LargeBinary, primary_key=True),
    Column("task_id", LargeBinary, nullable=False, index=True),
    Column("response", LargeBinary, nullable=False),
)
