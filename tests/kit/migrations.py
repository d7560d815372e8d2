"""Checks that a service's migrations make the tables that its code works with."""

from __future__ import annotations

import sqlalchemy as sa

from tacit.adapters.databases.migrate import differences, upgrade


def assert_migrations_match(metadata: sa.MetaData, migrations: str) -> None:
    """Raise ``AssertionError`` when an SQLite database made by ``migrations`` differs from ``metadata``."""
    engine = sa.create_engine("sqlite://")
    try:
        with engine.begin() as connection:
            upgrade(connection, migrations, metadata)
            found = differences(connection, metadata)
    finally:
        engine.dispose()
    if found:
        raise AssertionError(f"{migrations} and its metadata differ: {found}")
