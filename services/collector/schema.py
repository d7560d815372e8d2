"""The collector's tables: its view of the log, its collections, the results. Nothing about a single report."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, Integer, LargeBinary, MetaData, Table, Text, UniqueConstraint

from tacit.adapters.databases.log_tables import LogTables
from tacit.adapters.databases.upsert import Int64

MIGRATIONS = "services.collector.migrations"

METADATA = MetaData()

LOG = LogTables(METADATA)
COLLECTIONS = Table(
    "collections",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("recipe_hash", LargeBinary, nullable=False),
    Column("number", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("request", LargeBinary, nullable=False),
    Column("job", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt", Float, nullable=False),
    UniqueConstraint("recipe_hash", "number"),
    info={
        "holds": (
            "state, the exact request, the leader's job, rule and detail of a refusal or the error of the "
            "last attempt, attempts"
        ),
        "kept": "always",
    },
)
RESULTS = Table(
    "results",
    METADATA,
    Column("collection", Text, primary_key=True),
    Column("recipe_hash", LargeBinary, nullable=False),
    Column("number", Integer, nullable=False),
    Column("document", Text, nullable=False),
    Column("published", Boolean, nullable=False),
    UniqueConstraint("recipe_hash", "number"),
    info={
        "holds": (
            "the result document, with `response` (asked, expected and counted contributions) and `sampling`"
            " (who sent with which probability, and how many dummies); whether the recipe server has it"
        ),
        "kept": "always",
    },
)
RELEASES = Table(
    "releases",
    METADATA,
    Column("place", Int64, primary_key=True, autoincrement=False),
    Column("collection", Text, nullable=False),
    UniqueConstraint("collection"),
    info={
        "holds": "the order in which batches were released, from 1 without gaps",
        "kept": "always",
    },
)
