"""The shuffler's tables: those of every follower of the log, bundles, and permuted messages that are left to send.

``kept`` holds the sealed messages of each device together until the interval is over; in one transaction they are
permuted into ``outgoing`` and deleted. A row of ``outgoing`` is deleted once the analyzer has it. ``looks`` holds what
the receiver is told of the number of bundles before that.
"""

from __future__ import annotations

from sqlalchemy import Column, Integer, LargeBinary, MetaData, Table

from tacit.aggregator.one_server.schema import kept_table
from tacit.aggregator.schema import CommonTables, looks_table

MIGRATIONS = "services.shuffler.migrations"

METADATA = MetaData()
COMMON = CommonTables(METADATA)
KEPT = kept_table(METADATA)
LOOKS = looks_table(METADATA)
OUTGOING = Table(
    "outgoing",
    METADATA,
    Column("task_id", LargeBinary, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
    info={
        "holds": "a request with permuted messages, or reports",
        "kept": "until the analyzer or leader has it",
    },
)
