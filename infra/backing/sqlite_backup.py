"""Copies an SQLite database consistently while its service runs, and replaces one that no process has open."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from tacit.adapters.disk.files import sync_folder
from tacit.errors import UsageError

WAIT_SECONDS = 30.0
BESIDE = ("-wal", "-shm")
"""Suffixes of the files that SQLite may keep beside a database."""


RUNNING, RESTING = "ro", "ro&immutable=1"
"""Modes for a database that a service may have open, and for a file that is read as it is, without files beside it."""


def copy_database(source: Path, target: Path, mode: str = RUNNING) -> None:
    """Copy a snapshot of ``source`` into the new file ``target`` (0600), and check the copy's integrity. Raises
    ``UsageError``."""
    with _translate_errors(source), contextlib.closing(_connect(source, mode)) as found:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        with contextlib.closing(_connect(target, "rw")) as copy:
            found.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            (answer,) = copy.execute("PRAGMA integrity_check").fetchone()
    if answer != "ok":
        raise UsageError(f"{source}: the database is damaged: {answer}")
    descriptor = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_database(copy: Path, place: Path) -> Path | None:
    """Replace the database at ``place`` by ``copy`` atomically. The old database is kept beside it; its path is
    returned, or None if there was none. ``place`` always holds one or the other, because a service that found nothing
    there would begin an empty database. Raises ``UsageError``, with nothing changed, if a process has it open."""
    draft = place.with_name(f".{place.name}.{os.getpid()}.new")
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        copy_database(copy, draft, RESTING)
        with contextlib.ExitStack() as held:
            before = _set_aside(place, held) if place.exists() else None
            draft.replace(place)
    except OSError as error:
        raise UsageError(f"{place}: {error.strerror or 'cannot be written'}") from error
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(place.parent)
    return before


def _set_aside(place: Path, held: contextlib.ExitStack) -> Path:
    """Give a database that nobody has open a second name, and return it. Its log is merged into it; a damaged
    database's log is moved to the second name, because it must not meet another database. The database stays locked
    until ``held`` ends: a service that starts meanwhile waits, and finds it replaced
    (``tacit.adapters.databases.sqlite``)."""
    try:
        found = held.enter_context(contextlib.closing(_connect(place, "rw")))
        found.execute("PRAGMA busy_timeout = 0")
        found.execute("PRAGMA locking_mode = EXCLUSIVE")
        found.execute("PRAGMA journal_mode = DELETE")  # fails while anybody else has it open
        found.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        raise UsageError(f"{place}: a process has it open ({error}); stop its service first") from error
    except sqlite3.DatabaseError:
        pass
    names = (place.with_name(f"{place.name}.before-{number}") for number in itertools.count(1))
    before = next(name for name in names if not name.exists())
    try:
        before.hardlink_to(place)
    except OSError:  # a file system without hard links
        shutil.copy2(place, before)
    for end in BESIDE:
        with contextlib.suppress(FileNotFoundError):
            place.with_name(place.name + end).rename(before.with_name(before.name + end))
    return before


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=WAIT_SECONDS
    )


@contextlib.contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise UsageError(f"{path}: the database cannot be copied: {error}") from error
