"""Commits one aggregation job: the outcome of every report is decided and written in one transaction."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from itertools import repeat

from tacit.aggregator.records import ACCEPTED, OutcomeRow
from tacit.aggregator.store import CommonTx
from tacit.dap_errors import ReportError
from tacit.roles.aggregator import Party, Rejection, Tally
from tacit.roles.jobs import HelperJob
from tacit.task import Task


@dataclass(frozen=True)
class PreparedJob:
    """A job that the role has judged. ``tallies`` sums its verified reports, nearly all of which will count."""

    job: HelperJob
    batch_id: bytes | None
    tallies: dict[bytes, Tally] = field(repr=False)


async def commit(tx: CommonTx, party: Party, prepared: PreparedJob) -> bytes:
    """The commit rule (DAP-18 section 4.5.3.5) with tokens; returns the encoded response. Safe in a shared transaction:
    the database's constraints decide whether a report id or a token is free."""
    task, job = party.task, prepared.job
    closed = await tx.closed_times(task, prepared.batch_id, job.rows.times)
    rows = _rows(task, prepared, closed)
    taken = await tx.record(task.task_id, rows)
    # a report that was recorded before keeps the verdict that it got then; otherwise its token was spent
    in_question = taken | {one.report_id for one in job.rejections}.difference(row.report_id for row in rows)
    before = await tx.known(task.task_id, sorted(in_question)) if in_question else {}
    spent = [row.report_id for row in rows if row.report_id in taken and row.report_id not in before]
    replayed = ReportError.REPORT_REPLAYED
    refused = {report_id: ReportError(known.code or replayed) for report_id, known in before.items()}
    refused |= dict.fromkeys(spent, replayed)
    causes = Counter(row.cause for row in rows if row.code != ACCEPTED and row.report_id not in refused)
    causes += Counter(one.cause for one in job.rejections if _has_no_row(one) and one.report_id not in refused)
    await tx.count_rejections(task.task_id, causes + Counter({"token-spent": len(spent)}))
    if closed:
        late = [
            report_id for report_id, time in zip(job.rows.report_ids, job.rows.times, strict=True) if time in closed
        ]
        refused = dict.fromkeys(late, ReportError.BATCH_COLLECTED) | refused
    await tx.add_tallies(task, await _tallies(party, prepared, refused))
    return job.respond(refused, task.version)


def _has_no_row(rejection: Rejection) -> bool:
    """Whether no outcome row is kept. A report without a good token is only counted (P31): the same report would get
    the same verdict again."""
    return rejection.final and rejection.nullifier is None


def _rows(task: Task, prepared: PreparedJob, closed: set[int]) -> list[OutcomeRow]:
    """The outcome rows to store, in the order of the request: of two reports with one token, the first gets it.
    ``closed`` holds the times for which no report counts any more."""
    job = prepared.job
    buckets = job.rows.buckets(task, prepared.batch_id)
    verified = list(map(OutcomeRow, job.rows.report_ids, job.rows.nullifiers, repeat(ACCEPTED), repeat(""), buckets))
    if not closed and not job.rejections:
        return verified
    rows = {
        one.report_id: OutcomeRow(one.report_id, one.nullifier, int(one.code), one.cause)
        for one in job.rejections
        if one.final and not _has_no_row(one)
    }
    late = int(ReportError.BATCH_COLLECTED)
    for row, time in zip(verified, job.rows.times, strict=True):
        in_time = time not in closed
        rows[row.report_id] = row if in_time else row._replace(code=late, cause="batch-collected", bucket=None)
    return [rows[report_id] for report_id in job.report_ids if report_id in rows]


async def _tallies(party: Party, prepared: PreparedJob, refused: dict[bytes, ReportError]) -> dict[bytes, Tally]:
    """Tallies by bucket of the verified reports without those in ``refused``, which are summed anew if there are
    any."""
    rows = prepared.job.rows
    kept = [at for at, report_id in enumerate(rows.report_ids) if report_id not in refused]
    if len(kept) == len(rows):
        return prepared.tallies
    return await asyncio.to_thread(rows.keep(kept).tallies, party, prepared.batch_id)
