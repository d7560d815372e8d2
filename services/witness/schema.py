"""The witness's tables: what it cosigned last of each log, and the claims of each log's leaves."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, LargeBinary, MetaData, String, Table

MIGRATIONS = "services.witness.migrations"

METADATA = MetaData()

LOGS = Table(
    "logs",
    METADATA,
    Column("origin", String(200), primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("root", LargeBinary(32), nullable=False),
    Column("frontier", LargeBinary, nullable=False),
    info={
        "holds": "size and root that were last cosigned, the right edge of that tree",
        "kept": "replaced",
    },
)
CLAIMS = Table(
    "claims",
    METADATA,
    Column("origin", String(200), primary_key=True),
    Column("digest", LargeBinary(32), primary_key=True),
    Column("position", BigInteger, nullable=False),
    info={
        "holds": "by the SHA-256 of what a leaf takes, the index of the leaf that holds it",
        "kept": "always",
    },
)
