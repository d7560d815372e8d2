"""The Helper's answers: aggregation jobs and aggregate shares, each decided by its own checks and counts.

What a request changes and the response to it commit together; an identical request gets that response again, byte
for byte, and nothing is decided twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from services.helper.commit import PreparedJob, commit
from services.helper.ports import HelperTx
from tacit.aggregator.ports import SharedStore
from tacit.aggregator.status import recipe_status
from tacit.aggregator.work import resource_id
from tacit.errors import CryptoError, DapAbort, DapProblem, DecodeError, Fatal, Refusal
from tacit.messages import AggregateShare, AggregateShareReq, AggregationJobResp, BatchMode, Role
from tacit.messages.framing import decode_framed
from tacit.messages.slices import JobSlices, ReportSlices, slice_job
from tacit.roles import batches
from tacit.roles import helper as role
from tacit.roles.aggregator import Party
from tacit.roles.crypto import OPENSSL, JobCrypto
from tacit.roles.jobs import CHUNK, HelperJob, prepare_helper
from tacit.roles.release_noise import noisy_share
from tacit.service.app import Deps
from tacit.service.limits import ByteBudget
from tacit.service.log import get_logger
from tacit.task import Task, seal_aggregate_share


class Helper:
    """One Helper over its store."""

    def __init__(
        self, store: SharedStore[HelperTx], deps: Deps, max_job: int, budget: ByteBudget, crypto: JobCrypto = OPENSSL
    ) -> None:
        """``budget``: bytes that all jobs in work may hold."""
        self._store = store
        self._deps = deps
        self._max_job = max_job
        self._budget = budget
        self._crypto = crypto
        self._log = get_logger("helper")

    async def aggregate(self, party: Party, body: bytes, chosen: bytes | None = None) -> tuple[bytes, bytes]:
        """An aggregation job's id (``chosen`` by the Leader, or ours) and response. Raises ``DapAbort``, and ``Abort``
        (503) for a job that finds no room in memory beside the others."""
        task = party.task
        job_id = chosen or resource_id(b"aggregation job", task.task_id, body)
        async with self._store.read() as tx:
            known = await tx.job_response(task.task_id, job_id)
        if known is not None:
            if chosen is not None:
                await self._demand_same(task, body, known)
            return job_id, known
        request = await self._decoded(task, body)
        batch_id = role.check_job(task, request)
        with self._budget.reserve(self._rows_size(task, len(request.reports), len(body))):
            job = await self._prepare(party, request.reports)
            tallies = await asyncio.to_thread(job.rows.tallies, party, batch_id)
            return job_id, await self._answer(party, job_id, PreparedJob(job, batch_id, tallies))

    def _rows_size(self, task: Task, reports: int, body: int) -> int:
        """Bytes of the out shares of a job; a job that is larger than everything allowed has to run alone."""
        size = reports * task.vdaf.field.ENCODED_SIZE * task.vdaf.flp.OUTPUT_LEN
        return min(size, max(0, self._budget.max_bytes - body))

    async def _demand_same(self, task: Task, body: bytes, response: bytes) -> None:
        """Raise ``DapAbort`` where a job's id comes again with other reports than those that were answered."""
        asked = [report.report_id for report in (await self._decoded(task, body)).reports]
        answered = decode_framed(AggregationJobResp, response, task.version).verify_resps
        if asked != [resp.report_id for resp in answered]:
            raise DapAbort(DapProblem.INVALID_MESSAGE, "the id is that of a job with other reports")

    async def _decoded(self, task: Task, body: bytes) -> JobSlices:
        try:
            request = await asyncio.to_thread(slice_job, body, task.version)
        except DecodeError as error:
            raise DapAbort(DapProblem.INVALID_MESSAGE, str(error)) from error
        if len(request.reports) > self._max_job:
            raise DapAbort(DapProblem.INVALID_MESSAGE, f"a job may hold at most {self._max_job} reports")
        return request

    async def _prepare(self, party: Party, reports: Sequence[ReportSlices]) -> HelperJob:
        """The verdicts of the role, in a worker thread and in chunks, so that other requests get their turn."""
        now = self._deps.clock.now()
        shares: list[tuple[bytes, bytes]] = []
        seen = None if self._deps.observer is None else lambda *share: shares.append(share)
        parts = [
            await asyncio.to_thread(prepare_helper, party, reports[at : at + CHUNK], now, self._crypto, seen)
            for at in range(0, len(reports), CHUNK)
        ]
        job = HelperJob.joined(parts)
        for rejection in job.rejections:
            if rejection.error is not None:
                self._log.error("report_failed", error=rejection.error)
        for report_id, share in shares:
            self._deps.saw("helper", report_id=report_id.hex(), share_bytes=len(share), first_bytes=share[:16].hex())
        return job

    async def _answer(self, party: Party, job_id: bytes, prepared: PreparedJob) -> bytes:
        """Commit the job and its answer together, unless another process was first: then its answer."""
        task_id = party.task.task_id
        async with self._store.transaction(shared=True) as tx:
            await tx.demand_open(party, self._deps.clock.now())
            # before anything is recorded: of two processes with one request the second waits here, and gives the answer
            # of the first instead of finding its own reports replayed
            if not await tx.begin_job(task_id, job_id):
                known = await tx.job_response(task_id, job_id)
                if known is None:
                    raise Fatal("the id of an aggregation job belongs to another task")
                return known
            response = await commit(tx, party, prepared)
            await tx.end_job(job_id, response)
            return response

    async def job(self, party: Party, job_id: bytes) -> bytes | None:
        """The response of an aggregation job, if it is known."""
        async with self._store.read() as tx:
            return await tx.job_response(party.task.task_id, job_id)

    async def drop_job(self, party: Party, job_id: bytes) -> bool:
        """Forget a response; False if there is none. Report ids and tokens stay spent."""
        async with self._store.transaction() as tx:
            return await tx.drop_job(party.task.task_id, job_id)

    async def aggregate_share(self, party: Party, body: bytes, chosen: bytes | None = None) -> tuple[bytes, bytes]:
        """An aggregate share's id (``chosen`` by the Leader, or ours) and answer, which closes the batch for good.
        Raises ``Abort``."""
        task = party.task
        share_id = chosen or resource_id(b"aggregate share", task.task_id, body)
        async with self._store.transaction() as tx:
            await tx.demand_open(party, self._deps.clock.now())
            known = await tx.share_response(task.task_id, share_id)
            if known is None:
                known = await self._release(tx, party, body)
                await tx.put_share(task.task_id, share_id, known)
        # before the answer leaves: the old bytes of the overwritten buckets are in the write-ahead log until now
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
        # drawn once, in the transaction that keeps the answer: noise drawn anew for a repeated request averages out
        share = noisy_share(task, tally.agg_share, self._deps.entropy)
        collection = request.collection_job_req.encode()
        try:
            sealed = seal_aggregate_share(task, Role.HELPER, collection, share, self._deps.entropy)
        except CryptoError as error:  # for good: a Leader that took it for passing would ask for ever
            raise Refusal("hpke-key-invalid", "the aggregate share cannot be sealed to the collector's key") from error
        if task.publishes_share:
            await tx.keep_census_share(task.task_id, tally.count, share)
        await tx.release(task.task_id, selector.config)
        await tx.scrub_buckets(task.task_id, batch)
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
