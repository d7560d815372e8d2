"""Collection jobs: created by the Collector, advanced by a driver, answered when both shares are there (P13, P15).

A job waits for its batch. One transaction then closes the batch for good and stores the exact request for the Helper's
share. The job ends when the answer and the Leader's own sealed share are stored. An identical request body names the
same job until that job is deleted, so the Collector of a leader-selected task deletes a job to get the next batch.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from services.leader.config import LeaderLimits
from services.leader.records import BatchState, CollectionRow, CollectionState
from services.leader.store import LeaderStore, LeaderTx
from tacit import media_types
from tacit.adapters.databases.signals import Bell
from tacit.adapters.waiting import first_of
from tacit.aggregator.parties import Parties
from tacit.aggregator.records import Batch
from tacit.aggregator.work import creation, resource_id
from tacit.errors import (
    Abort,
    CryptoError,
    DapAbort,
    DapProblem,
    DecodeError,
    Refusal,
)
from tacit.messages import (
    AggregateShare,
    AggregateShareReq,
    BatchMode,
    BatchSelector,
    CollectionJobReq,
    CollectionJobResp,
    HpkeCiphertext,
    Interval,
    Role,
)
from tacit.ports import HttpResponse, TransportError
from tacit.problem import read_problem
from tacit.roles import batches
from tacit.roles.aggregator import Party, Tally
from tacit.roles.release_noise import noisy_share
from tacit.service.app import Deps, refused
from tacit.service.base.log import get_logger
from tacit.service.http.live_tokens import ShownToken
from tacit.task import BatchClose, Task, seal_aggregate_share

MAX_RETRY_AFTER = 60
LOOK_SECONDS = 0.5
"""Seconds between two checks of a job while a Collector waits, in case a signal from another process is lost."""
_FINAL_STATUS = frozenset({400, 403, 404, 409, 422})
_UNDER_WAY = frozenset({CollectionState.WAITING, CollectionState.ASKING})


class Collections:
    """Creates, shows, deletes and advances collection jobs."""

    def __init__(
        self,
        store: LeaderStore,
        parties: Parties,
        deps: Deps,
        limits: LeaderLimits,
        helper_token: ShownToken,
    ) -> None:
        self._store = store
        self._parties = parties
        self._deps = deps
        self._limits = limits
        self._helper_token = helper_token
        self._lock = asyncio.Lock()
        self._moved = asyncio.Event()
        self._moving = Bell(store.signals, "moved")
        self._moving.answer = self._tell
        self._log = get_logger("leader")

    async def create(self, party: Party, body: bytes, chosen: bytes | None = None) -> CollectionRow:
        """The job of this request body: the existing one, or a new one. If the Collector has ``chosen`` the job's id,
        that id must name it. Raises ``DapAbort``."""
        task = party.task
        try:
            request = CollectionJobReq.decode(body)
        except DecodeError as error:
            raise DapAbort(DapProblem.INVALID_MESSAGE, str(error)) from error
        async with self._store.transaction() as tx:
            await tx.demand_open(party, self._deps.clock.now())
            same = await tx.same_requests(task.task_id, body)
            known = await self._known(tx, task, body, same, chosen)
            if known is not None:
                return await self._again(tx, known)
            batches.check_collection(task, request)
            batch_id = None
            if task.batch_mode is BatchMode.LEADER_SELECTED:
                batch_id = await self._claim(tx, party)
            elif await self._is_taken(tx, task, request):
                raise DapAbort(DapProblem.BATCH_OVERLAP, "the batch was collected before")
            job_id = chosen or resource_id(b"collection", task.task_id, body, len(same))
            row = CollectionRow(job_id, task.task_id, CollectionState.WAITING, body, batch_id)
            await tx.add_collection(row)
            return row

    async def _known(
        self, tx: LeaderTx, task: Task, body: bytes, same: list[CollectionRow], chosen: bytes | None
    ) -> CollectionRow | None:
        """The existing job that a repeated request names, or None. Raises ``DapAbort`` if the chosen id belongs to
        another job."""
        if chosen is None:
            return next((row for row in same if row.state is not CollectionState.DELETED), None)
        row = await tx.collection(chosen)
        if row is None:
            return None
        if (row.task_id, row.request) != (task.task_id, body) or row.state is CollectionState.DELETED:
            raise DapAbort(DapProblem.INVALID_MESSAGE, "the id is that of another collection job")
        return row

    async def _is_taken(self, tx: LeaderTx, task: Task, request: CollectionJobReq) -> bool:
        """Whether the batch that a request asks for was released, or another job is asking for it."""
        batch = batches.batch_of(task, request.query, None)
        live = await tx.live_collections(task.task_id)
        if isinstance(batch, Interval):
            live = [row for row in live if CollectionJobReq.decode(row.request).query.interval.overlaps(batch)]
        return bool(live) or await tx.is_released(task, batch)

    async def _again(self, tx: LeaderTx, row: CollectionRow) -> CollectionRow:
        """Reset a job whose batch was too small, since it was asked for again."""
        if row.state is not CollectionState.FAILED or row.share_request:
            return row
        row = replace(row, state=CollectionState.WAITING, problem="", attempts=0, next_attempt=0.0)
        await tx.put_collection(row)
        return row

    async def _claim(self, tx: LeaderTx, party: Party) -> bytes | None:
        """A full batch that no collection job has, if there is one."""
        batch_id = await tx.full_batch(party.task.task_id)
        if batch_id is not None:
            await tx.set_batch(batch_id, BatchState.CLAIMED)
        return batch_id

    async def show(self, party: Party, job_id: bytes) -> CollectionRow:
        """The current state of a job. Raises ``DapAbort``; for a failed job, with the reason of its failure."""
        async with self._store.read() as tx:
            row = await tx.collection(job_id)
        if row is None or row.task_id != party.task.task_id or row.state is CollectionState.DELETED:
            raise Abort("about:blank", "the collection job is not known", status=404, title="Not Found")
        if row.state is CollectionState.FAILED:
            raise abort_of(row)
        return row

    async def wait(self, party: Party, job_id: bytes, seconds: float) -> CollectionRow:
        """``show``, once the job has ended or ``seconds`` have passed. Another process may be the one that ends the
        job."""
        until = self._deps.clock.now() + seconds
        while True:
            moved = self._moved
            row = await self.show(party, job_id)
            left = until - self._deps.clock.now()
            if row.state not in _UNDER_WAY or left <= 0:
                return row
            await first_of(moved.wait(), self._deps.clock.sleep(min(left, LOOK_SECONDS)))

    def _tell(self) -> None:
        """Wake every request of this process that waits for a job."""
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def delete(self, party: Party, job_id: bytes) -> None:
        """Delete a job. A batch that the job closed stays closed for good; a batch that it waited for is free again."""
        async with self._store.transaction() as tx:
            row = await tx.collection(job_id)
            if row is None or row.task_id != party.task.task_id or row.state is CollectionState.DELETED:
                return
            failed_early = row.state is CollectionState.FAILED and not row.share_request
            if row.batch_id is not None and (row.state is CollectionState.WAITING or failed_early):
                await tx.set_batch(row.batch_id, BatchState.FULL)
            await tx.put_collection(replace(row, state=CollectionState.DELETED, response=b""))

    def retry_after(self, party: Party) -> int:
        """Seconds after which the Collector should ask again."""
        left = party.task.end_seconds - self._deps.clock.now()
        if party.task.batch_close is not BatchClose.INTERVAL_END:
            left = 0
        return max(1, min(MAX_RETRY_AFTER, int(left) + 1))

    async def step(self) -> int:
        """Advance every due job, in the process that leads; returns how many changed their state."""
        if not await self._store.leads():
            return 0
        async with self._lock:
            async with self._store.read() as tx:
                rows = await tx.unfinished_collections(self._deps.clock.now())
            moved = 0
            for row in rows:
                party = self._parties.find(row.task_id)
                if party is None:
                    continue
                try:
                    moved += await self._move(party, row)
                except Exception as error:  # one broken job must not hold up the others
                    self._log.error("collection_broken", error=error)
                    moved += await self._broken(row, error)
            if moved:
                self._moving.ring()
                await self._store.checkpoint()
            return moved

    async def _move(self, party: Party, row: CollectionRow) -> int:
        if row.state is CollectionState.ASKING:
            return await self._ask(party, row)
        closed = await self._close_batch(party, row.job_id)
        if closed is None:
            return 0
        return 1 + (await self._ask(party, closed) if closed.state is CollectionState.ASKING else 0)

    async def _close_batch(self, party: Party, job_id: bytes) -> CollectionRow | None:
        """Close the batch and store the request to the Helper, in one transaction; ``None`` while the job must wait."""
        task = party.task
        async with self._store.transaction() as tx:
            row = await tx.collection(job_id)
            if row is None or row.state is not CollectionState.WAITING:
                return None
            if task.batch_mode is BatchMode.LEADER_SELECTED:
                if row.batch_id is None:
                    row = replace(row, batch_id=await self._claim(tx, party))
                waiting = row.batch_id is None and not await self._is_over(tx, party)
            elif task.batch_close is BatchClose.ON_QUERY:
                waiting = not await self._is_enough(tx, party, row)
            else:
                waiting = not await self._is_over(tx, party)
            if waiting:
                return None
            try:
                row = await self._checked(tx, party, row)
            except Abort as abort:
                row = replace(row, state=CollectionState.FAILED, problem=_stored(abort))
            await tx.put_collection(row)
            return row

    async def _is_over(self, tx: LeaderTx, party: Party) -> bool:
        """Whether the interval has ended, the task's shuffler, if it has one, has forwarded everything, and every
        report that was acknowledged so far has been processed."""
        if self._deps.clock.now() < party.task.end_seconds:
            return False
        if party.task.is_mixed and not await tx.is_forwarded(party.task.task_id):
            return False
        return await self._is_settled(tx, party)

    async def _is_enough(self, tx: LeaderTx, party: Party, row: CollectionRow) -> bool:
        """Whether the queried batch holds B reports, or can get no more, and every acknowledged report has been
        processed."""
        if not await self._is_settled(tx, party):
            return False
        count = await tx.accepted_count(party.task.task_id, _batch(party.task, row))
        return count >= party.task.min_batch_size or self._deps.clock.now() >= party.task.end_seconds

    async def _is_settled(self, tx: LeaderTx, party: Party) -> bool:
        if await tx.has_pending(party.task.task_id):
            return False
        return not await tx.unfinished_jobs(party.task.task_id)

    async def _checked(self, tx: LeaderTx, party: Party, row: CollectionRow) -> CollectionRow:
        """Check that the batch may be released, and close it; returns the job's new row. Raises ``Abort``."""
        task = party.task
        time_interval = task.batch_mode is BatchMode.TIME_INTERVAL
        await tx.demand_open(party, self._deps.clock.now())
        batch = _batch(task, row)
        if await tx.is_released(task, batch):
            raise DapAbort(DapProblem.BATCH_OVERLAP, "the batch is closed for good")
        count = 0
        if time_interval or row.batch_id is not None:
            count = await tx.accepted_count(task.task_id, batch)
        batches.check_size(task, count)
        batches.check_rate(task, await tx.counted(task.task_id))
        tally = await tx.tally(task, batch)
        if tally is None or tally.count != count:
            raise DapAbort(DapProblem.BATCH_MISMATCH, "nullifiers and reports do not add up")
        if time_interval:
            selector = BatchSelector.time_interval(batch if isinstance(batch, Interval) else task.interval)
        else:
            selector = BatchSelector.leader_selected(row.batch_id or b"")
        request = AggregateShareReq(CollectionJobReq.decode(row.request), selector, tally.count, tally.checksum)
        # closed before the Helper is asked: a report accepted later would be in only one of the two aggregate shares
        await tx.release(task.task_id, selector.config)
        return replace(row, state=CollectionState.ASKING, share_request=request.encode())

    async def _ask(self, party: Party, row: CollectionRow) -> int:
        method, url = creation(party.task.version, party.task.url(Role.HELPER, "aggregate_shares"), row.job_id)
        headers = {"Content-Type": media_types.dap("aggregate-share-req"), **self._helper_token.headers()}
        try:
            answer = await self._deps.transport.request(method, url, headers=headers, body=row.share_request)
        except TransportError:
            return await self._retry(row)
        if not 200 <= answer.status < 300:
            abort = _final_refusal(answer)
            return await self._retry(row) if abort is None else await self._fail(row, abort)
        if not answer.body:
            return await self._retry(row)
        try:
            share = AggregateShare.decode(answer.body).encrypted_aggregate_share
        except DecodeError:
            return await self._retry(row)
        return await self._finish(party, row, share)

    async def _broken(self, row: CollectionRow, error: Exception) -> int:
        """An invalid collector key is permanent and ends the job; every other error may pass, and is retried."""
        if not isinstance(error, CryptoError):
            return await self._retry(row)
        detail = "the aggregate share cannot be sealed to the collector's key"
        return await self._fail(row, refused(Refusal("hpke-key-invalid", detail)))

    async def _retry(self, row: CollectionRow) -> int:
        due = self._deps.clock.now() + self._limits.backoff.pause(row.attempts, self._deps.entropy)
        async with self._store.transaction() as tx:
            await tx.postpone_collection(row.job_id, row.attempts + 1, due)
        return 0

    async def _fail(self, row: CollectionRow, abort: Abort) -> int:
        self._log.error("collection_failed", problem=abort.type)
        async with self._store.transaction() as tx:
            current = await tx.collection(row.job_id)
            if current is None or current.state is not CollectionState.ASKING:
                return 0
            await tx.put_collection(replace(current, state=CollectionState.FAILED, problem=_stored(abort)))
        return 1

    async def _finish(self, party: Party, row: CollectionRow, helper_share: HpkeCiphertext) -> int:
        """Store the response, and overwrite the aggregate share at rest."""
        task = party.task
        async with self._store.transaction() as tx:
            current = await tx.collection(row.job_id)
            if current is None or current.state is not CollectionState.ASKING:
                return 0
            await tx.demand_open(party, self._deps.clock.now())
            batch = _batch(task, row)
            tally = await tx.tally(task, batch)
            if tally is None:
                return 0
            # drawn in the transaction that stores the sealed share and scrubs the sums: if a second draw were ever
            # shown beside the first, their mean would hold less noise than claimed
            share = noisy_share(task, tally.agg_share, self._deps.entropy)
            if task.publishes_share:
                await tx.keep_census_share(task.task_id, tally.count, share)
            response = self._response(party, row, tally, share, helper_share)
            await tx.scrub_buckets(task.task_id, batch)
            await tx.put_collection(
                replace(current, state=CollectionState.READY, response=response.encode(), share_request=b"")
            )
        return 1

    def _response(
        self, party: Party, row: CollectionRow, tally: Tally, share: bytes, helper_share: HpkeCiphertext
    ) -> CollectionJobResp:
        own = seal_aggregate_share(party.task, Role.LEADER, row.request, share, self._deps.entropy)
        interval = Interval(tally.first_time, tally.last_time - tally.first_time + 1)
        return CollectionJobResp(tally.count, interval, own, helper_share)


def _batch(task: Task, row: CollectionRow) -> Batch:
    """The batch that a collection job is about."""
    return batches.batch_of(task, CollectionJobReq.decode(row.request).query, row.batch_id)


def _stored(abort: Abort) -> str:
    """The JSON text that ``abort_of`` reads."""
    return json.dumps({"type": abort.type, "title": abort.title, "status": abort.status, "detail": abort.detail})


def _final_refusal(answer: HttpResponse) -> Abort | None:
    """The Helper's problem document, as an error for the Collector, if asking again would change nothing."""
    problem = read_problem(answer.body)
    if answer.status not in _FINAL_STATUS or not problem.is_final:
        return None
    return Abort(problem.type, f"helper: {problem.detail}", status=400, title=problem.title)


def abort_of(row: CollectionRow) -> Abort:
    """The problem that a failed job ended with."""
    problem = json.loads(row.problem)
    return Abort(problem["type"], problem["detail"], status=problem["status"], title=problem["title"])
