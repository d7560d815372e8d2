"""The Leader's answers to uploads and its status. Aggregation and collection have modules of their own."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy.exc import IntegrityError

from services.leader.arrivals import Arrivals
from services.leader.config import LeaderLimits
from services.leader.records import StoredReport
from services.leader.store import LeaderStore, LeaderTx
from services.leader.upload_quota import UploadQuota
from tacit.adapters.databases.signals import Wakeup
from tacit.aggregator.parties import Parties
from tacit.aggregator.records import recipe_status
from tacit.codec import b64url
from tacit.dap_errors import ReportError, ReportRejected
from tacit.errors import Abort
from tacit.fast_paths import STORED
from tacit.messages import ReportUploadStatus, UploadErrors
from tacit.messages.slices import UploadSlices
from tacit.roles import leader as role
from tacit.roles.aggregator import Party
from tacit.service.app import ServiceEnv
from tacit.service.base.group_commit import GroupCommitter
from tacit.service.http.limits import busy
from tacit.task import BatchClose

FAILING_SHOWN = 20
"""Most failing jobs that a status page lists."""

Verdicts = list[ReportError | None]
Stored = Verdicts | Abort
"""Outcome of each report of a request, or the reason why none was stored."""


ENOUGH = 32
"""Number of requests that are stored together without waiting for more: twice as many would each cost little less, and
senders that wait for their answers are not held up."""


class Leader:
    """Stores uploads in groups. What was answered is durable. ``arrivals`` counts it; ``forming`` is
    notified when there may be jobs to form."""

    def __init__(
        self,
        store: LeaderStore,
        parties: Parties,
        deps: ServiceEnv,
        limits: LeaderLimits,
        arrivals: Arrivals,
        forming: Wakeup,
    ) -> None:
        self._store = store
        self._parties = parties
        self._deps = deps
        self._committer: GroupCommitter[Sequence[StoredReport], Stored] = GroupCommitter(
            self._flush, limits.group_size, limits.group_delay, deps.clock, ENOUGH
        )
        self._quota = UploadQuota(store, parties, deps.clock, limits)
        self._arrivals = arrivals
        self._forming = forming

    async def upload(
        self, requests: Sequence[tuple[Party, Sequence[UploadSlices]]]
    ) -> list[UploadErrors | Abort | None]:
        """Store the reports of several requests in one transaction. The result for each request: ``None`` if all of its
        reports are stored, the errors of those that are not, or an ``Abort`` (503) if too many reports of its task
        wait."""
        now = self._deps.clock.now()
        checked = [_check_reports(party, reports, now) for party, reports in requests]
        waiting = [uploads for _, uploads in checked if uploads]
        stored = iter(await self._committer.submit_all(waiting))
        return [
            _answer(reports, verdicts, next(stored) if uploads else [])
            for (_, reports), (verdicts, uploads) in zip(requests, checked, strict=True)
        ]

    async def _flush(self, groups: Sequence[Sequence[StoredReport]]) -> list[Stored]:
        """One transaction for all waiting requests for which there is room."""
        fits = await self._quota.fitting(groups)
        stored = iter(await self._write([group for group, fit in zip(groups, fits, strict=True) if fit]))
        return [next(stored) if fit else busy(self._deps.entropy) for fit in fits]

    async def _write(self, groups: Sequence[Sequence[StoredReport]]) -> list[Verdicts]:
        if not groups:
            return []
        try:
            verdicts = await self._store_groups(groups)
        except IntegrityError:  # sequence numbers ran out of partitions: no coordinator made new ones in time
            async with self._store.transaction() as tx:
                await tx.numbered.make_room()
            verdicts = await self._store_groups(groups)
        return verdicts

    async def _store_groups(self, groups: Sequence[Sequence[StoredReport]]) -> list[Verdicts]:
        """The fast path if all reports are new and their tasks active; otherwise the slow path."""
        uploads = [upload for group in groups for upload in group]
        STORED.items += len(uploads)
        now = self._deps.clock.now()
        closable = self._closable({upload.task_id for upload in uploads}, now)
        if closable is not None and await self._store.add_new_reports(uploads, closable, now):
            self._arrivals.stored(Counter(upload.task_id for upload in uploads))
            return [[None] * len(group) for group in groups]
        STORED.fallbacks += len(uploads)
        return await self._judge_groups(groups)

    def _closable(self, task_ids: set[bytes], now: float) -> list[bytes] | None:
        """Those of ``task_ids`` whose only batch may have been released; ``None`` if one of them needs the slow
        path."""
        closable = []
        for task_id in task_ids:
            party = self._parties.find(task_id)
            if party is None or now >= party.closes or party.task.is_mixed:
                return None
            if party.task.batch_close is BatchClose.INTERVAL_END:
                if now >= party.task.end_seconds:
                    return None
                closable.append(task_id)
        return closable

    async def _judge_groups(self, groups: Sequence[Sequence[StoredReport]]) -> list[Verdicts]:
        by_task: dict[bytes, list[bytes]] = {}
        for group in groups:
            for upload in group:
                by_task.setdefault(upload.task_id, []).append(upload.report_id)
        async with self._store.transaction(shared=True) as tx:
            known: dict[tuple[bytes, bytes], bytes | None] = {}
            closed: dict[bytes, ReportError] = {}
            for task_id, report_ids in by_task.items():
                known_digests, released = await tx.digests(task_id, report_ids)
                known.update(((task_id, report_id), digest) for report_id, digest in known_digests.items())
                why = await self._why_closed(tx, task_id, released=released)
                if why is not None:
                    closed[task_id] = why
            fresh: list[StoredReport] = []
            verdicts = [[_place(upload, known, closed, fresh) for upload in group] for group in groups]
            await tx.add_reports(fresh, self._deps.clock.now())
        self._arrivals.stored(Counter(upload.task_id for upload in fresh))
        return verdicts

    async def _why_closed(self, tx: LeaderTx, task_id: bytes, *, released: bool) -> ReportError | None:
        """Why no new report is stored, or None. The task has ended; or the only batch that new reports could join is
        closed, or closes as soon as the reports acknowledged before are processed. The last case keeps a sender that
        never stops from delaying the collection for ever; a shuffler sends after the end, and says when it stops."""
        party, now = self._parties.find(task_id), self._deps.clock.now()
        if party is None or not await tx.is_open(party, now):
            return ReportError.TASK_EXPIRED
        if party.task.batch_close is not BatchClose.INTERVAL_END:
            return None
        if party.task.is_mixed:
            closing = released or await tx.is_forwarded(task_id)
        else:
            closing = released or (now >= party.task.end_seconds and await tx.live_collection(task_id))
        return ReportError.BATCH_COLLECTED if closing else None

    async def forwarded(self, party: Party) -> None:
        """The task's shuffler has forwarded everything: the batch is complete once it is processed. The same again
        changes nothing. Raises ``DapAbort`` for a task that has ended."""
        async with self._store.transaction() as tx:
            await tx.demand_open(party, self._deps.clock.now())
            await tx.set_forwarded(party.task.task_id)
        self._forming.notify()

    async def status(self, party: Party) -> dict[str, object]:
        """Counts of one task, and what is stuck; nothing about any single report. ``coordinator``: whether this very
        process forms the jobs. Reads counters, however many reports there are."""
        task_id = party.task.task_id
        now = self._deps.clock.now()
        async with self._store.read() as tx:
            waiting, since = await tx.pending_summary(task_id)
            in_jobs = await tx.in_flight(task_id)
            aggregated = await tx.counted(task_id)
            rejections = await tx.rejections(task_id)
            rejected = sum(rejections.values())
            return {
                "task_id": party.task.task_id_text,
                "uploaded": waiting + in_jobs + aggregated + rejected,
                "pending": waiting + in_jobs,
                "waiting": waiting,
                "in_jobs": in_jobs,
                "oldest_waiting_seconds": None if since is None else max(0.0, round(now - since, 3)),
                "aggregated": aggregated,
                "rejected": rejected,
                "rejected_by_cause": rejections,
                "distinct_nullifiers": aggregated,  # each has its own (one_report_per_nullifier)
                "jobs": await tx.job_counts(task_id),
                "leases": await tx.leased_jobs(task_id, now),
                "failing_jobs": [
                    {**asdict(job), "job_id": b64url(job.job_id)}
                    for job in await tx.failing_jobs(task_id, FAILING_SHOWN)
                ],
                "coordinator": self._store.coordinates,
                "batches": await tx.batch_counts(task_id),
                "released": await tx.release_count(task_id),
            }

    async def recipes(self, after: int, limit: int) -> list[dict[str, str]]:
        """At most ``limit`` recipes that name this aggregator, behind the first ``after``, each with its state and the
        rule that refused it, if any."""
        async with self._store.read() as tx:
            return recipe_status(await tx.tasks(after, limit))

    async def close(self) -> None:
        """Write what is still gathered."""
        await self._committer.close()
        self._arrivals.close()


def _check_reports(party: Party, reports: Sequence[UploadSlices], now: float) -> tuple[Verdicts, list[StoredReport]]:
    """The verdicts that need no store, one per report (None: for the store to decide), and the reports for the
    store."""
    verdicts: Verdicts = []
    uploads: list[StoredReport] = []
    for report in reports:
        try:
            role.check_upload(party.task, report, now)
        except ReportRejected as rejected:
            verdicts.append(rejected.code)
            continue
        verdicts.append(None)
        digest = hashlib.sha256(report.body).digest()
        uploads.append(StoredReport(party.task.task_id, report.report_id, digest, report.body))
    return verdicts, uploads


def _answer(
    reports: Sequence[UploadSlices], verdicts: Verdicts, stored: Verdicts | Abort
) -> UploadErrors | Abort | None:
    return stored if isinstance(stored, Abort) else _errors(reports, _merge(verdicts, stored))


def _merge(verdicts: Verdicts, stored: Verdicts) -> Verdicts:
    """``verdicts``, with the store's verdicts in the places that were left open for it."""
    others = iter(stored)
    return [next(others) if verdict is None else verdict for verdict in verdicts]


def _place(
    upload: StoredReport,
    known: dict[tuple[bytes, bytes], bytes | None],
    closed: dict[bytes, ReportError],
    fresh: list[StoredReport],
) -> ReportError | None:
    """Decide on one report. A report id can be used once: the same bytes again are a success, other bytes are a
    replay."""
    key = (upload.task_id, upload.report_id)
    if key in known:
        return None if known[key] == upload.digest else ReportError.REPORT_REPLAYED
    if upload.task_id in closed:
        return closed[upload.task_id]
    known[key] = upload.digest
    fresh.append(upload)
    return None


def _errors(reports: Sequence[UploadSlices], verdicts: Sequence[ReportError | None]) -> UploadErrors | None:
    failed = tuple(
        ReportUploadStatus(report.report_id, verdict)
        for report, verdict in zip(reports, verdicts, strict=True)
        if verdict is not None
    )
    return UploadErrors(failed) if failed else None
