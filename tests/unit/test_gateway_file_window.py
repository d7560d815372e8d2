"""The replay window's own connection to its database file."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from services.gateway.file_window import FileWriter
from services.gateway.store import ReplayStore, SeenRequest


async def test_a_group_that_cannot_be_written_leaves_nothing_behind_and_the_next_one_is_written(tmp_path: Path) -> None:
    store = ReplayStore(f"sqlite+aiosqlite:///{tmp_path / 'window.sqlite3'}")
    await store.open()
    writer = FileWriter(tmp_path / "window.sqlite3")
    await writer.open()
    with pytest.raises(sqlite3.Error):
        await writer.insert([(b"a", 1), (b"b", object())])  # type: ignore[list-item]
    assert await writer.insert([(b"a", 1), (b"a", 2)]) == {b"a"}
    assert await store.remember([SeenRequest(b"a", 1), SeenRequest(b"b", 1)]) == [False, True]
    await writer.close()
    await store.close()


async def test_a_writer_that_is_not_open_writes_nothing(tmp_path: Path) -> None:
    writer = FileWriter(tmp_path / "window.sqlite3")
    with pytest.raises(sqlite3.Error):
        await writer.insert([(b"a", 1)])
    await writer.close()
    assert not (tmp_path / "window.sqlite3").exists()
