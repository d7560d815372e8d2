"""SQLite in tests: the same databases with less work around them. Processes that tests start, and the suites of the
stores (``tests/contract``), have all of it as it is.

``aiosqlite`` crosses to a thread and back for every statement, which takes longer than most statements. Here
they run where they are awaited, once the loop has had its turn; what may wait for another connection's lock keeps to
the thread, and so does what follows while the thread is still at work on that connection: a wait that was cancelled
goes on there, and a connection that is closed under it ends the process.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import aiosqlite
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.dialects.sqlite.aiosqlite import SQLiteDialect_aiosqlite
from sqlalchemy.engine import Engine
from sqlalchemy.util import LRUCache

_WAITS = ("BEGIN IMMEDIATE", "PRAGMA")

_threaded = False


@contextlib.contextmanager
def threads() -> Iterator[None]:
    """Statements take their way through aiosqlite's thread, and are logged there, as in the product."""
    global _threaded  # noqa: PLW0603 - connections know of no test
    before, _threaded = _threaded, True
    try:
        yield
    finally:
        _threaded = before


def hasten() -> None:
    """Run statements where they are awaited, for the whole process."""
    threaded: Any = aiosqlite.Connection._execute
    connect = aiosqlite.connect

    at_work: WeakKeyDictionary[aiosqlite.Connection, int] = WeakKeyDictionary()

    async def through_thread(self: aiosqlite.Connection, function: Any, *args: Any, **named: Any) -> Any:
        def done() -> Any:
            try:
                return function(*args, **named)
            finally:
                at_work[self] -= 1

        if not self._running or not self._connection:
            raise ValueError("Connection closed")
        at_work[self] = at_work.get(self, 0) + 1
        return await threaded(self, done)

    async def execute(self: aiosqlite.Connection, function: Any, *args: Any, **named: Any) -> Any:
        if _threaded or (args and isinstance(args[0], str) and args[0].startswith(_WAITS)):
            return await through_thread(self, function, *args, **named)
        await asyncio.sleep(0)
        if at_work.get(self, 0):
            return await through_thread(self, function, *args, **named)
        if not self._running or not self._connection:
            raise ValueError("Connection closed")
        return function(*args, **named)

    def connected(*args: Any, **named: Any) -> aiosqlite.Connection:
        return connect(*args, **{**named, "check_same_thread": False})

    _compile_once()
    setattr(aiosqlite.Connection, "_execute", execute)  # noqa: B010
    setattr(aiosqlite, "connect", connected)  # noqa: B010


def _compile_once() -> None:
    """A statement is compiled once in a process, and not once more for the engine of each test: engines find it by
    their dialect, so those of one kind are equal."""
    compiled: LRUCache[Any, Any] = LRUCache(2000)

    def cache(self: Engine) -> Any:
        return vars(self)["own_cache"] if _threaded else compiled

    def keep(self: Engine, own: Any) -> None:
        vars(self)["own_cache"] = own

    setattr(Engine, "_compiled_cache", property(cache, keep))  # noqa: B010
    for dialect in (SQLiteDialect_aiosqlite, PGDialect_asyncpg):
        setattr(dialect, "__eq__", lambda self, other: type(self) is type(other))  # noqa: B010
        setattr(dialect, "__hash__", lambda self: hash(type(self)))  # noqa: B010
