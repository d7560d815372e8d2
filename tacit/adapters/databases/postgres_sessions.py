"""Transactions of PostgreSQL that begin and end in one round trip each, on connections that are kept for the next ones.

SQLAlchemy takes such a connection for one that commits by itself, and so sends nothing of its own when a block begins
or ends. Getting a connection from its pool, beginning and returning it costs as much as ten short statements.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from tacit.adapters.databases.postgres_connect import is_left
from tacit.adapters.databases.postgres_driver import cannot_write, driver_of
from tacit.errors import Fatal

KEPT = 2
"""Number of connections that are kept: a process has one writer at a time, and mostly one reader."""


class Sessions:
    """Transactions on the connections of ``engine``; ``close`` ends those that are kept."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._kept: list[tuple[AsyncConnection, Any]] = []
        self._most = KEPT

    @asynccontextmanager
    async def begun(self, begin: str, end: str = "COMMIT") -> AsyncIterator[AsyncConnection]:
        """Open the transaction that the statements ``begin`` begin; the statement ``end`` follows the block, or a
        rollback where it raises. Raises ``Fatal`` where the server commits nothing, because a statement had failed
        unnoticed."""
        connection, driver = await self._taken()
        try:
            await driver.execute(begin)
            yield connection
            await _on_end(driver, end)
        except BaseException as error:
            if cannot_write(error):
                # all other connections lead to the same server
                driver.server.leave()
            await self._roll_back(connection, driver)
            raise
        await self._keep(connection, driver)

    async def close(self) -> None:
        """End every connection that is kept, and keep none any more."""
        self._most = 0
        while self._kept:
            await discard(self._kept.pop()[0])

    async def _taken(self) -> tuple[AsyncConnection, Any]:
        left = [one for one in self._kept if is_left(one[1])]
        if left:  # all of them: one below a good one would stay at a server that others have left
            self._kept = [one for one in self._kept if one not in left]
            for connection, _ in left:
                await discard(connection)
        if self._kept:
            return self._kept.pop()
        connection = await self._engine.connect()
        try:
            return connection, await driver_of(connection)
        except BaseException:
            await discard(connection)
            raise

    async def _roll_back(self, connection: AsyncConnection, driver: Any) -> None:
        """Roll back and keep the connection; end it where it does not answer, which rolls back as well. Either way the
        block's own error goes on."""
        answers = False
        try:
            with suppress(Exception):
                await driver.execute("ROLLBACK")
                answers = True
        finally:
            # a cancellation passes through the ROLLBACK, and a session with an open transaction must not be kept
            if not answers:
                await discard(connection)
        if answers:
            await self._keep(connection, driver)

    async def _keep(self, connection: AsyncConnection, driver: Any) -> None:
        """Keep the connection, or return it to the pool. The transaction has ended: where this fails, only the
        connection ends."""
        try:
            if connection.in_transaction():
                await connection.rollback()  # what SQLAlchemy believes to have begun; the server sees nothing of it
            if len(self._kept) < self._most:
                self._kept.append((connection, driver))
            else:
                await connection.close()
        except Exception:
            await discard(connection)


async def _on_end(driver: Any, end: str) -> None:
    # to COMMIT after a statement that failed, PostgreSQL answers ROLLBACK, and raises nothing
    if await driver.execute(end) != end:
        raise Fatal("the database has rolled the transaction back")


async def discard(connection: AsyncConnection) -> None:
    """End the session behind ``connection`` (and with it its advisory lock) instead of returning it to the pool."""
    for end in (connection.invalidate, connection.close):
        with suppress(Exception):  # of the library or its driver: what is left of the session ends with its socket
            await end()
