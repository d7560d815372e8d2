"""What a test asks a PostgreSQL server about the sessions on its database: who waits for a lock, who is still there."""

from __future__ import annotations

import asyncio

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

PATIENCE = 1000
"""Looks at a condition that another connection brings about, 10 ms apart."""

_OTHERS = (
    "pg_stat_activity where pid <> pg_backend_pid() and datname = current_database() "
    "and backend_type = 'client backend'"
)


async def count(url: str, where: str = "") -> int:
    """How many other sessions the database has."""
    return await _ask(url, f"select count(*) from {_OTHERS} {where}")  # noqa: S608 - a test's own words


async def until_waiting(url: str, sessions: int = 1) -> None:
    """Return once so many sessions wait for a lock of whatever kind that another one holds."""
    for _ in range(PATIENCE):
        if await count(url, "and wait_event_type = 'Lock'") >= sessions:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("nobody waits")


async def kill_sessions(url: str) -> None:
    """End every other session of the database; they are gone at the return."""
    await _ask(url, f"select count(pg_terminate_backend(pid)) from {_OTHERS}")  # noqa: S608 - a test's own words
    for _ in range(PATIENCE):
        if not await count(url):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("a session outlives its end")


async def _ask(url: str, query: str) -> int:
    engine = create_async_engine(url, poolclass=sa.pool.NullPool)
    try:
        async with engine.connect() as connection:
            return int((await connection.execute(sa.text(query))).scalar_one())
    finally:
        await engine.dispose()
