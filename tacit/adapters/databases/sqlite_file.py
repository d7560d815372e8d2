"""SQLite files without SQLAlchemy, which takes 24 MB of memory: what every file has in common, and files that are
written rarely, many of them in one process.

An open connection costs three file descriptors and its caches, so a ``BriefFile`` has one only during a transaction,
which runs in a thread from BEGIN to COMMIT. Closing the last connection to a file moves the write-ahead log into it, so
that deleted bytes are gone from the disk after each transaction.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import stat
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
    """A database file that is open only during transactions; one that has been removed is not created again."""

    def __init__(self, path: Path, mark: Watermark | None = None, *, only_read: bool = False) -> None:
        """``mark``: the watermark that detects a file restored from a backup, once it is settled. ``only_read``: the
        file is another process's, and is left as it is."""
        self._uri = f"{path.absolute().as_uri()}?mode=rw"
        self._mark = mark
        self._setting = "PRAGMA query_only = ON" if only_read else PRAGMAS
        self._lock = asyncio.Lock()
        self._advanced: int | None = None

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` in a write transaction (BEGIN IMMEDIATE): durable when this returns, rolled back when it raises.
        Writers of this process queue here; those of other processes wait for up to ``BUSY_TIMEOUT_MS``. ``work`` keeps
        no cursor, because the file would stay open.

        Raises ``Unavailable``, ``RolledBack`` where the file is older than its mark, and ``sqlite3.Error``.
        """

        def run() -> T:
            self._advanced = None
            found = self._run("BEGIN IMMEDIATE", work)
            if self._mark is not None and self._advanced is not None:
                self._mark.note(0, self._advanced)
            return found

        async with self._lock:
            return await _in_thread(run)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` on one consistent snapshot, beside any writer. Raises as ``write`` does."""
        return await _in_thread(lambda: self._run("BEGIN", work))

    def spend(self, connection: sqlite3.Connection) -> None:
        """Mark a write transaction as one whose effect must not happen twice; ``work`` calls it last. The mark is
        updated after the commit. Raises ``RolledBack`` where the file is older than its mark."""
        if self._mark is not None:
            self._advanced = self._mark.advance_file(connection)

    async def close(self) -> None:
        """Wait for the last write, and close the mark."""
        async with self._lock:
            if self._mark is not None:
                self._mark.close()

    def _run(self, begin: str, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with closing(sqlite3.connect(self._uri, isolation_level=None, uri=True)) as connection:
                connection.executescript(self._setting)
                connection.execute(begin)
                try:
                    found = _without_cursor(work(connection))
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                return found
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
