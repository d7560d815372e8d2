"""The analyzer's tables: those of every follower of the log, and the released sums.

No table holds a report, sealed or open: ``outcomes`` holds ids, digests and nullifiers, ``buckets`` the running sum of
each recipe (``agg_share``: 8 bytes per cell; checksum and times are those of DAP's batches, and empty).
"""

from __future__ import annotations

from sqlalchemy import Column, LargeBinary, MetaData, Table

from tacit.adapters.upsert import Int64
from tacit.aggregator.schema import CommonTables, looks_table

MIGRATIONS = "services.analyzer.migrations"

METADATA = MetaData()
COMMON = CommonTables(METADATA)
LOOKS = looks_table(METADATA)

AGGREGATES = Table(
    "aggregates",
    METADATA,
    Column("task_id", LargeBinary, primary_key=True),
    Column("report_count", Int64, nullable=False),
    Column("numbers", LargeBinary, nullable=False),
)
