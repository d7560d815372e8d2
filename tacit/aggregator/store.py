"""The common part of both aggregators' stores: log, tasks, outcomes, buckets, releases, rejections.

``CommonTx`` is one open transaction; its caller decides which operations belong together. A transaction runs alone, so
reading first and writing afterwards cannot race, unless it was opened as *shared*: then only what ``OutcomesTx``
promises holds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, Generic, TypeVar

from sqlalchemy import MetaData, Select, bindparam, delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tacit.adapters.databases.database import Database
from tacit.adapters.databases.dialect import Dialect
from tacit.adapters.databases.log_tables import SqlLeavesTx
from tacit.adapters.databases.stored import DatabaseStore
from tacit.adapters.databases.watermark import CLOSED, DOUBT, Watermark, doubt
from tacit.aggregator.outcomes import OutcomesTx
from tacit.aggregator.parties import Served
from tacit.aggregator.records import TASK_STATES, Batch, TaskRow, TaskState
from tacit.aggregator.schema import MARKS, CommonTables
from tacit.dap_errors import DapAbort, DapProblem
from tacit.messages import BatchMode, Interval
from tacit.task import CLOCK_LEEWAY, BatchClose, Task

UNRELEASED = b"unreleased"
"""Stands in place of a batch: the whole task is closed for good, and nothing was released. Neither an encoded interval
nor a batch id has this length."""


class CommonTx(OutcomesTx, SqlLeavesTx):
    """One transaction on the shared tables; what every aggregator does with its database."""

    def __init__(self, connection: AsyncConnection, dialect: Dialect, tables: CommonTables) -> None:
        super().__init__(connection, dialect, tables)
        self.log_tables = tables

    async def tasks(self, after: int = 0, limit: int | None = None) -> list[TaskRow]:
        """The recipes that this aggregator has seen, by their hashes: at most ``limit``, behind the first ``after``."""
        table = self.common.tasks
        rows = await self.connection.execute(
            select(
                table.c.recipe_hash,
                table.c.state,
                table.c.recipe,
                table.c.task_id,
                table.c.rule,
                table.c.detail,
                table.c.token_key_spki,
                table.c.opt_in,
                table.c.void,
            )
            .order_by(table.c.recipe_hash)
            .offset(after)
            .limit(limit)
        )
        return [TaskRow(row.recipe_hash, TaskState(row.state), *row[2:]) for row in rows]

    async def task_state(self, recipe_hash: bytes) -> TaskState | None:
        """The current state in one recipe's row; ``None`` without a row."""
        table = self.common.tasks
        query = select(table.c.state).where(table.c.recipe_hash == recipe_hash)
        state = (await self.connection.execute(query)).scalar_one_or_none()
        return None if state is None else TaskState(state)

    async def is_open(self, party: Served, now: float) -> bool:
        """Whether a task may do anything at all: its row says that it is served, and its time is not over on our clock
        (``now``, read in this transaction). **Every transaction that counts, releases, stores or closes calls this
        first**, whatever the process knew before: once a task has ended it never again does anything (P9), nor does one
        that may have been served before the database was restored from the past (P32).

        An ended row never changes back, see ``put_task``; reading it here also suffices in a shared transaction,
        because a task ends in one that runs alone. ``store_reports`` of the Leader checks the row in SQL.
        """
        rows = await self.dialect.run(self.connection, _state(self.common), recipe_hash=party.task.recipe_hash)
        if not rows or rows[0][0] != TaskState.ACTIVE.value:
            return False
        return now < party.closes and not had_begun(party.task.start_seconds, rows[0][1] or 0)

    async def closed_until(self) -> int:
        """The POSIX second before which everything may have been spent, as an operator has accepted: no task that had
        begun by then (``had_begun``) does anything any more. 0 where the database was never restored from the past."""
        query = select(MARKS.c.number).where(MARKS.c.shard == CLOSED)
        return int((await self.connection.execute(query)).scalar_one_or_none() or 0)

    async def in_doubt(self) -> bool:
        """Whether ``doubt`` was called and no operator has decided since."""
        query = select(func.count()).select_from(MARKS).where(MARKS.c.shard == DOUBT)
        return bool((await self.connection.execute(query)).scalar_one())

    async def doubt(self) -> None:
        """Record that the log shows that this database is from the past: every task is closed, and the next start is
        refused, until an operator decides."""
        await doubt(self.connection)

    async def demand_open(self, party: Served, now: float) -> None:
        """Raise ``DapAbort(unrecognizedTask)`` unless ``is_open``."""
        if not await self.is_open(party, now):
            raise DapAbort(DapProblem.UNRECOGNIZED_TASK, "the task has ended", task_id=party.task.task_id_text)

    async def put_task(self, task: TaskRow) -> bool:
        """Insert or replace one recipe's row, in a transaction that runs alone; False, with nothing changed, where the
        row says that the task has ended and the new one does not: the decision was based on an older row and is too
        late. Raises ``Fatal`` for any other transition that ``TASK_STATES`` does not contain."""
        present = await self.task_state(task.recipe_hash)
        if present is TaskState.ENDED and task.state is not TaskState.ENDED:
            return False
        TASK_STATES.check(present, task.state)
        self.spends = True
        table = self.common.tasks
        await self.connection.execute(delete(table).where(table.c.recipe_hash == task.recipe_hash))
        await self.connection.execute(
            insert(table).values(
                recipe_hash=task.recipe_hash,
                state=task.state.value,
                recipe=task.recipe,
                task_id=task.task_id,
                rule=task.rule,
                detail=task.detail,
                token_key_spki=task.token_key_spki,
                opt_in=task.opt_in,
                void=task.void,
            )
        )
        return True

    async def forget(self, task_id: bytes) -> None:
        """Delete everything about a task except the row that records its existence, and which batches were released."""
        kept = (self.common.tasks, self.common.releases)
        for table in self.common.tasks.metadata.sorted_tables:
            if table not in kept and "task_id" in table.c:
                await self.connection.execute(delete(table).where(table.c.task_id == task_id))

    async def is_released(self, task: Task, batch: Batch) -> bool:
        """Whether a batch, or part of it, is closed for good. A batch is named by its id, by the times of an interval,
        or is the task's only one. If a task was closed without a release, this holds for every batch of it."""
        if isinstance(batch, Interval):
            return any(span.overlaps(batch) for span in await self._closed_spans(task))
        of_batch = {"batch": batch} if task.batch_mode is BatchMode.LEADER_SELECTED else {}
        query = _released_query(self.common, of_batch=bool(of_batch))
        return bool(await self.dialect.run(self.connection, query, task=task.task_id, **of_batch))

    async def closed_times(self, task: Task, batch_id: bytes | None, times: Collection[int]) -> set[int]:
        """Those of ``times`` (units of the precision) for which no report counts any more, in batch ``batch_id`` of a
        leader-selected task."""
        if task.batch_close is not BatchClose.ON_QUERY:
            return set(times) if await self.is_released(task, batch_id) else set()
        spans = await self._closed_spans(task)
        return {time for time in set(times) if any(span.contains(time) for span in spans)}

    async def _closed_spans(self, task: Task) -> list[Interval]:
        """The released intervals of a task whose queries name intervals."""
        table = self.common.releases
        rows = (
            await self.connection.execute(select(table.c.selector).where(table.c.task_id == task.task_id))
        ).scalars()
        return [task.interval if selector == UNRELEASED else Interval.decode(selector) for selector in rows]

    async def release(self, task_id: bytes, selector: bytes) -> None:
        """Mark a batch as released; it takes no further reports."""
        self.spends = True
        await self.connection.execute(insert(self.common.releases).values(task_id=task_id, selector=selector))

    async def close_unreleased(self, task_id: bytes) -> bool:
        """Close for good a task of which no batch was released, and forget its sums; False, with nothing changed, if
        one was released."""
        if await self.release_count(task_id):
            return False
        table = self.common.releases
        await self.connection.execute(delete(table).where(table.c.task_id == task_id))
        await self.release(task_id, UNRELEASED)
        await self.scrub_buckets(task_id)
        return True

    async def keep_census_share(self, task_id: bytes, report_count: int, agg_share: bytes) -> None:
        """Keep the encoded aggregate share of a census, as it was released, in the transaction that releases it. A
        second one raises ``IntegrityError``: a census has one batch."""
        table = self.common.census_shares
        values = {"task_id": task_id, "report_count": report_count, "agg_share": agg_share}
        await self.connection.execute(insert(table).values(**values))

    async def census_shares(self) -> list[tuple[bytes, int, bytes]]:
        """(task id, report count, encoded aggregate share) of every census that was released."""
        table = self.common.census_shares
        rows = await self.connection.execute(select(table.c.task_id, table.c.report_count, table.c.agg_share))
        return [(row.task_id, row.report_count, row.agg_share) for row in rows]

    async def release_count(self, task_id: bytes) -> int:
        """Number of released batches of the task; a task that was closed without a release has none."""
        table = self.common.releases
        query = select(func.count()).where(table.c.task_id == task_id, table.c.selector != UNRELEASED)
        return int((await self.connection.execute(query)).scalar_one())

    async def tasks_by_state(self) -> dict[str, int]:
        """Number of recipes by state; a state without any is left out."""
        table = self.common.tasks
        rows = await self.connection.execute(select(table.c.state, func.count()).group_by(table.c.state))
        return {row[0]: row[1] for row in rows}

    async def all_released(self) -> int:
        """Number of released batches of all tasks together."""
        table = self.common.releases
        query = select(func.count()).where(table.c.selector != UNRELEASED)
        return int((await self.connection.execute(query)).scalar_one())


@cache
def _state(tables: CommonTables) -> Select[Any]:
    """State of the task of ``recipe_hash``, and the mark of a database that was restored from the past."""
    marked = (MARKS.c.shard == CLOSED) | (MARKS.c.shard == DOUBT)
    closed = select(func.max(MARKS.c.number)).where(marked).scalar_subquery()
    mine = tables.tasks.c.recipe_hash == bindparam("recipe_hash")
    return select(tables.tasks.c.state, closed).where(mine)


@cache
def _released_query(tables: CommonTables, *, of_batch: bool) -> Select[Any]:
    """A row where a batch of a task is closed for good: any, or the one of its id."""
    table = tables.releases
    query = select(table.c.task_id).where(table.c.task_id == bindparam("task")).limit(1)
    either = (table.c.selector == bindparam("batch")) | (table.c.selector == UNRELEASED)
    return query.where(either) if of_batch else query


def had_begun(start: float, closed: float) -> bool:
    """Whether reports of a window that begins at ``start`` may have counted by ``closed`` (POSIX seconds; 0: never).
    Clocks differ, so a report may be ahead of ours by the tolerated skew."""
    return bool(closed) and start < closed + CLOCK_LEEWAY


Tx_co = TypeVar("Tx_co", bound=CommonTx, covariant=True)


class SqlStore(DatabaseStore, Generic[Tx_co]):
    """The database of one aggregator, which any number of its processes may have open if it is PostgreSQL."""

    def __init__(
        self,
        url: str,
        metadata: MetaData,
        migrations: str,
        make_tx: Callable[[AsyncConnection, Dialect], Tx_co],
        mark: Watermark | None = None,
    ) -> None:
        """``mark``: the watermark that detects a database restored from the past."""
        super().__init__(url, metadata, migrations, mark, shared=True)
        self._make_tx = make_tx
        self.doubtful = ""
        """The evidence that the database is from the past; empty without any."""

    async def open(self) -> None:
        """Open and migrate; see ``open_database``. What a crash left in the write-ahead log is moved into the file."""
        await super().open()
        await self._database.checkpoint()

    async def checkpoint(self) -> None:
        """Remove overwritten bytes of tables from the files too; see ``Database.checkpoint``."""
        await self._database.checkpoint()

    async def leads(self) -> bool:
        """Whether this process coordinates the others on the database; see ``Database.leads``."""
        return await self._database.leads()

    @property
    def coordinates(self) -> bool:
        return self._database.leading

    @asynccontextmanager
    async def transaction(self, *, shared: bool = False) -> AsyncIterator[Tx_co]:
        """Commit everything in the block, or nothing; runs alone, or beside other processes' shared transactions."""
        database = self._database
        async with database.transaction(shared=shared) as connection:
            tx = self._bound(connection, database)
            yield tx
            if tx.spends:
                await database.spend(connection)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Tx_co]:
        database = self._database
        async with database.read() as connection:
            yield self._bound(connection, database)

    def _bound(self, connection: AsyncConnection, database: Database) -> Tx_co:
        tx = self._make_tx(connection, database.dialect)
        tx.shard = database.shard
        return tx
