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
from services.leader.records import UNDER_WAY, BatchState, CollectionRow, CollectionState, Waiting
from services.leader.store import LeaderStore, LeaderTx
from services.leader.waiters import Waiters
from tacit import media_types
from tacit.adapters.databases.signals import Wakeup
from tacit.adapters.waiting import first_of
from tacit.aggregator.parties import Parties
from tacit.aggregator.records import Batch
from tacit.aggregator.work import creation, resource_id
from tacit.answers import is_final
from tacit.dap_errors import DapAbort, DapProblem
from tacit.errors import Abort, CryptoError, DecodeError, Refusal
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
from tacit.retry_after import retry_after
from tacit.roles import batches
from tacit.roles.aggregator import Party
from tacit.roles.release_noise import noisy_share
from tacit.service.app import ServiceEnv, abort_of_refusal
from tacit.service.base.log import get_logger
from tacit.service.http.live_tokens import ShownToken
from tacit.task import BatchClose, Task, seal_aggregate_share

MAX_RETRY_AFTER = 60


class Collections:
    """Creates, shows, deletes and advances collection jobs. ``moved`` is notified when some have moved, and ``waiters``
    are the requests that wait for that."""

    def __init__(
        self,
        store: LeaderStore,
        parties: Parties,
        deps: ServiceEnv,
        limits: LeaderLimits,
        helper_token: ShownToken,
        moved: Wakeup,
    ) -> None:
        self._store = store
        self._parties = parties
        self._deps = deps
        self._limits = limits
        self._helper_token = helper_token
        self._lock = asyncio.Lock()
        self._moved = moved
        self.waiters = Waiters(store)
        self._log = get_logger("leader")

    async def create(self, party: Party, body: bytes, chosen: bytes | None = None) -> CollectionRow:
        """The job of this request body: the existing one, or a new one. If the Collector has ``chosen`` the job's id,
        that id must name it. Raises ``DapAbort``."""
        task = party.task
        try:
            request = CollectionJobReq.decode(body)
        except DecodeError as error:
            raise DapAbort(DapProblem.INVALID_MESSAGE, str(error)) from error
        # alone, not shared: of two requests for overlapping batches at once, the second finds the first one's job
        async with self._store.transaction() as tx:
            await tx.demand_open(party, self._deps.clock.now())
            same = await tx.same_requests(task.task_id, body)
            known = await self._find_repeated(tx, task, body, same, chosen)
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

    async def _find_repeated(
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
        with self.waiters.entered(job_id) as ended:
            row = await self.show(party, job_id)
            if seconds <= 0 or row.state not in UNDER_WAY:
                return row
            await first_of(ended.wait(), self._deps.clock.sleep(seconds))
        return await self.show(party, job_id)

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
            due = await self._due()
            moved = 0
            for party, row in due:
                try:
                    moved += await self._move(party, row)
                except Exception as error:  # one broken job must not hold up the others
                    self._log.error("collection_broken", error=error)
                    moved += await self._broken(row, error)
            if moved:
                # before any answer leaves: until now the old bytes of overwritten sums are in the write-ahead log
                await self._store.checkpoint()
                self._moved.notify()
            return moved

    async def _due(self) -> list[tuple[Party, CollectionRow]]:
        """The jobs that could move now. One read for all of them: a job that only waits costs no transaction."""
        async with self._store.read() as tx:
            rows = await tx.unfinished_collections(self._deps.clock.now())
            served = [(party, one) for one in rows if (party := self._parties.find(one.row.task_id)) is not None]
            return [(party, one.row) for party, one in served if await self._may_be_due(tx, party, one)]

    async def _may_be_due(self, tx: LeaderTx, party: Party, one: Waiting) -> bool:
        """Whether a job could move now, or is damaged, which its own transaction deals with."""
        try:
            return await self._may_move(tx, party, one)
        except (DecodeError, ValueError):
            return True

    async def _may_move(self, tx: LeaderTx, party: Party, one: Waiting) -> bool:
        """Whether a job asks the Helper, or its batch is full or as full as it will be. A queried batch has to hold B
        reports, or to get no more, and every acknowledged report must have been processed."""
        task, row = party.task, one.row
        if row.state is CollectionState.ASKING:
            return True
        if task.batch_mode is BatchMode.LEADER_SELECTED and (row.batch_id is not None or one.full):
            return True
        if not one.settled:
            return False
        if self._deps.vouched.is_past(task.end_seconds):
            return one.forwarded or not task.is_mixed or task.batch_close is BatchClose.ON_QUERY
        if task.batch_close is not BatchClose.ON_QUERY:
            return False
        return await tx.accepted_count(task.task_id, _batch(task, row)) >= task.min_batch_size

    async def _move(self, party: Party, row: CollectionRow) -> int:
        if row.state is CollectionState.ASKING:
            return await self._ask(party, row)
        closed = await self._close_batch(party, row.job_id)
        if closed is None:
            return 0
        return 1 + (await self._ask(party, closed) if closed.state is CollectionState.ASKING else 0)

    async def _close_batch(self, party: Party, job_id: bytes) -> CollectionRow | None:
        """Close the batch and store the request to the Helper, in one transaction; ``None`` while the job must wait."""
        async with self._store.transaction() as tx:
            # read again, under the lock: since the look, uploads have continued and others have taken batches
            one = await tx.waiting_collection(job_id)
            if one is None or one.row.state is CollectionState.ASKING or not await self._may_move(tx, party, one):
                return None
            row = one.row
            if party.task.batch_mode is BatchMode.LEADER_SELECTED and row.batch_id is None:
                row = replace(row, batch_id=await self._claim(tx, party))
            try:
                row = await self._check(tx, party, row)
            except Abort as abort:
                row = replace(row, state=CollectionState.FAILED, problem=_encode_abort(abort))
            await tx.put_collection(row)
            return row

    async def _check(self, tx: LeaderTx, party: Party, row: CollectionRow) -> CollectionRow:
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
            return await self._retry(row, answer) if abort is None else await self._fail(row, abort)
        if not answer.body:
            return await self._retry(row, answer)
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
        return await self._fail(row, abort_of_refusal(Refusal("hpke-key-invalid", detail)))

    async def _retry(self, row: CollectionRow, answer: HttpResponse | None = None) -> int:
        now = self._deps.clock.now()
        asked = 0.0 if answer is None else retry_after(answer.headers, now)
        due = now + self._limits.backoff.pause(row.attempts, self._deps.entropy, asked)
        async with self._store.transaction() as tx:
            await tx.postpone_collection(row.job_id, row.attempts + 1, due)
        return 0

    async def _fail(self, row: CollectionRow, abort: Abort) -> int:
        self._log.error("collection_failed", problem=abort.type)
        async with self._store.transaction() as tx:
            current = await tx.collection(row.job_id)
            if current is None or current.state is not CollectionState.ASKING:
                return 0
            await tx.put_collection(replace(current, state=CollectionState.FAILED, problem=_encode_abort(abort)))
        return 1

    async def _finish(self, party: Party, row: CollectionRow, helper_share: HpkeCiphertext) -> int:
        """Store the response, and overwrite the aggregate share at rest."""
        task = party.task
        async with self._store.transaction() as tx:
            # read again: while the Helper was asked, the Collector may have deleted the job, or a process that leads by
            # now have ended it
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
            own = seal_aggregate_share(party.task, Role.LEADER, row.request, share, self._deps.entropy)
            interval = Interval(tally.first_time, tally.last_time - tally.first_time + 1)
            response = CollectionJobResp(tally.count, interval, own, helper_share)
            await tx.scrub_buckets(task.task_id, batch)
            await tx.put_collection(
                replace(current, state=CollectionState.READY, response=response.encode(), share_request=b"")
            )
        return 1


def _batch(task: Task, row: CollectionRow) -> Batch:
    """What a collection job collects: the interval of its query where queries name one, else the leader-selected batch
    that it has claimed; None if it has claimed none. Raises ``DecodeError`` for a damaged row."""
    return batches.batch_of(task, CollectionJobReq.decode(row.request).query, row.batch_id)


def _encode_abort(abort: Abort) -> str:
    """The JSON text that ``abort_of`` reads."""
    return json.dumps({"type": abort.type, "title": abort.title, "status": abort.status, "detail": abort.detail})


def _final_refusal(answer: HttpResponse) -> Abort | None:
    """The Helper's problem document, as an error for the Collector, if asking again would change nothing."""
    if not is_final(answer.status, answer.body):
        return None
    problem = read_problem(answer.body)
    return Abort(problem.type, f"helper: {problem.detail}", status=400, title=problem.title)


def abort_of(row: CollectionRow) -> Abort:
    """The problem that a failed job ended with."""
    problem = json.loads(row.problem)
    return Abort(problem["type"], problem["detail"], status=problem["status"], title=problem["title"])
