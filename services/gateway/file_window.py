"""Writing the replay window of a database file in one hop: a connection and a thread of its own.

An asynchronous driver crosses to its thread for every statement, which costs more than the statements: a transaction
of a few requests takes a third of the time when BEGIN, inserts and COMMIT cross together.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tacit.adapters.sql import BUSY_TIMEOUT_MS
from tacit.adapters.watermark import Watermark

_INSERT = "INSERT INTO seen_requests (enc, date) VALUES (?, ?) ON CONFLICT DO NOTHING"


class FileWriter:
    """Inserts into ``seen_requests`` of a file whose schema is up to date. ``open`` before use, ``close`` after."""

    def __init__(self, path: Path, mark: Watermark | None = None) -> None:
        """``mark``: the open one of the database, if it has one."""
        self._path = path
        self._mark = mark
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="replay-window")
        self._connection: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Open the connection."""
        await self._run(self._connect)

    async def close(self) -> None:
        """Close the connection and end the thread."""
        await self._run(self._disconnect)
        self._thread.shutdown()

    async def insert(self, rows: Sequence[tuple[bytes, int]]) -> set[bytes]:
        """Store ``(enc, date)`` rows in one durable transaction; returns the keys that were not there."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._insert, rows)

    async def _run(self, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _connect(self) -> None:
        self._connection = sqlite3.connect(self._path, isolation_level=None)
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _insert(self, rows: Sequence[tuple[bytes, int]]) -> set[bytes]:
        connection = self._connection
        if connection is None:
            raise sqlite3.ProgrammingError("the connection is not open")
        connection.execute("BEGIN IMMEDIATE")
        try:
            fresh = {row[0] for row in rows if connection.execute(_INSERT, row).rowcount == 1}
            count = None if self._mark is None else self._mark.advance_file(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        if self._mark is not None and count is not None:
            self._mark.note(0, count)
        return fresh
