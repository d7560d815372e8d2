"""Both aggregators' stores keep their promises on every backend: in memory, in a file, in PostgreSQL."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from services.helper import schema as helper_schema
from services.helper.store import ACCEPTED, HelperStore
from services.leader import schema as leader_schema
from services.leader.records import BatchState, CollectionRow, CollectionState, JobRow, JobState
from services.leader.store import LeaderStore
from tacit.adapters.migrate import assert_migrations_match
from tacit.aggregator.store import CommonTx, NullifierState, SqlStore, TaskRow, TaskState
from tacit.errors import Fatal, ReportError
from tacit.roles.aggregator import Accepted, Rejection, checksum_of
from tacit.task import BatchClose
from tacit.testing.reports import make_task_kit

TASK = make_task_kit().task
AT_B = make_task_kit(batch_close=BatchClose.AT_B).task
BATCH = bytes(range(32))
START = TASK.interval.start

Store = SqlStore[Any]


def url_of(tmp_path: Path, backend: str) -> str:
    return f"sqlite+aiosqlite:///{':memory:' if backend == 'memory' else tmp_path / 'state' / 'store.sqlite3'}"


@pytest.fixture(params=["memory", "file", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        made: str = request.getfixturevalue("make_postgres_url")()
        return made
    return url_of(tmp_path, request.param)


@pytest.fixture(params=[LeaderStore, HelperStore], ids=["leader", "helper"])
async def store(request: pytest.FixtureRequest, url: str) -> AsyncIterator[Store]:
    found: Store = request.param(url)
    await found.open()
    yield found
    await found.close()


@pytest.fixture
async def leader(url: str) -> AsyncIterator[LeaderStore]:
    found = LeaderStore(url)
    await found.open()
    yield found
    await found.close()


@pytest.fixture
async def helper(url: str) -> AsyncIterator[HelperStore]:
    found = HelperStore(url)
    await found.open()
    yield found
    await found.close()


def token(number: int) -> bytes:
    return bytes([number]) * 32


def report(number: int) -> bytes:
    return bytes([number]) * 16


def accepted(number: int, time: int = START, share: tuple[int, ...] = (1, 0, 0, 0)) -> Accepted:
    return Accepted(report(number), time, token(number), list(share))


def test_migrations_make_the_tables_of_the_metadata() -> None:
    assert_migrations_match(leader_schema.METADATA, leader_schema.MIGRATIONS)
    assert_migrations_match(helper_schema.METADATA, helper_schema.MIGRATIONS)


async def test_store_must_be_open() -> None:
    with pytest.raises(Fatal, match="not open"):
        async with LeaderStore("sqlite+aiosqlite:///:memory:").transaction():
            pass


async def test_file_is_private_to_its_owner(tmp_path: Path) -> None:
    found = HelperStore(url_of(tmp_path, "file"))
    await found.open()
    await found.close()
    assert stat.S_IMODE((tmp_path / "state" / "store.sqlite3").stat().st_mode) == 0o600


async def test_transaction_that_fails_leaves_nothing(store: Store) -> None:
    async def interrupted() -> None:
        async with store.transaction() as tx:
            await tx.reserve(TASK.task_id, [(token(1), report(1))])
            await tx.settle_all(TASK, [accepted(1)], [Rejection(report(2), ReportError(3), "why")], None)
            await tx.release(TASK.task_id, b"all")
            raise RuntimeError("power")

    with pytest.raises(RuntimeError, match="power"):
        await interrupted()
    async with store.read() as tx:
        assert await tx.accepted_count(TASK.task_id) == 0
        assert await tx.tally(TASK) is None
        assert await tx.rejections(TASK.task_id) == {}
        assert not await tx.is_released(TASK, None)


async def test_token_belongs_to_the_first_report_that_shows_it(store: Store) -> None:
    async with store.transaction() as tx:
        assert await tx.reserve(TASK.task_id, [(token(1), report(1))]) == set()
    async with store.transaction() as tx:
        again = [(token(1), report(1)), (token(1), report(2)), (token(2), report(3)), (token(2), report(4))]
        assert await tx.reserve(TASK.task_id, again) == {report(2), report(4)}
    async with store.transaction() as tx:
        assert await tx.reserve(AT_B.task_id, [(token(1), report(9))]) == {report(9)}
        assert await tx.reserve(TASK.task_id, []) == set()


async def test_hundred_concurrent_reservations_of_one_token_give_one(store: Store) -> None:
    async def redeem(number: int) -> bool:
        async with store.transaction() as tx:
            return not await tx.reserve(TASK.task_id, [(token(1), report(number))])

    results = await asyncio.gather(*(redeem(number) for number in range(100)))
    assert sum(results) == 1


async def test_accepted_reports_are_counted_in_their_buckets(store: Store) -> None:
    first = [accepted(1), accepted(2, START + 1, (0, 1, 0, 0))]
    second = [accepted(3, START + 1, (0, 0, 1, 0))]
    async with store.transaction() as tx:
        await tx.reserve(TASK.task_id, [(token(n), report(n)) for n in (1, 2, 3)])
        await tx.settle_all(TASK, first, [], None)
        await tx.settle_all(TASK, second, [], None)
    async with store.read() as tx:
        whole = await tx.tally(TASK)
        bucket = await tx.tally(TASK, (START + 1).to_bytes(8, "big"))
        assert await tx.accepted_count(TASK.task_id) == 3
        assert await tx.accepted_count(TASK.task_id, (START + 1).to_bytes(8, "big")) == 2
        assert await tx.accepted_count(AT_B.task_id) == 0
    assert whole is not None
    assert (whole.count, whole.first_time, whole.last_time) == (3, START, START + 1)
    assert whole.checksum == checksum_of([report(1), report(2), report(3)])
    assert TASK.vdaf.decode_agg_share(whole.agg_share) == [1, 1, 1, 0]
    assert bucket is not None
    assert bucket.count == 2


async def test_rejected_report_keeps_its_token_spent_and_is_counted_by_cause(store: Store) -> None:
    rejected = [
        Rejection(report(1), ReportError.VDAF_VERIFY_ERROR, "proof", token(1)),
        Rejection(report(2), ReportError.VDAF_VERIFY_ERROR, "proof", token(2)),
        Rejection(report(3), ReportError.INVALID_MESSAGE, "token-missing"),
        Rejection(report(4), ReportError.REPORT_TOO_EARLY, "too-early", final=False),
    ]
    async with store.transaction() as tx:
        await tx.reserve(TASK.task_id, [(token(1), report(1)), (token(2), report(2))])
        await tx.settle_all(TASK, [], rejected, None)
        await tx.settle_all(TASK, [], rejected[2:], None)
    async with store.transaction() as tx:
        assert await tx.rejections(TASK.task_id) == {"proof": 2, "token-missing": 2}
        assert await tx.accepted_count(TASK.task_id) == 0
        assert await tx.reserve(TASK.task_id, [(token(1), report(9))]) == {report(9)}
        assert await tx.reserve(TASK.task_id, [(token(1), report(1))]) == set()


async def test_released_batches_stay_released(store: Store) -> None:
    async with store.transaction() as tx:
        await tx.release(TASK.task_id, TASK.interval.encode())
        await tx.release(AT_B.task_id, BATCH)
    with pytest.raises(IntegrityError):
        async with store.transaction() as tx:
            await tx.release(AT_B.task_id, BATCH)
    async with store.read() as tx:
        assert await tx.is_released(TASK, None)
        assert await tx.is_released(AT_B, BATCH)
        assert not await tx.is_released(AT_B, bytes(32))
        assert await tx.release_count(AT_B.task_id) == 1


async def test_scrubbed_bucket_keeps_its_count_and_loses_its_share(store: Store) -> None:
    async with store.transaction() as tx:
        await tx.reserve(AT_B.task_id, [(token(1), report(1))])
        await tx.settle_all(AT_B, [accepted(1)], [], BATCH)
        await tx.scrub_buckets(AT_B.task_id, BATCH)
        rows = await tx.connection.exec_driver_sql("select count, agg_share from buckets")
        assert rows.all() == [(1, b"")]


async def test_log_and_tasks_are_kept(store: Store) -> None:
    row = TaskRow(token(1), TaskState.WAITING, b"recipe", rule="slot-key-missing", detail="why")
    active = replace(
        row, state=TaskState.ACTIVE, rule="", detail="", task_id=token(2), token_key_spki=b"key", opt_in=b"leaf"
    )
    async with store.transaction() as tx:
        assert await tx.log_state() is None
        assert await tx.tasks() == []
        await tx.put_log_state(b"one")
        await tx.put_log_state(b"two")
        assert await tx.add_leaves([(5, b"five"), (2, b"two")]) == 2
        assert await tx.add_leaves([(5, b"five"), (7, b"seven")]) == 1
        await tx.put_task(row)
    async with store.transaction() as tx:
        assert await tx.log_state() == b"two"
        assert await tx.leaves() == [(2, b"two"), (5, b"five"), (7, b"seven")]
        assert await tx.tasks() == [row]
        await tx.put_task(active)
    async with store.read() as tx:
        assert await tx.tasks() == [active]


async def test_states_have_the_names_that_the_tables_hold(store: Store) -> None:
    async with store.transaction() as tx:
        assert isinstance(tx, CommonTx)
        await tx.reserve(TASK.task_id, [(token(1), report(1))])
        await tx.settle([token(1)], NullifierState.ACCEPTED, BATCH)
        await tx.settle([], NullifierState.ACCEPTED, BATCH)
        rows = await tx.connection.exec_driver_sql("select state, bucket from nullifiers")
        assert [tuple(row) for row in rows] == [("accepted", BATCH)]


def upload(number: int) -> dict[str, Any]:
    return {"task_id": TASK.task_id, "report_id": report(number), "digest": token(number), "body": b"body"}


def job(number: int, batch_id: bytes | None = None) -> JobRow:
    return JobRow(report(number), TASK.task_id, batch_id, 0, 0.0, "", b"request")


async def test_leader_stores_a_report_id_once(leader: LeaderStore) -> None:
    async with leader.transaction() as tx:
        await tx.add_reports([upload(1), upload(2)])
        await tx.add_reports([])
        assert await tx.digests(TASK.task_id, [report(1), report(3)]) == {report(1): token(1)}
    with pytest.raises(IntegrityError):
        async with leader.transaction() as tx:
            await tx.add_reports([upload(3), upload(1)])
    async with leader.read() as tx:
        assert await tx.report_counts(TASK.task_id) == {"pending": 2}


async def test_leader_moves_reports_through_a_job_in_their_order(leader: LeaderStore) -> None:
    async with leader.transaction() as tx:
        await tx.add_reports([upload(number) for number in (1, 2, 3, 4)])
        seqs = await tx.pending_ids(TASK.task_id, 10)
        assert [row.report_id for row in await tx.reports(seqs[::-1])] == [report(n) for n in (4, 3, 2, 1)]
        await tx.put_in_job(job(9), [seqs[2], seqs[0], seqs[1]])
    async with leader.transaction() as tx:
        assert [row.report_id for row in await tx.job_reports(report(9))] == [report(n) for n in (3, 1, 2)]
        assert await tx.pending_ids(TASK.task_id, 10) == [seqs[3]]
        assert [row.job_id for row in await tx.sent_jobs(due=0.0)] == [report(9)]
        await tx.retry_job(report(9), 1, 50.0, "there")
        assert await tx.sent_jobs(due=49.0) == []
        assert await tx.sent_jobs(due=50.0) == [replace(job(9), attempts=1, next_attempt=50.0, location="there")]
        await tx.finish_reports(TASK.task_id, [report(1)])
        await tx.reject_report(TASK.task_id, report(2), 6, "proof")
        await tx.return_report(TASK.task_id, report(3))
        assert await tx.end_job(report(9), JobState.DONE)
        assert not await tx.end_job(report(9), JobState.FAILED)
    async with leader.read() as tx:
        assert await tx.report_counts(TASK.task_id) == {"aggregated": 1, "pending": 2, "rejected": 1}
        assert await tx.job_counts(TASK.task_id) == {"done": 1}
        assert await tx.sent_job_count(TASK.task_id) == 0
        bodies = await tx.connection.exec_driver_sql("select length(body) from reports order by seq")
        assert [row[0] for row in bodies] == [0, 0, 4, 4]
        requests = await tx.connection.exec_driver_sql("select length(request) from aggregation_jobs")
        assert [row[0] for row in requests] == [0]


async def test_leader_gives_full_batches_out_in_order_and_once(leader: LeaderStore) -> None:
    first, second = token(1), token(2)
    async with leader.transaction() as tx:
        assert await tx.open_batch(TASK.task_id) is None
        await tx.add_batch(TASK.task_id, first)
        await tx.add_reports([upload(1)])
        await tx.put_in_job(job(9, first), await tx.pending_ids(TASK.task_id, 1))
        assert await tx.open_batch(TASK.task_id) == first
        assert (await tx.in_flight(first), await tx.in_flight(second)) == (1, 0)
        assert await tx.full_batch(TASK.task_id) is None
        await tx.set_batch(first, BatchState.FULL)
        await tx.add_batch(TASK.task_id, second)
        await tx.set_batch(second, BatchState.FULL)
        assert await tx.full_batch(TASK.task_id) == first
        await tx.set_batch(first, BatchState.CLAIMED)
        assert await tx.full_batch(TASK.task_id) == second
        assert await tx.batch_counts(TASK.task_id) == {"claimed": 1, "full": 1}


async def test_leader_keeps_collection_jobs(leader: LeaderStore) -> None:
    row = CollectionRow(report(1), TASK.task_id, CollectionState.WAITING, b"request", next_attempt=5.0)
    async with leader.transaction() as tx:
        await tx.add_collection(row)
        assert await tx.collection(report(1)) == row
        assert await tx.collection(report(2)) is None
        assert await tx.unfinished_collections(4.0) == []
        assert await tx.unfinished_collections(5.0) == [row]
        assert await tx.live_collection(TASK.task_id)
        assert await tx.same_requests(TASK.task_id, b"request") == [row]
        assert await tx.same_requests(TASK.task_id, b"other") == []
        await tx.postpone_collection(report(1), 2, 9.0)
        assert await tx.collection(report(1)) == replace(row, attempts=2, next_attempt=9.0)
        ready = replace(row, state=CollectionState.READY, response=b"response", batch_id=BATCH)
        await tx.put_collection(ready)
        assert await tx.collection(report(1)) == ready
        assert not await tx.live_collection(TASK.task_id)
        assert await tx.unfinished_collections(5.0) == []


async def test_helper_decides_each_report_once(helper: HelperStore) -> None:
    async with helper.transaction() as tx:
        await tx.decide(TASK.task_id, {report(1): (ACCEPTED, ""), report(2): (6, "proof")})
        await tx.decide(TASK.task_id, {})
        found = await tx.decided(TASK.task_id, [report(1), report(2), report(3)])
        assert found == {report(1): ACCEPTED, report(2): 6}
        assert await tx.decided(AT_B.task_id, [report(1)]) == {}
        assert await tx.report_counts(TASK.task_id) == {"aggregated": 1, "rejected": 1}
    with pytest.raises(IntegrityError):
        async with helper.transaction() as tx:
            await tx.decide(TASK.task_id, {report(1): (6, "proof")})


async def test_helper_keeps_and_drops_responses(helper: HelperStore) -> None:
    async with helper.transaction() as tx:
        await tx.put_job(TASK.task_id, report(1), b"job")
        await tx.put_share(TASK.task_id, report(2), b"share")
        assert await tx.job_response(TASK.task_id, report(1)) == b"job"
        assert await tx.job_response(AT_B.task_id, report(1)) is None
        assert await tx.share_response(TASK.task_id, report(2)) == b"share"
        assert await tx.job_count(TASK.task_id) == 1
        assert await tx.drop_job(TASK.task_id, report(1))
        assert not await tx.drop_job(TASK.task_id, report(1))
        assert not await tx.drop_share(AT_B.task_id, report(2))
        assert await tx.drop_share(TASK.task_id, report(2))
        assert await tx.share_response(TASK.task_id, report(2)) is None
