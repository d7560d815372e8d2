"""A database file that is rarely written: what stays open, and what stays on the disk."""

from __future__ import annotations

import _sqlite3
import asyncio
import contextlib
import ctypes
import os
import re
import shutil
import sqlite3
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tacit.adapters.databases.sqlite_file import CONNECTIONS, KEPT, BriefFile, create_private, still_there
from tacit.errors import Unavailable, UsageError

PUT, COUNT = "INSERT INTO notes VALUES (?)", "SELECT count(*) FROM notes"


def open_files(folder: Path) -> list[str]:
    links = (Path(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd"))
    return [str(link.readlink()) for link in links if link.is_symlink() and str(folder) in str(link.readlink())]


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def done(statement: str, *values: bytes) -> Callable[[sqlite3.Connection], None]:
    def work(connection: sqlite3.Connection) -> None:
        connection.execute(statement, values)

    return work


async def made(path: Path) -> BriefFile:
    create_private(path)
    file = BriefFile(path)
    await file.write(done("CREATE TABLE notes (text BLOB)"))
    return file


async def count(file: BriefFile) -> int:
    return await file.read(lambda connection: int(connection.execute(COUNT).fetchone()[0]))


async def test_the_files_written_last_stay_open_with_an_empty_log_and_are_closed_at_the_end(tmp_path: Path) -> None:
    files = [await made(tmp_path / f"{number}.sqlite3") for number in range(KEPT + 3)]
    for file in files:
        await file.write(done(PUT, b"SECRETSECRET"))
        await file.write(done("DELETE FROM notes"))
    assert b"SECRETSECRET" not in all_bytes(tmp_path), "no log keeps what was deleted"
    assert {name for name in os.listdir(tmp_path) if name.endswith("-wal")} == {
        f"{number}.sqlite3-wal" for number in range(3, KEPT + 3)
    }
    await files[0].write(done(PUT, b"x"))
    assert len([name for name in open_files(tmp_path) if name.endswith(".sqlite3")]) == KEPT
    for file in files:
        await file.close()
    assert open_files(tmp_path) == []
    assert sorted(os.listdir(tmp_path)) == sorted(f"{number}.sqlite3" for number in range(KEPT + 3))


async def test_a_file_that_was_removed_is_not_made_again_and_one_in_its_place_is_read_anew(tmp_path: Path) -> None:
    file, path = await made(tmp_path / "a.sqlite3"), tmp_path / "a.sqlite3"
    for text in (b"1", b"2"):
        await file.write(done(PUT, text))
        shutil.copy(path, tmp_path / text.decode())

    def rows(connection: sqlite3.Connection) -> int:
        return int(connection.execute(COUNT).fetchone()[0])

    assert await file.write(rows) == 2
    shutil.copy(tmp_path / "1", path)
    assert await file.write(rows) == 1, "the same file with other contents"
    (tmp_path / "2").rename(path)
    assert await file.write(rows) == 2, "another file of that name"
    path.unlink()
    with pytest.raises(Unavailable):
        await file.write(rows)
    assert not path.exists()


async def test_a_reader_is_not_waited_for_and_the_log_that_it_keeps_is_emptied_with_the_next_write(
    tmp_path: Path,
) -> None:
    file, path = await made(tmp_path / "a.sqlite3"), tmp_path / "a.sqlite3"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute(COUNT).fetchone() == (0,)
        await file.write(done(PUT, b"SECRETSECRET"))
        await file.write(done("DELETE FROM notes"))
        assert reader.execute(COUNT).fetchone() == (0,)
        assert (tmp_path / "a.sqlite3-wal").stat().st_size > 0
    await file.write(done(PUT, b"x"))
    assert b"SECRETSECRET" not in all_bytes(tmp_path)
    await file.close()


async def test_a_connection_that_stays_open_keeps_no_value_that_was_written(tmp_path: Path) -> None:
    used = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
    used.restype = ctypes.c_int64
    file = await made(tmp_path / "a.sqlite3")
    before = used()
    await file.write(done(PUT, bytes(8 << 20)))
    assert open_files(tmp_path), "it stays open"
    assert used() > 0
    assert used() - before < 4 << 20, "of 8 MiB, the pages that its cache holds"
    await file.close()


async def test_what_a_killed_process_left_open_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite3"
    await (file := await made(path)).close()
    script = (
        "import asyncio, os, sys\nfrom pathlib import Path\n"
        "from tacit.adapters.databases.sqlite_file import BriefFile\n"
        "async def main():\n"
        "    file = BriefFile(Path(sys.argv[1]))\n"
        "    for _ in range(3): await file.write(lambda one: one.execute('INSERT INTO notes VALUES (1)').rowcount)\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(path))
    assert await process.wait() == -9
    assert (tmp_path / "a.sqlite3-wal").stat().st_size == 0
    assert await count(file) == 3
    await file.write(done(PUT, b"x"))
    await file.close()
    assert os.listdir(tmp_path) == ["a.sqlite3"]


async def test_a_commit_is_synced_and_deleted_rows_are_overwritten(tmp_path: Path) -> None:
    file = await made(tmp_path / "a.sqlite3")
    asked = ("journal_mode", "synchronous", "secure_delete", "temp_store")

    def settings(connection: sqlite3.Connection) -> list[str | int]:
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in asked]

    assert await file.read(settings) == ["wal", 2, 1, 2]


async def test_what_raises_is_rolled_back(tmp_path: Path) -> None:
    file = await made(tmp_path / "a.sqlite3")

    def fails(connection: sqlite3.Connection) -> None:
        connection.execute(PUT, (b"x",))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await file.write(fails)
    with pytest.raises(sqlite3.OperationalError):
        await file.write(done("INSERT INTO nothing VALUES (1)"))
    with pytest.raises(TypeError, match="a cursor would keep the file open"):
        await file.write(lambda connection: connection.execute(PUT, (b"x",)))
    assert await count(file) == 0


async def test_a_write_that_nobody_waits_for_any_more_ends_before_the_cancellation(tmp_path: Path) -> None:
    file, begun, go_on = await made(tmp_path / "a.sqlite3"), threading.Event(), threading.Event()

    def slow(connection: sqlite3.Connection) -> None:
        connection.execute(PUT, (b"x",))
        begun.set()
        go_on.wait(60)

    writing = asyncio.ensure_future(file.write(slow))
    await asyncio.to_thread(begun.wait)
    writing.cancel()
    beside = asyncio.ensure_future(file.write(done(PUT, b"y")))
    await asyncio.sleep(0)
    writing.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not writing.done(), "a second cancellation does not end it sooner"
    assert await count(file) == 0, "readers see the last commit"
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    await beside
    assert await count(file) == 2


async def test_a_file_that_is_removed_while_it_is_opened_is_named(tmp_path: Path) -> None:
    create_private(path := tmp_path / "a.sqlite3")
    with pytest.raises(UsageError, match="it was replaced while it was being opened"), still_there(path):
        path.unlink()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_file_that_others_may_read_is_withdrawn_from_them_with_its_log(tmp_path: Path) -> None:
    await made(path := tmp_path / "a.sqlite3")
    log = tmp_path / "a.sqlite3-wal"
    log.touch()
    for one, mode in ((path, 0o644), (log, 0o664)):
        one.chmod(mode)
    create_private(path)
    assert (mode_of(path), mode_of(log)) == (0o600, 0o600)
    (link := tmp_path / "link.sqlite3").symlink_to(tmp_path / "target.sqlite3")
    create_private(link)
    assert mode_of(tmp_path / "target.sqlite3") == 0o600


def test_what_cannot_be_withdrawn_or_is_no_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir(mode=0o755)
    with pytest.raises(UsageError, match="folder: not a regular file"):
        create_private(tmp_path / "folder")
    assert mode_of(tmp_path / "folder") == 0o755
    create_private(path := tmp_path / "a.sqlite3")
    path.chmod(0o640)

    def of_another(_path: Path, _mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", of_another)
    with pytest.raises(UsageError, match=r"a.sqlite3: readable by others; run: chmod 600 "):
        create_private(path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(UsageError, match=r"a.sqlite3: Permission denied"):
        create_private(path)


async def test_making_a_file_again_releases_no_lock_of_a_connection(tmp_path: Path) -> None:
    await made(path := tmp_path / "a.sqlite3")

    def locks() -> int:
        own = re.compile(rf" {os.getpid()} [0-9a-f:]+:{path.stat().st_ino} ")
        return len(own.findall(Path("/proc/locks").read_text()))

    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT count(*) FROM notes").fetchone()
        held = locks()
        create_private(path)
        assert locks() == held > 0


async def test_a_look_writes_nothing_and_many_files_share_few_threads(tmp_path: Path) -> None:
    files = [await made(tmp_path / f"{number}.sqlite3") for number in range(3 * CONNECTIONS)]
    await asyncio.gather(*(file.write(done(PUT, b"x")) for file in files))
    assert sum(thread.name.startswith("brief-file") for thread in threading.enumerate()) <= CONNECTIONS
    look = BriefFile(tmp_path / "0.sqlite3", only_read=True)
    assert await count(look) == 1
    with pytest.raises(Unavailable, match="cannot be written"):
        await look.write(done(PUT, b"x"))
