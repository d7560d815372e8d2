"""Statements on aiosqlite's own connection, for those that run often or have many rows: each crosses to the
connection's thread once, where SQLAlchemy crosses for cursor, statement, rows and closing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection


async def fetch(connection: AsyncConnection, statement: str, values: Sequence[Any] = ()) -> list[Any]:
    """Run a statement within the transaction, which it begins if none is open, and return its rows. Raises
    ``IntegrityError`` for a violated constraint."""
    driver = await _begun(connection)
    with _constraints(statement):
        return list(await driver.execute_fetchall(statement, values))


async def execute_rows(connection: AsyncConnection, statement: str, rows: Sequence[Sequence[Any]]) -> int:
    """Run a statement once for each of ``rows``, as ``fetch`` does; returns how many rows of a table changed."""
    driver = await _begun(connection)
    with _constraints(statement):
        async with driver.executemany(statement, rows) as cursor:
            return int(cursor.rowcount)


async def _begun(connection: AsyncConnection) -> Any:
    """The aiosqlite connection on which the transaction is open."""
    if not connection.in_transaction():
        await connection.begin()
    known = connection.sync_connection
    if known is None or known.invalidated:
        return (await connection.get_raw_connection()).driver_connection
    return known.connection.driver_connection  # what takes a detour through a greenlet otherwise


@contextmanager
def _constraints(statement: str) -> Iterator[None]:
    """Turn the driver's error for a violated constraint into SQLAlchemy's, without values."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise sa.exc.IntegrityError(statement, None, error) from error
