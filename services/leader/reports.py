"""Uploaded reports at rest: what no job has yet (``pending``) and the bytes that are still needed (``reports``).

A report's bytes are deleted in the transaction that decides it. Bytes of deleted rows stay in a file until they are
overwritten: at once on SQLite (secure_delete); on PostgreSQL with the *slice* of sequence numbers that they lie in,
which ``scrub`` closes after a while and drops once every report in it is dealt with. Write-ahead logs and backups
hold what they hold until they are recycled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from services.leader.records import StoredReport, Upload, pack_members, unpack_members
from services.leader.schema import PENDING, REPORTS
from tacit.adapters.bulk import among, copy_rows, fetch, is_postgres, pieces
from tacit.aggregator.store import CommonTx

SLICE = 1 << 16
"""Sequence numbers of one partition."""

AHEAD = 2
"""Partitions that are made before they are needed."""

_NAME = "reports_slice_"
_SEQS = "SELECT nextval('report_seqs') FROM generate_series(1, $1::int)"
_STORED = "SELECT seq, report_id, digest, body FROM reports WHERE seq = ANY($1::bigint[])"
_DIGESTS = """
    SELECT false, report_id, digest FROM reports WHERE task_id = $1 AND report_id = ANY($2::bytea[])
    UNION ALL SELECT false, report_id, digest FROM outcomes WHERE task_id = $1 AND report_id = ANY($2::bytea[])
    UNION ALL SELECT true, NULL, NULL FROM releases WHERE task_id = $1
"""
_LIST = """
    SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'reports'::regclass
"""
_NEXT = "SELECT CASE WHEN is_called THEN last_value + 1 ELSE last_value END FROM report_seqs"
_USED = "SELECT is_called FROM report_seqs"


@dataclass(frozen=True)
class Scrubbed:
    """What ``scrub`` did: partitions dropped, and partitions rewritten with the rows that are still needed."""

    dropped: int = 0
    rewritten: int = 0


class ReportsTx(CommonTx):
    """One transaction on uploads."""

    async def digests(self, task_id: bytes, report_ids: Sequence[bytes]) -> tuple[dict[bytes, bytes | None], bool]:
        """SHA-256 of the reports among ``report_ids`` that are stored or were dealt with, and whether any batch of the
        task was released."""
        if is_postgres(self.connection):
            both = await fetch(self.connection, _DIGESTS, task_id, report_ids)
            return {row[1]: row[2] for row in both if not row[0]}, any(row[0] for row in both)
        found: dict[bytes, bytes | None] = {}
        for piece in pieces(self.connection, report_ids):
            rows = await self.connection.execute(
                sa.select(REPORTS.c.report_id, REPORTS.c.digest).where(
                    REPORTS.c.task_id == task_id, among(self.connection, REPORTS.c.report_id, piece)
                )
            )
            found.update((row[0], row[1]) for row in rows)
        found.update((report_id, known.digest) for report_id, known in (await self.known(task_id, report_ids)).items())
        return found, bool(await self.release_count(task_id))

    async def add_reports(self, uploads: Sequence[Upload], now: float) -> None:
        """Store new reports, pending since ``now``. Raises ``IntegrityError`` where a partition is missing."""
        if not uploads:
            return
        seqs = await self._new_seqs(len(uploads))
        rows = [
            (seq, upload.task_id, upload.report_id, upload.digest, upload.body)
            for seq, upload in zip(seqs, uploads, strict=True)
        ]
        await copy_rows(self.connection, REPORTS, ("seq", "task_id", "report_id", "digest", "body"), rows)
        await self.add_pending([(seq, upload.task_id) for seq, upload in zip(seqs, uploads, strict=True)], now)

    async def _new_seqs(self, count: int) -> list[int]:
        if is_postgres(self.connection):
            return [row[0] for row in await fetch(self.connection, _SEQS, count)]
        last = (await self.connection.execute(sa.select(sa.func.max(REPORTS.c.seq)))).scalar_one() or 0
        return list(range(last + 1, last + 1 + count))

    async def add_pending(self, rows: Sequence[tuple[int, bytes]], since: float) -> None:
        """(seq, task id) of reports that wait for a job since, or not before, ``since``."""
        groups: dict[bytes, list[int]] = {}
        for seq, task_id in rows:
            groups.setdefault(task_id, []).append(seq)
        values = [
            {"seq": min(seqs), "task_id": task_id, "since": since, "size": len(seqs), "members": pack_members(seqs)}
            for task_id, seqs in groups.items()
        ]
        if values:
            await self.connection.execute(sa.insert(PENDING), values)

    async def take_pending(self, task_id: bytes, seqs: Sequence[int]) -> None:
        """Jobs have these reports of a task from now on; what is left of their groups becomes one. Alone."""
        taken = set(seqs)
        columns = (PENDING.c.seq, PENDING.c.since, PENDING.c.members)
        query = sa.select(*columns).where(PENDING.c.task_id == task_id, PENDING.c.seq <= max(seqs, default=-1))
        touched: list[int] = []
        left: list[int] = []
        oldest: list[float] = []
        for first, since, packed in await self.connection.execute(query):
            members = unpack_members(packed)
            if taken.isdisjoint(members):
                continue
            touched.append(first)
            others = [seq for seq in members if seq not in taken]
            left += others
            oldest += [since] if others else []
        await self._delete(PENDING, touched)
        if left:
            await self.add_pending([(seq, task_id) for seq in left], min(oldest))

    async def _delete(self, table: sa.Table, seqs: Sequence[int]) -> None:
        if is_postgres(self.connection):
            statement = f"DELETE FROM {table.name} WHERE seq = ANY($1::bigint[])"  # noqa: S608 - own name
            await fetch(self.connection, statement, seqs)
            return
        for piece in pieces(self.connection, seqs):
            await self.connection.execute(sa.delete(table).where(among(self.connection, table.c.seq, piece)))

    async def pending(self, task_id: bytes, now: float, limit: int) -> list[int]:
        """Sequence numbers of up to ``limit`` reports that wait by ``now``, the oldest first."""
        groups = await self.connection.execute(_waiting(PENDING.c.members, task_id, now, limit))
        return [seq for members in groups.scalars() for seq in unpack_members(members)][:limit]

    async def pending_head(self, task_id: bytes, now: float, limit: int) -> tuple[int, float]:
        """How many reports ``pending`` would give, and since when the oldest waits."""
        groups = (await self.connection.execute(_waiting(PENDING.c.since, task_id, now, limit))).all()
        return min(limit, sum(row.size for row in groups)), min((row.since for row in groups), default=now)

    async def pending_summary(self, task_id: bytes) -> tuple[int, float | None]:
        """How many reports of a task have no job, and since when the oldest."""
        size = sa.func.coalesce(sa.func.sum(PENDING.c.size), 0)
        query = sa.select(size, sa.func.min(PENDING.c.since)).where(PENDING.c.task_id == task_id)
        count, since = (await self.connection.execute(query)).one()
        return int(count), since

    async def has_pending(self, task_id: bytes) -> bool:
        """Whether a report of the task has no job."""
        query = sa.select(PENDING.c.seq).where(PENDING.c.task_id == task_id).limit(1)
        return (await self.connection.execute(query)).first() is not None

    async def stored(self, seqs: Sequence[int]) -> list[StoredReport]:
        """The reports of ``seqs`` that are stored, in the order of ``seqs``."""
        found: dict[int, StoredReport] = {}
        if is_postgres(self.connection):
            found = {row[0]: StoredReport(*row) for row in await fetch(self.connection, _STORED, seqs)}
        else:
            for piece in pieces(self.connection, seqs):
                rows = await self.connection.execute(
                    sa.select(REPORTS.c.seq, REPORTS.c.report_id, REPORTS.c.digest, REPORTS.c.body).where(
                        among(self.connection, REPORTS.c.seq, piece)
                    )
                )
                found.update((row[0], StoredReport(*row)) for row in rows)
        return [found[seq] for seq in seqs if seq in found]

    async def delete_reports(self, seqs: Sequence[int]) -> None:
        """Forget the bytes of reports that are dealt with."""
        await self._delete(REPORTS, seqs)

    async def lacks_room(self) -> bool:
        """Whether ``make_room`` has something to do."""
        if not is_postgres(self.connection):
            return False
        return await self._next_slice() + AHEAD - 1 not in await self._slices()

    async def make_room(self) -> None:
        """Make the partitions that the next reports go to. Alone: it takes the whole table's lock."""
        if not is_postgres(self.connection):
            return
        known = await self._slices()
        first = await self._next_slice()
        for number in range(first, first + AHEAD):
            if number not in known:
                await self.connection.exec_driver_sql(
                    f"CREATE TABLE {_NAME}{number} PARTITION OF reports "
                    f"FOR VALUES FROM ({number * SLICE}) TO ({(number + 1) * SLICE}) "
                    "WITH (toast_tuple_target = 8160, autovacuum_enabled = false)"
                )

    async def close_slice(self) -> None:
        """Let the next report begin a new partition, unless the present one is untouched. Alone."""
        if not is_postgres(self.connection):
            return
        if (await self.connection.exec_driver_sql(_USED)).scalar_one():
            beginning = (await self._next_slice() + 1) * SLICE
            await self.connection.exec_driver_sql(f"SELECT setval('report_seqs', {beginning}, false)")
            await self.make_room()

    async def scrub(self, in_jobs: Iterable[int], *, rewrite: bool) -> Scrubbed:
        """Drop the closed partitions that hold no report and none of ``in_jobs``, the members of unfinished
        jobs; with ``rewrite`` those that hold little of it are written anew without what was deleted. Alone."""
        if not is_postgres(self.connection):
            return Scrubbed()
        needed = {seq // SLICE for seq in in_jobs}
        dropped = rewritten = 0
        current = await self._next_slice()
        for number in sorted(number for number in await self._slices() if number < current):
            name = f"{_NAME}{number}"
            if number not in needed and await self._is_idle(number):
                await self.connection.exec_driver_sql(f"DROP TABLE {name}")
                dropped += 1
            elif rewrite:
                rewritten += await self._rewrite(name)
        return Scrubbed(dropped, rewritten)

    async def _is_idle(self, number: int) -> bool:
        """No row is left in a partition; what is pending has its row."""
        rows = await self.connection.exec_driver_sql(f"SELECT 1 FROM {_NAME}{number} LIMIT 1")  # noqa: S608 - own name
        return rows.first() is None

    async def _rewrite(self, name: str) -> int:
        """Move what is left of a partition into a new file, if it is little: no byte of a deleted row comes along."""
        left = (await self.connection.exec_driver_sql(f"SELECT count(*) FROM {name}")).scalar_one()  # noqa: S608
        if left > SLICE // 8:
            return 0
        for statement in (
            f"CREATE TEMPORARY TABLE kept ON COMMIT DROP AS SELECT * FROM {name}",  # noqa: S608
            f"TRUNCATE {name}",
            f"INSERT INTO {name} SELECT * FROM kept",  # noqa: S608
            "DROP TABLE kept",
        ):
            await self.connection.exec_driver_sql(statement)
        return 1

    async def _slices(self) -> set[int]:
        rows = await self.connection.exec_driver_sql(_LIST)
        return {int(name.removeprefix(_NAME)) for name in rows.scalars()}

    async def _next_slice(self) -> int:
        """The partition of the next sequence number."""
        return int((await self.connection.exec_driver_sql(_NEXT)).scalar_one()) // SLICE


def _waiting(column: sa.Column[Any], task_id: bytes, now: float, limit: int) -> sa.Select[Any]:
    """The oldest groups that wait by ``now``, as many as hold ``limit`` reports; ``column`` and size of each."""
    waits = (PENDING.c.task_id == task_id) & (PENDING.c.since <= now)
    before = sa.func.sum(PENDING.c.size).over(order_by=PENDING.c.seq) - PENDING.c.size
    groups = sa.select(PENDING.c.seq, column, PENDING.c.size, before.label("before")).where(waits)
    oldest = groups.order_by(PENDING.c.seq).limit(limit).subquery()
    return sa.select(oldest.c[column.name], oldest.c.size).where(oldest.c.before < limit).order_by(oldest.c.seq)
