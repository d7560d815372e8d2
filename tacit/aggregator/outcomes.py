"""The outcome of each report, and the buckets in which reports count: the hot part of a transaction.

Everything here is safe in a *shared* transaction, beside those of other processes: report ids and nullifiers are unique
by the database's own constraints, and a bucket's row is merged under its lock. Rows are inserted in the order of their
nullifiers, so that two transactions that want the same tokens wait for each other in one order only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, Update, bindparam, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tacit.adapters.databases.dialect import Dialect, Rows
from tacit.aggregator.batch_yield import Look
from tacit.aggregator.records import ACCEPTED, Batch, Known, OutcomeRow
from tacit.aggregator.schema import CommonTables
from tacit.messages import Interval
from tacit.roles.aggregator import Tally, bucket_key, merge
from tacit.task import Task

_COLUMNS = ("task_id", "report_id", "nullifier", "code", "cause", "bucket", "job_id", "digest")
_REPORT_ID, _NULLIFIER = itemgetter(0), itemgetter(1)
_TALLY = ("count", "checksum", "first_time", "last_time", "agg_share")


class OutcomesTx:
    """One transaction on outcomes and buckets.

    ``shard``: the number under which this process keeps its buckets.
    """

    shard: int = 0
    spends: bool = False
    """Whether something was written that must not happen a second time; the database's mark then counts the
    transaction."""

    def __init__(self, connection: AsyncConnection, dialect: Dialect, tables: CommonTables) -> None:
        self.connection = connection
        self.dialect = dialect
        self.common = tables

    async def known(self, task_id: bytes, report_ids: Sequence[bytes]) -> dict[bytes, Known]:
        """Those of ``report_ids`` that have an outcome in the task, each with it."""
        table = self.common.outcomes
        columns = (table.c.report_id, table.c.code, table.c.digest)
        outcomes = Rows(columns, table.c.report_id, {table.c.task_id: task_id})
        rows = await self.dialect.select_among(self.connection, report_ids, outcomes)
        return {report_id: Known(code, digest) for report_id, code, digest in rows}

    async def record(self, task_id: bytes, rows: Sequence[OutcomeRow]) -> set[bytes]:
        """Insert those of ``rows`` whose report id and nullifier are free; return the report ids of the others. If two
        rows in one call use the same, the first wins. A refused row leaves nothing behind: ``known`` says which of them
        had an outcome before, and the caller counts the others, whose tokens were spent (``count_rejections``)."""
        self.spends = self.spends or bool(rows)
        fresh, refused = _first_of_each(rows)
        values = [(task_id, *row) for row in _in_order(fresh)]
        table = self.common.outcomes
        inserted = await self.dialect.insert_new(self.connection, table, _COLUMNS, values, "report_id", mostly_new=True)
        return refused | set(map(_REPORT_ID, fresh)).difference(inserted)

    async def amend(self, task_id: bytes, rejections: Mapping[bytes, tuple[int, str]]) -> None:
        """Reject reports that already have an outcome: (code, cause) per report id. Their tokens stay spent."""
        table = self.common.outcomes
        groups: dict[tuple[int, str], list[bytes]] = {}
        for report_id, verdict in rejections.items():
            groups.setdefault(verdict, []).append(report_id)
        for (code, cause), report_ids in sorted(groups.items()):
            for piece in self.dialect.pieces(sorted(report_ids)):
                await self.connection.execute(
                    update(table)
                    .where(table.c.task_id == task_id, self.dialect.among(table.c.report_id, piece))
                    .values(code=code, cause=cause)
                )

    def counts(self) -> ColumnElement[bool]:
        """The condition that an outcome counts: the report was accepted."""
        return self.common.outcomes.c.code == ACCEPTED

    async def accepted_count(self, task_id: bytes, batch: Batch = None) -> int:
        """Number of distinct nullifiers of the reports that count, in a batch or in the whole task. Reads every one of
        them: for decisions to release, not for showing progress."""
        table = self.common.outcomes
        query = select(func.count(table.c.nullifier)).where(table.c.task_id == task_id, self.counts())
        query = query.where(*_in(table.c.bucket, batch))
        return int((await self.connection.execute(query)).scalar_one())

    async def counted(self, task_id: bytes, bucket: bytes | None = None) -> int:
        """Number of reports in the tallies of one bucket or of the whole task."""
        of_bucket = {} if bucket is None else {"bucket": bucket}
        query = _count_query(self.common.buckets, of_bucket=bool(of_bucket))
        return int((await self.dialect.run(self.connection, query, task=task_id, **of_bucket))[0][0])

    async def add_tallies(self, task: Task, tallies: Mapping[bytes, Tally]) -> None:
        """Merge tallies into this process's shard of their buckets; one whose share is gone takes nothing more."""
        table = self.common.buckets
        for bucket, tally in sorted(tallies.items()):
            key = {"task_id": task.task_id, "bucket": bucket, "shard": self.shard}
            values = {name: getattr(tally, name) for name in _TALLY}
            locked, replaced = _bucket(table)
            place = {f"of_{name}": value for name, value in key.items()}
            rows = await self.dialect.run(self.connection, locked, **place)
            if not rows:
                inserted = await self.connection.execute(
                    self.dialect.upsert(table).values(**key, **values).on_conflict_do_nothing()
                )
                if inserted.rowcount:
                    continue
                rows = await self.dialect.run(self.connection, locked, **place)
            before = Tally(*rows[0])
            if not before.agg_share:
                continue
            merged = merge(task, [before, tally])
            changed = {f"new_{name}": getattr(merged, name) for name in _TALLY}
            await self.dialect.run(self.connection, replaced, **place, **changed)

    async def tally(self, task: Task, batch: Batch = None) -> Tally | None:
        """The content of a batch, or of all buckets of the task together; ``None`` if there is none."""
        table = self.common.buckets
        query = select(*(table.c[name] for name in _TALLY)).where(table.c.task_id == task.task_id)
        rows = await self.connection.execute(query.where(*_in(table.c.bucket, batch)))
        return merge(task, [Tally(*row) for row in rows])

    async def scrub_buckets(self, task_id: bytes, batch: Batch = None) -> None:
        """Forget aggregate shares that were released or never will be; counts and checksums stay. A restored older
        database would hold them again, and their noise could be drawn a second time."""
        self.spends = True
        table = self.common.buckets
        query = update(table).where(table.c.task_id == task_id).values(agg_share=b"")
        await self.connection.execute(query.where(*_in(table.c.bucket, batch)))

    async def count_rejections(self, task_id: bytes, causes: Mapping[str, int]) -> None:
        """Add to the task's counters of rejected reports by cause."""
        table = self.common.rejections
        for cause, count in sorted(causes.items()):
            row = self.dialect.upsert(table).values(task_id=task_id, cause=cause, count=count)
            await self.connection.execute(
                row.on_conflict_do_update(
                    index_elements=["task_id", "cause"], set_={"count": table.c["count"] + row.excluded["count"]}
                )
            )

    async def rejections(self, task_id: bytes) -> dict[str, int]:
        """How many reports of the task were rejected, by cause; a cause without any is left out."""
        table = self.common.rejections
        rows = await self.connection.execute(
            select(table.c.cause, table.c["count"]).where(table.c.task_id == task_id).order_by(table.c.cause)
        )
        return {row[0]: row[1] for row in rows}

    async def all_rejections(self) -> dict[str, int]:
        """Rejected reports of all tasks together, by cause."""
        table = self.common.rejections
        rows = await self.connection.execute(select(table.c.cause, func.sum(table.c["count"])).group_by(table.c.cause))
        return {row[0]: int(row[1]) for row in rows}

    async def all_counted(self) -> int:
        """Number of reports counted in all buckets together."""
        table = self.common.buckets
        query = select(func.coalesce(func.sum(table.c.count), 0))
        return int((await self.connection.execute(query)).scalar_one())


class LooksTx(OutcomesTx):
    """``tacit.aggregator.yield_looks.LookTx`` beside the outcomes of the same database."""

    LOOKS: Table

    async def looks(self, task_id: bytes) -> list[Look]:
        table = self.LOOKS
        query = select(table.c.number, table.c.at, table.c.tenths).where(table.c.task_id == task_id)
        return [Look(*row) for row in await self.connection.execute(query.order_by(table.c.number))]

    async def keep_look(self, task_id: bytes, look: Look) -> None:
        self.spends = True  # noise must not be drawn again for a count that was already given out
        values = {"task_id": task_id, "number": look.number, "at": look.at, "tenths": look.tenths}
        await self.connection.execute(self.dialect.upsert(self.LOOKS).values(**values).on_conflict_do_nothing())


@cache
def _count_query(table: Table, *, of_bucket: bool) -> Select[Any]:
    """Number of reports in the buckets of a task, or in one of them."""
    query = select(func.coalesce(func.sum(table.c.count), 0)).where(table.c.task_id == bindparam("task"))
    return query.where(table.c.bucket == bindparam("bucket")) if of_bucket else query


@cache
def _bucket(table: Table) -> tuple[Select[Any], Update]:
    """Two statements on one shard of a bucket: its tally, locked; and another in its place."""
    mine = [table.c[name] == bindparam(f"of_{name}") for name in ("task_id", "bucket", "shard")]
    locked = select(*(table.c[name] for name in _TALLY)).where(*mine).with_for_update()
    return locked, update(table).where(*mine).values({name: bindparam(f"new_{name}") for name in _TALLY})


def _in(column: ColumnElement[bytes], batch: Batch) -> list[ColumnElement[bool]]:
    """The conditions on a bucket's key."""
    if batch is None:
        return []
    if isinstance(batch, Interval):
        return [column.between(bucket_key(batch.start), bucket_key(batch.end - 1))]
    return [column == batch]


def _first_of_each(rows: Sequence[OutcomeRow]) -> tuple[list[OutcomeRow], set[bytes]]:
    """The rows that use no report id and no nullifier of an earlier row, and the report ids of the other rows."""
    report_ids = set(map(_REPORT_ID, rows))
    spent = list(filter(None, map(_NULLIFIER, rows)))
    nullifiers = set(spent)
    if len(report_ids) == len(rows) and len(nullifiers) == len(spent):
        return list(rows), set()
    report_ids.clear()
    nullifiers.clear()
    fresh: list[OutcomeRow] = []
    refused: set[bytes] = set()
    for row in rows:
        if row.report_id in report_ids or row.nullifier in nullifiers:
            refused.add(row.report_id)
            continue
        report_ids.add(row.report_id)
        if row.nullifier is not None:
            nullifiers.add(row.nullifier)
        fresh.append(row)
    return fresh, refused


def _in_order(rows: Sequence[OutcomeRow]) -> list[OutcomeRow]:
    """Rows without a nullifier by report id, then the others by nullifier."""
    spending = [row for row in rows if row.nullifier is not None]
    others = [row for row in rows if row.nullifier is None] if len(spending) < len(rows) else []
    return sorted(others, key=_REPORT_ID) + sorted(spending, key=_NULLIFIER)
