"""The issuer's tables: slot keys, directory leaves, issuance counts. They hold nothing about who asked."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, Table

MIGRATIONS = "services.issuer.migrations"

METADATA = MetaData()

SLOT_KEYS = Table(
    "slot_keys",
    METADATA,
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("private_key", LargeBinary, nullable=False),
    info={
        "holds": "the private key of a slot",
        "kept": "until `grace_seconds` after its epoch",
    },
)
DIRECTORIES = Table(
    "directories",
    METADATA,
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("leaf", LargeBinary, nullable=False),
    Column("log_index", BigInteger),
    info={
        "holds": "the signed directory leaf, in one transaction with the keys, and its index once the log has it",
        "kept": "always",
    },
)
ISSUANCE = Table(
    "issuance",
    METADATA,
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("count", BigInteger, nullable=False),
    info={
        "holds": "how many signatures (P15), each counted before it leaves",
        "kept": "always",
    },
)
