"""INSERT ... ON CONFLICT in the words of whichever database a transaction is open on."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

Int64 = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""A 64-bit integer column. SQLite's INTEGER is one already, and the only kind that can number rows by itself."""


def upsert(connection: AsyncConnection, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that knows ``on_conflict_do_nothing``, ``on_conflict_do_update`` and ``excluded``."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)
