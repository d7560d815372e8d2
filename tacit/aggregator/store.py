"""The part of both aggregators' stores that is alike: log, tasks, nullifiers, buckets, releases, rejections.

``CommonTx`` is one open transaction; its owner decides what belongs together. Writers are serialised (BEGIN
IMMEDIATE), so reading first and writing then cannot race.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sqlalchemy import MetaData, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tacit.adapters.sql import Database
from tacit.aggregator.schema import CommonTables
from tacit.errors import Fatal
from tacit.messages import BatchMode
from tacit.roles.aggregator import Accepted, Rejection, Tally, bucket_of, fold, merge
from tacit.task import Task


class TaskState(enum.StrEnum):
    """What an aggregator does with a recipe."""

    WAITING = "waiting"
    OPTED_IN = "opted-in"
    ACTIVE = "active"
    REFUSED = "refused"
    ENDED = "ended"


class NullifierState(enum.StrEnum):
    """What became of a token: bound to a report in flight, counted, or spent on a report that failed."""

    RESERVED = "reserved"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass(frozen=True)
class TaskRow:
    """One recipe as the aggregator holds it. ``rule`` and ``detail`` say why it waits or was refused."""

    recipe_hash: bytes
    state: TaskState
    recipe: bytes = field(repr=False)
    task_id: bytes | None = None
    rule: str = ""
    detail: str = ""
    token_key_spki: bytes = field(default=b"", repr=False)
    opt_in: bytes = field(default=b"", repr=False)


class CommonTx:
    """One transaction on the shared tables."""

    def __init__(self, connection: AsyncConnection, tables: CommonTables) -> None:
        self.connection = connection
        self.common = tables

    async def log_state(self) -> bytes | None:
        """What the log reader persisted last."""
        table = self.common.log_state
        return (await self.connection.execute(select(table.c.state))).scalar_one_or_none()

    async def put_log_state(self, state: bytes) -> None:
        """Replace the log reader's state."""
        table = self.common.log_state
        await self.connection.execute(delete(table))
        await self.connection.execute(insert(table).values(id=1, state=state))

    async def leaves(self) -> list[tuple[int, bytes]]:
        """Every verified leaf with its index, in the order of the log."""
        table = self.common.leaves
        rows = await self.connection.execute(select(table.c.position, table.c.leaf).order_by(table.c.position))
        return [(row.position, row.leaf) for row in rows]

    async def add_leaves(self, leaves: Iterable[tuple[int, bytes]]) -> int:
        """Keep verified leaves; those already kept are left alone. Returns how many are new."""
        table = self.common.leaves
        known = set((await self.connection.execute(select(table.c.position))).scalars())
        fresh = [{"position": index, "leaf": leaf} for index, leaf in leaves if index not in known]
        if fresh:
            await self.connection.execute(insert(table), fresh)
        return len(fresh)

    async def tasks(self) -> list[TaskRow]:
        """Every recipe that was seen."""
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
            )
        )
        return [TaskRow(row.recipe_hash, TaskState(row.state), *row[2:]) for row in rows]

    async def put_task(self, task: TaskRow) -> None:
        """Insert or replace one recipe's row."""
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
            )
        )

    async def forget(self, task_id: bytes) -> None:
        """Delete everything about a task but the row that says that it existed."""
        for table in self.common.tasks.metadata.sorted_tables:
            if table is not self.common.tasks and "task_id" in table.c:
                await self.connection.execute(delete(table).where(table.c.task_id == task_id))

    async def reserve(self, task_id: bytes, tokens: Sequence[tuple[bytes, bytes]]) -> set[bytes]:
        """Bind each (nullifier, report id) that is free; returns the report ids whose token is bound elsewhere."""
        table = self.common.nullifiers
        wanted = [nullifier for nullifier, _ in tokens]
        rows = await self.connection.execute(
            select(table.c.nullifier, table.c.report_id).where(table.c.nullifier.in_(wanted))
        )
        bound: dict[bytes, bytes] = {row.nullifier: row.report_id for row in rows}
        fresh: dict[bytes, bytes] = {}
        refused: set[bytes] = set()
        for nullifier, report_id in tokens:
            holder = bound.get(nullifier)
            if holder is None:
                bound[nullifier] = fresh[nullifier] = report_id
            elif holder != report_id:
                refused.add(report_id)
        if fresh:
            await self.connection.execute(
                insert(table),
                [
                    {
                        "nullifier": nullifier,
                        "task_id": task_id,
                        "report_id": report_id,
                        "state": NullifierState.RESERVED.value,
                    }
                    for nullifier, report_id in fresh.items()
                ],
            )
        return refused

    async def settle(self, nullifiers: Sequence[bytes], state: NullifierState, bucket: bytes | None) -> None:
        """Give bound nullifiers their final state, and the bucket in which an accepted one counts."""
        table = self.common.nullifiers
        if nullifiers:
            await self.connection.execute(
                update(table).where(table.c.nullifier.in_(nullifiers)).values(state=state.value, bucket=bucket)
            )

    async def accepted_count(self, task_id: bytes, bucket: bytes | None = None) -> int:
        """Distinct nullifiers of accepted reports, in one bucket or in the whole task."""
        table = self.common.nullifiers
        query = select(func.count()).where(table.c.task_id == task_id, table.c.state == NullifierState.ACCEPTED.value)
        if bucket is not None:
            query = query.where(table.c.bucket == bucket)
        return int((await self.connection.execute(query)).scalar_one())

    async def add_tallies(self, task: Task, tallies: Mapping[bytes, Tally]) -> None:
        """Merge tallies into their buckets."""
        table = self.common.buckets
        for bucket, tally in tallies.items():
            known = await self.tally(task, bucket)
            merged = merge(task, [tally] if known is None else [known, tally])
            where = (table.c.task_id == task.task_id) & (table.c.bucket == bucket)
            values = vars(merged)
            if known is None:
                await self.connection.execute(insert(table).values(task_id=task.task_id, bucket=bucket, **values))
            else:
                await self.connection.execute(update(table).where(where).values(**values))

    async def tally(self, task: Task, bucket: bytes | None = None) -> Tally | None:
        """The content of one bucket, or of all the task's buckets together; ``None`` if there is none."""
        table = self.common.buckets
        query = select(table.c.count, table.c.checksum, table.c.first_time, table.c.last_time, table.c.agg_share).where(
            table.c.task_id == task.task_id
        )
        if bucket is not None:
            query = query.where(table.c.bucket == bucket)
        rows = await self.connection.execute(query)
        return merge(task, [Tally(*row) for row in rows])

    async def scrub_buckets(self, task_id: bytes, bucket: bytes | None = None) -> None:
        """Forget aggregate shares that were released; counts and checksums stay."""
        table = self.common.buckets
        query = update(table).where(table.c.task_id == task_id).values(agg_share=b"")
        await self.connection.execute(query if bucket is None else query.where(table.c.bucket == bucket))

    async def is_released(self, task: Task, batch_id: bytes | None) -> bool:
        """Whether the batch is closed for good: in time-interval mode the task's only one, else ``batch_id``."""
        table = self.common.releases
        query = select(func.count()).where(table.c.task_id == task.task_id)
        if task.batch_mode is BatchMode.LEADER_SELECTED:
            query = query.where(table.c.selector == batch_id)
        return bool((await self.connection.execute(query)).scalar_one())

    async def release(self, task_id: bytes, selector: bytes) -> None:
        """Close a batch for good."""
        await self.connection.execute(insert(self.common.releases).values(task_id=task_id, selector=selector))

    async def release_count(self, task_id: bytes) -> int:
        """How many batches of the task are closed for good."""
        table = self.common.releases
        query = select(func.count()).where(table.c.task_id == task_id)
        return int((await self.connection.execute(query)).scalar_one())

    async def count_rejections(self, task_id: bytes, causes: Mapping[str, int]) -> None:
        """Add to the task's counters of rejected reports by cause."""
        table = self.common.rejections
        known = await self.rejections(task_id)
        for cause, count in causes.items():
            where = (table.c.task_id == task_id) & (table.c.cause == cause)
            if cause in known:
                await self.connection.execute(update(table).where(where).values(count=known[cause] + count))
            else:
                await self.connection.execute(insert(table).values(task_id=task_id, cause=cause, count=count))

    async def rejections(self, task_id: bytes) -> dict[str, int]:
        """Rejected reports by cause."""
        table = self.common.rejections
        rows = await self.connection.execute(
            select(table.c.cause, table.c.count).where(table.c.task_id == task_id).order_by(table.c.cause)
        )
        return {row[0]: row[1] for row in rows}

    async def settle_all(
        self,
        task: Task,
        accepted: Sequence[Accepted],
        rejected: Sequence[Rejection],
        batch_id: bytes | None,
    ) -> None:
        """Commit what became of reports whose tokens are reserved: buckets, nullifiers and counters together.

        A rejection that names a nullifier leaves it spent; one whose token belongs to another report names none.
        """
        groups: dict[bytes, list[bytes]] = {}
        for report in accepted:
            groups.setdefault(bucket_of(task, report.time, batch_id), []).append(report.nullifier)
        for bucket, nullifiers in groups.items():
            await self.settle(nullifiers, NullifierState.ACCEPTED, bucket)
        final = [rejection for rejection in rejected if rejection.final]
        spent = [rejection.nullifier for rejection in final if rejection.nullifier is not None]
        await self.settle(spent, NullifierState.REJECTED, None)
        await self.add_tallies(task, fold(task, accepted, batch_id))
        await self.count_rejections(task.task_id, Counter(rejection.cause for rejection in final))


Tx = TypeVar("Tx", bound=CommonTx)


class SqlStore(Generic[Tx]):
    """The database of one aggregator; ``open`` before use, ``close`` at the end."""

    def __init__(self, url: str, metadata: MetaData, migrations: str, make_tx: Callable[[AsyncConnection], Tx]) -> None:
        self._url = url
        self._metadata = metadata
        self._migrations = migrations
        self._make_tx = make_tx
        self._database: Database | None = None

    async def open(self) -> None:
        """Open and migrate; see ``Database.open``. What a crash left in the write-ahead log goes into the file."""
        self._database = await Database.open(self._url, self._metadata, self._migrations)
        await self._database.checkpoint()

    async def close(self) -> None:
        """Close the database."""
        database, self._database = self._database, None
        if database is not None:
            await database.close()

    async def checkpoint(self) -> None:
        """Make bytes that were overwritten in tables vanish from the files too; see ``Database.checkpoint``."""
        await self._opened().checkpoint()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tx]:
        """Commit everything in the block, or nothing."""
        async with self._opened().transaction() as connection:
            yield self._make_tx(connection)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Tx]:
        """One consistent view."""
        async with self._opened().read() as connection:
            yield self._make_tx(connection)

    def _opened(self) -> Database:
        if self._database is None:
            raise Fatal("the database is not open")
        return self._database
