"""The Leader's answers: uploads and status. Aggregation and collection have modules of their own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from services.leader.config import LeaderLimits
from services.leader.store import LeaderStore, LeaderTx
from tacit.aggregator.parties import Parties
from tacit.aggregator.status import recipe_status
from tacit.errors import ReportError, ReportRejected
from tacit.messages import BatchMode, Report, ReportUploadStatus, UploadErrors, UploadRequest
from tacit.roles import leader as role
from tacit.roles.aggregator import Party
from tacit.service.app import Deps
from tacit.service.group_commit import GroupCommitter


@dataclass(frozen=True)
class Upload:
    """One report on its way into the store."""

    party: Party
    report_id: bytes
    digest: bytes
    body: bytes = field(repr=False)


class Leader:
    """Stores uploads in groups: what was answered is durable."""

    def __init__(self, store: LeaderStore, parties: Parties, deps: Deps, limits: LeaderLimits) -> None:
        self._store = store
        self._parties = parties
        self._deps = deps
        self._committer: GroupCommitter[Sequence[Upload], list[ReportError | None]] = GroupCommitter(
            self._flush, limits.group_size, limits.group_delay, deps.clock
        )

    async def upload(self, party: Party, request: UploadRequest) -> UploadErrors | None:
        """Store the reports of one request; ``None`` if every one is stored."""
        now = self._deps.clock.now()
        verdicts: list[ReportError | None] = []
        uploads: list[Upload] = []
        for report in request.reports:
            try:
                role.check_upload(party.task, report, now)
            except ReportRejected as rejected:
                verdicts.append(rejected.code)
                continue
            verdicts.append(None)
            body = report.encode()
            uploads.append(Upload(party, report.report_metadata.report_id, hashlib.sha256(body).digest(), body))
        if uploads:
            stored = iter(await self._committer.submit(uploads))
            verdicts = [next(stored) if verdict is None else verdict for verdict in verdicts]
        return _errors(request.reports, verdicts)

    async def _flush(self, groups: Sequence[Sequence[Upload]]) -> list[list[ReportError | None]]:
        """One transaction for every request that waits."""
        async with self._store.transaction() as tx:
            known: dict[tuple[bytes, bytes], bytes] = {}
            closed: set[bytes] = set()
            tasks = {upload.party.task.task_id: upload.party for group in groups for upload in group}
            for task_id, party in tasks.items():
                ids = [upload.report_id for group in groups for upload in group if upload.party.task.task_id == task_id]
                for report_id, digest in (await tx.digests(task_id, ids)).items():
                    known[task_id, report_id] = digest
                if await self._is_closed(tx, party):
                    closed.add(task_id)
            fresh: list[Upload] = []
            verdicts = [[_place(upload, known, closed, fresh) for upload in group] for group in groups]
            await tx.add_reports(
                [
                    {
                        "task_id": upload.party.task.task_id,
                        "report_id": upload.report_id,
                        "digest": upload.digest,
                        "body": upload.body,
                    }
                    for upload in fresh
                ]
            )
        return verdicts

    async def _is_closed(self, tx: LeaderTx, party: Party) -> bool:
        """Whether the only batch that new reports could join is closed, or closes as soon as the reports that were
        acknowledged before are dealt with: whoever keeps sending must not hold the collection up for ever."""
        task = party.task
        if task.batch_mode is not BatchMode.TIME_INTERVAL:
            return False
        if await tx.is_released(task, None):
            return True
        return self._deps.clock.now() >= task.end_seconds and await tx.live_collection(task.task_id)

    async def status(self, party: Party) -> dict[str, object]:
        """Counts of one task: nothing about any single report."""
        task_id = party.task.task_id
        async with self._store.read() as tx:
            reports = await tx.report_counts(task_id)
            return {
                "task_id": party.task.task_id_text,
                "uploaded": sum(reports.values()),
                "pending": reports.get("pending", 0) + reports.get("in_job", 0),
                "aggregated": reports.get("aggregated", 0),
                "rejected": reports.get("rejected", 0),
                "rejected_by_cause": await tx.rejections(task_id),
                "distinct_nullifiers": await tx.accepted_count(task_id),
                "jobs": await tx.job_counts(task_id),
                "batches": await tx.batch_counts(task_id),
                "released": await tx.release_count(task_id),
            }

    async def recipes(self) -> list[dict[str, str]]:
        """Every recipe that names this aggregator, with the rule that refused it."""
        async with self._store.read() as tx:
            return recipe_status(await tx.tasks())

    async def close(self) -> None:
        """Write what waits."""
        await self._committer.close()


def _place(
    upload: Upload, known: dict[tuple[bytes, bytes], bytes], closed: set[bytes], fresh: list[Upload]
) -> ReportError | None:
    """A report id is taken once: again with the same bytes is success, with others a replay."""
    key = (upload.party.task.task_id, upload.report_id)
    digest = known.get(key)
    if digest is not None:
        return None if digest == upload.digest else ReportError.REPORT_REPLAYED
    if upload.party.task.task_id in closed:
        return ReportError.BATCH_COLLECTED
    known[key] = upload.digest
    fresh.append(upload)
    return None


def _errors(reports: Sequence[Report], verdicts: Sequence[ReportError | None]) -> UploadErrors | None:
    failed = tuple(
        ReportUploadStatus(report.report_metadata.report_id, verdict)
        for report, verdict in zip(reports, verdicts, strict=True)
        if verdict is not None
    )
    return UploadErrors(failed) if failed else None
