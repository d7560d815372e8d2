"""A database file's connection for inserts in one hop."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from services.gateway.ports import SeenRequest
from services.gateway.store import SEEN, ReplayStore
from tacit.adapters.databases.sqlite_writer import FileWriter

COLUMNS = ("enc", "date")


async def test_a_group_that_cannot_be_written_leaves_nothing_behind_and_the_next_one_is_written(tmp_path: Path) -> None:
    store = ReplayStore(f"sqlite+aiosqlite:///{tmp_path / 'window.sqlite3'}")
    await store.open()
    writer = FileWriter(tmp_path / "window.sqlite3")
    with pytest.raises(sqlite3.Error):
        await writer.insert_new(SEEN, COLUMNS, [(b"a", 1), (b"b", object())], "enc")
    assert await writer.insert_new(SEEN, COLUMNS, [(b"a", 1), (b"a", 2)], "enc") == [b"a"]
    assert await store.remember([SeenRequest(b"a", 1), SeenRequest(b"b", 1)]) == [False, True]
    await writer.close()
    await store.close()


async def test_a_writer_makes_no_file(tmp_path: Path) -> None:
    writer = FileWriter(tmp_path / "window.sqlite3")
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        await writer.insert_new(SEEN, COLUMNS, [(b"a", 1)], "enc")
    await writer.close()
    assert not (tmp_path / "window.sqlite3").exists()
