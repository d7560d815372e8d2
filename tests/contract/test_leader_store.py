"""The Leader's store keeps its promises on every backend: uploads, jobs under leases, batches, collections."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from infra.lab.kit.reports import make_task_kit
from services.leader.arrivals import make_wakeups
from services.leader.metrics import add_leader_metrics
from services.leader.records import (
    AnsweredJob,
    BatchState,
    CollectionRow,
    CollectionState,
    FailingJob,
    JobRow,
    JobState,
    StoredReport,
    Waiting,
    pack_seqs,
    unpack_seqs,
)
from services.leader.retrying import LeaderJobs
from services.leader.schema import REPORTS
from services.leader.store import LeaderStore
from tacit.adapters.databases.dialect import SLICE
from tacit.adapters.databases.postgres_dialect import _select_among
from tacit.aggregator.batch_yield import Look
from tacit.aggregator.records import ACCEPTED, OutcomeRow, TaskRow, TaskState
from tacit.codec import b64url
from tacit.service.app import METRICS, ServiceEnv, make_app
from tacit.service.metrics import WINDOW_SECONDS
from tacit.task import BatchClose
from tests.contract.conftest import Opening, pair_of
from tests.contract.sessions import until_waiting
from tests.kit.postgres import MakeDatabase

TASK = make_task_kit().task.task_id
AT_B = make_task_kit(batch_close=BatchClose.AT_B).task.task_id
NOW = 1000.0
HOLDER, OTHER = 7, 8


@pytest.fixture
async def leader(opening: Opening[LeaderStore]) -> AsyncIterator[LeaderStore]:
    async with opening(LeaderStore) as found:
        yield found


@pytest.fixture
def pair_url(make_postgres_url: MakeDatabase) -> str:
    return make_postgres_url(LeaderStore)


@pytest.fixture
async def pair(pair_url: str) -> AsyncIterator[tuple[LeaderStore, LeaderStore]]:
    async with pair_of(LeaderStore, pair_url) as found:
        yield found


def report(number: int) -> bytes:
    return number.to_bytes(16, "big")


def upload(number: int, task_id: bytes = TASK) -> StoredReport:
    return StoredReport(task_id, report(number), bytes([number]) * 32, b"body %d" % number)


def job(
    number: int, seqs: tuple[int, ...] = (1, 2), batch_id: bytes | None = None, *, holder: int = 0, expired: int = 0
) -> JobRow:
    return JobRow(report(number), TASK, batch_id, JobState.FORMED, seqs, holder=holder, expired=expired)


async def claim(
    store: LeaderStore, *numbers: int, now: float = NOW, holder: int = HOLDER, until: float = NOW + 60
) -> list[JobRow]:
    async with store.transaction(shared=True) as tx:
        return await tx.claim_jobs([report(number) for number in numbers], now, holder, until)


async def due(store: LeaderStore, now: float = NOW) -> list[bytes]:
    async with store.read() as tx:
        return [job_id for job_id, _ in await tx.due_jobs(now, 10)]


def test_members_are_packed_and_unpacked() -> None:
    for seqs in ((), (1,), (5, 3, 1 << 40)):
        assert unpack_seqs(pack_seqs(seqs)) == seqs


async def test_uploads_wait_in_their_order_until_a_job_has_them(leader: LeaderStore) -> None:
    async with leader.transaction(shared=True) as tx:
        await tx.add_reports([], NOW)
        await tx.add_reports([upload(1), upload(2), upload(3, AT_B)], NOW)
    async with leader.transaction(shared=True) as tx:
        await tx.add_reports([upload(4)], NOW + 5)
        seqs = await tx.pending(TASK, NOW + 5, 10)
        assert [row.report_id for row in await tx.stored(seqs[::-1])] == [report(n) for n in (4, 2, 1)]
        assert [row.body for row in await tx.stored(seqs)] == [b"body 1", b"body 2", b"body 4"]
        assert [tuple(one) for one in await tx.heads([seqs[2], 0])] == [(seqs[2], report(4), bytes([4]) * 32)]
        assert await tx.pending(TASK, NOW, 10) == seqs[:2]
        assert await tx.pending(TASK, NOW + 5, 2) == seqs[:2]
        assert await tx.pending_head(TASK, NOW + 5, 10) == (3, NOW)
        assert await tx.pending_head(TASK, NOW + 5, 1) == (1, NOW)
        assert await tx.pending_head(bytes(32), NOW, 10) == (0, NOW)
        assert await tx.pending_summary(TASK) == (3, NOW)
        assert await tx.pending_summary(bytes(32)) == (0, None)
    async with leader.transaction() as tx:
        await tx.take_pending(TASK, seqs[:2])
        assert await tx.pending(TASK, NOW + 5, 10) == seqs[2:]
        await tx.add_pending([(seqs[0], TASK)], NOW + 60)
        assert await tx.pending(TASK, NOW + 59, 10) == seqs[2:]
        assert await tx.pending(TASK, NOW + 60, 10) == [seqs[0], seqs[2]]
        await tx.delete_reports([seqs[1], seqs[2]])
        assert [row.seq for row in await tx.stored(seqs)] == [seqs[0]]


async def test_a_report_that_was_dealt_with_is_still_known_by_its_digest(leader: LeaderStore) -> None:
    async with leader.transaction(shared=True) as tx:
        await tx.add_reports([upload(1), upload(2)], NOW)
        await tx.record(TASK, [OutcomeRow(report(3), None, 6, "proof", digest=b"digest")])
        found = {report(1): bytes([1]) * 32, report(2): bytes([2]) * 32, report(3): b"digest"}
        assert await tx.digests(TASK, [report(n) for n in (1, 2, 3, 4)]) == (found, False)
        assert await tx.digests(AT_B, [report(1)]) == ({}, False)
        assert await tx.digests(TASK, []) == ({}, False)
    async with leader.transaction() as tx:
        await tx.release(TASK, b"selector")
        assert await tx.digests(TASK, [report(1), report(4)]) == ({report(1): bytes([1]) * 32}, True)
        assert await tx.digests(AT_B, [report(1)]) == ({}, False)


async def test_of_two_digests_of_one_id_that_of_the_report_that_was_dealt_with_is_known(leader: LeaderStore) -> None:
    async with leader.transaction() as tx:
        await tx.record(TASK, [OutcomeRow(report(n), None, 6, "proof", digest=b"digest") for n in (3, 1)])
        await tx.add_reports([upload(n) for n in (2, 1, 4)], NOW)
        found, _ = await tx.digests(TASK, [report(n) for n in (1, 2, 3, 4)])
        assert found == {
            report(1): b"digest", report(2): bytes([2]) * 32, report(3): b"digest", report(4): bytes([4]) * 32
        }  # fmt: skip


def test_the_rows_of_several_tables_come_in_the_order_of_the_tables() -> None:
    """A union without an order keeps it only as long as PostgreSQL reads its parts one after the other."""
    columns = REPORTS.c.report_id, REPORTS.c.digest
    source = columns, REPORTS.c.report_id, (REPORTS.c.task_id,)
    assert _select_among((source, source)).endswith("ORDER BY source")
    assert "source" not in _select_among((source,))


async def test_each_report_of_a_job_that_cannot_be_read_is_counted_once(leader: LeaderStore) -> None:
    async with leader.transaction() as tx:
        await tx.record(TASK, [OutcomeRow(report(1), None, 6, "proof")])
        await tx.count_rejections(TASK, {"proof": 1})
        await tx.add_reports([upload(1), upload(2), upload(2), upload(3)], NOW)
        seqs = tuple(await tx.pending(TASK, NOW, 10))
        await tx.delete_reports(seqs[3:])
        await tx.reject_unread(job(1, seqs))
        assert await tx.rejections(TASK) == {"internal": 2, "proof": 1}, "the second report, and one that is missing"
        await tx.reject_unread(job(2, ()))
        assert await tx.stored(seqs) == []


async def test_a_job_is_one_workers_at_a_time(leader: LeaderStore) -> None:
    async with leader.transaction() as tx:
        await tx.add_jobs([])
        await tx.add_jobs([job(1), job(2)])
    assert sorted(await due(leader)) == [report(1), report(2)]
    assert await claim(leader, 1) == [job(1, holder=HOLDER)]
    assert await claim(leader, 1, 2, holder=OTHER) == [job(2, holder=OTHER)]
    assert await claim(leader) == []
    assert await due(leader) == []
    async with leader.transaction(shared=True) as tx:
        assert await tx.leased_jobs(TASK, NOW) == 2
        await tx.renew_leases([report(1), report(2), report(3)], HOLDER, NOW + 600)
    assert await due(leader, NOW + 60) == [report(2)]
    async with leader.transaction(shared=True) as tx:
        await tx.free_leases(HOLDER)
    assert await claim(leader, 1, holder=OTHER) == [job(1, holder=OTHER)]


async def test_jobs_of_other_tasks_can_be_asked_for(leader: LeaderStore) -> None:
    async with leader.transaction() as tx:
        await tx.add_jobs([job(1), replace(job(2), task_id=AT_B)])
        assert await tx.due_jobs(NOW, 10, {TASK}) == [(report(2), AT_B)]
        assert await tx.due_jobs(NOW, 10, {TASK, AT_B}) == []
        assert len(await tx.due_jobs(NOW, 1)) == 1


async def test_a_formed_job_whose_lease_ran_out_is_split_and_a_sent_one_taken_over(leader: LeaderStore) -> None:
    async with leader.transaction() as tx:
        await tx.add_jobs([job(1, (1, 2, 3)), job(2, (4,))])
    (formed, sent) = sorted(await claim(leader, 1, 2), key=lambda row: row.job_id)
    async with leader.transaction(shared=True) as tx:
        assert await tx.job_to_send(sent, b"request", [4])
        assert await tx.split_jobs(NOW, 10) == []
    late = NOW + 60
    (again,) = await claim(leader, 1, now=late, holder=OTHER, until=late + 60)
    assert (again.expired, again.holder) == (1, OTHER)
    async with leader.read() as tx:
        assert await tx.failing_jobs(TASK, 10) == [FailingJob(report(1), "formed", 3, 0, 1, "")]
        assert await tx.split_jobs(late, 10) == []
    later = late + 60
    (taken,) = await claim(leader, 1, 2, now=later, holder=OTHER, until=later + 60)
    assert (taken.job_id, taken.state, taken.digest) == (report(2), JobState.SENT, b"request")
    async with leader.transaction() as tx:
        (poisoned,) = await tx.split_jobs(later, 10)
        assert poisoned.seqs == formed.seqs
        await tx.remove_jobs([poisoned])
        await tx.add_jobs([job(3, (1,)), job(4, (2, 3), expired=1)])
        assert await tx.split_jobs(later, 10) == []
    assert await due(leader, later) == [report(3), report(4)]


async def test_a_worker_that_lost_its_lease_changes_nothing(leader: LeaderStore) -> None:
    async with leader.transaction() as tx:
        await tx.add_jobs([job(1)])
    (lost,) = await claim(leader, 1)
    await claim(leader, 1, now=NOW + 60, holder=OTHER, until=NOW + 120)
    async with leader.transaction(shared=True) as tx:
        assert not await tx.job_to_send(lost, b"request", [1])
        assert not await tx.drop_job(lost)
        await tx.postpone_job(lost, NOW + 999, "there", "late")
        await tx.expire_lease(lost, NOW, "late")
        await tx.renew_leases([lost.job_id], HOLDER, NOW + 999)
        await tx.renew_leases([], OTHER, NOW + 999)
        await tx.free_leases(HOLDER)
    assert await due(leader, NOW + 119) == []


async def test_an_operator_has_jobs_and_collections_of_a_recipe_tried_again_but_not_those_a_worker_has(
    leader: LeaderStore,
) -> None:
    woken = asyncio.Event()
    wakeups = make_wakeups(leader.signals)
    wakeups.sending.handler = woken.set
    retrying = LeaderJobs(leader, SimClock(NOW), wakeups)
    row = TaskRow(report(9) * 2, TaskState.OPTED_IN, b"", TASK)
    asking = CollectionRow(report(5), TASK, CollectionState.WAITING, b"wanted")
    async with leader.transaction() as tx:
        await tx.put_task(row)
        await tx.put_task(replace(row, state=TaskState.ACTIVE))
        await tx.add_jobs([job(1), job(2), job(3)])
        await tx.add_collection(asking)
        await tx.put_collection(replace(asking, state=CollectionState.ASKING, attempts=2, next_attempt=NOW + 900))
    late, held = sorted(await claim(leader, 1, 2), key=lambda one: one.job_id)
    async with leader.transaction(shared=True) as tx:
        await tx.postpone_job(late, NOW + 900, "", "answered 503")
    aggregation, collection = await retrying.jobs()
    assert (aggregation.about, aggregation.stuck) == (b64url(row.recipe_hash), None)
    assert (collection.state, collection.stuck, collection.next_attempt) == ("asking", True, int(NOW + 900))
    assert await due(leader) == [report(3)]
    assert not await retrying.retry("aggregation.none")
    assert not await retrying.retry(f"aggregation.{b64url(report(9) * 2)}")
    assert not woken.is_set()
    assert await retrying.retry(aggregation.id)
    assert woken.is_set()
    assert sorted(await due(leader)) == [report(1), report(3)]
    assert held.job_id == report(2)
    assert await retrying.retry(collection.id)
    async with leader.read() as tx:
        (again,) = await tx.unfinished_collections(NOW)
    assert again.row.job_id == report(5)


async def test_one_statement_says_what_every_collection_waits_for(leader: LeaderStore) -> None:
    def waiting(number: int, task: bytes) -> CollectionRow:
        return CollectionRow(report(number), task, CollectionState.WAITING, bytes([number]))

    async with leader.transaction() as tx:
        for number, task in enumerate((TASK, AT_B, bytes(32))):
            await tx.add_collection(waiting(number, task))
            state = TaskState.ACTIVE if task != TASK else TaskState.OPTED_IN
            await tx.put_task(TaskRow(bytes([number]) * 32, state, b"", task_id=task))
        await tx.add_pending([(1, TASK), (2, AT_B)], NOW + 60)
        assert await tx.tasks_with_pending() == {AT_B}
        await tx.add_batch(AT_B, bytes([1]) * 32)
        await tx.set_batch(bytes([1]) * 32, BatchState.FULL)
        await tx.add_jobs([JobRow(report(3), bytes(32), None, JobState.FORMED, (3,))])
        await tx.set_forwarded(bytes(32))
    async with leader.read() as tx:
        found = {one.row.task_id: one[1:] for one in await tx.unfinished_collections(NOW)}
        assert found == {TASK: (False, False, False), AT_B: (True, False, False), bytes(32): (False, False, True)}
    async with leader.transaction() as tx:
        await tx.take_pending(TASK, [1])
        await tx.put_collection(replace(waiting(1, AT_B), state=CollectionState.ASKING))
        await tx.put_collection(replace(waiting(2, bytes(32)), state=CollectionState.DELETED))
        assert await tx.waiting_collection(report(0)) == Waiting(
            waiting(0, TASK), full=False, settled=True, forwarded=False
        )
        assert await tx.waiting_collection(report(2)) is None
        assert await tx.ended_collections([report(0), report(1), report(2), report(9)]) == {report(2), report(9)}


async def test_a_job_ends_once_and_its_request_is_gone(leader: LeaderStore) -> None:
    async with leader.transaction() as tx:
        await tx.add_jobs([job(1, (1, 2, 3)), job(2)])
        assert not await tx.end_job(report(1), JobState.DONE)
    (held, dropped) = sorted(await claim(leader, 1, 2), key=lambda row: row.job_id)
    async with leader.transaction(shared=True) as tx:
        assert await tx.job_to_send(held, b"request", [3, 1])
        assert not await tx.job_to_send(held, b"other", [2])
        assert not await tx.drop_job(held)
        assert await tx.drop_job(dropped)
        assert (await tx.in_flight(TASK), await tx.unfinished_jobs(TASK)) == (2, 1)
        assert await tx.seqs_in_jobs() == {1, 3}
    async with leader.transaction(shared=True) as tx:
        await tx.postpone_job(held, NOW + 5, "there", "answered 503")
        assert await tx.failing_jobs(TASK, 10) == [FailingJob(report(1), "sent", 2, 1, 0, "answered 503")]
    assert await due(leader) == []
    (again,) = await claim(leader, 1, now=NOW + 5)
    assert (again.digest, again.seqs, again.attempts, again.location) == (b"request", (3, 1), 1, "there")
    async with leader.transaction(shared=True) as tx:
        assert await tx.end_job(report(1), JobState.DONE)
        assert not await tx.end_job(report(1), JobState.FAILED)
        assert (await tx.in_flight(TASK), await tx.unfinished_jobs(TASK)) == (0, 0)
        assert await tx.job_counts(TASK) == {"done": 1}
        assert await tx.seqs_in_jobs() == set()
        rows = await tx.connection.exec_driver_sql("select length(digest), length(members) from aggregation_jobs")
        assert [tuple(row) for row in rows] == [(0, 0)]
    assert await due(leader, NOW + 999) == []


async def test_the_answers_of_jobs_that_are_done_are_deleted_when_they_are_due(leader: LeaderStore) -> None:
    async with leader.transaction() as tx:
        await tx.add_jobs([job(number) for number in range(5)])
    held = sorted(await claim(leader, 0, 1, 2, 3, 4), key=lambda row: row.job_id)
    async with leader.transaction(shared=True) as tx:
        for one in held:
            assert await tx.job_to_send(one, b"request", [1])
        assert await tx.end_job(report(0), JobState.DONE, "there/0", NOW + 5)
        assert await tx.end_job(report(1), JobState.DONE, "there/1", NOW + 5)
        assert await tx.end_job(report(2), JobState.DONE, "", NOW + 5)
        assert await tx.end_job(report(3), JobState.FAILED)
        await tx.postpone_job(held[4], NOW + 1, "there/4", "helper-not-ready")
        assert await tx.answered_jobs(NOW + 4, 9) == []
        first, second = (AnsweredJob(report(number), TASK, f"there/{number}") for number in (0, 1))
        assert await tx.answered_jobs(NOW + 5, 9) == [first, second]
        assert await tx.answered_jobs(NOW + 5, 1) == [first]
        await tx.postpone_answers([bytes(32)], NOW + 5, NOW + 9)
        await tx.forget_answers([report(0)])
        assert await tx.answered_jobs(NOW + 5, 9) == [second]
        await tx.postpone_answers([TASK], NOW + 5, NOW + 9)
        assert await tx.answered_jobs(NOW + 8, 9) == []
        assert await tx.answered_jobs(NOW + 9, 9) == [second]
    assert await due(leader, NOW + 999) == [report(4)]


async def test_a_job_that_could_not_be_prepared_counts_as_a_lease_that_ran_out(leader: LeaderStore) -> None:
    async with leader.transaction() as tx:
        await tx.add_jobs([job(1)])
    (held,) = await claim(leader, 1)
    async with leader.transaction(shared=True) as tx:
        await tx.expire_lease(held, NOW, "MemoryError")
        assert await tx.leased_jobs(TASK, NOW) == 0
    (again,) = await claim(leader, 1)
    assert again.expired == 1
    async with leader.read() as tx:
        assert await tx.failing_jobs(TASK, 10) == [FailingJob(report(1), "formed", 2, 0, 1, "MemoryError")]


async def test_accepted_reports_count_once_their_job_is_done(leader: LeaderStore) -> None:
    async with leader.transaction() as tx:
        await tx.add_jobs([job(1), job(2)])
    held = await claim(leader, 1, 2)
    async with leader.transaction(shared=True) as tx:
        for number, one in enumerate(held):
            row = OutcomeRow(report(10 + number), bytes([number]) * 32, ACCEPTED, bucket=b"b", job_id=one.job_id)
            await tx.record(TASK, [row])
            await tx.job_to_send(one, b"request", [number])
        assert await tx.accepted_count(TASK) == 0
        await tx.end_job(held[0].job_id, JobState.DONE)
        await tx.end_job(held[1].job_id, JobState.ABANDONED)
        assert (await tx.accepted_count(TASK), await tx.accepted_count(TASK, b"b")) == (1, 1)
        assert await tx.accepted_count(TASK, b"other") == 0


async def test_full_batches_are_given_out_in_order_and_once(leader: LeaderStore) -> None:
    first, second = bytes([1]) * 32, bytes([2]) * 32
    async with leader.transaction() as tx:
        assert await tx.open_batch(TASK) is None
        await tx.add_batch(TASK, first)
        await tx.add_jobs([job(1, (1, 2, 3), first)])
        assert await tx.open_batch(TASK) == first
        assert (await tx.in_flight(TASK, first), await tx.in_flight(TASK, second)) == (3, 0)
        assert await tx.full_batch(TASK) is None
        await tx.set_batch(first, BatchState.FULL)
        await tx.add_batch(TASK, second)
        await tx.lock_batch(second)
        await tx.set_batch(second, BatchState.FULL)
        assert await tx.full_batch(TASK) == first
        await tx.set_batch(first, BatchState.CLAIMED)
        assert await tx.full_batch(TASK) == second
        assert await tx.batch_counts(TASK) == {"claimed": 1, "full": 1}


async def test_collection_jobs_are_kept(leader: LeaderStore) -> None:
    row = CollectionRow(report(1), TASK, CollectionState.WAITING, b"request", next_attempt=5.0)
    async with leader.transaction() as tx:
        await tx.add_collection(row)
        assert await tx.collection(report(1)) == row
        assert await tx.collection(report(2)) is None
        assert await tx.unfinished_collections(4.0) == []
        assert await tx.unfinished_collections(5.0) == [Waiting(row, full=False, settled=True, forwarded=False)]
        assert await tx.live_collection(TASK)
        assert await tx.same_requests(TASK, b"request") == [row]
        assert await tx.same_requests(TASK, b"other") == []
        await tx.postpone_collection(report(1), 2, 9.0)
        assert await tx.collection(report(1)) == replace(row, attempts=2, next_attempt=9.0)
        await tx.put_collection(replace(row, state=CollectionState.ASKING))
        ready = replace(row, state=CollectionState.READY, response=b"response", batch_id=bytes(32))
        await tx.put_collection(ready)
        assert await tx.collection(report(1)) == ready
        assert not await tx.live_collection(TASK)
        assert await tx.unfinished_collections(5.0) == []


async def test_processes_that_claim_at_once_share_the_jobs_out(pair: tuple[LeaderStore, LeaderStore]) -> None:
    numbers = range(1, 31)
    async with pair[0].transaction() as tx:
        await tx.add_jobs([job(number) for number in numbers])
    got = await asyncio.gather(*(claim(store, *numbers, holder=holder) for holder, store in enumerate(pair, start=1)))
    ids = [row.job_id for rows in got for row in rows]
    assert len(ids) == len(set(ids))
    rest = await claim(pair[0], *numbers, holder=3)
    assert sorted(ids + [row.job_id for row in rest]) == [report(number) for number in numbers]


async def test_a_job_that_another_process_is_taking_is_passed_over(pair: tuple[LeaderStore, LeaderStore]) -> None:
    async with pair[0].transaction() as tx:
        await tx.add_jobs([job(1), job(2)])
    async with pair[0].transaction(shared=True) as tx:
        assert [row.job_id for row in await tx.claim_jobs([report(1)], NOW, HOLDER, NOW + 60)] == [report(1)]
        assert [row.job_id for row in await claim(pair[1], 1, 2, holder=OTHER)] == [report(2)]


async def test_uploads_of_several_processes_get_numbers_of_their_own(pair: tuple[LeaderStore, LeaderStore]) -> None:
    async def add(store: LeaderStore, first: int) -> None:
        for number in range(first, first + 5):
            async with store.transaction(shared=True) as tx:
                await tx.add_reports([upload(number), upload(number + 100)], NOW)

    await asyncio.gather(add(pair[0], 1), add(pair[1], 50))
    async with pair[0].read() as tx:
        seqs = await tx.pending(TASK, NOW, 100)
        assert len(set(seqs)) == 20
        assert len(await tx.stored(seqs)) == 20


async def serve_tasks(store: LeaderStore) -> None:
    async with store.transaction() as tx:
        for task_id in (TASK, AT_B):
            await tx.put_task(TaskRow(task_id, TaskState.ACTIVE, b"", task_id=task_id))


async def test_new_reports_are_stored_in_one_statement_and_others_go_the_long_way(
    pair: tuple[LeaderStore, LeaderStore],
) -> None:
    one, other = pair
    assert not await one.add_new_reports([upload(1)], [TASK], NOW), "nobody serves the task"
    await serve_tasks(one)
    assert await one.add_new_reports([upload(1), upload(2, AT_B), upload(3)], [TASK], NOW)
    assert await other.add_new_reports([upload(4)], [TASK, AT_B], NOW + 1)
    assert not await one.add_new_reports([upload(5), upload(5)], [TASK], NOW)
    assert not await other.add_new_reports([upload(6), upload(3)], [TASK], NOW)
    async with one.transaction() as tx:
        await tx.record(TASK, [OutcomeRow(report(7), None, 6, "proof")])
        await tx.release(AT_B, b"selector")
    assert not await one.add_new_reports([upload(7)], [TASK], NOW)
    assert not await one.add_new_reports([upload(8, AT_B)], [AT_B], NOW)
    assert await one.add_new_reports([upload(8, AT_B)], [], NOW)
    async with one.transaction() as tx:
        await tx.put_task(TaskRow(AT_B, TaskState.ENDED, b"", task_id=AT_B))
    assert not await other.add_new_reports([upload(9), upload(10, AT_B)], [], NOW), "one of the tasks has ended"
    async with other.read() as tx:
        assert [row.report_id for row in await tx.stored(await tx.pending(TASK, NOW + 1, 9))] == [
            report(number) for number in (1, 3, 4)
        ]
        assert await tx.pending_summary(TASK) == (3, NOW)
        assert await tx.pending_summary(AT_B) == (2, NOW)


async def test_the_short_way_waits_for_whoever_writes_alone_and_sees_what_it_wrote(
    pair: tuple[LeaderStore, LeaderStore], pair_url: str
) -> None:
    await serve_tasks(pair[0])
    assert await pair[1].add_new_reports([upload(1)], [TASK], NOW)
    async with pair[0].transaction() as tx:
        waiting = asyncio.create_task(pair[1].add_new_reports([upload(2)], [TASK], NOW))
        await until_waiting(pair_url)
        assert not waiting.done()
        await tx.release(TASK, b"selector")
    assert not await waiting


@pytest.fixture
async def sliced(pair: tuple[LeaderStore, LeaderStore]) -> LeaderStore:
    """A store with three uploads in a slice that is closed, and one in the next."""
    async with pair[0].transaction(shared=True) as tx:
        await tx.add_reports([upload(number) for number in (1, 2, 3)], NOW)
    async with pair[0].transaction() as tx:
        await tx.numbered.close_slice()
    async with pair[0].transaction(shared=True) as tx:
        await tx.add_reports([upload(4)], NOW)
    return pair[0]


async def slices(store: LeaderStore) -> set[int]:
    async with store.read() as tx:
        return await tx.numbered.slices()


async def test_a_slice_goes_as_a_whole_once_its_reports_are_dealt_with(sliced: LeaderStore) -> None:
    async with sliced.transaction() as tx:
        seqs = await tx.pending(TASK, NOW, 10)
        assert seqs[3] // SLICE == seqs[0] // SLICE + 1
        before = await tx.numbered.slices()
        assert (await tx.numbered.scrub([], rewrite=False)).dropped == 0
        await tx.take_pending(TASK, seqs)
        assert (await tx.numbered.scrub(seqs, rewrite=False)).dropped == 0
        assert (await tx.numbered.scrub([], rewrite=False)).dropped == 0
        await tx.delete_reports(seqs)
        assert (await tx.numbered.scrub(seqs[:1], rewrite=False)).dropped == 0
        assert (await tx.numbered.scrub([], rewrite=False)).dropped == 1
    assert await slices(sliced) == before - {seqs[0] // SLICE}
    async with sliced.transaction(shared=True) as tx:
        await tx.add_reports([upload(5)], NOW)
        assert len(await tx.pending(TASK, NOW, 10)) == 1


async def test_what_is_left_of_a_slice_moves_to_a_new_file(sliced: LeaderStore) -> None:
    filenode = "select pg_relation_filenode('reports_slice_0'::regclass)"
    async with sliced.transaction() as tx:
        seqs = await tx.pending(TASK, NOW, 10)
        await tx.delete_reports(seqs[:2])
        before = (await tx.connection.exec_driver_sql(filenode)).scalar_one()
        done = await tx.numbered.scrub([], rewrite=True)
        assert (done.dropped, done.rewritten) == (0, 1)
        assert (await tx.connection.exec_driver_sql(filenode)).scalar_one() != before
        assert [row.seq for row in await tx.stored(seqs)] == seqs[2:]
        # which the server refuses in a session that had temporary tables, and keeps their buffers
        await tx.connection.exec_driver_sql("set local temp_buffers = 101")


async def test_whoever_reads_bodies_in_a_shared_transaction_waits_for_a_slice_that_is_rewritten(
    pair: tuple[LeaderStore, LeaderStore], pair_url: str, sliced: LeaderStore
) -> None:
    """A snapshot from before the rewrite would show the slice empty: neither its old rows nor its new ones."""

    async def read() -> list[bytes]:
        async with pair[1].transaction(shared=True) as tx:
            return [row.body for row in await tx.stored(seqs)]

    async with sliced.transaction() as tx:
        seqs = await tx.pending(TASK, NOW, 10)
        assert (await tx.numbered.scrub([], rewrite=True)).rewritten == 1
        reader = asyncio.create_task(read())
        await until_waiting(pair_url)
        assert not reader.done()
    assert await reader == [b"body %d" % number for number in (1, 2, 3, 4)]


async def test_room_is_made_ahead_of_the_uploads(pair: tuple[LeaderStore, LeaderStore]) -> None:
    store = pair[1]
    async with store.transaction() as tx:
        assert not await tx.numbered.lacks_room()
        await tx.numbered.close_slice()
        assert not await tx.numbered.lacks_room()
        known = await tx.numbered.slices()
        beginning = max(known) * SLICE
        await tx.connection.exec_driver_sql(f"select setval('report_seqs', {beginning}, false)")
        assert await tx.numbered.lacks_room()
        await tx.numbered.make_room()
        assert not await tx.numbered.lacks_room()
        assert max(await tx.numbered.slices()) == max(known) + 1


async def test_metrics_show_what_the_store_counts_over_all_tasks(leader: LeaderStore) -> None:
    clock = SimClock()
    app = make_app("leader", ServiceEnv(clock, SeededEntropy(1), InProcessTransport(), background=False))
    add_leader_metrics(app, leader)
    async with leader.transaction() as tx:
        await tx.add_reports([upload(number, task) for number, task in ((1, TASK), (2, TASK), (3, AT_B))], NOW)
        await tx.add_jobs([job(1), replace(job(2), task_id=AT_B), job(3)])
        await tx.count_rejections(TASK, {"proof": 7})
        await tx.put_task(TaskRow(bytes(32), TaskState.ACTIVE, b"", task_id=TASK))
        await tx.release(TASK, b"first")
        await tx.release(AT_B, b"second")
        counts = await tx.all_pending(), await tx.all_jobs(), await tx.all_failing_jobs(), await tx.all_rejections()
        assert counts == (3, {"formed": 3}, 0, {"proof": 7})
        assert (await tx.all_released(), await tx.all_counted()) == (2, 0)
    page = (await app[METRICS].page()).decode()
    assert 'tacit_tasks{state="active"} 1.0\n' in page
    assert "tacit_batches_released 2.0\n" in page
    assert re.search(r'tacit_jobs\{state="formed"\} (0|100)\.0\n', page)
    assert "proof" not in page
    async with leader.transaction() as tx:
        await tx.count_rejections(TASK, {"proof": 2000})
        await tx.count_rejections(AT_B, {"proof": 1000})
    await clock.advance(WINDOW_SECONDS)
    assert 'tacit_reports_rejected_total{cause="proof"} 3000.0\n' in (await app[METRICS].page()).decode()


async def test_a_look_at_a_count_is_noted_once_and_goes_with_its_task(leader: LeaderStore) -> None:
    first, again, second = Look(1, 1_700_000_000, 4), Look(1, 1_700_000_009, 9), Look(3, 1_700_000_500, 10)
    for look in (second, first, again):
        async with leader.transaction() as tx:
            await tx.keep_look(bytes(32), look)
    async with leader.read() as tx:
        assert await tx.looks(bytes(32)) == [first, second]
        assert await tx.looks(bytes(range(32))) == []
    async with leader.transaction() as tx:
        await tx.forget(bytes(32))
    async with leader.read() as tx:
        assert await tx.looks(bytes(32)) == []
