"""The Leader's transactions: uploads and aggregation jobs (in modules of their own), leader-selected batches, and
collection jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import bindparam, exists, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from services.leader.jobs import JobsTx, is_unfinished
from services.leader.records import (
    BATCH_STATES,
    COLLECTION_STATES,
    UNDER_WAY,
    BatchState,
    CollectionRow,
    CollectionState,
    JobRow,
    StoredReport,
    Waiting,
)
from services.leader.reports import ReportsTx
from services.leader.schema import BATCHES, COLLECTIONS, COMMON, FORWARDED, JOBS, LOOKS, METADATA, MIGRATIONS, PENDING
from tacit.adapters.databases.dialect import Dialect, Rows
from tacit.adapters.databases.watermark import Watermark
from tacit.aggregator.outcomes import LooksTx
from tacit.aggregator.records import OutcomeRow
from tacit.aggregator.store import SqlStore
from tacit.dap_errors import ReportError
from tacit.errors import Fatal

_STORE_NEW = "store_reports"


class LeaderTx(ReportsTx, JobsTx, LooksTx):
    """One transaction of the Leader, on everything that its database holds."""

    LOOKS = LOOKS

    def __init__(self, connection: AsyncConnection, dialect: Dialect) -> None:
        super().__init__(connection, dialect, COMMON)

    async def reject_unread(self, job: JobRow) -> None:
        """Reject the reports of a formed job, of which nothing is known but that it cannot be sent, as ``internal``.
        Their tokens are not known to be good, so they are not spent. Each keeps a row all the same, unlike a report
        whose token was found bad (P31): if it is uploaded again, it is not stored and tried again. A report whose id
        has an outcome already was counted with that one."""
        heads = await self.heads(job.seqs)
        code = int(ReportError.REPORT_DROPPED)
        rows = {one.report_id: OutcomeRow(one.report_id, None, code, "internal", digest=one.digest) for one in heads}
        refused = await self.record(job.task_id, list(rows.values()))
        missing = len(job.seqs) - len(heads)
        if rejected := missing + len(rows) - len(refused):
            await self.count_rejections(job.task_id, {"internal": rejected})
        await self.delete_reports(job.seqs)

    async def open_batch(self, task_id: bytes) -> bytes | None:
        """Id of the leader-selected batch that new jobs still go into, or None: then the next job begins one."""
        rows = await self.dialect.run(self.connection, _OPEN_BATCH, task=task_id)
        return rows[0][0] if rows else None

    async def add_batch(self, task_id: bytes, batch_id: bytes) -> None:
        """Begin a leader-selected batch, which is open. Raises ``IntegrityError`` for an id that was used before."""
        await self.connection.execute(
            insert(BATCHES).values(task_id=task_id, batch_id=batch_id, state=BatchState.OPEN.value)
        )

    async def set_batch(self, batch_id: bytes, state: BatchState) -> None:
        """Move a leader-selected batch to ``state``. Raises ``Fatal`` for a move that ``BATCH_STATES`` does not
        allow."""
        movable = BATCHES.c.state.in_(BATCH_STATES.names_before(state))
        moved = update(BATCHES).where(BATCHES.c.batch_id == batch_id, movable).values(state=state.value)
        if (await self.connection.execute(moved)).rowcount != 1:
            raise Fatal(f"no batch of this id can become {state}")

    async def full_batch(self, task_id: bytes) -> bytes | None:
        """The oldest full batch that no collection job has, or None."""
        query = (
            select(BATCHES.c.batch_id)
            .where(BATCHES.c.task_id == task_id, BATCHES.c.state == BatchState.FULL.value)
            .order_by(BATCHES.c.seq)
            .limit(1)
        )
        return (await self.connection.execute(query)).scalar_one_or_none()

    async def batch_counts(self, task_id: bytes) -> dict[str, int]:
        """Number of the task's leader-selected batches by state, without the states that no batch is in."""
        rows = await self.connection.execute(
            select(BATCHES.c.state, func.count()).where(BATCHES.c.task_id == task_id).group_by(BATCHES.c.state)
        )
        return {row[0]: row[1] for row in rows}

    async def lock_batch(self, batch_id: bytes) -> None:
        """Lock the batch: until this transaction ends nobody else adds to it, and from now on it sees what others
        added."""
        await self.dialect.run(self.connection, _LOCKED_BATCH, batch=batch_id)

    async def collection(self, job_id: bytes) -> CollectionRow | None:
        """The collection job in whatever state, deleted ones included, and of whatever task; None for an unknown id."""
        rows = await self._collections(COLLECTIONS.c.job_id == job_id)
        return rows[0] if rows else None

    async def unfinished_collections(self, due: float) -> list[Waiting]:
        """Collection jobs that have something to do by ``due``, each with what it may wait for: one statement, however
        many there are."""
        return [_waiting(row) for row in await self.dialect.run(self.connection, _DUE, due=due)]

    async def waiting_collection(self, job_id: bytes) -> Waiting | None:
        """One collection job with what it may wait for; None if it is unknown, has ended or was deleted."""
        rows = await self.dialect.run(self.connection, _ONE, job=job_id)
        return _waiting(rows[0]) if rows else None

    async def ended_collections(self, job_ids: Sequence[bytes]) -> set[bytes]:
        """Those of ``job_ids`` that are under way no more."""
        states = Rows((COLLECTIONS.c.job_id, COLLECTIONS.c.state), COLLECTIONS.c.job_id)
        rows = await self.dialect.select_among(self.connection, job_ids, states)
        return {*job_ids} - {job_id for job_id, state in rows if CollectionState(state) in UNDER_WAY}

    async def retry_collection(self, job_id: bytes) -> None:
        """Make a collection job that is under way due at once."""
        mine = update(COLLECTIONS).where(COLLECTIONS.c.job_id == job_id, _UNDER_WAY)
        await self.connection.execute(mine.values(next_attempt=0.0))

    async def _collections(self, where: Any) -> list[CollectionRow]:
        return [_collection(row) for row in await self.connection.execute(select(*_COLUMNS).where(where))]

    async def add_collection(self, row: CollectionRow) -> None:
        """Store a new collection job. Raises ``Fatal`` if it begins in a state that it cannot begin in, and
        ``IntegrityError`` for an id that was used before."""
        COLLECTION_STATES.check(None, row.state)
        await self.connection.execute(insert(COLLECTIONS).values(**_columns(row)))

    async def put_collection(self, row: CollectionRow) -> None:
        """Replace a collection job's row by one in another state. Raises ``Fatal`` for a move that
        ``COLLECTION_STATES`` does not allow."""
        movable = COLLECTIONS.c.state.in_(COLLECTION_STATES.names_before(row.state))
        moved = update(COLLECTIONS).where(COLLECTIONS.c.job_id == row.job_id, movable).values(**_columns(row))
        if (await self.connection.execute(moved)).rowcount != 1:
            raise Fatal(f"no collection job of this id can become {row.state}")

    async def postpone_collection(self, job_id: bytes, attempts: int, next_attempt: float) -> None:
        """Record a failed attempt, whatever state the job has reached meanwhile."""
        await self.connection.execute(
            update(COLLECTIONS)
            .where(COLLECTIONS.c.job_id == job_id)
            .values(attempts=attempts, next_attempt=next_attempt)
        )

    async def same_requests(self, task_id: bytes, request: bytes) -> list[CollectionRow]:
        """Every collection job of the task that was created with exactly these request bytes."""
        return await self._collections((COLLECTIONS.c.task_id == task_id) & (COLLECTIONS.c.request == request))

    async def live_collections(self, task_id: bytes) -> list[CollectionRow]:
        """The collection jobs of the task that are under way."""
        return await self._collections((COLLECTIONS.c.task_id == task_id) & _UNDER_WAY)

    async def live_collection(self, task_id: bytes) -> bool:
        """Whether a collection job of the task is under way."""
        return bool(await self.live_collections(task_id))


_COLUMNS = (
    COLLECTIONS.c.job_id,
    COLLECTIONS.c.task_id,
    COLLECTIONS.c.state,
    COLLECTIONS.c.request,
    COLLECTIONS.c.batch_id,
    COLLECTIONS.c.share_request,
    COLLECTIONS.c.response,
    COLLECTIONS.c.problem,
    COLLECTIONS.c.attempts,
    COLLECTIONS.c.next_attempt,
)
_UNDER_WAY = (COLLECTIONS.c.state == CollectionState.WAITING.value) | (
    COLLECTIONS.c.state == CollectionState.ASKING.value
)
_FULL = exists().where(BATCHES.c.task_id == COLLECTIONS.c.task_id, BATCHES.c.state == BatchState.FULL.value)
_PENDING = exists().where(PENDING.c.task_id == COLLECTIONS.c.task_id)
_IN_JOBS = exists().where(JOBS.c.task_id == COLLECTIONS.c.task_id, is_unfinished())
_FORWARDED = exists().where(FORWARDED.c.task_id == COLLECTIONS.c.task_id)
_LOOK = select(*_COLUMNS, _FULL, ~(_PENDING | _IN_JOBS), _FORWARDED).where(_UNDER_WAY)
_DUE = _LOOK.where(COLLECTIONS.c.next_attempt <= bindparam("due"))
_ONE = _LOOK.where(COLLECTIONS.c.job_id == bindparam("job"))
_OPEN_BATCH = select(BATCHES.c.batch_id).where(
    BATCHES.c.task_id == bindparam("task"), BATCHES.c.state == BatchState.OPEN.value
)
_LOCKED_BATCH = select(BATCHES.c.seq).where(BATCHES.c.batch_id == bindparam("batch")).with_for_update()


def _collection(row: Any) -> CollectionRow:
    job_id, task_id, state, *others = row
    return CollectionRow(job_id, task_id, CollectionState(state), *others)


def _waiting(row: Any) -> Waiting:
    """The collection job of a row of ``_LOOK``, with what it may wait for."""
    *columns, full, settled, forwarded = row
    return Waiting(_collection(columns), bool(full), bool(settled), bool(forwarded))


def _columns(row: CollectionRow) -> dict[str, Any]:
    return {**vars(row), "state": row.state.value}


class LeaderStore(SqlStore[LeaderTx]):
    """The Leader's database, which all processes of one Leader share."""

    def __init__(self, url: str, mark: Watermark | None = None) -> None:
        super().__init__(url, METADATA, MIGRATIONS, LeaderTx, mark)

    async def add_new_reports(self, uploads: Sequence[StoredReport], closable: Collection[bytes], now: float) -> bool:
        """Store reports in one statement, if nobody has seen any of them, no two have the same id, the rows of their
        tasks say that they are active, and no batch of a task in ``closable`` was released. Returns False, and does
        nothing, if a condition does not hold or the database cannot do it. Raises ``IntegrityError`` if a partition is
        missing."""
        if len({upload.report_id for upload in uploads}) < len(uploads):
            return False
        columns = zip(*((one.task_id, one.report_id, one.digest, one.body) for one in uploads), strict=True)
        task_ids, *others = (list(column) for column in columns)
        stored = await self._database.call(_STORE_NEW, now, sorted(closable), task_ids, *others)
        return stored is not None and bool(stored[0][0])

    async def open(self) -> None:
        """As ``SqlStore.open``; afterwards there is room for uploads."""
        await super().open()
        async with self.transaction() as tx:
            await tx.numbered.make_room()
