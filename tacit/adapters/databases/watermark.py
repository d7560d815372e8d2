"""The high-water mark beside a database, which detects a database restored from the past (P32).

A database counts, per shard, the transactions that spend something (table ``tacit_marks``). The mark is a small file
outside the database, in the service's state folder, that holds the counts as this folder's processes last saw them
committed. It is written after every commit and before the answer, so in honest operation the mark is never ahead of the
database, wherever a process dies. A database from a backup is behind its mark, and is refused before it accepts
anything again.

The file is written, not synced: it survives the process, but after a power cut it may be some seconds behind, which
hides a backup from these seconds and raises no false alarm. Several processes on one PostgreSQL database have a shard
each; processes with the same folder share its file, and a process with its own folder only knows what it saw itself.

An operator's acceptance of a restored database is kept in the database: the time (``closed_until``) before which
everything may have been spent. The service decides what follows from that.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.adapters.databases.recovery import Recovery
from tacit.adapters.disk.files import read_bounded, sync_folder
from tacit.errors import Fatal, NoRoom, RolledBack, Unavailable, UsageError
from tacit.ports import Clock

if TYPE_CHECKING:  # services without a database import this module, so it must not import a driver
    from sqlalchemy.ext.asyncio import AsyncConnection

TABLE = "tacit_marks"
"""No migration creates it: every database has it, before and after each migration."""
CREATE = f"CREATE TABLE IF NOT EXISTS {TABLE} (shard integer PRIMARY KEY, number bigint NOT NULL)"

IDENTITY, GENERATION, CLOSED, DOUBT = -1, -2, -3, -4
"""Rows that use a negative number in place of a shard: the identity of the database, how often an operator has accepted
a rollback, until which POSIX second everything may have been spent, and whether something else shows a rollback."""
FOR_EVER = 1 << 62

MOST_BYTES = 1 << 20
_MAGIC = b"tacit wm"
_HEADER = struct.Struct(">8sQQQ")
_SLOT = struct.Struct(">QQ")
_READ = f"SELECT shard, number FROM {TABLE}"  # noqa: S608 - own names and numbers, here and below
_DELETE = f"DELETE FROM {TABLE} WHERE shard = %d"  # noqa: S608
_INSERT = f"INSERT INTO {TABLE} (shard, number) VALUES (%d, %d)"  # noqa: S608
_COUNT = (
    f"INSERT INTO {TABLE} (shard, number) VALUES (%d, 1) ON CONFLICT (shard) DO UPDATE SET number = {TABLE}.number + 1"  # noqa: S608
)
_COUNT_ONE = _COUNT + " RETURNING number, 0"
_COUNT_ALL = _COUNT + f" RETURNING number, 1 + (SELECT coalesce(sum(number), 0) FROM {TABLE} WHERE shard >= 0)"  # noqa: S608


_UNKNOWN = (
    "whether the database is complete is not known: if it is, remove the file and start once with --new-mark, else "
    "start once with --accept-rollback"
)
_ACCEPT = (
    "stop and put the newest database back, or start once with --accept-rollback, which closes what may have been spent"
)
_MISSING = (
    "if the database is complete (a further process, a lost file), start once with --new-mark, and if it may be from a "
    "backup, with --accept-rollback"
)


class DoubtfulError(UsageError):
    """A database does not fit its mark, or whether it does is not known; the message says what an operator can do."""


@dataclass(frozen=True)
class Kept:
    """The content of the file. ``slots``: per shard, the count and the POSIX second in which it was written."""

    identity: int
    generation: int
    slots: tuple[tuple[int, int], ...] = ()

    @property
    def total(self) -> int:
        """The number of transactions that the file knows of."""
        return sum(number for number, _ in self.slots)

    @property
    def written(self) -> int:
        """The last second in which the file was written."""
        return max((time for _, time in self.slots), default=0)


class Watermark:
    """The mark in the file ``path``, created where there is none. Call ``check`` and ``settle`` at start, then
    ``advance`` in each transaction that spends and ``note`` after its commit."""

    def __init__(self, path: Path, clock: Clock, recovery: Recovery = Recovery.REFUSE) -> None:
        self._path = path
        self._clock = clock
        self._recovery = recovery
        self._file: int | None = None
        self._found: tuple[Kept | None, dict[int, int]] = (None, {})
        self.closed_until = 0
        """Everything before this POSIX second may have been spent; 0 where nothing is in doubt."""

    async def check(self, connection: AsyncConnection) -> None:
        """Compare the database with the mark, in a write transaction that runs alone. Raises ``DoubtfulError``, and
        ``UsageError`` for a file that cannot be read."""
        found: Any = await connection.exec_driver_sql(_READ)
        for statement in self._compare(dict(map(tuple, found))):
            await connection.exec_driver_sql(statement)

    def check_file(self, connection: sqlite3.Connection) -> None:
        """``check`` on a database file's own connection; creates the table where it is missing."""
        connection.execute(CREATE)
        for statement in self._compare(dict(connection.execute(_READ))):
            connection.execute(statement)

    def _compare(self, rows: dict[int, int]) -> list[str]:
        """The statements that accept the database, whose rows are ``rows``, as it is; raises as ``check`` does."""
        kept, put = self._read(), dict[int, int]()
        objection, statements = _objection(kept, rows), []
        if self._recovery is Recovery.ACCEPT:
            before = 0 if kept is None else kept.written
            # also past what the file saw, should the clock have gone back
            put[CLOSED] = max(int(self._clock.now()) + 1, before + 1, rows.get(CLOSED, 0))
            put[GENERATION] = max(rows.get(GENERATION, 0), 0 if kept is None else kept.generation) + 1
            statements.append(_DELETE % DOUBT)
        elif objection and not (kept is None and self._recovery is Recovery.NEW_MARK and DOUBT not in rows):
            raise DoubtfulError(f"{self._path}: {objection}; see docs/restoring.md")
        if IDENTITY not in rows:
            put[IDENTITY] = int.from_bytes(os.urandom(7), "big")  # a bigint is signed
        rows |= put
        self.closed_until = rows.get(CLOSED, 0)
        self._found = (kept, rows)
        return statements + _putting(put)

    def settle(self) -> None:
        """Bring the file up to date, once what ``check`` wrote is committed. Raises ``UsageError`` for a file that
        cannot be written, and ``Unavailable`` as ``note``."""
        kept, rows = self._found
        identity, generation = rows[IDENTITY], rows.get(GENERATION, 0)
        header = _HEADER.pack(_MAGIC, identity, generation, 0)
        try:
            if kept is None:
                self._make(header)
            self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            for shard in {*range(len(kept.slots) if kept else 0), *(shard for shard in rows if shard >= 0)}:
                self.note(shard, rows.get(shard, 0))
            # after the slots: with the new generation and old counts, a crash in between would look like a rollback
            os.pwrite(self._file, header, 0)
            os.fsync(self._file)
        except OSError as error:
            raise UsageError(f"{self._path}: {error.strerror}") from error

    def _make(self, header: bytes) -> None:
        """Create the file atomically; another process may have been first. Raises ``OSError``."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}.new")
        try:
            file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.write(file, header)
                os.fsync(file)
            finally:
                os.close(file)
            # not renamed: a link never replaces the mark that another process made meanwhile
            os.link(draft, self._path)
            sync_folder(self._path.parent)
        except FileExistsError:
            pass
        finally:
            draft.unlink(missing_ok=True)

    def _read(self) -> Kept | None:
        try:
            if not self._path.exists():
                return None
        except OSError as error:
            raise UsageError(f"{self._path}: {error.strerror}") from error
        data = read_bounded(self._path, MOST_BYTES)
        if len(data) < _HEADER.size or data[: len(_MAGIC)] != _MAGIC:
            raise DoubtfulError(f"{self._path}: not the mark of a database; {_UNKNOWN}; see docs/restoring.md")
        _, identity, generation, _ = _HEADER.unpack_from(data)
        return Kept(identity, generation, _slots(data[_HEADER.size :]))

    async def advance(self, fetch: Callable[[str], Awaitable[Sequence[Any]]], shard: int, *, counts_all: bool) -> int:
        """Count the transaction; must be its last statement, which ``fetch`` runs. Returns the count for ``note``.
        ``counts_all``: other processes have the database too, so the counts of all shards are compared. Raises
        ``RolledBack`` where the database is behind the mark: it was replaced while this process ran."""
        kept = self._seen()  # read before the statement: what the file holds is committed, so the statement sees it
        statement = (_COUNT_ALL if counts_all else _COUNT_ONE) % shard
        (row,) = await fetch(statement)
        return _require(kept, shard, int(row[0]), int(row[1]))

    def advance_file(self, connection: sqlite3.Connection) -> int:
        """``advance`` on a database file's own connection."""
        kept = self._seen()
        number, total = connection.execute(_COUNT_ONE % 0).fetchone()
        return _require(kept, 0, number, total)

    def _seen(self) -> tuple[tuple[int, int], ...]:
        return _slots(os.pread(self._descriptor, 1 << 16, _HEADER.size))

    @property
    def _descriptor(self) -> int:
        if self._file is None:
            raise Fatal("the mark is not open")
        return self._file

    def note(self, shard: int, number: int) -> None:
        """Record in the file that the transaction counted by ``advance`` is committed. Raises ``Unavailable`` where
        the file cannot be written: the transaction stays committed, and whoever repeats it finds that."""
        slot = _SLOT.pack(number, int(self._clock.now()))
        try:
            os.pwrite(self._descriptor, slot, _HEADER.size + shard * _SLOT.size)
        except OSError as error:
            kind = NoRoom if error.errno in {errno.ENOSPC, errno.EDQUOT} else Unavailable
            raise kind(f"the mark of the database cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Sync the file to the disk and close it."""
        file, self._file = self._file, None
        if file is not None:
            os.fsync(file)
            os.close(file)


async def doubt(connection: AsyncConnection) -> None:
    """Record evidence from outside that the database is older than it should be: no process accepts anything more, also
    after a restart, until an operator accepts the rollback."""
    for statement in _putting({DOUBT: FOR_EVER}):
        await connection.exec_driver_sql(statement)


def _putting(rows: Mapping[int, int]) -> list[str]:
    """The statements that put ``rows`` in place of those of the same shards."""
    return [one for shard, number in rows.items() for one in (_DELETE % shard, _INSERT % (shard, number))]


def _objection(kept: Kept | None, rows: Mapping[int, int]) -> str:
    """Describe what does not fit; empty where everything does."""
    if DOUBT in rows:
        return f"others hold what this service sent and the database does not know, so it is from the past; {_ACCEPT}"
    if kept is None:
        used = any(shard >= 0 for shard in rows)
        return f"the mark of a database that has been used is missing; {_MISSING}" if used else ""
    if rows.get(GENERATION, 0) > kept.generation:
        return ""  # since this file was written, an operator has accepted the database as it is
    if IDENTITY not in rows or (rows[IDENTITY] != kept.identity and rows.get(GENERATION, 0) == kept.generation):
        return f"the database is new or a different one than its mark; {_ACCEPT}" if kept.total else ""
    behind = any(number > rows.get(shard, 0) for shard, (number, _) in enumerate(kept.slots))
    if behind or rows.get(GENERATION, 0) < kept.generation:
        return f"the database is older than the last state of this service; {_ACCEPT}"
    return ""


def _slots(data: bytes) -> tuple[tuple[int, int], ...]:
    whole = len(data) - len(data) % _SLOT.size
    return tuple(_SLOT.iter_unpack(data[:whole]))


def _require(kept: tuple[tuple[int, int], ...], shard: int, number: int, total: int) -> int:
    """Return ``number``, unless it or the sum of all counts is behind what was committed before; a ``total`` of 0 means
    unknown."""
    before = kept[shard][0] if shard < len(kept) else 0
    if number <= before or (total and total < sum(one for one, _ in kept)):
        raise RolledBack("the database is older than the last state of this service; restart it to see what to do")
    return number
