"""The analyzer's tables: those of every follower of the log, and the released sums.

``outcomes`` holds ids, digests and nullifiers of reports, ``buckets`` the running sum of each recipe (``agg_share``: 8
bytes per cell; checksum and times are those of DAP's batches, and empty). ``kept`` holds the randomised answers of
recipes whose reports are searched when all have come: a row has those of one group of uploads, one after another, and
all are deleted with the release. ``chunks`` holds how many messages a shuffler forwarded about each cell, chunk by
chunk. No other table holds a report, sealed or open.
"""

from __future__ import annotations

from sqlalchemy import Column, Integer, LargeBinary, MetaData, Table

from tacit.adapters.databases.upsert import Int64
from tacit.aggregator.one_server.schema import kept_table
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
    Column("search", LargeBinary, nullable=False, server_default=""),
    info={
        "holds": (
            "report count and sum as released, in the transaction that empties the row of `buckets` and adds"
            " one to `releases`"
        ),
        "kept": "until `retention` after the task's end",
    },
)
KEPT = kept_table(METADATA)
CHUNKS = Table(
    "chunks",
    METADATA,
    Column("task_id", LargeBinary, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("total", Integer, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("tally", LargeBinary, nullable=False),
    info={
        "holds": "the digest of a chunk of shuffled messages, and what it adds to each cell",
        "kept": "until `retention` after the task's end; what it adds is emptied by the release",
    },
)
"""``tally``: see ``services.analyzer.chunks``; empty after the release."""
