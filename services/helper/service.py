"""The Helper's answers: aggregation jobs and aggregate shares, each decided by its own checks and counts.

What a request changes and the response to it commit together; an identical request gets that response again, byte
for byte, and nothing is decided twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from services.helper.store import ACCEPTED, HelperStore, HelperTx
from tacit.aggregator.parties import Parties
from tacit.aggregator.status import recipe_status
from tacit.aggregator.work import in_chunks, resource_id
from tacit.errors import DapAbort, DapProblem, DecodeError, ReportError, TacitError
from tacit.messages import (
    AggregateShare,
    AggregateShareReq,
    AggregationJobInitReq,
    AggregationJobResp,
    BatchMode,
    Role,
    VerifyInit,
)
from tacit.roles import batches
from tacit.roles import helper as role
from tacit.roles.aggregator import Party, Rejection
from tacit.roles.helper import Verified
from tacit.service.app import Deps
from tacit.service.log import get_logger
from tacit.task import seal_aggregate_share

Outcome = Verified | Rejection


class Helper:
    """One Helper over its store."""

    def __init__(self, store: HelperStore, parties: Parties, deps: Deps, max_job: int) -> None:
        self._store = store
        self._parties = parties
        self._deps = deps
        self._max_job = max_job
        self._log = get_logger("helper")

    async def aggregate(self, party: Party, body: bytes) -> tuple[bytes, bytes]:
        """An aggregation job's id and response. Raises ``DapAbort``."""
        task = party.task
        job_id = resource_id(b"aggregation job", task.task_id, body)
        async with self._store.read() as tx:
            known = await tx.job_response(task.task_id, job_id)
        if known is not None:
            return job_id, known
        request = self._decoded(party, body)
        batch_id = role.check_init_request(task, request)
        now = self._deps.clock.now()
        outcomes = await in_chunks(lambda init: self._prepare(party, init, now), request.verify_inits)
        async with self._store.transaction() as tx:
            known = await tx.job_response(task.task_id, job_id)
            if known is None:
                decided = await self._commit(tx, party, batch_id, outcomes)
                known = AggregationJobResp(tuple(role.respond(outcome) for outcome in decided)).encode()
                await tx.put_job(task.task_id, job_id, known)
        self._observe(outcomes)
        return job_id, known

    def _decoded(self, party: Party, body: bytes) -> AggregationJobInitReq:
        try:
            request = AggregationJobInitReq.decode(body)
        except DecodeError as error:
            raise DapAbort(DapProblem.INVALID_MESSAGE, str(error)) from error
        if len(request.verify_inits) > self._max_job:
            raise DapAbort(DapProblem.INVALID_MESSAGE, f"a job may hold at most {self._max_job} reports")
        return request

    def _prepare(self, party: Party, init: VerifyInit, now: float) -> Outcome:
        """The role's verdict; an error of our own costs this one report, never the job."""
        try:
            return role.prepare_report(party, init, now)
        except (TacitError, ValueError, ArithmeticError, LookupError) as error:
            self._log.error("report_failed", error=error)
            report_id = init.report_share.report_metadata.report_id
            return Rejection(report_id, ReportError.REPORT_DROPPED, "internal")

    async def _commit(
        self, tx: HelperTx, party: Party, batch_id: bytes | None, outcomes: Sequence[Outcome]
    ) -> list[Outcome]:
        """The commit rule (section 4.5.3.5) with tokens: what each report comes to, written in this
        transaction."""
        task = party.task
        before = await tx.decided(task.task_id, [outcome.report_id for outcome in outcomes])
        closed = await tx.is_released(task, batch_id)
        fresh = [outcome for outcome in outcomes if outcome.report_id not in before]
        refused = await tx.reserve(
            task.task_id,
            [(nullifier, outcome.report_id) for outcome in fresh if (nullifier := _nullifier(outcome))],
        )
        decided = [_decision(outcome, before, refused, closed=closed) for outcome in outcomes]
        counted = [o.accepted for o in decided if isinstance(o, Verified)]
        rejected = [o for o in decided if isinstance(o, Rejection) and o.final and o.report_id not in before]
        verdicts = {report.report_id: (ACCEPTED, "") for report in counted}
        verdicts |= {o.report_id: (int(o.code), o.cause) for o in rejected}
        await tx.decide(task.task_id, verdicts)
        await tx.settle_all(task, counted, rejected, batch_id)
        return decided

    def _observe(self, outcomes: Sequence[Outcome]) -> None:
        if self._deps.observer is None:
            return
        for outcome in outcomes:
            if isinstance(outcome, Verified):
                self._deps.saw(
                    "helper",
                    report_id=outcome.report_id.hex(),
                    share_bytes=len(outcome.payload),
                    first_bytes=outcome.payload[:16].hex(),
                )

    async def job(self, party: Party, job_id: bytes) -> bytes | None:
        """The response of an aggregation job, if it is known."""
        async with self._store.read() as tx:
            return await tx.job_response(party.task.task_id, job_id)

    async def drop_job(self, party: Party, job_id: bytes) -> bool:
        """Forget a response; False if there is none. Report ids and tokens stay spent."""
        async with self._store.transaction() as tx:
            return await tx.drop_job(party.task.task_id, job_id)

    async def aggregate_share(self, party: Party, body: bytes) -> tuple[bytes, bytes]:
        """An aggregate share's id and answer, which closes the batch for good. Raises ``Abort``."""
        task = party.task
        share_id = resource_id(b"aggregate share", task.task_id, body)
        async with self._store.transaction() as tx:
            known = await tx.share_response(task.task_id, share_id)
            if known is None:
                known = await self._release(tx, party, body)
                await tx.put_share(task.task_id, share_id, known)
        await self._store.checkpoint()
        return share_id, known

    async def _release(self, tx: HelperTx, party: Party, body: bytes) -> bytes:
        task = party.task
        try:
            request = AggregateShareReq.decode(body)
        except DecodeError as error:
            raise DapAbort(DapProblem.INVALID_MESSAGE, str(error)) from error
        batches.check_share_request(task, request)
        batches.check_interval_over(task, self._deps.clock.now())
        leader_selected = task.batch_mode is BatchMode.LEADER_SELECTED
        batch_id = request.batch_selector.config if leader_selected else None
        if await tx.is_released(task, batch_id):
            raise DapAbort(DapProblem.BATCH_OVERLAP, "the batch was released before")
        count = await tx.accepted_count(task.task_id, batch_id)
        batches.check_size(task, count)
        batches.check_rate(task, await tx.accepted_count(task.task_id))
        tally = await tx.tally(task, batch_id)
        agreed = tally is not None and (tally.count, tally.checksum) == (
            request.report_count,
            request.checksum,
        )
        if tally is None or not agreed or tally.count != count:
            raise DapAbort(DapProblem.BATCH_MISMATCH, "count or checksum of the batch differ")
        sealed = seal_aggregate_share(
            task,
            Role.HELPER,
            request.collection_job_req.encode(),
            tally.agg_share,
            self._deps.entropy,
        )
        await tx.release(task.task_id, request.batch_selector.config)
        await tx.scrub_buckets(task.task_id, batch_id)
        return AggregateShare(sealed).encode()

    async def share(self, party: Party, share_id: bytes) -> bytes | None:
        """An aggregate share's answer, if it is known."""
        async with self._store.read() as tx:
            return await tx.share_response(party.task.task_id, share_id)

    async def drop_share(self, party: Party, share_id: bytes) -> bool:
        """Forget an answer; its batch stays closed. False if there is none."""
        async with self._store.transaction() as tx:
            return await tx.drop_share(party.task.task_id, share_id)

    async def status(self, party: Party) -> dict[str, object]:
        """Counts of one task: nothing about any single report."""
        task_id = party.task.task_id
        async with self._store.read() as tx:
            reports = await tx.report_counts(task_id)
            return {
                "task_id": party.task.task_id_text,
                "aggregated": reports.get("aggregated", 0),
                "rejected": reports.get("rejected", 0),
                "rejected_by_cause": await tx.rejections(task_id),
                "distinct_nullifiers": await tx.accepted_count(task_id),
                "jobs": {"done": await tx.job_count(task_id)},
                "released": await tx.release_count(task_id),
            }

    async def recipes(self) -> list[dict[str, str]]:
        """Every recipe that names this aggregator, with the rule that refused it."""
        async with self._store.read() as tx:
            return recipe_status(await tx.tasks())


def _nullifier(outcome: Outcome) -> bytes | None:
    return outcome.accepted.nullifier if isinstance(outcome, Verified) else outcome.nullifier


def _decision(outcome: Outcome, before: dict[bytes, int], refused: set[bytes], *, closed: bool) -> Outcome:
    """One report's fate: decided before, its token spent elsewhere, too late for its batch, or as verified."""
    report_id = outcome.report_id
    if report_id in before:
        code = before[report_id]
        if code == ACCEPTED:
            return Rejection(report_id, ReportError.REPORT_REPLAYED, "report-replayed")
        return Rejection(report_id, ReportError(code), "report-replayed")
    if report_id in refused:
        return Rejection(report_id, ReportError.REPORT_REPLAYED, "token-spent")
    if closed and isinstance(outcome, Verified):
        return Rejection(report_id, ReportError.BATCH_COLLECTED, "batch-collected", outcome.accepted.nullifier)
    return outcome
