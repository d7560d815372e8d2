"""Uploaded reports at rest: those that no job has yet (``pending``), and the bytes that are still needed (``reports``).

A report's bytes are deleted in the transaction that decides its outcome. The bytes of deleted rows stay in a file until
they are overwritten. SQLite overwrites them at once (secure_delete). On PostgreSQL they go with the *slice* of sequence
numbers in which they lie: ``scrub`` closes a slice after a while, and drops it once every report in it is processed.
Write-ahead logs and backups keep their copies until they are recycled.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from itertools import starmap
from typing import Any

import sqlalchemy as sa

from services.leader.records import ReportHead, StoredReport, pack_seqs, unpack_seqs
from services.leader.schema import FORWARDED, PENDING, REPORTS
from tacit.adapters.databases.dialect import NumberedTable, Rows
from tacit.aggregator.records import TaskState
from tacit.aggregator.store import CommonTx

_SEQUENCE = "report_seqs"


class ReportsTx(CommonTx):
    """One transaction on uploads.

    ``numbered``: the table of the reports' bytes, in which there must be room.
    """

    @cached_property
    def numbered(self) -> NumberedTable:
        """The table of the reports' bytes, bound to this transaction."""
        return self.dialect.numbered(self.connection, REPORTS, _SEQUENCE)

    async def set_forwarded(self, task_id: bytes) -> None:
        """Record that the task's shuffler has forwarded everything; it takes no further reports."""
        fresh = self.dialect.upsert(FORWARDED).values(task_id=task_id).on_conflict_do_nothing()
        await self.connection.execute(fresh)

    async def is_forwarded(self, task_id: bytes) -> bool:
        """Whether the task's shuffler has forwarded everything."""
        query = sa.select(sa.func.count()).where(FORWARDED.c.task_id == task_id)
        return bool((await self.connection.execute(query)).scalar_one())

    async def digests(self, task_id: bytes, report_ids: Sequence[bytes]) -> tuple[dict[bytes, bytes | None], bool]:
        """SHA-256 of the reports among ``report_ids`` that are stored or were processed, and whether any batch of the
        task was released or the task was closed without a release."""
        releases = self.common.releases
        kept = (
            Rows((table.c.report_id, table.c.digest), table.c.report_id, {table.c.task_id: task_id})
            for table in (REPORTS, self.common.outcomes)
        )
        rows = await self.dialect.select_among(self.connection, report_ids, *kept)
        query = sa.select(releases.c.task_id).where(releases.c.task_id == task_id).limit(1)
        released = await self.connection.execute(query)
        return {report_id: digest for report_id, digest in rows}, released.first() is not None  # noqa: C416

    async def add_reports(self, uploads: Sequence[StoredReport], now: float) -> None:
        """Store new reports, pending since ``now``. Raises ``IntegrityError`` if a partition is missing."""
        if not uploads:
            return
        seqs = await self.numbered.take(len(uploads))
        rows = [
            (seq, upload.task_id, upload.report_id, upload.digest, upload.body)
            for seq, upload in zip(seqs, uploads, strict=True)
        ]
        await self.dialect.copy_rows(self.connection, REPORTS, ("seq", "task_id", "report_id", "digest", "body"), rows)
        await self.add_pending([(seq, upload.task_id) for seq, upload in zip(seqs, uploads, strict=True)], now)

    async def add_pending(self, rows: Sequence[tuple[int, bytes]], since: float) -> None:
        """Add (sequence number, task id) of reports that wait for a job since ``since`` or, if that is in the future,
        from then on."""
        groups: dict[bytes, list[int]] = {}
        for seq, task_id in rows:
            groups.setdefault(task_id, []).append(seq)
        values = [(min(seqs), task_id, since, len(seqs), pack_seqs(seqs)) for task_id, seqs in groups.items()]
        await self.dialect.copy_rows(self.connection, PENDING, ("seq", "task_id", "since", "size", "members"), values)

    async def take_pending(self, task_id: bytes, seqs: Sequence[int]) -> None:
        """Remove these reports of a task from the pending ones, because jobs have them now; the rest of their groups
        becomes one group. The transaction runs alone."""
        taken = set(seqs)
        touched: list[int] = []
        left: list[int] = []
        oldest: list[float] = []
        groups = await self.dialect.run(self.connection, _UP_TO, task=task_id, last=max(seqs, default=-1))
        for first, since, packed in groups:
            group = unpack_seqs(packed)
            if taken.isdisjoint(group):
                continue
            touched.append(first)
            others = [seq for seq in group if seq not in taken]
            left += others
            oldest += [since] if others else []
        await self.dialect.delete_among(self.connection, PENDING.c.seq, touched)
        if left:
            await self.add_pending([(seq, task_id) for seq in left], min(oldest))

    async def pending(self, task_id: bytes, now: float, limit: int) -> list[int]:
        """Sequence numbers of up to ``limit`` reports that wait by ``now``, oldest first."""
        groups = await self.dialect.run(self.connection, _WAITING_MEMBERS, task=task_id, now=now, most=limit)
        return [seq for packed, _ in groups for seq in unpack_seqs(packed)][:limit]

    async def pending_head(self, task_id: bytes, now: float, limit: int) -> tuple[int, float]:
        """How many reports ``pending`` would return, and since when the oldest has waited (POSIX seconds)."""
        groups = await self.dialect.run(self.connection, _WAITING_SINCE, task=task_id, now=now, most=limit)
        return min(limit, sum(size for _, size in groups)), min((since for since, _ in groups), default=now)

    async def pending_summary(self, task_id: bytes) -> tuple[int, float | None]:
        """How many reports of a task have no job, and since when the oldest has waited (POSIX seconds; None if there is
        none)."""
        size = sa.func.coalesce(sa.func.sum(PENDING.c.size), 0)
        query = sa.select(size, sa.func.min(PENDING.c.since)).where(PENDING.c.task_id == task_id)
        count, since = (await self.connection.execute(query)).one()
        return int(count), since

    async def all_pending(self) -> int:
        """Number of reports without a job."""
        query = sa.select(sa.func.coalesce(sa.func.sum(PENDING.c.size), 0))
        return int((await self.connection.execute(query)).scalar_one())

    async def tasks_with_pending(self) -> set[bytes]:
        """Ids of the active tasks with a report that has no job, also one that is to wait only from a later time on."""
        tasks = self.common.tasks
        return {row[0] for row in await self.dialect.run(self.connection, _with_pending(tasks))}

    async def stored(self, seqs: Sequence[int]) -> list[StoredReport]:
        """The reports of ``seqs`` in that order, without those whose bytes were deleted, as they are once processed."""
        columns = (REPORTS.c.task_id, REPORTS.c.report_id, REPORTS.c.digest, REPORTS.c.body, REPORTS.c.seq)
        rows = await self.dialect.select_among(self.connection, seqs, Rows(columns, REPORTS.c.seq))
        reports = {report.seq: report for report in starmap(StoredReport, rows)}
        return [reports[seq] for seq in seqs if seq in reports]

    async def heads(self, seqs: Sequence[int]) -> list[ReportHead]:
        """As ``stored``, without the reports' bytes, which are not read."""
        columns = (REPORTS.c.seq, REPORTS.c.report_id, REPORTS.c.digest)
        rows = await self.dialect.select_among(self.connection, seqs, Rows(columns, REPORTS.c.seq))
        heads_by_seq = {head.seq: head for head in starmap(ReportHead, rows)}
        return [heads_by_seq[seq] for seq in seqs if seq in heads_by_seq]

    async def delete_reports(self, seqs: Sequence[int]) -> None:
        """Delete the reports' bytes, in the transaction that decides the reports' outcomes."""
        await self.dialect.delete_among(self.connection, REPORTS.c.seq, seqs)


def _waiting(column: sa.Column[Any]) -> sa.Select[Any]:
    """The oldest groups that wait by ``now``, enough to hold ``most`` reports; ``column`` and size of each."""
    waits = (PENDING.c.task_id == sa.bindparam("task")) & (PENDING.c.since <= sa.bindparam("now"))
    most = sa.bindparam("most", type_=sa.Integer())
    before = sa.func.sum(PENDING.c.size).over(order_by=PENDING.c.seq) - PENDING.c.size
    groups = sa.select(PENDING.c.seq, column, PENDING.c.size, before.label("before")).where(waits)
    oldest = groups.order_by(PENDING.c.seq).limit(most).subquery()
    return sa.select(oldest.c[column.name], oldest.c.size).where(oldest.c.before < most).order_by(oldest.c.seq)


@cache
def _with_pending(tasks: sa.Table) -> sa.Select[Any]:
    """Ids of the active tasks of which any report has no job: one look into an index for each task."""
    waits = sa.exists().where(PENDING.c.task_id == tasks.c.task_id)
    return sa.select(tasks.c.task_id).where(tasks.c.state == TaskState.ACTIVE.value, waits)


_WAITING_MEMBERS, _WAITING_SINCE = _waiting(PENDING.c.members), _waiting(PENDING.c.since)
_UP_TO = sa.select(PENDING.c.seq, PENDING.c.since, PENDING.c.members).where(
    PENDING.c.task_id == sa.bindparam("task"), PENDING.c.seq <= sa.bindparam("last")
)
