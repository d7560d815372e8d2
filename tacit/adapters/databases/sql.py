"""The database behind a URL: SQLite or PostgreSQL."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from tacit.adapters.databases.database import Database
from tacit.adapters.databases.signals import Signals
from tacit.adapters.databases.sqlite import SqliteDatabase
from tacit.adapters.databases.watermark import Watermark
from tacit.errors import UsageError

_POSTGRES, _SQLITE = "postgresql+asyncpg", "sqlite+aiosqlite"


async def open_database(
    url: str,
    metadata: sa.MetaData,
    migrations: str,
    *,
    shared: bool = False,
    mark: Watermark | None = None,
    signals: Signals | None = None,
) -> Database:
    """Open ``url`` (``sqlite+aiosqlite:///FILE`` or ``:memory:``, or ``postgresql+asyncpg://...``) and run the package
    ``migrations`` on it. ``shared``: several processes may have it open, if it is PostgreSQL. ``mark``: detects a
    database restored from the past. ``signals``: what this
    process hears from the others of a shared database, and tells them.

    Raises ``UsageError`` for another kind of URL, a server that cannot be used or a database that does not fit its
    mark, and ``Fatal`` when it is not a database of this service.
    """
    parsed = _parse_url(url)
    if parsed.drivername == _SQLITE:
        return await SqliteDatabase.open_url(parsed, metadata, migrations, mark)
    if parsed.drivername != _POSTGRES:
        raise UsageError(f"storage {parsed.drivername} is not supported; use {_SQLITE} or {_POSTGRES}")
    from tacit.adapters.databases.postgres import PostgresDatabase
    from tacit.adapters.databases.postgres_shared import SharedPostgresDatabase

    if shared:
        return await SharedPostgresDatabase.open_url(parsed, metadata, migrations, mark, signals)
    return await PostgresDatabase.open_url(parsed, metadata, migrations, mark)


def engine_of(url: str) -> AsyncEngine:
    """An engine for reading a database that another process migrated, with the same protection. Raises
    ``UsageError``."""
    parsed = _parse_url(url)
    if parsed.drivername == _POSTGRES:
        from tacit.adapters.databases.postgres import make_engine

        return make_engine(parsed)
    return create_async_engine(parsed, hide_parameters=True)


def _parse_url(url: str) -> URL:
    try:
        return make_url(url)
    except (sa.exc.ArgumentError, ValueError) as error:
        raise UsageError("the database URL is malformed; it must look like postgresql+asyncpg://USER@HOST/NAME") from (
            error
        )
