"""SQLite files that are written rarely, many of them in one process: a connection lasts only as long as a transaction.

A connection that is kept costs a thread, three file descriptors and its caches; an engine costs its compiled
statements. Here all files share one engine, and nothing is open between transactions. Closing the last connection to a
file moves the write-ahead log into it, so that deleted bytes are gone from the disk after each transaction.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from tacit.adapters.databases.sqlite import SqliteDatabase, configure

_FILE: ContextVar[Path | None] = ContextVar("file")
"""The file of the connection that is being made."""
CONNECTIONS = 32
"""Most connections at a time in a process: each has a thread, and hundreds of threads could wait for a busy disk."""
_TURNS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = weakref.WeakKeyDictionary()


class BriefSqliteDatabase(SqliteDatabase):
    """An ``SqliteDatabase`` that has its file open only during transactions."""

    @classmethod
    def _engine_of(cls, url: URL) -> AsyncEngine:
        return _engine_of_all()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[AsyncConnection]:
        turns = _TURNS.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(CONNECTIONS))
        async with turns, AsyncExitStack() as stack:
            token = _FILE.set(self._path)
            try:
                connection = await stack.enter_async_context(self._engine.connect())
            finally:
                _FILE.reset(token)
            yield connection

    async def checkpoint(self) -> None:
        """Do nothing: no connection is left, and closing the last one emptied the write-ahead log."""

    async def _dispose(self) -> None:
        """Close the mark; the engine is shared and stays open."""
        if self._mark is not None:
            self._mark.close()


@cache
def _engine_of_all() -> AsyncEngine:
    engine = create_async_engine("sqlite+aiosqlite:///one-of-many", hide_parameters=True, poolclass=NullPool)
    event.listen(engine.sync_engine, "do_connect", _name_file)
    configure(engine)
    return engine


def _name_file(_dialect: object, _record: object, arguments: list[Any], named: dict[str, Any]) -> None:
    """Set the file of the connection being made; a file that has been removed is not created again."""
    file = _FILE.get()
    if file is None:
        raise RuntimeError("an engine of many files was asked for a connection to none")
    arguments[0] = f"{file.absolute().as_uri()}?mode=rw"
    named["uri"] = True
