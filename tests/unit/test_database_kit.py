"""The databases of tests: statements run where they are awaited, but never beside one that their thread is still at."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from pathlib import Path
from typing import Any

import aiosqlite
import pytest


async def test_a_statement_keeps_behind_a_wait_that_was_cancelled_on_the_same_connection(tmp_path: Path) -> None:
    file = tmp_path / "waits.sqlite3"
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as holder:
        connection = await aiosqlite.connect(file, isolation_level=None)
        here = threading.get_ident()
        call: Any = connection._execute
        assert await call(threading.get_ident) == here
        holder.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(connection.execute("BEGIN IMMEDIATE"))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        following = asyncio.ensure_future(call(threading.get_ident))
        closing = asyncio.ensure_future(connection.close())
        for _ in range(5):
            await asyncio.sleep(0)  # both are in the thread's queue now
        holder.execute("COMMIT")
        assert await following != here
        await closing


def test_the_thread_of_a_connection_that_outlives_its_loop_fails_no_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, failed, hook = tmp_path / "outlives.sqlite3", list[type[BaseException]](), threading.excepthook

    def noted(found: threading.ExceptHookArgs) -> None:
        failed.append(found.exc_type)
        hook(found)

    monkeypatch.setattr(threading, "excepthook", noted)
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as holder, asyncio.Runner() as runner:

        async def left_behind() -> aiosqlite.Connection:
            connection = await aiosqlite.connect(file, isolation_level=None)
            holder.execute("BEGIN IMMEDIATE")
            waiting = asyncio.ensure_future(connection.execute("BEGIN IMMEDIATE"))
            await asyncio.sleep(0)
            waiting.cancel()
            connection.stop()
            return connection

        connection = runner.run(left_behind())
        runner.close()
        holder.execute("COMMIT")
        connection._thread.join()
        file_left, connection._connection = connection._conn, None
        file_left.close()
        assert failed == [RuntimeError]
