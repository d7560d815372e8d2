"""The Helper's answers: aggregation jobs and aggregate shares. The Helper decides each by its own checks and counts.

The changes of a request and the response to it commit together. An identical request gets the same response again, byte
for byte, and nothing is decided twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from services.helper.commit import PreparedJob, commit
from services.helper.store import HelperStore, HelperTx
from tacit.aggregator.records import recipe_status
from tacit.aggregator.work import resource_id
from tacit.dap_errors import DapAbort, DapProblem
from tacit.errors import CryptoError, DecodeError, Fatal, Refusal
from tacit.messages import AggregateShare, AggregateShareReq, AggregationJobResp, BatchMode, Role
from tacit.messages.slices import JobSlices, ReportSlices, slice_job
from tacit.messages.version_codec import decode_versioned
from tacit.roles import batches
from tacit.roles import helper as role
from tacit.roles.aggregator import Party
from tacit.roles.crypto import OPENSSL, JobCrypto
from tacit.roles.jobs import HelperJob, chunk_size, prepare_helper
from tacit.roles.release_noise import noisy_share
from tacit.service.app import ServiceEnv
from tacit.service.base.log import get_logger
from tacit.service.http.limits import ByteBudget
from tacit.task import Task, seal_aggregate_share


class AnsweredError(Exception):
    """Another process has answered the job: what this one has recorded for it is rolled back."""


class Helper:
    """The Helper's protocol (DAP-18) over its store. A repeated request gets the answer that was stored for the
    first."""

    def __init__(
        self, store: HelperStore, deps: ServiceEnv, max_job: int, budget: ByteBudget, crypto: JobCrypto = OPENSSL
    ) -> None:
        """``budget`` bounds the bytes that all jobs in progress may hold."""
        self._store = store
        self._deps = deps
        self._max_job = max_job
        self._budget = budget
        self._crypto = crypto
        self._log = get_logger("helper")

    async def aggregate(self, party: Party, body: bytes, chosen: bytes | None = None) -> tuple[bytes, bytes]:
        """Run an aggregation job; returns its id (``chosen`` by the Leader, or a hash of ``body``) and its response,
        stored or new. Nothing is stored of a job under an unknown verification key. Raises ``DapAbort``, and
        ``Abort`` (503) for a job for which there is no memory beside the others."""
        task = party.task
        job_id = chosen or resource_id(b"aggregation job", task.task_id, body)
        async with self._store.read() as tx:
            known = await tx.job_response(task.task_id, job_id)
        if known is not None:
            if chosen is not None:
                # raise `DapAbort` if a job's id is used again with other reports than those that were answered
                asked = [report.report_id for report in (await self._decode(task, body)).reports]
                answered = decode_versioned(AggregationJobResp, known, task.version).verify_resps
                if asked != [resp.report_id for resp in answered]:
                    raise DapAbort(DapProblem.INVALID_MESSAGE, "the id is that of a job with other reports")
            return job_id, known
        request = await self._decode(task, body)
        batch_id = role.check_job(task, request)
        if not role.knows_key(request):
            return job_id, role.refuse_key(task, request)
        with self._budget.reserve(self._rows_size(task, len(request.reports), len(body))):
            job = await self._prepare(party, request.reports)
            tallies = await asyncio.to_thread(job.rows.tallies, party, batch_id)
            return job_id, await self._answer(party, job_id, PreparedJob(job, batch_id, tallies))

    def _rows_size(self, task: Task, reports: int, body: int) -> int:
        """Bytes of a job's output shares. A job that is larger than the whole budget has to run alone."""
        size = reports * task.vdaf.field.ENCODED_SIZE * task.vdaf.flp.OUTPUT_LEN
        return min(size, max(0, self._budget.max_bytes - body))

    async def _decode(self, task: Task, body: bytes) -> JobSlices:
        try:
            request = await asyncio.to_thread(slice_job, body, task.version)
        except DecodeError as error:
            raise DapAbort(DapProblem.INVALID_MESSAGE, str(error)) from error
        if len(request.reports) > self._max_job:
            raise DapAbort(DapProblem.INVALID_MESSAGE, f"a job may hold at most {self._max_job} reports")
        return request

    async def _prepare(self, party: Party, reports: Sequence[ReportSlices]) -> HelperJob:
        """The role's verdicts, computed in a worker thread and in chunks so that other requests get their turn."""
        now = self._deps.clock.now()
        shares: list[tuple[bytes, bytes]] = []
        seen = None if self._deps.observer is None else lambda *share: shares.append(share)
        step = chunk_size(party.task)
        parts = [
            await asyncio.to_thread(prepare_helper, party, reports[at : at + step], now, self._crypto, seen)
            for at in range(0, len(reports), step)
        ]
        job = HelperJob.joined(parts)
        for rejection in job.rejections:
            if rejection.error is not None:
                self._log.error("report_failed", error=rejection.error)
        for report_id, share in shares:
            self._deps.saw("helper", report_id=report_id.hex(), share_bytes=len(share), first_bytes=share[:16].hex())
        return job

    async def _answer(self, party: Party, job_id: bytes, prepared: PreparedJob) -> bytes:
        """Commit the job and its answer together; if another process was first, return that answer."""
        try:
            async with self._store.transaction(shared=True) as tx:
                await tx.demand_open(party, self._deps.clock.now())
                response = await commit(tx, party, prepared)
                # two processes with the same request record the same rows: the second waits for the first, finds its
                # own reports replayed, and then that the job is answered
                await _require_new(tx, party, job_id, response)
                return response
        except AnsweredError:
            known = await self.job(party, job_id)
            if known is None:
                raise Fatal("the id of an aggregation job belongs to another task") from None
            return known

    async def job(self, party: Party, job_id: bytes) -> bytes | None:
        """The stored response of an aggregation job, or None."""
        async with self._store.read() as tx:
            return await tx.job_response(party.task.task_id, job_id)

    async def drop_job(self, party: Party, job_id: bytes) -> bool:
        """Delete a stored response; False if there is none. Report ids and tokens stay spent."""
        async with self._store.transaction(shared=True) as tx:
            return await tx.drop_job(party.task.task_id, job_id)

    async def aggregate_share(self, party: Party, body: bytes, chosen: bytes | None = None) -> tuple[bytes, bytes]:
        """Release an aggregate share; returns its id (``chosen`` by the Leader, or ours) and the answer, which closes
        the batch for good. Raises ``Abort``."""
        task = party.task
        share_id = chosen or resource_id(b"aggregate share", task.task_id, body)
        try:  # before the transaction, which holds up all others
            request = AggregateShareReq.decode(body)
        except DecodeError as error:
            raise DapAbort(DapProblem.INVALID_MESSAGE, str(error)) from error
        # alone, not shared: no job may commit between the count of the batch and its close
        async with self._store.transaction() as tx:
            await tx.demand_open(party, self._deps.clock.now())
            known = await tx.share_response(task.task_id, share_id)
            if known is None:
                known = await self._release(tx, party, request)
                await tx.put_share(task.task_id, share_id, known)
        # before the answer leaves: until now the old bytes of the overwritten buckets are in the write-ahead log
        await self._store.checkpoint()
        return share_id, known

    async def _release(self, tx: HelperTx, party: Party, request: AggregateShareReq) -> bytes:
        task = party.task
        batches.check_share_request(task, request)
        batches.check_interval_over(task, self._deps.vouched.past())
        leader_selected = task.batch_mode is BatchMode.LEADER_SELECTED
        selector = request.batch_selector
        batch = batches.batch_of(task, selector, selector.config if leader_selected else None)
        if await tx.is_released(task, batch):
            raise DapAbort(DapProblem.BATCH_OVERLAP, "the batch was released before")
        count = await tx.accepted_count(task.task_id, batch)
        batches.check_size(task, count)
        batches.check_rate(task, await tx.counted(task.task_id))
        tally = await tx.tally(task, batch)
        agreed = tally is not None and (tally.count, tally.checksum) == (
            request.report_count,
            request.checksum,
        )
        if tally is None or not agreed or tally.count != count:
            raise DapAbort(DapProblem.BATCH_MISMATCH, "count or checksum of the batch differ")
        # drawn once, in the transaction that stores the answer: noise drawn anew for a repeated request would average
        # out
        share = noisy_share(task, tally.agg_share, self._deps.entropy)
        collection = request.collection_job_req.encode()
        try:
            sealed = seal_aggregate_share(task, Role.HELPER, collection, share, self._deps.entropy)
        except CryptoError as error:  # a permanent error: a Leader that took it for a temporary one would ask for ever
            raise Refusal("hpke-key-invalid", "the aggregate share cannot be sealed to the collector's key") from error
        if task.publishes_share:
            await tx.keep_census_share(task.task_id, tally.count, share)
        await tx.release(task.task_id, selector.config)
        await tx.scrub_buckets(task.task_id, batch)
        return AggregateShare(sealed).encode()

    async def share(self, party: Party, share_id: bytes) -> bytes | None:
        """The stored answer of an aggregate share, or None."""
        async with self._store.read() as tx:
            return await tx.share_response(party.task.task_id, share_id)

    async def drop_share(self, party: Party, share_id: bytes) -> bool:
        """Delete the stored answer; its batch stays closed. False if there is none."""
        async with self._store.transaction() as tx:
            return await tx.drop_share(party.task.task_id, share_id)

    async def status(self, party: Party) -> dict[str, object]:
        """Counts of one task, with nothing about any single report. Reads counters, however many reports there are."""
        task_id = party.task.task_id
        async with self._store.read() as tx:
            reports = await tx.report_counts(task_id)
            return {
                "task_id": party.task.task_id_text,
                "aggregated": reports["aggregated"],
                "rejected": reports["rejected"],
                "rejected_by_cause": await tx.rejections(task_id),
                "distinct_nullifiers": reports["aggregated"],  # each has its own (one_report_per_nullifier)
                "answers_kept": await tx.job_count(task_id),
                "released": await tx.release_count(task_id),
            }

    async def recipes(self, after: int, limit: int) -> list[dict[str, str]]:
        """At most ``limit`` recipes that name this aggregator, behind the first ``after``, each with its state and the
        rule that refused it, if any."""
        async with self._store.read() as tx:
            return recipe_status(await tx.tasks(after, limit))


async def _require_new(tx: HelperTx, party: Party, job_id: bytes, response: bytes) -> None:
    if not await tx.add_job(party.task.task_id, job_id, response):
        raise AnsweredError
