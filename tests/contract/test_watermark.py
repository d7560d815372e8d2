"""The mark beside a database: silent in honest operation, also across crashes, and loud over one from the past."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from infra.lab.kit.clock import SimClock
from services.helper import schema
from tacit.adapters.databases.database import Database
from tacit.adapters.databases.recovery import Recovery
from tacit.adapters.databases.sql import open_database
from tacit.adapters.databases.watermark import DoubtfulError, Watermark
from tacit.aggregator.schema import MARKS
from tacit.errors import Fatal, NoRoom, RolledBack, UsageError

NOW = 1_000_000.0


class Kept:
    """A database with a mark, and what an operator does to it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.file = folder / "helper.sqlite3"
        self.mark = folder / "helper.mark"
        self.clock = SimClock(NOW)

    async def open(self, recovery: Recovery = Recovery.REFUSE, mark: Path | None = None) -> Database:
        watermark = Watermark(mark or self.mark, self.clock, recovery)
        return await open_database(self.url, schema.METADATA, schema.MIGRATIONS, shared=True, mark=watermark)

    async def run(self, spends: int, recovery: Recovery = Recovery.REFUSE) -> int:
        """Start, spend, stop; since when everything counts as spent."""
        database = await self.open(recovery)
        for _ in range(spends):
            await spend(database)
        await database.close()
        return database.closed_until


async def spend(database: Database) -> None:
    async with database.transaction(shared=True) as connection:
        await database.spend(connection)


@pytest.fixture(params=["file", "postgres"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    if request.param == "postgres":
        return Kept(request.getfixturevalue("make_postgres_url")(), tmp_path)
    return Kept(f"sqlite+aiosqlite:///{tmp_path / 'helper.sqlite3'}", tmp_path)


@pytest.fixture
def files(tmp_path: Path) -> Kept:
    return Kept(f"sqlite+aiosqlite:///{tmp_path / 'helper.sqlite3'}", tmp_path)


async def forget_counts(kept: Kept, number: int) -> None:
    """What is in the database of the counts after it was restored to an earlier state."""
    database = await open_database(kept.url, schema.METADATA, schema.MIGRATIONS, shared=True)
    async with database.transaction() as connection:
        await connection.execute(sa.update(MARKS).where(MARKS.c.shard >= 0).values(number=number))
    await database.close()


async def test_honest_starts_and_stops_raise_no_alarm(kept: Kept) -> None:
    for spends in (0, 0, 3, 0, 1):
        assert await kept.run(spends) == 0
    assert kept.mark.stat().st_mode & 0o777 == 0o600


async def test_a_mark_that_lags_behind_a_crash_raises_no_alarm(kept: Kept) -> None:
    await kept.run(2)
    lagging = kept.mark.read_bytes()
    await kept.run(3)
    kept.mark.write_bytes(lagging)
    assert await kept.run(1) == 0


async def test_a_transaction_that_failed_does_not_move_the_mark(kept: Kept) -> None:
    database = await kept.open()
    await spend(database)
    before = kept.mark.read_bytes()
    with contextlib.suppress(Fatal):
        async with database.transaction(shared=True) as connection:
            await database.spend(connection)
            raise Fatal("the commit failed")
    assert kept.mark.read_bytes() == before
    await spend(database)
    await database.close()
    assert await kept.run(0) == 0


async def test_a_mark_that_cannot_be_written_is_reported_and_what_was_committed_stays(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_file: int, _data: bytes, _place: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    database = await kept.open()
    await spend(database)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(NoRoom, match="the mark of the database cannot be written: No space left"):
            await spend(database)
    async with database.read() as connection:
        assert sum(await connection.scalars(sa.select(MARKS.c.number).where(MARKS.c.shard >= 0))) == 2
    await spend(database)
    await database.close()
    assert await kept.run(0) == 0


async def test_a_mark_for_which_there_is_no_room_is_made_at_the_next_start(
    files: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_draft: Path, _path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", full)
        with pytest.raises(UsageError, match=r"helper\.mark: No space left on device") as refused:
            await files.run(0)
    assert not isinstance(refused.value, DoubtfulError)
    assert await files.run(1) == 0


async def test_an_older_database_is_refused_at_every_start_until_an_operator_decides(kept: Kept) -> None:
    await kept.run(5)
    await forget_counts(kept, 4)
    for recovery in (Recovery.REFUSE, Recovery.REFUSE, Recovery.NEW_MARK):
        with pytest.raises(UsageError, match=r"helper\.mark: the database is older .* --accept-rollback"):
            await kept.run(0, recovery)
    assert await kept.run(0, Recovery.ACCEPT) == NOW + 1
    assert await kept.run(2) == NOW + 1
    await forget_counts(kept, 1)
    with pytest.raises(UsageError, match="older"):
        await kept.run(0)


async def test_a_clock_that_was_set_back_does_not_shorten_what_counts_as_spent(kept: Kept) -> None:
    await kept.run(5)
    await forget_counts(kept, 4)
    kept.clock.jump(-500_000)
    assert await kept.run(0, Recovery.ACCEPT) == NOW + 1


async def test_a_running_process_notices_that_its_database_was_replaced(kept: Kept) -> None:
    database = await kept.open()
    for _ in range(3):
        await spend(database)
    await forget_counts(kept, 1)
    for _ in range(4):
        with pytest.raises(RolledBack):
            await spend(database)
    await database.close()


async def test_a_lost_database_is_not_begun_anew_under_its_mark(files: Kept) -> None:
    await files.run(2)
    for path in files.file.parent.glob("helper.sqlite3*"):
        path.unlink()
    with pytest.raises(UsageError, match="new or a different one"):
        await files.run(0)
    assert await files.run(1, Recovery.ACCEPT) == NOW + 1
    assert await files.run(1) == NOW + 1


async def test_a_lost_mark_is_not_begun_anew_beside_a_used_database(kept: Kept) -> None:
    await kept.run(0)
    kept.mark.unlink()
    await kept.run(2)
    kept.mark.unlink()
    with pytest.raises(UsageError, match=r"is missing; .* --new-mark"):
        await kept.run(0)
    assert await kept.run(1, Recovery.NEW_MARK) == 0
    kept.mark.unlink()
    assert await kept.run(1, Recovery.ACCEPT) == NOW + 1


@pytest.mark.parametrize("content", [b"", b"tacit wm", b"x" * 64])
async def test_a_file_that_is_no_mark_is_refused(files: Kept, content: bytes) -> None:
    await files.run(1)
    files.mark.write_bytes(content)
    with pytest.raises(UsageError, match="not the mark"):
        await files.run(0)


async def test_another_used_database_is_refused(files: Kept, tmp_path: Path) -> None:
    await files.run(1)
    (tmp_path / "other").mkdir()
    other = Kept(f"sqlite+aiosqlite:///{tmp_path / 'other' / 'helper.sqlite3'}", tmp_path / "other")
    await other.run(9)
    shutil.copy(other.file, files.file)
    with pytest.raises(UsageError, match="a different one"):
        await files.run(0)


async def test_processes_of_one_folder_share_a_mark_and_each_vouches_for_all(
    tmp_path: Path, make_postgres_url: Callable[[], str]
) -> None:
    kept = Kept(make_postgres_url(), tmp_path)
    one, other = await kept.open(), await kept.open()
    assert one.shard != other.shard
    for _ in range(3):
        await spend(one)
    await spend(other)
    async with one.transaction() as connection:
        await connection.execute(sa.update(MARKS).where(MARKS.c.shard == one.shard).values(number=1))
    with pytest.raises(RolledBack):
        await spend(other)
    await one.close()
    await other.close()
    with pytest.raises(UsageError, match="older"):
        await kept.open()


async def test_a_process_with_a_folder_of_its_own_follows_what_was_accepted_in_another(
    tmp_path: Path, make_postgres_url: Callable[[], str]
) -> None:
    kept, own = Kept(make_postgres_url(), tmp_path), tmp_path / "own.mark"
    await kept.run(3)
    with pytest.raises(UsageError, match="missing"):
        await kept.open(mark=own)
    database = await kept.open(Recovery.NEW_MARK, own)
    await spend(database)
    await database.close()
    await forget_counts(kept, 1)
    assert await kept.run(1, Recovery.ACCEPT) == NOW + 1
    database = await kept.open(mark=own)
    assert database.closed_until == NOW + 1
    await database.close()
