"""Inserting into a database file in one hop: a connection and a thread of its own.

An asynchronous driver crosses to its thread for every statement, which costs more than the statements: a transaction
of a few rows takes a third of the time when BEGIN, inserts and COMMIT cross together.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tacit.adapters.databases.sqlite_file import BUSY_TIMEOUT_MS
from tacit.adapters.databases.watermark import Watermark


class FileWriter:
    """Inserts into a file whose schema is up to date; connects with the first insert. Call ``close`` after the last."""

    def __init__(self, path: Path, mark: Watermark | None = None) -> None:
        """``mark``: the open watermark of the database, if it has one."""
        self._path = path
        self._mark = mark
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="file-writer")
        self._connection: sqlite3.Connection | None = None

    async def close(self) -> None:
        """Close the connection and end the thread."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown()

    async def insert_new(
        self, table: sa.Table, columns: Sequence[str], rows: Sequence[Sequence[Any]], key: str
    ) -> list[Any]:
        """Insert those of ``rows`` that violate no unique constraint, in one durable transaction that counts as
        spending (``Database.spend``); return the ``key`` column of the inserted ones. Raises ``sqlite3.Error``."""
        statement = (
            f"INSERT INTO {table.name} ({', '.join(columns)}) "  # noqa: S608 - own names
            f"VALUES ({', '.join('?' * len(columns))}) ON CONFLICT DO NOTHING"
        )
        place = columns.index(key)
        fresh = await asyncio.get_running_loop().run_in_executor(self._thread, self._insert, statement, rows)
        return [row[place] for row in fresh]

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _insert(self, statement: str, rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
        if self._connection is None:
            uri = f"{self._path.absolute().as_uri()}?mode=rw"
            self._connection = sqlite3.connect(uri, isolation_level=None, uri=True)
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            fresh = [row for row in rows if connection.execute(statement, row).rowcount == 1]
            count = None if self._mark is None else self._mark.advance_file(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        if self._mark is not None and count is not None:
            self._mark.note(0, count)
        return fresh
