"""The Helper's tables: aggregation jobs and aggregate shares, in addition to the tables of both aggregators."""

from __future__ import annotations

from sqlalchemy import Column, LargeBinary, MetaData, Table

from tacit.adapters.databases.upsert import keep_out_of_line
from tacit.aggregator.schema import CommonTables

MIGRATIONS = "services.helper.migrations"

METADATA = MetaData()
COMMON = CommonTables(METADATA)

JOBS = Table(
    "aggregation_jobs",
    METADATA,
    Column("job_id", LargeBinary, primary_key=True),
    Column("task_id", LargeBinary, nullable=False, index=True),
    Column("response", LargeBinary, nullable=False),
    info={
        "holds": "the response to a job as it was given",
        "kept": "until the leader deletes it, a minute or two after its own commit; else as long as the task",
    },
)
SHARES = Table(
    "aggregate_shares",
    METADATA,
    Column("share_id", LargeBinary, primary_key=True),
    Column("task_id", LargeBinary, nullable=False, index=True),
    Column("response", LargeBinary, nullable=False),
    info={
        "holds": "the sealed share as it was given",
        "kept": "until the leader deletes it",
    },
)
keep_out_of_line(JOBS, "response")
