"""What both aggregators' stores promise alike, on every backend: in memory, in a file, in PostgreSQL."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from infra.lab.kit.aggregators import party_of
from infra.lab.kit.reports import make_task_kit
from services.analyzer.store import AnalyzerStore
from services.helper.store import HelperStore
from services.leader.store import LeaderStore
from services.shuffler.store import ShufflerStore
from tacit.adapters.databases import sqlite_dialect
from tacit.aggregator.records import ACCEPTED, Known, OutcomeRow, TaskRow, TaskState
from tacit.aggregator.store import CommonTx, SqlStore
from tacit.dap_errors import DapAbort
from tacit.errors import Fatal
from tacit.messages import Interval, Role
from tacit.roles.aggregator import Tally, checksum_of
from tacit.task import BatchClose
from tests.contract.conftest import Opening, pair_of
from tests.contract.sessions import until_waiting
from tests.kit.oracles.aggregator import Accepted, fold
from tests.kit.postgres import MakeDatabase

TASK = make_task_kit().task
AT_B = make_task_kit(batch_close=BatchClose.AT_B).task
BATCH = bytes(range(32))
START = TASK.interval.start
BUCKET = (START + 1).to_bytes(8, "big")
PROOF, REPLAYED = 6, 2

Store = SqlStore[Any]
STORES: dict[str, Callable[[str], Store]] = {
    "leader": LeaderStore,
    "helper": HelperStore,
    "analyzer": AnalyzerStore,
    "shuffler": ShufflerStore,
}


def url_of(tmp_path: Path, backend: str) -> str:
    return f"sqlite+aiosqlite:///{':memory:' if backend == 'memory' else tmp_path / 'state' / 'store.sqlite3'}"


@pytest.fixture(params=["leader-memory", "leader-postgres", "helper-file", "analyzer-memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """A store of whoever follows the log: what is tested here is the same code on the same tables."""
    role, backend = request.param.split("-")
    is_postgres = backend == "postgres"
    url = request.getfixturevalue("make_postgres_url")(STORES[role]) if is_postgres else url_of(tmp_path, backend)
    found: Store = STORES[role](url)
    await found.open()
    yield found
    await found.close()


@pytest.fixture
async def helper(opening: Opening[HelperStore]) -> AsyncIterator[HelperStore]:
    async with opening(HelperStore) as found:
        yield found


@pytest.fixture
def pair_url(make_postgres_url: MakeDatabase) -> str:
    return make_postgres_url(HelperStore)


@pytest.fixture
async def pair(pair_url: str) -> AsyncIterator[tuple[HelperStore, HelperStore]]:
    async with pair_of(HelperStore, pair_url) as found:
        yield found


def token(number: int) -> bytes:
    return bytes([number]) * 32


def report(number: int) -> bytes:
    return bytes([number]) * 16


def row(report_number: int, token_number: int | None, code: int = ACCEPTED, **rest: Any) -> OutcomeRow:
    return OutcomeRow(report(report_number), None if token_number is None else token(token_number), code, **rest)


def tallies(*reports: tuple[int, int, list[int]]) -> dict[bytes, Tally]:
    """One tally per time of (number, time, share), under buckets of their own to tell them apart."""
    groups: dict[bytes, list[Accepted]] = {}
    for n, time, share in reports:
        groups.setdefault(time.to_bytes(8, "big"), []).append(Accepted(report(n), time, token(n), share))
    return {bucket: tally for bucket, part in groups.items() for tally in fold(TASK, part, None).values()}


async def test_store_must_be_open() -> None:
    with pytest.raises(Fatal, match="not open"):
        async with LeaderStore("sqlite+aiosqlite:///:memory:").transaction():
            pass


async def test_file_is_private_to_its_owner(tmp_path: Path) -> None:
    found = HelperStore(url_of(tmp_path, "file"))
    await found.open()
    await found.close()
    assert stat.S_IMODE((tmp_path / "state" / "store.sqlite3").stat().st_mode) == 0o600


@pytest.mark.parametrize("shared", [False, True])
async def test_transaction_that_fails_leaves_nothing(store: Store, *, shared: bool) -> None:
    async def interrupted() -> None:
        async with store.transaction(shared=shared) as tx:
            assert await tx.record(TASK.task_id, [row(1, 1), row(2, None, PROOF, cause="proof")]) == set()
            await tx.add_tallies(TASK, tallies((1, START, [1, 0, 0, 0])))
            await tx.count_rejections(TASK.task_id, {"proof": 1})
            await tx.release(TASK.task_id, b"all")
            raise RuntimeError("power")

    with pytest.raises(RuntimeError, match="power"):
        await interrupted()
    async with store.read() as tx:
        assert await tx.known(TASK.task_id, [report(1), report(2)]) == {}
        assert await tx.tally(TASK) is None
        assert await tx.counted(TASK.task_id) == 0
        assert await tx.rejections(TASK.task_id) == {}
        assert not await tx.is_released(TASK, None)


async def test_a_report_id_and_a_token_belong_to_the_first_that_shows_them(store: Store) -> None:
    async with store.transaction(shared=True) as tx:
        assert await tx.record(TASK.task_id, [row(1, 1, digest=b"digest"), row(2, None, PROOF, cause="proof")]) == set()
    async with store.transaction(shared=True) as tx:
        again = [row(1, 7), row(3, 1), row(4, 4), row(5, 4), row(2, 8, PROOF), row(6, 6, PROOF), row(9, None, PROOF)]
        assert await tx.record(TASK.task_id, again) == {report(n) for n in (1, 3, 5, 2)}
        assert await tx.record(TASK.task_id, [row(3, None, REPLAYED, cause="token-spent")]) == set()
    async with store.transaction(shared=True) as tx:
        assert await tx.record(AT_B.task_id, [row(10, 1), row(11, 6), row(1, 7)]) == {report(10), report(11)}
        assert await tx.record(TASK.task_id, []) == set()
        assert await tx.known(TASK.task_id, [report(n) for n in (1, 2, 3, 5, 9)]) == {
            report(1): Known(ACCEPTED, b"digest"),
            report(2): Known(PROOF),
            report(3): Known(REPLAYED),
            report(9): Known(PROOF),
        }
        assert await tx.known(AT_B.task_id, [report(2)]) == {}
        assert await tx.known(TASK.task_id, []) == {}


async def test_of_a_hundred_transactions_at_once_one_spends_the_token(store: Store) -> None:
    async def redeem(number: int) -> bool:
        async with store.transaction(shared=True) as tx:
            return not await tx.record(TASK.task_id, [row(number, 1)])

    results = await asyncio.gather(*(redeem(number) for number in range(100)))
    assert sum(results) == 1


async def test_a_job_of_thousands_is_recorded_in_one_call(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_dialect, "MAX_PARAMETERS", 100)
    rows = [OutcomeRow(n.to_bytes(16, "big"), n.to_bytes(32, "big"), ACCEPTED) for n in range(1050)]
    ids = [one.report_id for one in rows]
    async with store.transaction(shared=True) as tx:
        assert await tx.record(TASK.task_id, rows) == set()
        assert len(await tx.known(TASK.task_id, ids)) == 1050
        await tx.amend(TASK.task_id, dict.fromkeys(ids[:500], (PROOF, "proof")))
        assert await tx.record(TASK.task_id, rows) == set(ids)
        found = await tx.known(TASK.task_id, ids)
        assert [found[report_id].code for report_id in ids] == [PROOF] * 500 + [ACCEPTED] * 550


async def test_a_report_that_is_rejected_later_keeps_its_token_spent(store: Store) -> None:
    async with store.transaction(shared=True) as tx:
        await tx.record(TASK.task_id, [row(1, 1, bucket=BUCKET), row(2, 2, bucket=BUCKET)])
        await tx.amend(TASK.task_id, {report(1): (PROOF, "proof"), report(9): (PROOF, "proof")})
        await tx.amend(AT_B.task_id, {report(2): (PROOF, "proof")})
        await tx.amend(TASK.task_id, {})
    async with store.transaction(shared=True) as tx:
        assert await tx.known(TASK.task_id, [report(1), report(2), report(9)]) == {
            report(1): Known(PROOF),
            report(2): Known(ACCEPTED),
        }
        assert await tx.record(TASK.task_id, [row(3, 1)]) == {report(3)}


async def test_accepted_tokens_are_counted_by_bucket(helper: HelperStore) -> None:
    async with helper.transaction(shared=True) as tx:
        await tx.record(TASK.task_id, [row(1, 1, bucket=BATCH), row(2, 2, bucket=BUCKET), row(3, 3, bucket=BUCKET)])
        await tx.record(TASK.task_id, [row(4, 4, PROOF, cause="proof"), row(5, None, PROOF, cause="proof")])
        await tx.record(AT_B.task_id, [row(6, 6, bucket=BUCKET)])
        await tx.amend(TASK.task_id, {report(3): (PROOF, "proof")})
        assert await tx.accepted_count(TASK.task_id) == 2
        assert await tx.accepted_count(TASK.task_id, BUCKET) == 1
        assert await tx.accepted_count(AT_B.task_id) == 1
        assert await tx.counted(TASK.task_id) == 0


async def test_tallies_add_up_over_transactions_and_processes(store: Store) -> None:
    parts = [
        tallies((1, START, [1, 0, 0, 0]), (2, START + 1, [0, 1, 0, 0])),
        tallies((3, START + 1, [0, 0, 1, 0])),
        tallies((4, START + 1, [0, 0, 0, 1]), (5, START + 2, [1, 0, 0, 0])),
    ]
    for shard, part in zip((0, 0, 7), parts, strict=True):
        async with store.transaction(shared=True) as tx:
            tx.shard = shard
            await tx.add_tallies(TASK, part)
    async with store.read() as tx:
        whole = await tx.tally(TASK)
        bucket = await tx.tally(TASK, BUCKET)
        assert (await tx.counted(TASK.task_id), await tx.counted(TASK.task_id, BUCKET)) == (5, 3)
        assert await tx.counted(AT_B.task_id) == 0
        rows = await tx.connection.execute(tx.common.buckets.select())
        assert sorted((found.bucket, found.shard) for found in rows) == [
            (START.to_bytes(8, "big"), 0),
            (BUCKET, 0),
            (BUCKET, 7),
            ((START + 2).to_bytes(8, "big"), 7),
        ]
    assert whole is not None
    assert (whole.count, whole.first_time, whole.last_time) == (5, START, START + 2)
    assert whole.checksum == checksum_of([report(n) for n in range(1, 6)])
    assert TASK.vdaf.decode_agg_share(whole.agg_share) == [2, 1, 1, 1]
    assert bucket is not None
    assert (bucket.count, TASK.vdaf.decode_agg_share(bucket.agg_share)) == (3, [0, 1, 1, 1])


async def test_rejections_add_up_by_cause(store: Store) -> None:
    for causes in ({"proof": 2, "token-missing": 1}, {"proof": 3}, {}):
        async with store.transaction(shared=True) as tx:
            await tx.count_rejections(TASK.task_id, causes)
    async with store.read() as tx:
        assert await tx.rejections(TASK.task_id) == {"proof": 5, "token-missing": 1}
        assert await tx.rejections(AT_B.task_id) == {}


async def test_released_batches_stay_released(store: Store) -> None:
    async with store.transaction() as tx:
        await tx.release(TASK.task_id, TASK.interval.encode())
        await tx.release(AT_B.task_id, BATCH)
    with pytest.raises(IntegrityError, match="parameters hidden"):
        async with store.transaction() as tx:
            await tx.release(AT_B.task_id, BATCH)
    async with store.read() as tx:
        assert await tx.is_released(TASK, None)
        assert await tx.is_released(AT_B, BATCH)
        assert not await tx.is_released(AT_B, bytes(32))
        assert await tx.release_count(AT_B.task_id) == 1


async def test_a_task_that_was_closed_without_a_release_has_no_open_batch_any_more(store: Store) -> None:
    async with store.transaction() as tx:
        await tx.release(TASK.task_id, TASK.interval.encode())
        assert not await tx.close_unreleased(TASK.task_id)
        for _ in range(2):
            assert await tx.close_unreleased(AT_B.task_id)
    async with store.read() as tx:
        assert await tx.is_released(AT_B, BATCH)
        assert await tx.is_released(AT_B, bytes(32))
        assert (await tx.release_count(AT_B.task_id), await tx.release_count(TASK.task_id)) == (0, 1)


async def test_scrubbed_buckets_keep_their_counts_and_lose_their_shares(store: Store) -> None:
    async with store.transaction() as tx:
        for shard in (0, 1):
            tx.shard = shard
            await tx.add_tallies(TASK, tallies((shard, START + 1, [1, 0, 0, 0])))
        await tx.scrub_buckets(TASK.task_id, BUCKET)
        rows = await tx.connection.exec_driver_sql("select count, agg_share from buckets")
        assert [tuple(found) for found in rows] == [(1, b""), (1, b"")]
        assert await tx.counted(TASK.task_id, BUCKET) == 2


async def test_a_task_that_was_closed_without_a_release_loses_its_sums_and_takes_no_more(store: Store) -> None:
    async with store.transaction() as tx:
        await tx.add_tallies(TASK, tallies((1, START, [1, 0, 0, 0])))
        assert await tx.close_unreleased(TASK.task_id)
        await tx.add_tallies(TASK, tallies((2, START, [0, 1, 0, 0])))
        rows = await tx.connection.exec_driver_sql("select count, agg_share from buckets")
        assert [tuple(found) for found in rows] == [(1, b"")]


async def test_forgotten_task_leaves_its_name_alone(store: Store) -> None:
    ended = TaskRow(token(1), TaskState.ENDED, b"recipe", task_id=TASK.task_id)
    async with store.transaction() as tx:
        await tx.put_task(replace(ended, state=TaskState.ACTIVE))
        await tx.put_task(ended)
        await tx.record(TASK.task_id, [row(1, 1)])
        await tx.record(AT_B.task_id, [row(2, 2)])
        await tx.add_tallies(TASK, tallies((1, START, [1, 0, 0, 0])))
        await tx.forget(TASK.task_id)
        assert await tx.tasks() == [ended]
        assert await tx.known(TASK.task_id, [report(1)]) == {}
        assert await tx.known(AT_B.task_id, [report(2)]) == {report(2): Known(ACCEPTED)}
        assert await tx.tally(TASK) is None


async def test_whatever_must_not_happen_twice_goes_into_the_mark_and_nothing_else_does(store: Store) -> None:
    party = party_of(make_task_kit(), Role.HELPER)
    accepted = TaskRow(TASK.recipe_hash, TaskState.OPTED_IN, b"recipe", task_id=TASK.task_id)
    async with store.transaction() as tx:
        await tx.put_log_state(b"state")
        await tx.count_rejections(TASK.task_id, {"proof": 1})
        await tx.add_tallies(TASK, tallies((1, START, [1, 0, 0, 0])))
        await tx.is_open(party, party.closes)
        assert not tx.spends
    spending: list[Callable[[Any], Awaitable[object]]] = [
        lambda tx: tx.record(TASK.task_id, [row(1, 1)]),
        lambda tx: tx.release(TASK.task_id, b"selector"),
        lambda tx: tx.scrub_buckets(TASK.task_id),
        lambda tx: tx.put_task(accepted),
    ]
    for spend in spending:
        async with store.transaction() as tx:
            await spend(tx)
            assert tx.spends


async def test_what_was_released_is_not_forgotten_with_its_task(store: Store) -> None:
    async with store.transaction() as tx:
        await tx.release(TASK.task_id, b"selector")
        await tx.forget(TASK.task_id)
        assert await tx.is_released(TASK, None)
    with pytest.raises(IntegrityError):
        async with store.transaction() as tx:
            await tx.release(TASK.task_id, b"selector")


async def test_no_row_says_of_an_ended_task_that_it_goes_on(store: Store) -> None:
    active = TaskRow(TASK.recipe_hash, TaskState.ACTIVE, b"recipe", task_id=TASK.task_id)
    party = party_of(make_task_kit(), Role.HELPER)
    async with store.transaction() as tx:
        assert not await tx.is_open(party, party.closes - 1), "nobody serves it yet"
        assert await tx.put_task(active)
        assert await tx.is_open(party, party.closes - 1)
        assert not await tx.is_open(party, party.closes)
        assert await tx.put_task(replace(active, state=TaskState.ENDED))
    for late in (active, replace(active, state=TaskState.OPTED_IN), replace(active, void=b"leaf")):
        async with store.transaction() as tx:
            assert not await tx.put_task(late)
            assert await tx.task_state(TASK.recipe_hash) is TaskState.ENDED
            assert not await tx.is_open(party, party.closes - 1)
            with pytest.raises(DapAbort, match="ended"):
                await tx.demand_open(party, party.closes - 1)


async def test_the_share_of_a_census_is_kept_once_and_forgotten_with_its_task(store: Store) -> None:
    async with store.transaction() as tx:
        await tx.keep_census_share(TASK.task_id, 2**40, b"share")
        await tx.keep_census_share(AT_B.task_id, 7, b"other")
    with pytest.raises(IntegrityError):
        async with store.transaction() as tx:
            await tx.keep_census_share(TASK.task_id, 8, b"drawn again")
    async with store.transaction() as tx:
        assert sorted(await tx.census_shares()) == sorted(
            [(TASK.task_id, 2**40, b"share"), (AT_B.task_id, 7, b"other")]
        )
        await tx.forget(TASK.task_id)
        assert [kept[0] for kept in await tx.census_shares()] == [AT_B.task_id]


async def test_log_and_tasks_are_kept(store: Store) -> None:
    waiting = TaskRow(token(1), TaskState.WAITING, b"recipe", rule="slot-key-missing", detail="why")
    active = replace(
        waiting, state=TaskState.ACTIVE, rule="", detail="", task_id=token(2), token_key_spki=b"key", opt_in=b"leaf"
    )
    async with store.transaction() as tx:
        assert isinstance(tx, CommonTx)
        assert await tx.log_state() is None
        assert await tx.tasks() == []
        await tx.put_log_state(b"one")
        await tx.put_log_state(b"two")
        assert await tx.add_leaves([(5, b"five"), (2, b"two")]) == 2
        assert await tx.add_leaves([(5, b"five"), (7, b"seven")]) == 1
        await tx.put_task(waiting)
        statements: list[str] = []
        sa.event.listen(
            tx.connection.sync_connection, "before_cursor_execute", lambda *seen: statements.append(seen[2])
        )
        assert await tx.add_leaves((number, b"leaf") for number in range(100, 2600)) == 2500
        reading = [one for one in statements if one.startswith("SELECT")]
        assert len(reading) == 3
        assert all("WHERE" in one for one in reading), "what it costs does not grow with the log"
        await tx.connection.execute(sa.delete(tx.log_tables.leaves).where(tx.log_tables.leaves.c.position >= 100))
    async with store.transaction() as tx:
        assert await tx.log_state() == b"two"
        assert await tx.leaves() == [(2, b"two"), (5, b"five"), (7, b"seven")]
        assert await tx.tasks() == [waiting]
        await tx.put_task(replace(active, state=TaskState.OPTED_IN))
        await tx.put_task(active)
    async with store.read() as tx:
        assert await tx.tasks() == [active]


async def test_a_task_that_never_opted_in_cannot_become_active(store: Store) -> None:
    waiting = TaskRow(token(1), TaskState.WAITING, b"recipe")
    async with store.transaction() as tx:
        await tx.put_task(waiting)
    with pytest.raises(Fatal, match="from waiting to active"):
        async with store.transaction() as tx:
            await tx.put_task(replace(waiting, state=TaskState.ACTIVE))
    async with store.read() as tx:
        assert await tx.tasks() == [waiting]


async def test_one_process_alone_leads(store: Store) -> None:
    assert await store.leads()
    assert await store.leads()


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("same", ["token", "report"])
async def test_whoever_is_second_waits_for_the_first_and_then_knows(
    pair: tuple[HelperStore, HelperStore], pair_url: str, same: str, *, committed: bool
) -> None:
    """The second transaction is open beside the first, sees nothing of it, and meets its rows in the constraint."""
    one, other = pair
    wanted = [row(2, 1) if same == "token" else row(1, 2), row(3, 3)]

    async def second() -> set[bytes]:
        async with other.transaction(shared=True) as tx:
            assert await tx.known(TASK.task_id, [report(1)]) == {}
            return await tx.record(TASK.task_id, wanted)

    async def first() -> None:
        async with one.transaction(shared=True) as tx:
            await tx.record(TASK.task_id, [row(1, 1)])
            waiting.append(asyncio.create_task(second()))
            await until_waiting(pair_url)
            assert not waiting[0].done()
            if not committed:
                raise Fatal("the first one fails")

    waiting: list[asyncio.Task[set[bytes]]] = []
    (failure,) = await asyncio.gather(first(), return_exceptions=True)
    assert (failure is None) == committed
    assert await waiting[0] == ({wanted[0].report_id} if committed else set())
    async with one.read() as tx:
        recorded = await tx.known(TASK.task_id, [report(n) for n in (1, 2, 3)])
        assert set(recorded) == ({report(1), report(3)} if committed else {wanted[0].report_id, report(3)})


async def test_processes_that_race_for_many_tokens_share_them_out(pair: tuple[HelperStore, HelperStore]) -> None:
    async def redeem(store: HelperStore, first: int, numbers: list[int]) -> set[int]:
        rows = [OutcomeRow((first + n).to_bytes(16, "big"), n.to_bytes(32, "big"), ACCEPTED) for n in numbers]
        async with store.transaction(shared=True) as tx:
            refused = await tx.record(TASK.task_id, rows)
        return {n for n in numbers if (first + n).to_bytes(16, "big") not in refused}

    for start in range(0, 400, 100):
        numbers = list(range(start, start + 60))
        spent = await asyncio.gather(
            redeem(pair[0], 1 << 20, numbers), redeem(pair[1], 1 << 21, [*numbers[::-1], start + 99])
        )
        assert spent[0] | spent[1] == {*numbers, start + 99}
        assert not spent[0] & spent[1]


async def test_processes_write_buckets_of_their_own_at_the_same_time(pair: tuple[HelperStore, HelperStore]) -> None:
    async def add(store: HelperStore, number: int) -> None:
        async with store.transaction(shared=True) as tx:
            await tx.add_tallies(TASK, tallies((number, START, [1, 0, 0, 0])))
            await tx.count_rejections(TASK.task_id, {"proof": 1})

    await asyncio.gather(*(add(pair[number % 2], number) for number in range(20)))
    async with pair[0].read() as tx:
        whole = await tx.tally(TASK)
        assert await tx.rejections(TASK.task_id) == {"proof": 20}
        rows = (await tx.connection.execute(tx.common.buckets.select())).all()
    assert whole is not None
    assert (whole.count, TASK.vdaf.decode_agg_share(whole.agg_share)) == (20, [20, 0, 0, 0])
    assert sorted(found.shard for found in rows) == [0, 1]
    assert [found._mapping["count"] for found in rows] == [10, 10]


async def test_where_queries_name_intervals_each_counts_and_closes_its_own(store: Store) -> None:
    task = replace(TASK, batch_close=BatchClose.ON_QUERY)
    times = {1: START, 2: START + 1, 3: START + 1, 4: START + 255, 5: START + 256}
    accepted = [Accepted(report(n), time, token(n), [n, 0, 0, 0]) for n, time in times.items()]
    found = fold(task, accepted, None)
    assert sorted(found) == [time.to_bytes(8, "big") for time in sorted(set(times.values()))]
    async with store.transaction() as tx:
        rows = [row(n, n, bucket=time.to_bytes(8, "big")) for n, time in times.items()]
        assert not await tx.record(task.task_id, rows)
        await tx.add_tallies(task, found)
    early, late = Interval(START, 2), Interval(START + 255, 2)
    async with store.read() as tx:
        assert [await tx.accepted_count(task.task_id, one) for one in (early, late, None)] == [3, 2, 5]
        assert await tx.accepted_count(task.task_id, Interval(START + 2, 253)) == 0
        part = await tx.tally(task, late)
        assert (part.count, part.first_time, part.last_time) == (2, START + 255, START + 256)
        assert not await tx.is_released(task, early)
        assert await tx.closed_times(task, None, list(times.values())) == set()
    async with store.transaction() as tx:
        await tx.release(task.task_id, early.encode())
        await tx.scrub_buckets(task.task_id, early)
    async with store.read() as tx:
        assert await tx.is_released(task, Interval(START + 1, 300))
        assert not await tx.is_released(task, late)
        assert await tx.closed_times(task, None, list(times.values())) == {START, START + 1}
        assert (await tx.tally(task, late)) == part
    async with store.transaction() as tx:
        await tx.close_unreleased(task.task_id)
        assert not await tx.is_released(task, late)
