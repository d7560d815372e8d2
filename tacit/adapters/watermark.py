"""The high-water mark beside a database, by which one that was restored from the past is noticed (P32).

A database counts, per shard, the transactions that spend something: ``tacit_marks``. The mark is a small file outside
it, in the service's state folder, that holds the counts as this folder's processes last saw them committed. It is
written after every commit and before the answer, so that in honest operation the mark is never ahead of the database,
wherever a process dies; a database from a backup is behind its mark, and is refused before it takes anything again.

The file is written, not synced: it survives the process, and after a power cut it may be some seconds behind, which
hides a backup of these seconds and raises no false alarm. Several processes on one PostgreSQL database have a shard
each; those of one folder share its file, and one that has a folder of its own knows what it saw itself.

What an operator accepts is kept in the database: until when (``closed_until``) everything may have been spent. What
follows from it is the service's to say.
"""

from __future__ import annotations

import enum
import os
import sqlite3
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tacit.adapters.files import read_bounded, sync_folder
from tacit.errors import Fatal, RolledBack, UsageError

if TYPE_CHECKING:  # a service without a database imports this, and no driver
    from sqlalchemy.ext.asyncio import AsyncConnection

TABLE = "tacit_marks"
"""No migration makes it: every database has it, before and after any of them."""
CREATE = f"CREATE TABLE IF NOT EXISTS {TABLE} (shard integer PRIMARY KEY, number bigint NOT NULL)"

IDENTITY, GENERATION, CLOSED, DOUBT = -1, -2, -3, -4
"""What stands in the place of a shard beside the counts: which database this is, how often an operator has accepted a
rollback, until which POSIX second everything may have been spent, and that something else shows a rollback."""
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


class Recovery(enum.StrEnum):
    """What the operator says at a start about a database that does not fit its mark."""

    REFUSE = "refuse"
    ACCEPT = "accept-rollback"
    """It is, or may be, from the past: close whatever may have been spent, and go on."""
    NEW_MARK = "new-mark"
    """It is complete, and only the mark is missing: begin one."""


class Time(Protocol):
    """As much of a clock as is needed here."""

    def now(self) -> float:
        """POSIX seconds."""
        ...


@dataclass(frozen=True)
class Kept:
    """What the file says. ``slots``: per shard the count and the POSIX second in which it was written."""

    identity: int
    generation: int
    slots: tuple[tuple[int, int], ...] = ()

    @property
    def total(self) -> int:
        """The transactions that it knows of."""
        return sum(number for number, _ in self.slots)

    @property
    def written(self) -> int:
        """The last second in which it was written."""
        return max((time for _, time in self.slots), default=0)


class Watermark:
    """The mark in the file ``path``, made where there is none. ``check`` and ``settle`` at the start, then ``advance``
    in each transaction that spends and ``note`` after its commit."""

    def __init__(self, path: Path, clock: Time, recovery: Recovery = Recovery.REFUSE) -> None:
        self._path = path
        self._clock = clock
        self._recovery = recovery
        self._file: int | None = None
        self._found: tuple[Kept | None, dict[int, int]] = (None, {})
        self.closed_until = 0
        """Everything before this POSIX second may have been spent; 0 where nothing is in doubt."""

    async def check(self, connection: AsyncConnection) -> None:
        """Compare the database with the mark, in a write transaction that runs alone. Raises ``UsageError`` with one
        line that says what to do."""
        found: Any = await connection.exec_driver_sql(_READ)
        rows: dict[int, int] = {shard: number for shard, number in found}  # noqa: C416 - rows of two
        kept = self._read()
        objection = _objection(kept, rows)
        if self._recovery is Recovery.ACCEPT:
            before = 0 if kept is None else kept.written
            rows[CLOSED] = max(int(self._clock.now()) + 1, before + 1, rows.get(CLOSED, 0))
            rows[GENERATION] = max(rows.get(GENERATION, 0), 0 if kept is None else kept.generation) + 1
            await connection.exec_driver_sql(_DELETE % DOUBT)
            await _put(connection, {place: rows[place] for place in (CLOSED, GENERATION)})
        elif objection and not (kept is None and self._recovery is Recovery.NEW_MARK and DOUBT not in rows):
            raise UsageError(f"{self._path}: {objection}; see docs/restoring.md")
        if IDENTITY not in rows:
            rows[IDENTITY] = int.from_bytes(os.urandom(7), "big")
            await _put(connection, {IDENTITY: rows[IDENTITY]})
        self.closed_until = rows.get(CLOSED, 0)
        self._found = (kept, rows)

    def settle(self) -> None:
        """Once what ``check`` wrote is committed: have the file say the same."""
        kept, rows = self._found
        identity, generation = rows[IDENTITY], rows.get(GENERATION, 0)
        if kept is None:
            self._make(_HEADER.pack(_MAGIC, identity, generation, 0))
        self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        for shard in {*range(len(kept.slots) if kept else 0), *(shard for shard in rows if shard >= 0)}:
            self.note(shard, rows.get(shard, 0))
        os.pwrite(self._file, _HEADER.pack(_MAGIC, identity, generation, 0), 0)
        os.fsync(self._file)

    def _make(self, header: bytes) -> None:
        """The file, at once whole; another process may have been first."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}.new")
        try:
            file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.write(file, header)
                os.fsync(file)
            finally:
                os.close(file)
            os.link(draft, self._path)
            sync_folder(self._path.parent)
        except FileExistsError:
            pass
        except OSError as error:
            raise UsageError(f"{self._path}: {error.strerror}") from error
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
            raise UsageError(f"{self._path}: not the mark of a database; {_UNKNOWN}; see docs/restoring.md")
        _, identity, generation, _ = _HEADER.unpack_from(data)
        return Kept(identity, generation, _slots(data[_HEADER.size :]))

    async def advance(self, connection: AsyncConnection, shard: int, *, counts_all: bool) -> int:
        """Count the transaction, as the last thing that it does; returns the count for ``note``. ``counts_all``: other
        processes have the database too, so that the counts of all shards are compared. Raises ``RolledBack`` where the
        database is behind the mark: it was replaced while this process ran."""
        kept = self._seen()  # before the statement: what it holds is committed, so the statement sees it
        statement = (_COUNT_ALL if counts_all else _COUNT_ONE) % shard
        row: Any = (await connection.exec_driver_sql(statement)).one()
        return _require(kept, shard, int(row[0]), int(row[1]))

    def advance_file(self, connection: sqlite3.Connection) -> int:
        """The same on a database file's own connection."""
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
        """The transaction that ``advance`` counted is committed."""
        os.pwrite(self._descriptor, _SLOT.pack(number, int(self._clock.now())), _HEADER.size + shard * _SLOT.size)

    def close(self) -> None:
        """Sync and close the file."""
        file, self._file = self._file, None
        if file is not None:
            os.fsync(file)
            os.close(file)


async def doubt(connection: AsyncConnection) -> None:
    """Something outside shows that the database is older than it should be: it takes nothing more, in no process and
    after no restart, until an operator accepts that."""
    await _put(connection, {DOUBT: FOR_EVER})


async def _put(connection: AsyncConnection, rows: Mapping[int, int]) -> None:
    for shard, number in rows.items():
        await connection.exec_driver_sql(_DELETE % shard)
        await connection.exec_driver_sql(_INSERT % (shard, number))


def _objection(kept: Kept | None, rows: Mapping[int, int]) -> str:
    """What does not fit; empty where everything does."""
    if DOUBT in rows:
        return f"the log holds leaves of ours that the database lost, so that it is from the past; {_ACCEPT}"
    if kept is None:
        used = any(shard >= 0 for shard in rows)
        return f"the mark of a database that was used is missing; {_MISSING}" if used else ""
    if rows.get(GENERATION, 0) > kept.generation:
        return ""  # an operator accepted the database as it is, since this file was written
    if IDENTITY not in rows or (rows[IDENTITY] != kept.identity and rows.get(GENERATION, 0) == kept.generation):
        return f"the database is new or another one, older than its mark; {_ACCEPT}" if kept.total else ""
    behind = any(number > rows.get(shard, 0) for shard, (number, _) in enumerate(kept.slots))
    if behind or rows.get(GENERATION, 0) < kept.generation:
        return f"the database is older than what this service has done since; {_ACCEPT}"
    return ""


def _slots(data: bytes) -> tuple[tuple[int, int], ...]:
    whole = len(data) - len(data) % _SLOT.size
    return tuple(_SLOT.iter_unpack(data[:whole]))


def _require(kept: tuple[tuple[int, int], ...], shard: int, number: int, total: int) -> int:
    """``number``, unless it or all counts together are behind what was committed before; ``total`` 0 is not known."""
    before = kept[shard][0] if shard < len(kept) else 0
    if number <= before or (total and total < sum(one for one, _ in kept)):
        raise RolledBack("the database is older than what this service has done since; restart it to hear what to do")
    return number
