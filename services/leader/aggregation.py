"""The Leader's aggregation driver: forms jobs, sends them until they are answered, commits the answers.

Three transactions per job, and nothing between them that a crash could lose or repeat: (1) reserve the tokens and
store the exact request; (2, only on failure) note the attempt; (3) commit the answer. Verification states are not
stored: they are computed again from the stored reports when the process died in between (P14).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from services.leader.config import LeaderLimits
from services.leader.records import BatchState, JobRow, JobState, StoredReport
from services.leader.store import LeaderStore, LeaderTx
from tacit import media_types
from tacit.aggregator.parties import Parties
from tacit.aggregator.work import in_chunks, resource_id, resource_url, shuffled
from tacit.errors import DecodeError, Fatal, ReportError, TacitError, UsageError
from tacit.messages import AggregationJobResp, BatchMode, Report
from tacit.ports import HttpResponse, TransportError
from tacit.roles import leader as role
from tacit.roles.aggregator import Accepted, Party, Rejection
from tacit.roles.leader import JobAbandonedError, Prepared
from tacit.service.app import Deps
from tacit.service.log import get_logger

POOL = 1 << 13
"""Pending reports that one shuffle draws a job from."""

MAX_BACKOFF = 60.0


class AggregationDriver:
    """Moves every active task's pending reports through aggregation jobs."""

    def __init__(
        self, store: LeaderStore, parties: Parties, deps: Deps, limits: LeaderLimits, helper_token: str
    ) -> None:
        self._store = store
        self._parties = parties
        self._deps = deps
        self._limits = limits
        self._headers = {
            "Content-Type": media_types.dap("aggregation-job-init-req"),
            "Authorization": f"Bearer {helper_token}",
        }
        self._prepared: dict[bytes, list[Prepared]] = {}
        self._pending_since: dict[bytes, float] = {}
        self._lock = asyncio.Lock()
        self._log = get_logger("leader")

    async def step(self) -> int:
        """Send what is due, form at most one job per task and send it. Returns how many reports moved on."""
        async with self._lock:
            moved = await self._send_due()
            for party in self._parties.active():
                moved += await self._form_job(party)
            moved += await self._send_due()
            if moved:
                await self._store.checkpoint()
            return moved

    async def _send_due(self) -> int:
        async with self._store.read() as tx:
            jobs = await tx.sent_jobs(due=self._deps.clock.now())
        moved = 0
        for job in jobs:
            party = self._parties.find(job.task_id)
            if party is None:
                continue
            try:
                moved += await self._send(party, job)
            except (Fatal, UsageError) as error:  # one broken job must not hold up the others
                self._log.error("job_broken", error=error)
                await self._postpone(job, job.location)
        return moved

    async def _form_job(self, party: Party) -> int:
        task = party.task
        async with self._store.read() as tx:
            pool = await tx.pending_ids(task.task_id, POOL)
            room = await self._room(tx, party)
            in_flight = await tx.sent_job_count(task.task_id)
        if in_flight >= self._limits.max_jobs or not self._is_ready(party, len(pool), room):
            return 0
        chosen = shuffled(pool, self._deps.entropy)[: min(self._limits.job_size, room)]
        async with self._store.read() as tx:
            stored = await tx.reports(chosen)
        now = self._deps.clock.now()
        outcomes = await in_chunks(lambda report: self._prepare(party, report, now), stored)
        return await self._store_job(party, stored, outcomes)

    async def _room(self, tx: LeaderTx, party: Party) -> int:
        """How many reports the next job may hold: a leader-selected batch closes at B exactly (P13)."""
        if party.task.batch_mode is BatchMode.TIME_INTERVAL:
            return self._limits.job_size
        batch_id = await tx.open_batch(party.task.task_id)
        if batch_id is None:
            return party.task.min_batch_size
        accepted = await tx.accepted_count(party.task.task_id, batch_id)
        return party.task.min_batch_size - accepted - await tx.in_flight(batch_id)

    def _is_ready(self, party: Party, pending: int, room: int) -> bool:
        """A job is formed from enough reports to hide in, or when waiting for more would serve nothing."""
        task_id = party.task.task_id
        if not pending:
            self._pending_since.pop(task_id, None)
            return False
        if room <= 0:
            return False
        now = self._deps.clock.now()
        since = self._pending_since.setdefault(task_id, now)
        filled = pending >= min(self._limits.min_job_size, room)
        waited = now - since >= self._limits.max_job_delay or now >= party.task.end_seconds
        if filled or waited:
            self._pending_since.pop(task_id, None)
        return filled or waited

    def _prepare(self, party: Party, stored: StoredReport, now: float) -> Prepared | Rejection:
        """The role's verdict; an error of our own costs this one report, never the task."""
        try:
            return role.prepare_report(party, Report.decode(stored.body), now)
        except (TacitError, ValueError, ArithmeticError, LookupError) as error:
            self._log.error("report_failed", error=error)
            return Rejection(stored.report_id, ReportError.REPORT_DROPPED, "internal")

    async def _store_job(
        self, party: Party, stored: Sequence[StoredReport], outcomes: Sequence[Prepared | Rejection]
    ) -> int:
        """Transaction 1: tokens reserved, rejections kept, request stored."""
        task = party.task
        seqs = {report.report_id: report.seq for report in stored}
        async with self._store.transaction() as tx:
            batch_id = await self._batch(tx, party)
            refused = await tx.reserve(
                task.task_id, [(o.nullifier, o.report_id) for o in outcomes if o.nullifier is not None]
            )
            closed = await tx.is_released(task, batch_id)
            verdicts = [_verdict(outcome, refused, closed=closed) for outcome in outcomes]
            prepared = [verdict for verdict in verdicts if isinstance(verdict, Prepared)]
            rejected = [verdict for verdict in verdicts if isinstance(verdict, Rejection)]
            await self._reject(tx, party, rejected)
            await tx.settle_all(task, [], rejected, batch_id)
            if prepared:
                request = role.init_request(task, prepared, batch_id).encode()
                job_id = resource_id(b"leader job", task.task_id, request)
                job = JobRow(job_id, task.task_id, batch_id, 0, 0.0, "", request)
                await tx.put_in_job(job, [seqs[report.report_id] for report in prepared])
        if prepared:
            self._prepared[job_id] = prepared
        self._observe(prepared)
        return len(prepared) + sum(rejection.final for rejection in rejected)

    async def _batch(self, tx: LeaderTx, party: Party) -> bytes | None:
        if party.task.batch_mode is BatchMode.TIME_INTERVAL:
            return None
        batch_id = await tx.open_batch(party.task.task_id)
        if batch_id is None:
            batch_id = self._deps.entropy(32)
            await tx.add_batch(party.task.task_id, batch_id)
        return batch_id

    async def _reject(self, tx: LeaderTx, party: Party, rejected: Sequence[Rejection]) -> None:
        for rejection in rejected:
            if rejection.final:
                await tx.reject_report(party.task.task_id, rejection.report_id, rejection.code, rejection.cause)
            else:
                await tx.return_report(party.task.task_id, rejection.report_id)

    async def _send(self, party: Party, job: JobRow) -> int:
        try:
            answer = await self._exchange(party, job)
        except TransportError:
            return await self._retry(party, job, "")
        if not 200 <= answer.status < 300:
            self._log.warning("job_refused", status=answer.status, attempts=job.attempts + 1)
            return await self._retry(party, job, "")
        if not answer.body:
            return await self._retry(party, job, _location(party, answer))
        try:
            response = AggregationJobResp.decode(answer.body)
        except DecodeError as error:  # whoever garbled it: the Helper has its answer stored, and gives it again (P14)
            self._log.warning("job_answer_malformed", error=error, attempts=job.attempts + 1)
            return await self._retry(party, job, "")
        prepared = await self._states(party, job)
        try:
            role.match_response([report.report_id for report in prepared], response)
        except JobAbandonedError as error:
            self._log.error("job_abandoned", error=error)
            await self._delete(_location(party, answer) or job.location)
            return await self._give_up(party, job, JobState.ABANDONED)
        pairs = list(zip(prepared, response.verify_resps, strict=True))
        outcomes = await in_chunks(lambda pair: role.finish_report(party, pair[0], pair[1]), pairs)
        return await self._commit(party, job, outcomes)

    async def _exchange(self, party: Party, job: JobRow) -> HttpResponse:
        url = _jobs_url(party)
        if job.location:
            return await self._deps.transport.request("GET", job.location, headers=self._headers)
        return await self._deps.transport.request("POST", url, headers=self._headers, body=job.request)

    async def _delete(self, url: str) -> None:
        """Tell the Helper, once, that it may forget an abandoned job."""
        if url:
            with contextlib.suppress(TransportError):
                await self._deps.transport.request("DELETE", url, headers=self._headers)

    async def _states(self, party: Party, job: JobRow) -> list[Prepared]:
        """Verification states of a job, computed again if this process did not form it."""
        known = self._prepared.get(job.job_id)
        if known is not None:
            return known
        async with self._store.read() as tx:
            stored = await tx.job_reports(job.job_id)
        now = self._deps.clock.now()
        outcomes = await in_chunks(lambda report: self._prepare(party, report, now), stored)
        prepared = [outcome for outcome in outcomes if isinstance(outcome, Prepared)]
        if role.init_request(party.task, prepared, job.batch_id).encode() != job.request:
            raise Fatal("a stored job does not follow from its stored reports")
        self._prepared[job.job_id] = prepared
        return prepared

    async def _retry(self, party: Party, job: JobRow, location: str) -> int:
        """Transaction 2: the same bytes again later, until the task is over for good."""
        if self._deps.clock.now() >= party.task.end_seconds + self._limits.collection_grace:
            self._log.error("job_failed", attempts=job.attempts + 1)
            return await self._give_up(party, job, JobState.FAILED)
        await self._postpone(job, location)
        return 0

    async def _postpone(self, job: JobRow, location: str) -> None:
        delay = min(self._limits.retry_delay * 2.0 ** min(job.attempts, 16), MAX_BACKOFF)
        due = self._deps.clock.now() + delay
        async with self._store.transaction() as tx:
            await tx.retry_job(job.job_id, job.attempts + 1, due, location)

    async def _give_up(self, party: Party, job: JobRow, state: JobState) -> int:
        """The job's reports count nowhere; their tokens stay spent."""
        prepared = await self._states(party, job)
        cause = f"job-{state.value}"
        rejected = [
            Rejection(report.report_id, ReportError.REPORT_DROPPED, cause, report.nullifier) for report in prepared
        ]
        async with self._store.transaction() as tx:
            if not await tx.end_job(job.job_id, state):
                return 0
            await self._reject(tx, party, rejected)
            await tx.settle_all(party.task, [], rejected, job.batch_id)
        self._prepared.pop(job.job_id, None)
        return len(rejected)

    async def _commit(self, party: Party, job: JobRow, outcomes: Sequence[Accepted | Rejection]) -> int:
        """Transaction 3: out shares, nullifiers, report ids and bucket, and the end of the job."""
        task = party.task
        accepted = [outcome for outcome in outcomes if isinstance(outcome, Accepted)]
        rejected = [outcome for outcome in outcomes if isinstance(outcome, Rejection)]
        async with self._store.transaction() as tx:
            if not await tx.end_job(job.job_id, JobState.DONE):
                return 0
            await tx.finish_reports(task.task_id, [report.report_id for report in accepted])
            await self._reject(tx, party, rejected)
            await tx.settle_all(task, accepted, rejected, job.batch_id)
            if job.batch_id is not None:
                count = await tx.accepted_count(task.task_id, job.batch_id)
                if count >= task.min_batch_size:
                    await tx.set_batch(job.batch_id, BatchState.FULL)
        self._prepared.pop(job.job_id, None)
        return len(outcomes)

    def _observe(self, prepared: Sequence[Prepared]) -> None:
        if self._deps.observer is None:
            return
        for report in prepared:
            self._deps.saw(
                "leader",
                report_id=report.report_id.hex(),
                share_bytes=len(report.payload),
                first_bytes=report.payload[:16].hex(),
            )


def _jobs_url(party: Party) -> str:
    helper = party.task.configuration.helper_aggregator_endpoint
    return f"{helper}/tasks/{party.task.task_id_text}/aggregation_jobs"


def _location(party: Party, answer: HttpResponse) -> str:
    """The URL of the job that an answer created; empty without one below the Helper's own resource."""
    return resource_url(_jobs_url(party), answer.headers.get("location", ""))


def _verdict(outcome: Prepared | Rejection, refused: set[bytes], *, closed: bool) -> Prepared | Rejection:
    """One report's fate before it is sent. Where another report holds the token, the rejection names no nullifier,
    so that it does not touch that token's state."""
    if outcome.report_id in refused:
        return Rejection(outcome.report_id, ReportError.REPORT_REPLAYED, "token-spent")
    if closed and isinstance(outcome, Prepared):
        return Rejection(outcome.report_id, ReportError.BATCH_COLLECTED, "batch-collected", outcome.nullifier)
    return outcome
