"""Both aggregators' part of a whole aggregation job, in stages over all its reports instead of report by report.

Open, validate, check the token, begin to verify, and finish: DAP-18 sections 4.5.2 and 4.5.3. Tests compare every
verdict and every byte with functions that process one report as the draft says. Nothing here does I/O, reads a clock or
draws randomness: after a crash the same stored reports give the same states again. It is CPU work: callers run it in a
thread, ``chunk_size`` reports at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar

from tacit.dap_errors import ReportError
from tacit.errors import DecodeError, TacitError
from tacit.fast_paths import ANSWERS
from tacit.messages import REPORT_ID_SIZE, AggregationJobResp, VerifyResp
from tacit.messages.slices import (
    ReportSlices,
    join_continue,
    join_continues,
    join_reject,
    join_verify_init,
    slice_reports,
    slice_response,
)
from tacit.messages.version_codec import encode_init, vector
from tacit.roles.aggregator import Party, Rejection
from tacit.roles.crypto import OPENSSL, JobCrypto
from tacit.roles.leader import JobAbandonedError, job_extensions, match_response, refused_by_helper, report_bytes
from tacit.roles.opening import Opened, open_reports
from tacit.roles.rows import Rows, pick, pick_rows
from tacit.task import CLOCK_LEEWAY, Task
from tacit.vdaf import ping_pong
from tacit.vdaf.native.batch import VerifiedBatch
from tacit.vdaf.ping_pong import MessageType
from tacit.version import DAP_18, DapVersion

CHUNK = 256
"""Most reports per hand-over to a thread: 256 histograms of 256 buckets are 5 MB and, with OpenSSL, 20 ms."""

CHUNK_BYTES = 16 << 20
"""Most bytes of a job's reports that are in memory at a time, unless one report has more."""

Seen = Callable[[bytes, bytes], None]
"""Called with report id and VDAF bytes of every share that verified, which is what an aggregator could read (for
demonstrations)."""

Report = TypeVar("Report")
Part = TypeVar("Part")

VERIFICATION_KEY_ID = 0
"""A task has one verification key; Prio3 has no aggregation parameter, and needs no second round."""

# MemoryError and OSError are no report's fault: they end the job's preparation, which is tried again later
OWN_ERRORS = (TacitError, ValueError, ArithmeticError, LookupError)
"""Errors on our own side that may concern one report and must then cost only that report."""


def held_together(task: Task) -> int:
    """How many reports of a task a job has in memory at a time. The helper's shares are as large as the leader's once
    their seeds are expanded."""
    return max(1, CHUNK_BYTES // report_bytes(task))


def chunk_size(task: Task) -> int:
    """How many reports of a task are handed over to a thread together."""
    return min(CHUNK, held_together(task))


@dataclass(frozen=True)
class LeaderJob:
    """Reports that the Leader considers valid so far, in order, with what it needs to finish them: the encoded
    ``VerifyInit`` of each and one joint randomness seed per report (none for a VDAF without joint randomness)."""

    rows: Rows
    verify_inits: list[bytes] = field(repr=False)
    seeds: bytes = field(repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def report_ids(self) -> list[bytes]:
        """The reports' ids, in the order of the rows."""
        return self.rows.report_ids

    def keep(self, indices: Sequence[int]) -> LeaderJob:
        """The reports at ``indices``, in their order."""
        seeds = pick_rows(self.seeds, len(self), indices)
        return LeaderJob(self.rows.keep(indices), pick(self.verify_inits, indices), seeds)

    @classmethod
    def joined(cls, jobs: Sequence[Self]) -> LeaderJob:
        """All reports of ``jobs``, in order."""
        return LeaderJob(
            Rows.joined([job.rows for job in jobs]),
            [init for job in jobs for init in job.verify_inits],
            b"".join([job.seeds for job in jobs]),
        )


@dataclass(frozen=True)
class HelperJob:
    """The Helper's outcome: every report's id in the order of the request, the verified ones (in order, with the
    message that finishes each at the Leader) and the others (in order)."""

    report_ids: list[bytes]
    rows: Rows
    outbounds: list[bytes] = field(repr=False)
    rejections: list[Rejection]

    @classmethod
    def joined(cls, jobs: Sequence[Self]) -> HelperJob:
        """All reports of ``jobs``, in order."""
        return HelperJob(
            [report_id for job in jobs for report_id in job.report_ids],
            Rows.joined([job.rows for job in jobs]),
            [outbound for job in jobs for outbound in job.outbounds],
            [rejection for job in jobs for rejection in job.rejections],
        )

    def respond(self, refused: Mapping[bytes, ReportError], version: DapVersion = DAP_18) -> bytes:
        """The encoded ``AggregationJobResp``. ``refused``: the store's refusals, which override our own verdict."""
        if not self.rejections and not refused:
            return vector(join_continues(self.report_ids, self.outbounds), version)
        # the store's come last: a report that was recorded before keeps the answer that it got then
        codes = {rejection.report_id: rejection.code for rejection in self.rejections} | dict(refused)
        outbounds = dict(zip(self.rows.report_ids, self.outbounds, strict=True))
        answers = [
            join_reject(report_id, codes[report_id], version)
            if report_id in codes
            else join_continue(report_id, outbounds[report_id])
            for report_id in self.report_ids
        ]
        return vector(b"".join(answers), version)


def prepare_leader(
    party: Party,
    reports: Sequence[bytes],
    now: float,
    crypto: JobCrypto = OPENSSL,
    seen: Seen | None = None,
    *,
    again: bool = False,
) -> tuple[LeaderJob, list[Rejection]]:
    """Open encoded ``Report``s and begin to verify them; return the valid ones so far, and the others. A report from
    the future waits until its time has come, so that no Helper whose clock is behind refuses it.

    An error on our own side costs only the report that it concerns: cause "internal". ``again``: all of these passed
    before and must pass again, whatever other reports they are processed with and whatever the clock says now (the
    states of a sent job, P14).
    """
    due = math.inf if again else now

    def prepare(some: Sequence[bytes]) -> tuple[LeaderJob, list[Rejection]]:
        return _lead(party, slice_reports(some), due, crypto, seen, bounded=not again)

    def give_up(report: bytes, error: Exception) -> tuple[LeaderJob, list[Rejection]]:
        return _NO_LEADER_JOB, [_internal(report[:REPORT_ID_SIZE], error)]

    parts = _isolate_failures(prepare, give_up, reports)
    return LeaderJob.joined([job for job, _ in parts]), [rejection for _, some in parts for rejection in some]


def _lead(
    party: Party, reports: list[ReportSlices], now: float, crypto: JobCrypto, seen: Seen | None, *, bounded: bool
) -> tuple[LeaderJob, list[Rejection]]:
    good, shares, rejected = _open_reports(party, reports, now, 0.0, crypto)
    batch = party.batch.leader(
        [reports[at].report_id for at in good],
        [reports[at].public_share for at in good],
        [share for share, _ in shares],
        bounded=bounded,
    )
    for at, (_, nullifier), error in zip(good, shares, batch.errors, strict=True):
        if error is not None:
            rejected[at] = _reject_unverified(reports[at], nullifier, malformed=isinstance(error, DecodeError))
    kept = _kept_places(good, batch.errors)
    inits = [join_verify_init(reports[at], outbound) for at, outbound in zip(kept, batch.outbounds, strict=True)]
    rows = _rows(reports, good, shares, batch, seen)
    return LeaderJob(rows, inits, batch.seeds), _in_order(rejected)


def encode_request(task: Task, job: LeaderJob, batch_id: bytes | None) -> bytes:
    """The encoded ``AggregationJobInitReq``. Raises ``ValueError`` where a leader-selected task has no batch."""
    head = (VERIFICATION_KEY_ID, b"", job_extensions(task, batch_id))
    return encode_init(head, b"".join(job.verify_inits), task.version)


def finish_leader(job: LeaderJob, response: bytes, version: DapVersion = DAP_18) -> tuple[Rows, list[Rejection]]:
    """Finish every report with the Helper's encoded answer; returns those that count, and the others in order.

    Raises ``DecodeError`` for a malformed response and ``JobAbandonedError`` for a response to other reports. The seeds
    that are compared here are known to both aggregators.
    """
    # Prio3's verify_next only compares the Helper's message with the Leader's own seed, if there is one. So the one
    # answer that finishes a report is known beforehand, and a response that finishes all is compared as a whole.
    size = len(job.seeds) // len(job) if len(job) else 0
    finish = ping_pong.head(MessageType.FINISH, size)
    messages = [finish + job.seeds[at * size : (at + 1) * size] for at in range(len(job))]
    ANSWERS.items += len(job)
    if response == vector(join_continues(job.report_ids, messages), version):
        return job.rows, []
    ANSWERS.fallbacks += len(job)
    due = [join_continue(*one) for one in zip(job.report_ids, messages, strict=True)]
    answers = slice_response(response, due, version)
    if len(answers) != len(job):
        raise JobAbandonedError("the Helper answered a different number of reports than were sent")
    # an answer that is as expected has the right id already
    others = {at: answer for at, answer in enumerate(answers) if answer is not None}
    match_response([job.report_ids[at] for at in others], AggregationJobResp(tuple(others.values())))
    accepted = job.rows.keep([at for at in range(len(job)) if at not in others])
    return accepted, [_not_finished(job.rows, at, answer) for at, answer in others.items()]


def _not_finished(rows: Rows, at: int, answer: VerifyResp) -> Rejection:
    report_id, nullifier = rows.report_ids[at], rows.nullifiers[at]
    refusal = refused_by_helper(report_id, nullifier, answer)
    # neither a refusal nor what was expected: another message, which verify_next would reject
    return refusal or Rejection(report_id, ReportError.VDAF_VERIFY_ERROR, "proof", nullifier)


def prepare_helper(
    party: Party,
    reports: Sequence[ReportSlices],
    now: float,
    crypto: JobCrypto = OPENSSL,
    seen: Seen | None = None,
) -> HelperJob:
    """Open and verify every report. An error on our own side costs only the report that it concerns."""

    def give_up(report: ReportSlices, error: Exception) -> HelperJob:
        return HelperJob([report.report_id], Rows([], [], [], b""), [], [_internal(report.report_id, error)])

    return HelperJob.joined(_isolate_failures(lambda some: _help(party, some, now, crypto, seen), give_up, reports))


def _help(party: Party, reports: Sequence[ReportSlices], now: float, crypto: JobCrypto, seen: Seen | None) -> HelperJob:
    good, shares, rejected = _open_reports(party, reports, now, CLOCK_LEEWAY, crypto)
    batch = party.batch.helper(
        [reports[at].report_id for at in good],
        [reports[at].public_share for at in good],
        [share for share, _ in shares],
        [reports[at].tail for at in good],
    )
    for at, (share, nullifier), error in zip(good, shares, batch.errors, strict=True):
        if error is not None:
            # invalid_message is for shares that do not decode; what the exchange rejects is vdaf_verify_error (4.5.3)
            malformed = _is_malformed(party, reports[at].public_share, share)
            rejected[at] = _reject_unverified(reports[at], nullifier, malformed=malformed)
    rows = _rows(reports, good, shares, batch, seen)
    return HelperJob([report.report_id for report in reports], rows, batch.outbounds, _in_order(rejected))


def _is_malformed(party: Party, public_share: bytes, input_share: bytes) -> bool:
    """Whether the Client's share does not decode, rather than the Leader's message."""
    try:
        party.task.vdaf.decode_public_share(public_share)
        party.task.vdaf.decode_input_share(ping_pong.HELPER, input_share)
    except DecodeError:
        return True
    return False


def _open_reports(
    party: Party, reports: Sequence[ReportSlices], now: float, leeway: float, crypto: JobCrypto
) -> tuple[list[int], list[Opened], dict[int, Rejection]]:
    """The positions in ``reports`` of those that opened, their shares, and the rejections of the others by position. A
    share that a device encrypted beneath HPKE is opened last, and only for good tokens: it is the most work."""
    good: dict[int, Opened] = {}
    rejected: dict[int, Rejection] = {}
    for at, opened in enumerate(open_reports(party, reports, now, leeway, crypto)):
        if isinstance(opened, Rejection):
            rejected[at] = opened
            continue
        payload, nullifier = opened
        try:
            good[at] = party.input_share(payload), nullifier
        except DecodeError:
            rejected[at] = _reject_unverified(reports[at], nullifier, malformed=True)
    return list(good), list(good.values()), rejected


def _kept_places(good: Sequence[int], errors: Sequence[Exception | None]) -> list[int]:
    return [at for at, error in zip(good, errors, strict=True) if error is None]


def _rows(
    reports: Sequence[ReportSlices],
    good: Sequence[int],
    shares: Sequence[Opened],
    batch: VerifiedBatch,
    seen: Seen | None,
) -> Rows:
    """The rows of the reports that passed verification."""
    verified = [share for share, error in zip(shares, batch.errors, strict=True) if error is None]
    kept = [reports[at] for at in _kept_places(good, batch.errors)]
    if seen is not None:
        for report, (share, _) in zip(kept, verified, strict=True):
            seen(report.report_id, share)
    return Rows(
        [report.report_id for report in kept],
        [report.time for report in kept],
        [nullifier for _, nullifier in verified],
        batch.out_shares,
    )


def _reject_unverified(report: ReportSlices, nullifier: bytes, *, malformed: bool) -> Rejection:
    if malformed:
        return Rejection(report.report_id, ReportError.INVALID_MESSAGE, "share-malformed", nullifier)
    return Rejection(report.report_id, ReportError.VDAF_VERIFY_ERROR, "proof", nullifier)


def _in_order(rejected: Mapping[int, Rejection]) -> list[Rejection]:
    """Rejections in the order of their positions."""
    return [rejected[at] for at in sorted(rejected)]


def _internal(report_id: bytes, error: Exception) -> Rejection:
    return Rejection(report_id, ReportError.REPORT_DROPPED, "internal", error=error)


_NO_LEADER_JOB = LeaderJob(Rows([], [], [], b""), [], b"")


def _isolate_failures(
    work: Callable[[Sequence[Report]], Part], give_up: Callable[[Report, Exception], Part], reports: Sequence[Report]
) -> list[Part]:
    """Run ``work`` on all reports at once; where that fails, on halves, down to the one report that causes the
    failure."""
    try:
        return [work(reports)]
    except OWN_ERRORS as error:
        if len(reports) == 1:
            return [give_up(reports[0], error)]
        if not reports:
            raise
    # One bad report among n costs less than three times the work on all: n, then n/2 twice, n/4 twice, and so on. The
    # work has no effects, so that it is safe to do it again.
    half = len(reports) // 2
    return _isolate_failures(work, give_up, reports[:half]) + _isolate_failures(work, give_up, reports[half:])
