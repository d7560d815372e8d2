"""The SQL adapter: migrations, durability settings, isolation, privacy of files."""

from __future__ import annotations

import asyncio
import itertools
import logging
import sqlite3
import stat
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from tacit.adapters.databases.database import Database
from tacit.adapters.databases.sql import open_database
from tacit.adapters.databases.sqlite_file import PAGE_SIZE
from tacit.errors import Fatal, UsageError

METADATA = sa.MetaData()
NOTES = sa.Table(
    "notes",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("text", sa.LargeBinary, nullable=False),
)
_NAMES = itertools.count()

INITIAL = """
revision = "0001"
down_revision = None
"""
SECOND = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade():
    op.add_column("notes", sa.Column("extra", sa.Integer))
"""


@pytest.fixture
def migrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an importable migrations package with the one table."""
    package = f"probe_{next(_NAMES)}"
    versions = tmp_path / "packages" / package / "migrations" / "versions"
    versions.mkdir(parents=True)
    (versions.parents[1] / "__init__.py").write_text("")
    (versions / "0001_initial.py").write_text(INITIAL)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    return f"{package}.migrations"


def _file_url(path: Path) -> str:
    return f"sqlite+aiosqlite:///{path}"


@pytest.fixture(params=["memory", "file", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database URL of any kind."""
    if request.param == "postgres":
        made: str = request.getfixturevalue("make_postgres_url")()
        return made
    return "sqlite+aiosqlite:///:memory:" if request.param == "memory" else _file_url(tmp_path / "state" / "a.sqlite3")


async def _insert_twice(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute(sa.insert(NOTES), {"id": 9, "text": b"c"})
        await connection.execute(sa.insert(NOTES), {"id": 9, "text": b"d"})


def _all_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.glob("a.sqlite3*"))


async def _count(database: Database) -> int:
    async with database.read() as connection:
        return (await connection.execute(sa.select(sa.func.count()).select_from(NOTES))).scalar_one()


async def test_a_committed_row_is_read_back_and_a_rolled_back_one_is_not(url: str, migrations: str) -> None:
    database = await open_database(url, METADATA, migrations)
    async with database.transaction() as connection:
        await connection.execute(sa.insert(NOTES), [{"text": b"a"}, {"text": b"b"}])
    with pytest.raises(sa.exc.IntegrityError):
        await _insert_twice(database)
    assert await _count(database) == 2
    await database.close()


async def test_concurrent_transactions_take_turns(url: str, migrations: str) -> None:
    database = await open_database(url, METADATA, migrations)
    async with database.transaction() as connection:
        await connection.execute(sa.insert(NOTES), {"id": 1, "text": b"0"})

    async def add_one() -> None:
        async with database.transaction() as connection:
            value = int((await connection.execute(sa.select(NOTES.c.text))).scalar_one())
            await asyncio.sleep(0)
            await connection.execute(sa.update(NOTES).values(text=b"%d" % (value + 1)))

    await asyncio.gather(*(add_one() for _ in range(20)))
    async with database.read() as connection:
        assert (await connection.execute(sa.select(NOTES.c.text))).scalar_one() == b"20"
    await database.close()


async def test_a_cancelled_transaction_leaves_nothing_behind_and_harms_nobody(url: str, migrations: str) -> None:
    database = await open_database(url, METADATA, migrations)

    async def insert_many() -> None:
        async with database.transaction() as connection:
            for _ in range(30):
                await connection.execute(sa.insert(NOTES), {"text": b"x"})

    for attempt in range(12):
        task = asyncio.create_task(insert_many())
        await asyncio.sleep(0.0004 * attempt)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await _count(database) % 30 == 0
    await insert_many()
    await database.close()


async def test_a_transaction_inside_a_transaction_is_an_error_and_not_a_hang(url: str, migrations: str) -> None:
    database = await open_database(url, METADATA, migrations)
    with pytest.raises(RuntimeError, match="already"):
        async with database.transaction(), database.transaction():
            pass
    assert await _count(database) == 0
    await database.close()


async def test_a_file_has_the_promised_settings_and_mode(tmp_path: Path, migrations: str) -> None:
    path = tmp_path / "state" / "a.sqlite3"
    database = await open_database(_file_url(path), METADATA, migrations)
    expected = {
        "page_size": PAGE_SIZE,
        "journal_mode": "wal",
        "synchronous": 2,
        "secure_delete": 1,
        "foreign_keys": 1,
    }
    async with database.read() as connection:
        found = {name: (await connection.exec_driver_sql(f"PRAGMA {name}")).scalar_one() for name in expected}
    files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert found == expected
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert "a.sqlite3-wal" in files
    assert set(files.values()) == {0o600}
    await database.close()


async def test_deleted_bytes_are_gone_from_the_files_after_a_checkpoint(tmp_path: Path, migrations: str) -> None:
    path = tmp_path / "a.sqlite3"
    marker = b"MARKER-OF-A-DELETED-ROW" * 20
    database = await open_database(_file_url(path), METADATA, migrations)
    async with database.transaction() as connection:
        await connection.execute(sa.insert(NOTES), [{"text": marker} for _ in range(50)])
    async with database.transaction() as connection:
        await connection.execute(sa.delete(NOTES))
    await database.checkpoint()
    assert b"MARKER" not in _all_bytes(tmp_path)
    await database.close()


async def test_reopening_keeps_rows_and_runs_only_new_migrations(tmp_path: Path, migrations: str) -> None:
    path = tmp_path / "a.sqlite3"
    database = await open_database(_file_url(path), METADATA, migrations)
    async with database.transaction() as connection:
        await connection.execute(sa.insert(NOTES), {"text": b"kept"})
    await database.close()
    folder = tmp_path / "packages" / migrations.replace(".", "/") / "versions"
    (folder / "0002_extra.py").write_text(SECOND)
    database = await open_database(_file_url(path), METADATA, migrations)
    async with database.read() as connection:
        rows = (await connection.exec_driver_sql("SELECT text, extra FROM notes")).all()
    assert [tuple(row) for row in rows] == [(b"kept", None)]
    await database.close()


async def test_two_databases_opened_at_once_do_not_mix_their_migrations(tmp_path: Path, migrations: str) -> None:
    databases = await asyncio.gather(
        *(open_database(_file_url(tmp_path / f"{index}.sqlite3"), METADATA, migrations) for index in range(3))
    )
    for database in databases:
        assert await _count(database) == 0
        await database.close()


async def test_readers_see_the_last_commit_while_a_writer_works(tmp_path: Path, migrations: str) -> None:
    database = await open_database(_file_url(tmp_path / "a.sqlite3"), METADATA, migrations)
    async with database.transaction() as connection:
        await connection.execute(sa.insert(NOTES), {"text": b"a"})
        assert await _count(database) == 0
    assert await _count(database) == 1
    await database.close()


async def test_a_second_process_waits_for_the_writer(tmp_path: Path, migrations: str) -> None:
    path = tmp_path / "a.sqlite3"
    database = await open_database(_file_url(path), METADATA, migrations)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.1, other.execute, ["COMMIT"])
    timer.start()
    async with database.transaction() as connection:
        await connection.execute(sa.insert(NOTES), {"text": b"a"})
    timer.join()
    other.close()
    assert await _count(database) == 1
    await database.close()


async def test_opening_says_what_is_wrong(tmp_path: Path, migrations: str) -> None:
    broken = tmp_path / "broken.sqlite3"
    broken.write_bytes(b"this is not a database" * 100)
    with pytest.raises(Fatal, match="cannot be opened"):
        await open_database(_file_url(broken), METADATA, migrations)
    with pytest.raises(UsageError, match="not supported"):
        await open_database("postgresql://x/y", METADATA, migrations)
    with pytest.raises(Fatal, match="no migrations package"):
        await open_database("sqlite+aiosqlite:///:memory:", METADATA, "tacit.adapters.nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError):
        await open_database(_file_url(tmp_path / "file" / "a.sqlite3"), METADATA, migrations)


async def test_migrations_leave_logging_alone(migrations: str) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers), logging.getLogger("alembic").level)
    database = await open_database("sqlite+aiosqlite:///:memory:", METADATA, migrations)
    await database.close()
    assert (root.level, list(root.handlers), logging.getLogger("alembic").level) == before
