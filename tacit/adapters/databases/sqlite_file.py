"""SQLite files without SQLAlchemy, which takes 24 MB of memory: what every file has in common, and files that are
written rarely, many of them in one process.

A transaction of a ``BriefFile`` runs in a thread from BEGIN to COMMIT. Afterwards the write-ahead log is moved into the
file and emptied, so that deleted bytes are gone from the disk after each transaction. Opening a file takes three times
as long as a small transaction, so the connections of those written last stay open. One costs three file descriptors and
its caches, so they are few; and none is used once anything but itself has touched the file (``_Version``).
"""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

from tacit.adapters.databases.watermark import Watermark
from tacit.errors import NoRoom, Unavailable, UsageError

T = TypeVar("T")

PAGE_SIZE = 8192
BUSY_TIMEOUT_MS = 10_000
PRAGMAS = "; ".join(
    f"PRAGMA {pragma}"
    for pragma in (
        f"page_size = {PAGE_SIZE}",
        "journal_mode = WAL",
        "synchronous = FULL",
        "secure_delete = ON",
        "foreign_keys = ON",
        "temp_store = MEMORY",
        f"busy_timeout = {BUSY_TIMEOUT_MS}",
    )
)
"""The configuration of every connection that writes."""
CONNECTIONS = 8
"""Most connections of all ``BriefFile`` in a process at a time: each has a thread."""
KEPT = 8
"""Most connections that stay open between two transactions, of all ``BriefFile`` in a process."""

_Version = tuple[int, int, int, int, int]
"""Identifies the contents of a file: device, inode, size, and the times (ns) of its last change and last writing."""

_BESIDE = ("-wal", "-shm")
"""What SQLite appends to the name of a file for those beside it; they get its mode when they are made."""

_PASSING = {
    sqlite3.SQLITE_BUSY: "the database is busy",
    sqlite3.SQLITE_LOCKED: "the database is busy",
    sqlite3.SQLITE_NOMEM: "there is no memory for the database",
    sqlite3.SQLITE_READONLY: "the database cannot be written",
    sqlite3.SQLITE_IOERR: "the database cannot be written",
    sqlite3.SQLITE_FULL: "there is no room for the database",
    sqlite3.SQLITE_CANTOPEN: "the database cannot be opened",
}
"""Primary result codes of SQLite that concern its environment, not a statement or the file's content."""


def passing(error: BaseException | None) -> Unavailable | None:
    """The typed error for an error of the driver that concerns its environment, by its primary result code."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code not in _PASSING:
        return None
    return (NoRoom if code == sqlite3.SQLITE_FULL else Unavailable)(_PASSING[code])


def create_private(path: Path) -> None:
    """Make the file with mode 0600, and its folder with 0700, where they are missing; withdraw from everybody else a
    file that is there, and its write-ahead log. Raises ``UsageError``.

    A file that is there is not opened: closing it would release the locks of this process's connections to it.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        for one in (path, *(Path(f"{path}{end}") for end in _BESIDE)):
            if one is path or one.exists():
                _withdraw(one)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _withdraw(path: Path) -> None:
    """Set mode 0600 where a file has more. Raises ``OSError``, and ``UsageError`` for what is no file of our own."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        raise UsageError(f"{path}: not a regular file")
    if not os.access(path, os.R_OK | os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    if stat.S_IMODE(mode) & 0o077:
        try:
            path.chmod(0o600)
        except PermissionError as error:
            raise UsageError(f"{path}: readable by others; run: chmod 600 {path}") from error


@contextmanager
def still_there(path: Path | None) -> Iterator[None]:
    """Raise ``UsageError`` where ``path`` is another file when the block ends: a restore replaced it while this process
    waited for its lock, so that the open file no longer has that name."""
    before, trouble = _place_of(path), None
    try:
        yield
    except Unavailable as error:  # SQLite's own error, where it notices
        trouble = error
    if _place_of(path) != before:
        raise UsageError(f"{path}: it was replaced while it was being opened; start again") from trouble
    if trouble is not None:
        raise trouble


def _place_of(path: Path | None) -> tuple[int, int] | None:
    """The identity (device and inode) of the file at a path; None where there is none."""
    try:
        found = None if path is None else path.stat()
    except FileNotFoundError:
        found = None
    if found is None:
        return None
    return found.st_dev, found.st_ino


class BriefFile:
    """A database file that is rarely written; one that has been removed is not created again, and one that was put in
    its place is opened anew."""

    def __init__(self, path: Path, mark: Watermark | None = None, *, only_read: bool = False) -> None:
        """``mark``: the watermark that detects a file restored from a backup, once it is settled. ``only_read``: the
        file is another process's, and is left as it is."""
        self._path = path.absolute()
        self._uri = f"{self._path.as_uri()}?mode=rw"
        self._mark = mark
        self._setting = "PRAGMA query_only = ON" if only_read else PRAGMAS
        self._lock = asyncio.Lock()
        self._advanced: int | None = None

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` in a write transaction (BEGIN IMMEDIATE): durable when this returns, rolled back when it raises.
        Writers of this process queue here; those of other processes wait for up to ``BUSY_TIMEOUT_MS``. ``work`` keeps
        no cursor, because the file could not be closed.

        Raises ``Unavailable``, ``RolledBack`` where the file is older than its mark, and ``sqlite3.Error``.
        """

        def run() -> T:
            self._advanced = None
            with _translate_errors():
                found = self._write(work)
            if self._mark is not None and self._advanced is not None:
                self._mark.note(0, self._advanced)
            return found

        async with self._lock:
            return await _in_thread(run)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` on one consistent snapshot, beside any writer. Raises as ``write`` does."""

        def run() -> T:
            with _translate_errors(), closing(self._connect()) as connection:
                return _transaction(connection, "BEGIN", work)

        return await _in_thread(run)

    def spend(self, connection: sqlite3.Connection) -> None:
        """Mark a write transaction as one whose effect must not happen twice; ``work`` calls it last. The mark is
        updated after the commit. Raises ``RolledBack`` where the file is older than its mark."""
        if self._mark is not None:
            self._advanced = self._mark.advance_file(connection)

    async def close(self) -> None:
        """Wait for the last write, and close the file and the mark."""
        async with self._lock:
            if (kept := _open_files.take(self)) is not None:
                await _in_thread(kept[0].close)
            if self._mark is not None:
                self._mark.close()

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        before = _version_of(self._path)
        connection = self._kept_connection(before) or self._connect()
        try:
            found = _transaction(connection, "BEGIN IMMEDIATE", work)
            after = _version_of(self._path) if _empty_log(connection) else None
        except BaseException:
            connection.close()
            raise
        # the log is not empty, or another file has the name by now: who opens the file next sees to it
        if before is None or after is None or before[:2] != after[:2]:
            connection.close()
        else:
            _open_files.keep(self, connection, after)
        return found

    def _kept_connection(self, version: _Version | None) -> sqlite3.Connection | None:
        """The connection of the last write, unless the file is no longer as it left it: it may read from its memory."""
        kept = _open_files.take(self)
        if kept is None:
            return None
        if kept[1] == version:
            return kept[0]
        kept[0].close()
        return None

    def _connect(self) -> sqlite3.Connection:
        # a statement that is kept for the next time keeps its values too, such as a report that is deleted by then
        connection = sqlite3.connect(
            self._uri, isolation_level=None, uri=True, check_same_thread=False, cached_statements=0
        )
        try:
            connection.executescript(self._setting)
        except BaseException:
            connection.close()
            raise
        return connection


class _OpenFiles:
    """The connections that stay open, each with the version of the file that it left; those used last. Whoever writes
    takes its connection out meanwhile."""

    def __init__(self) -> None:
        self._kept_connection: dict[BriefFile, tuple[sqlite3.Connection, _Version]] = {}
        self._lock = threading.Lock()

    def take(self, file: BriefFile) -> tuple[sqlite3.Connection, _Version] | None:
        """The connection of ``file``, if there is one, no longer kept here."""
        with self._lock:
            return self._kept_connection.pop(file, None)

    def keep(self, file: BriefFile, connection: sqlite3.Connection, version: _Version) -> None:
        """Keep a connection, and close the one that was not used for the longest time if there are too many."""
        with self._lock:
            self._kept_connection[file] = (connection, version)
            spare = (
                self._kept_connection.pop(next(iter(self._kept_connection)))
                if len(self._kept_connection) > KEPT
                else None
            )
        if spare is not None:
            spare[0].close()


_open_files = _OpenFiles()


def _transaction(connection: sqlite3.Connection, begin: str, work: Callable[[sqlite3.Connection], T]) -> T:
    connection.execute(begin)
    try:
        found = _without_cursor(work(connection))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return found


def _empty_log(connection: sqlite3.Connection) -> bool:
    """Move the write-ahead log into the file, and empty it, without waiting for readers; False where one is in the way,
    or the disk fails: the commit is in the log, and the next to open the file moves it."""
    try:
        connection.execute("PRAGMA busy_timeout = 0")
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    except sqlite3.Error:
        return False
    return not busy


def _version_of(path: Path) -> _Version | None:
    """What identifies the contents of the file; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns, found.st_mtime_ns


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        typed = passing(error)
        if typed is None:
            raise
        raise typed from error


def _without_cursor(found: T) -> T:
    if isinstance(found, sqlite3.Cursor):
        raise TypeError("a cursor would keep the file open")
    return found


async def _in_thread(run: Callable[[], T]) -> T:
    """Run a transaction in a thread, to its end even if nobody waits for it any more: a cancellation follows the
    end."""
    running = asyncio.ensure_future(asyncio.get_running_loop().run_in_executor(_threads(), run))
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:  # a second one may follow the first, and must not free the lock either
            cancelled = error
    if cancelled is not None:
        running.exception()
        raise cancelled
    return running.result()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="brief-file")
