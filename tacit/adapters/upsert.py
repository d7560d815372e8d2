"""What SQLAlchemy has alike for both databases, but not under one name: a column type and INSERT ... ON CONFLICT."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

Int64 = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""A 64-bit integer column. SQLite's INTEGER is one already, and the only kind that can number rows by itself."""

Upsert = sqlite.Insert | postgresql.Insert
"""An INSERT that knows ``on_conflict_do_nothing``, ``on_conflict_do_update`` and ``excluded``."""
