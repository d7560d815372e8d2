"""Tables of both leader and helper; each service adds its own to its own ``MetaData``.

``outcomes`` holds the outcome of each report, and with it enforces both rules for reports: one report id counts once
(DAP-18 section 4.5.3.5), one token is spent once (P10, by its nullifier). ``buckets`` and ``releases`` hold the rest of
the commit rule; ``census_shares`` what was released of a census and is to be published in the log. All ids are raw
bytes, all times units of the task's precision.
"""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, LargeBinary, MetaData, Table, Text, UniqueConstraint, column, table, text

from tacit.adapters.databases.log_tables import LogTables
from tacit.adapters.databases.upsert import Int64
from tacit.adapters.databases.watermark import TABLE

MARKS = table(TABLE, column("shard", Integer), column("number", Int64))
"""The table that every database has beside its own; see ``tacit.adapters.databases.watermark``."""


class CommonTables(LogTables):
    """The tables that leader and helper both have, those of the log included, made on ``metadata``."""

    def __init__(self, metadata: MetaData) -> None:
        super().__init__(metadata)
        self.tasks = _tasks(metadata)
        self.outcomes = _outcomes(metadata)
        self.buckets = _buckets(metadata)
        self.releases = _releases(metadata)
        self.rejections = _rejections(metadata)
        self.census_shares = _census_shares(metadata)


def looks_table(metadata: MetaData) -> Table:
    """The table of looks at counts of filling batches, for a server that a collector asks
    (``tacit.aggregator.yield_looks``)."""
    return Table(
        "looks",
        metadata,
        Column("task_id", LargeBinary, primary_key=True),
        Column("number", Integer, primary_key=True, autoincrement=False),
        Column("at", Int64, nullable=False),
        Column("tenths", Integer, nullable=False),
        info={
            "holds": (
                "when a count was looked at, and the tenths of B that the collector is told of it; noise is "
                "drawn once, with the row"
            ),
            "kept": "until `retention` after the task's end",
        },
    )


def _tasks(metadata: MetaData) -> Table:
    return Table(
        "tasks",
        metadata,
        Column("recipe_hash", LargeBinary, primary_key=True),
        Column("task_id", LargeBinary, unique=True),
        Column("state", Text, nullable=False),
        Column("rule", Text, nullable=False),
        Column("detail", Text, nullable=False),
        Column("recipe", LargeBinary, nullable=False),
        Column("token_key_spki", LargeBinary, nullable=False),
        Column("opt_in", LargeBinary, nullable=False),
        Column("void", LargeBinary, nullable=False, server_default=text("''")),
        info={
            "holds": (
                "the recipe, its state, the rule and detail of a refusal, its slot's token key, the own opt-in "
                "and void leaf"
            ),
            "kept": "always; the row of an ended task says that it has ended",
        },
    )


def _outcomes(metadata: MetaData) -> Table:
    return Table(
        "outcomes",
        metadata,
        Column("task_id", LargeBinary, primary_key=True),
        Column("report_id", LargeBinary, primary_key=True),
        Column("nullifier", LargeBinary),
        Column("code", Integer, nullable=False),
        Column("cause", Text, nullable=False),
        Column("bucket", LargeBinary),
        Column("job_id", LargeBinary),
        Column("digest", LargeBinary),
        UniqueConstraint("nullifier", name="one_report_per_nullifier"),
        Index("outcomes_by_bucket", "task_id", "bucket"),
        info={
            "holds": (
                "of a decided report its code (0: it counts), cause, bucket, job (leader), digest (not at the "
                "helper) and spent token; written with the decision"
            ),
            "kept": "until `retention` after the task's end",
        },
    )


def _buckets(metadata: MetaData) -> Table:
    return Table(
        "buckets",
        metadata,
        Column("task_id", LargeBinary, primary_key=True),
        Column("bucket", LargeBinary, primary_key=True),
        Column("shard", Int64, primary_key=True, autoincrement=False),
        Column("count", Int64, nullable=False),
        Column("checksum", LargeBinary, nullable=False),
        Column("first_time", Int64, nullable=False),
        Column("last_time", Int64, nullable=False),
        Column("agg_share", LargeBinary, nullable=False),
        info={
            "holds": (
                "of a batch, by process that adds to it (shard), the count, the XOR of hashed report ids, first "
                "and last time (in units of `time_precision`) and the encoded aggregate share"
            ),
            "kept": "the share until it is released, the rest until `retention` after the task's end",
        },
    )


def _releases(metadata: MetaData) -> Table:
    return Table(
        "releases",
        metadata,
        Column("task_id", LargeBinary, primary_key=True),
        Column("selector", LargeBinary, primary_key=True),
        info={
            "holds": "that this batch is closed for good",
            "kept": "always",
        },
    )


def _rejections(metadata: MetaData) -> Table:
    return Table(
        "rejections",
        metadata,
        Column("task_id", LargeBinary, primary_key=True),
        Column("cause", Text, primary_key=True),
        Column("count", Int64, nullable=False),
        info={
            "holds": "how many reports were rejected, by cause, those without a row in `outcomes` too",
            "kept": "until `retention` after the task's end",
        },
    )


def _census_shares(metadata: MetaData) -> Table:
    return Table(
        "census_shares",
        metadata,
        Column("task_id", LargeBinary, primary_key=True),
        Column("report_count", Int64, nullable=False),
        Column("agg_share", LargeBinary, nullable=False),
        info={
            "holds": "report count and encoded aggregate share of a released census, on their way into the log",
            "kept": "until `retention` after the task's end",
        },
    )
