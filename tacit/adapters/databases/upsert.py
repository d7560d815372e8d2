"""What both databases have in common in SQLAlchemy but under different names: a column type and INSERT ... ON
CONFLICT."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

Int64 = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""A 64-bit integer column. SQLite's INTEGER already is one, and the only type that can number rows by itself."""

Upsert = sqlite.Insert | postgresql.Insert
"""An INSERT that supports ``on_conflict_do_nothing``, ``on_conflict_do_update`` and ``excluded``."""


def keep_out_of_line(table: sa.Table, *columns: str) -> None:
    """On PostgreSQL, never compress ``columns`` (random bytes do not shrink); means nothing on SQLite."""
    for column in columns:
        ddl = sa.DDL(f"ALTER TABLE {table.name} ALTER COLUMN {column} SET STORAGE EXTERNAL")  # type: ignore[no-untyped-call]
        sa.event.listen(table, "after_create", ddl.execute_if(dialect="postgresql"))
