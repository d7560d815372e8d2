"""What a worker does with one aggregation job that it has under a lease (DAP-18 section 4.5, P14).

There are two transactions, and nothing between them that a crash could lose or repeat: (1) record what the Leader found
about every report, spend the tokens, and store the digest of the exact request; (2) commit the Helper's answer. Neither
the request nor verification states are stored: a worker that takes the job over computes them again from the stored
reports, and sends nothing unless the digest shows that the request is the same. All transactions are shared: jobs of
other workers commit beside them.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat

from services.leader.config import LeaderLimits
from services.leader.helper_job_cleanup import due_after
from services.leader.records import BatchState, JobRow, JobState, ReportHead
from services.leader.store import LeaderStore, LeaderTx
from tacit import media_types
from tacit.adapters.databases.signals import Wakeup
from tacit.aggregator.records import ACCEPTED, OutcomeRow
from tacit.aggregator.work import creation, resource_url
from tacit.dap_errors import ReportError
from tacit.errors import DecodeError, Fatal
from tacit.messages import BatchMode, Role
from tacit.ports import HttpResponse, TransportError
from tacit.retry_after import retry_after
from tacit.roles.aggregator import Party, Rejection
from tacit.roles.crypto import OPENSSL, JobCrypto
from tacit.roles.jobs import LeaderJob, chunk_size, encode_request, finish_leader, held_together, prepare_leader
from tacit.roles.leader import JobAbandonedError
from tacit.roles.rows import Rows
from tacit.service.app import ServiceEnv
from tacit.service.base.log import get_logger
from tacit.service.http.live_tokens import ShownToken
from tacit.task import BatchClose

KEPT_STATES = 8
"""Most jobs whose verification states and requests are kept from one attempt to the next."""

KEPT_BYTES = 64 << 20
"""Most bytes of these, unless one job has more."""

Notes = list[tuple[bytes, bytes]]


class PreparationError(Exception):
    """A job's reports could not be prepared: a report is faulty, or there is too little memory."""


class LeaseLostError(Exception):
    """Another worker has the job by now."""


class JobWork:
    """Prepares, sends and commits jobs. ``collecting`` is notified when a batch may be complete."""

    def __init__(
        self,
        store: LeaderStore,
        deps: ServiceEnv,
        limits: LeaderLimits,
        helper_token: ShownToken,
        collecting: Wakeup,
        crypto: JobCrypto = OPENSSL,
    ) -> None:
        self._store = store
        self._deps = deps
        self._limits = limits
        self._crypto = crypto
        self._helper_token = helper_token
        self._states: OrderedDict[bytes, tuple[LeaderJob, bytes]] = OrderedDict()
        self._log = get_logger("leader")
        self._collecting = collecting

    async def run(self, party: Party, job: JobRow) -> int:
        """Advance a job as far as possible; returns how many reports were processed. Raises ``PreparationError``,
        ``LeaseLostError``, and the errors of a broken database."""
        if job.state is JobState.SENT:
            return await self._send(party, job)
        prepared = await self._form(party, job)
        if prepared is None:
            return len(job.seqs)
        return len(job.seqs) - len(prepared.seqs) + await self._send(party, prepared)

    async def _form(self, party: Party, job: JobRow) -> JobRow | None:
        """Transaction 1. Returns the job as it is sent, or ``None`` if no report of it is to be sent."""
        heads = await self._heads(job)
        if len(heads) != len(job.seqs):
            self._log.error("job_reports_missing", size=len(job.seqs), missing=len(job.seqs) - len(heads))
            raise PreparationError("reports-missing")
        # of two reports with one id the earlier counts: it is written into the dictionary last
        reports = {head.report_id: head for head in reversed(heads)}
        notes: Notes = []
        state, rejections = await self._prepare(party, [head.seq for head in reports.values()][::-1], notes)
        async with self._store.transaction(shared=True) as tx:
            await tx.demand_open(party, self._deps.clock.now())
            kept, rejections = await self._record(tx, party, job, state, rejections, reports)
            returned = {rejection.report_id for rejection in rejections if not rejection.final}
            later = [reports[report_id].seq for report_id in returned]
            await tx.add_pending([(seq, job.task_id) for seq in later], self._deps.clock.now() + self._later(party))
            seqs = [reports[report_id].seq for report_id in kept.report_ids]
            await tx.delete_reports(sorted({*job.seqs} - {*later} - {*seqs}))
            # fixed in the transaction that spends the tokens: a worker that continues after a crash sends these very
            # bytes, and the Helper, which finds its stored answer by them, repeats it instead of refusing replayed
            # reports (P14)
            request = encode_request(party.task, kept, job.batch_id) if seqs else b""
            digest = hashlib.sha256(request).digest()
            if not (await tx.job_to_send(job, digest, seqs) if seqs else await tx.drop_job(job)):
                # rolls back the whole transaction: the worker that has the job by now records the same reports itself
                raise LeaseLostError
        self._observe(notes, set(kept.report_ids))
        if not seqs:
            return None
        self._keep(job.job_id, kept, request)
        return JobRow(
            job.job_id, job.task_id, job.batch_id, JobState.SENT, tuple(seqs), holder=job.holder, digest=digest
        )

    async def _heads(self, job: JobRow) -> list[ReportHead]:
        """The reports of a job that are stored, without their bytes. Read under the writers' lock: a snapshot from
        before a slice was rewritten would show the slice empty."""
        async with self._store.transaction(shared=True) as tx:
            return await tx.heads(job.seqs)

    async def _bodies(self, seqs: Sequence[int]) -> list[bytes]:
        """The bytes of these reports, read as in ``_heads``. Raises ``PreparationError`` where one is not stored."""
        async with self._store.transaction(shared=True) as tx:
            bodies = [report.body for report in await tx.stored(seqs)]
        if len(bodies) != len(seqs):
            raise PreparationError("reports-missing")
        return bodies

    async def _record(
        self,
        tx: LeaderTx,
        party: Party,
        job: JobRow,
        state: LeaderJob,
        rejections: Sequence[Rejection],
        reports: Mapping[bytes, ReportHead],
    ) -> tuple[LeaderJob, list[Rejection]]:
        """Record the outcome of each report so far; returns the reports to send, and all rejections. A report without a
        valid token is only counted by cause and gets no row, so that there are as many rows as tokens (P31)."""
        rows, rejected = state.rows, list(rejections)
        closed = await tx.closed_times(party.task, job.batch_id, rows.times)
        if closed:
            for report_id, time, nullifier in zip(rows.report_ids, rows.times, rows.nullifiers, strict=True):
                if time in closed:
                    rejected.append(Rejection(report_id, ReportError.BATCH_COLLECTED, "batch-collected", nullifier))
            state = state.keep([at for at, time in enumerate(rows.times) if time not in closed])
            rows = state.rows
        buckets = rows.buckets(party.task, job.batch_id)
        digests = [reports[report_id].digest for report_id in rows.report_ids]
        others = (repeat(ACCEPTED), repeat(""), buckets, repeat(job.job_id), digests)
        outcomes = list(map(OutcomeRow, rows.report_ids, rows.nullifiers, *others))
        outcomes += _rejected_rows(rejected, reports)
        refused = await tx.record(job.task_id, outcomes)
        if refused:
            known = await tx.known(job.task_id, sorted(refused))
            spent = [
                Rejection(row.report_id, ReportError.REPORT_REPLAYED, "token-spent")
                for row in outcomes
                if row.report_id in refused and row.report_id not in known
            ]
            state = state.keep([at for at, report_id in enumerate(rows.report_ids) if report_id not in refused])
            rejected = [one for one in rejected if one.report_id not in refused] + spent
        await tx.count_rejections(job.task_id, Counter(one.cause for one in rejected if one.final))
        return state, rejected

    def _later(self, party: Party) -> float:
        """Seconds after which a report from the future is looked at again."""
        return float(min(party.task.time_precision, max(1.0, self._limits.max_job_delay)))

    async def _prepare(
        self, party: Party, seqs: Sequence[int], notes: Notes, *, again: bool = False
    ) -> tuple[LeaderJob, list[Rejection]]:
        """The vector stages, in a thread, ``chunk_size`` reports at a time, of ``held_together`` whose bytes are read
        together; ``again`` for reports that passed them before."""
        now = self._deps.clock.now()
        seen = None if self._deps.observer is None else lambda report_id, share: notes.append((report_id, share))
        jobs: list[LeaderJob] = []
        rejections: list[Rejection] = []
        held, step = held_together(party.task), chunk_size(party.task)
        for first in range(0, len(seqs), held):
            bodies = await self._bodies(seqs[first : first + held])
            while bodies:  # no name keeps the bytes that are dealt with while the next are read
                try:
                    job, rejected = await asyncio.to_thread(
                        prepare_leader, party, bodies[:step], now, self._crypto, seen, again=again
                    )
                except Exception as error:
                    self._log.error("job_not_prepared", error=error, size=len(seqs))
                    raise PreparationError(type(error).__name__) from error
                jobs.append(job)
                rejections += rejected
                bodies = bodies[step:]
        for rejection in rejections:
            if rejection.error is not None:
                self._log.error("report_failed", error=rejection.error)
        return LeaderJob.joined(jobs), rejections

    async def _send(self, party: Party, job: JobRow) -> int:
        try:
            state, request = await self._sent_request(party, job)
        except PreparationError as error:
            return await self._retry(party, job, job.location, str(error))
        try:
            answer = await self._exchange(party, job, request)
        except TransportError:
            # the request may have arrived: the only safe retry is to send the same bytes
            return await self._retry(party, job, "", "helper-unreachable")
        if not 200 <= answer.status < 300:
            self._log.warning("job_refused", status=answer.status, attempts=job.attempts + 1)
            return await self._retry(party, job, "", f"helper-status-{answer.status}", self._asked_pause(answer))
        if not answer.body:
            location = _location(party, job, answer)
            return await self._retry(party, job, location, "helper-not-ready", self._asked_pause(answer))
        try:
            accepted, rejections = await asyncio.to_thread(finish_leader, state, answer.body, party.task.version)
            if any(one.code is ReportError.UNKNOWN_VERIFICATION_KEY_ID for one in rejections):
                # there is one key, so this says how the Helper is set up, nothing about the reports: none is lost (P14)
                self._log.warning("job_refused", status=answer.status, attempts=job.attempts + 1)
                return await self._retry(party, job, "", "helper-verification-key")
        except DecodeError as error:  # whoever garbled the answer, the Helper has it stored and gives it again (P14)
            self._log.warning("job_answer_malformed", error=error, attempts=job.attempts + 1)
            return await self._retry(party, job, "", "helper-answer-malformed")
        except JobAbandonedError as error:
            self._log.error("job_abandoned", error=error)
            await self._delete(_location(party, job, answer) or job.location)
            return await self._give_up(job, JobState.ABANDONED)
        location = _location(party, job, answer) or job.location
        return await self._commit(party, job, accepted, rejections, location)

    async def _exchange(self, party: Party, job: JobRow, request: bytes) -> HttpResponse:
        if job.location:
            return await self._deps.transport.request("GET", job.location, headers=self._headers())
        method, url = creation(party.task.version, _jobs_url(party), job.job_id)
        return await self._deps.transport.request(method, url, headers=self._headers(), body=request)

    def _headers(self) -> dict[str, str]:
        return {"Content-Type": media_types.dap("aggregation-job-init-req"), **self._helper_token.headers()}

    async def _delete(self, url: str) -> None:
        """Tell the Helper, once, that it may delete an abandoned job."""
        if url:
            with contextlib.suppress(TransportError):
                await self._deps.transport.request("DELETE", url, headers=self._headers())

    async def _sent_request(self, party: Party, job: JobRow) -> tuple[LeaderJob, bytes]:
        """Verification states and exact request of a sent job, computed again if this process does not have them.
        Raises ``Fatal`` if other bytes come out, which are not to be sent (P14), or none ever will; and
        ``PreparationError`` for want of memory or of a file, which passes."""
        known = self._states.get(job.job_id)
        if known is not None:
            return known
        try:
            state, _ = await self._prepare(party, job.seqs, [], again=True)
        except PreparationError as error:
            if isinstance(error.__cause__, MemoryError | OSError):
                raise
            raise Fatal("the reports of a sent job cannot be prepared any more") from error
        request = encode_request(party.task, state, job.batch_id)
        if hashlib.sha256(request).digest() != job.digest:
            raise Fatal("a stored job does not match its stored reports")
        return self._keep(job.job_id, state, request)

    def _keep(self, job_id: bytes, state: LeaderJob, request: bytes) -> tuple[LeaderJob, bytes]:
        self._states[job_id] = kept = replace(state, verify_inits=[]), request  # the request has them
        while len(self._states) > 1 and not self._may_keep():
            self._states.popitem(last=False)
        return kept

    def _may_keep(self) -> bool:
        size = sum(len(state.rows.out_shares) + len(request) for state, request in self._states.values())
        return len(self._states) <= KEPT_STATES and size <= KEPT_BYTES

    def _asked_pause(self, answer: HttpResponse) -> float:
        return retry_after(answer.headers, self._deps.clock.now())

    async def _retry(self, party: Party, job: JobRow, location: str, cause: str, asked: float = 0.0) -> int:
        """Send the same bytes again later, at least the ``asked`` seconds, until the task's end and its grace are
        over."""
        if self._is_too_late(party):
            self._log.error("job_failed", attempts=job.attempts + 1)
            return await self._give_up(job, JobState.FAILED)
        await self._postpone(job, location, cause, asked)
        return 0

    async def set_aside(self, party: Party, job: JobRow) -> int:
        """Show a job that cannot go on as ``broken``, and try it again later until the grace is over, so that it holds
        up no collection for ever. Returns how many reports it ended."""
        if job.state is not JobState.FORMED:
            return await self._retry(party, job, job.location, "broken")
        if self._is_too_late(party):
            # end a formed job that cannot be sent: its reports are rejected, and their tokens are not spent
            async with self._store.transaction(shared=True) as tx:
                if not await tx.drop_job(job):
                    return 0
                await tx.reject_unread(job)
            self._log.error("job_failed", attempts=job.attempts + 1)
            return len(job.seqs)
        await self._postpone(job, job.location, "broken")
        return 0

    def _is_too_late(self, party: Party) -> bool:
        return self._deps.vouched.is_past(party.task.end_seconds + self._limits.collection_grace)

    async def _postpone(self, job: JobRow, location: str, cause: str, asked: float = 0.0) -> None:
        """Give the job back, to be retried after a pause that doubles each time."""
        delay = self._limits.backoff.pause(job.attempts, self._deps.entropy, asked)
        async with self._store.transaction(shared=True) as tx:
            await tx.postpone_job(job, self._deps.clock.now() + delay, location, cause)

    async def _give_up(self, job: JobRow, state: JobState) -> int:
        """End the job without an answer: its reports do not count, and their tokens stay spent."""
        cause = f"job-{state.value}"
        code = int(ReportError.REPORT_DROPPED)
        async with self._store.transaction(shared=True) as tx:
            heads = await tx.heads(job.seqs)
            if not await tx.end_job(job.job_id, state):
                return 0  # an answer came in the meantime: what it counted stays counted
            await tx.amend(job.task_id, {head.report_id: (code, cause) for head in heads})
            await tx.count_rejections(job.task_id, {cause: len(job.seqs)})
            await tx.delete_reports(job.seqs)
        self._states.pop(job.job_id, None)
        return len(job.seqs)

    async def _commit(
        self, party: Party, job: JobRow, accepted: Rows, rejections: Sequence[Rejection], location: str
    ) -> int:
        """Transaction 2: update buckets and rejections, delete the reports' bytes, end the job, and note the
        ``location`` at which the Helper is to delete its answer."""
        task = party.task
        # computed before the transaction, which holds the locks that uploads and other jobs wait for
        tallies = await asyncio.to_thread(accepted.tallies, party, job.batch_id)
        async with self._store.transaction(shared=True) as tx:
            await tx.demand_open(party, self._deps.clock.now())
            # ended before anything is added: of two workers with an answer, the second finds the job ended and adds
            # nothing
            if not await tx.end_job(job.job_id, JobState.DONE, location, due_after(self._deps.clock.now())):
                return 0
            if job.batch_id is not None:
                # locked, because two jobs that fill a batch together would each count it without the other's reports,
                # and neither would find it full
                await tx.lock_batch(job.batch_id)
            await tx.amend(task.task_id, {one.report_id: (int(one.code), one.cause) for one in rejections})
            await tx.delete_reports(job.seqs)
            await tx.add_tallies(task, tallies)
            await tx.count_rejections(task.task_id, Counter(one.cause for one in rejections))
            filled = await self._fill_batch(tx, party, job.batch_id)
        self._states.pop(job.job_id, None)
        # after the commit: a waiter that is woken sooner sees the batch as it was, and waits again
        if filled:
            self._collecting.notify()
        return len(job.seqs)

    async def _fill_batch(self, tx: LeaderTx, party: Party, batch_id: bytes | None) -> bool:
        """Whether a collection may have waited for this job: its batch is full, or the task's interval is over."""
        if party.task.batch_mode is BatchMode.TIME_INTERVAL or batch_id is None:
            is_over = self._deps.clock.now() >= party.task.end_seconds
            return is_over or party.task.batch_close is BatchClose.ON_QUERY
        if await tx.counted(party.task.task_id, batch_id) < party.task.min_batch_size:
            return False
        await tx.set_batch(batch_id, BatchState.FULL)
        return True

    def _observe(self, notes: Iterable[tuple[bytes, bytes]], kept: set[bytes]) -> None:
        for report_id, share in notes:
            if report_id in kept:
                self._deps.saw(
                    "leader", report_id=report_id.hex(), share_bytes=len(share), first_bytes=share[:16].hex()
                )


def _rejected_rows(rejections: Iterable[Rejection], reports: Mapping[bytes, ReportHead]) -> list[OutcomeRow]:
    return [
        OutcomeRow(one.report_id, one.nullifier, int(one.code), one.cause, digest=reports[one.report_id].digest)
        for one in rejections
        if one.final and one.nullifier is not None
    ]


def _jobs_url(party: Party) -> str:
    return party.task.url(Role.HELPER, "aggregation_jobs")


def _location(party: Party, job: JobRow, answer: HttpResponse) -> str:
    """The URL of the job that an answer created; empty if the answer names none below the Helper's own resource. A job
    that we named is at the URL where we put it, whatever the answer says."""
    method, url = creation(party.task.version, _jobs_url(party), job.job_id)
    if method == "PUT":
        return f"{url}?step=0"
    return resource_url(url, answer.headers.get("location", ""))
