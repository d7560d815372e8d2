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
)
DIRECTORIES = Table(
    "directories",
    METADATA,
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("leaf", LargeBinary, nullable=False),
    Column("log_index", BigInteger),
)
ISSUANCE = Table(
    "issuance",
    METADATA,
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("count", BigInteger, nullable=False),
)
