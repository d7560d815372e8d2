"""The other services' stores keep their promises on every backend: in memory, in a file, in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from attester.store import AttesterStore, Debit, DebitResult, Issued
from infra.lab.kit.recipes import KEY_ROTATION, RecipeKit
from recipe_server.records import LoggedDirectory, LoggedKeySet, LoggedRecipe, PublishedResult
from recipe_server.store import RecipeStore
from services.collector.records import Collection, CollectionState, Result
from services.collector.releases import Releases
from services.collector.store import CollectorStore
from services.gateway.ports import SeenRequest
from services.gateway.store import ReplayStore
from services.issuer.store import IssuerStore, StoredKey
from tacit.adapters.databases.stored import DatabaseStore
from tacit.tlog.key_sets import OhttpConfig
from tacit.tlog.log import nodes_of_append
from tacit.tlog.merkle import leaf_hash

LATE = 2**40
KIT = RecipeKit(1)


@pytest.fixture(params=["memory", "file", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        made: str = request.getfixturevalue("make_postgres_url")()
        return made
    return f"sqlite+aiosqlite:///{':memory:' if request.param == 'memory' else tmp_path / 'store.sqlite3'}"


@asynccontextmanager
async def opened(store: DatabaseStore) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await store.close()


async def test_replay_window_forgets_what_is_out_of_date(url: str) -> None:
    store = ReplayStore(url)
    await store.open()
    async with opened(store):
        late, early = SeenRequest(b"a" * 32, LATE), SeenRequest(b"c" * 32, 5)
        assert await store.remember([late, early]) == [True, True]
        assert await store.forget(LATE) == 1
        assert await store.remember([late, early]) == [False, True]


async def test_issuer_keeps_an_epoch_once_and_adds_counts_up(url: str) -> None:
    store = IssuerStore(url)
    await store.open()
    async with opened(store):
        await store.add_epoch(LATE, [StoredKey(LATE, 0, b"zero"), StoredKey(LATE, 1, b"one")], b"leaf")
        with pytest.raises(IntegrityError):
            await store.add_epoch(LATE, [StoredKey(LATE, 2, b"two")], b"other")
        assert [key.slot for key in await store.keys()] == [0, 1]
        assert (await store.epochs(), await store.unpublished()) == ({LATE}, (LATE, b"leaf"))
        await store.published(LATE, LATE)
        assert (await store.unpublished(), await store.leaf(LATE)) == (None, b"leaf")
        assert await store.add_counts({(LATE, 0): 2, (LATE, 1): LATE}) == {(LATE, 0): 2, (LATE, 1): LATE}
        assert await store.add_counts({(LATE, 0): 3}) == {(LATE, 0): 5}
        assert await store.add_counts({}) == {}
        assert await store.counts() == {(LATE, 0): 5, (LATE, 1): LATE}
        assert await store.destroy_before(LATE + 1) == 2


async def test_attester_gives_one_device_one_token_per_slot(url: str) -> None:
    store = AttesterStore(url)
    await store.open()
    async with opened(store):
        challenges = [bytes([number]) * 32 for number in range(5)]
        debit = Debit(challenges[0], 100, b"device", LATE, 0, b"request", LATE)
        other = replace(debit, challenge=challenges[1], request_hash=b"other")
        assert await store.debit([debit, other, debit]) == [
            DebitResult.GRANTED,
            DebitResult.EXHAUSTED,
            DebitResult.CHALLENGE_USED,
        ]
        again = replace(debit, challenge=challenges[2])
        assert await store.debit([again, debit]) == [DebitResult.GRANTED, DebitResult.CHALLENGE_USED]
        assert await store.issuance() == {(LATE, 0): Issued(devices=1, requested=2)}
        await store.add_answered({(LATE, 0): 2, (LATE, 1): 1})
        assert await store.forget(99.5) == 0
        assert await store.issuance() == {(LATE, 0): Issued(1, 2, 2), (LATE, 1): Issued(answered=1)}


async def test_attester_takes_no_challenge_that_ended_before_one_it_forgot(url: str) -> None:
    store = AttesterStore(url)
    await store.open()
    async with opened(store):
        debit = Debit(b"a" * 32, 100, b"device", LATE, 0, b"request", LATE)
        assert await store.debit([debit]) == [DebitResult.GRANTED]
        assert [await store.forget(now) for now in (99.0, 100.0, 50.0)] == [0, 100, 100]
        unused = replace(debit, challenge=b"b" * 32)
        later = replace(debit, challenge=b"c" * 32, challenge_expires=101)
        assert await store.debit([debit, unused, later]) == [
            DebitResult.CHALLENGE_USED,
            DebitResult.CHALLENGE_USED,
            DebitResult.GRANTED,
        ]
        assert await store.forget(float(LATE)) == 101


async def test_collector_keeps_collections_and_one_result_per_batch(url: str) -> None:
    store = CollectorStore(url)
    await store.open()
    row = Collection("one", b"hash", 0, CollectionState.REQUESTED, b"request", next_attempt=1.5)
    async with opened(store):
        async with store.transaction() as tx:
            await tx.put_log_state(b"state")
            assert await tx.add_leaves([(LATE, b"late"), (1, b"one")]) == 2
            assert await tx.add_leaves([(LATE, b"late"), (2, b"two")]) == 1
            await tx.add_collection(row)
            await tx.put_collection(replace(row, attempts=2))
            await tx.add_result(Result("one", b"hash", 0, '{"é": 1}'))
        with pytest.raises(IntegrityError):
            async with store.transaction() as tx:
                await tx.add_result(Result("two", b"hash", 0, "{}"))
        async with store.transaction() as tx:
            assert await tx.log_state() == b"state"
            assert [index for index, _ in await tx.leaves()] == [1, 2, LATE]
            assert await tx.due(1.4, 9) == []
            assert await tx.due(1.5, 9) == [replace(row, attempts=2)]
            assert await tx.unpublished(9) == [Result("one", b"hash", 0, '{"é": 1}')]
            await tx.set_published("one")
            assert await tx.unpublished(9) == []
            assert [result.published for result in await tx.results(b"hash")] == [True]


async def test_collector_shows_releases_in_their_order_a_page_at_a_time(url: str) -> None:
    store = CollectorStore(url)
    await store.open()
    names = ["z", "a", "m", "b"]
    async with opened(store):
        for number, name in enumerate(names):
            async with store.transaction() as tx:
                await tx.add_result(Result(name, name.encode(), 0, f'{{"number": {number}}}'))
        with pytest.raises(IntegrityError):
            async with store.transaction() as tx:
                await tx.add_result(Result("y", b"z", 0, "{}"))
        async with store.transaction() as tx:
            await tx.add_result(Result("c", b"c", 0, '{"number": 4}'))
        releases = Releases(store)
        assert await releases.page(0, 3) == ([{"number": number} for number in range(3)], 3)
        assert await releases.page(3, 3) == ([{"number": 3}, {"number": 4}], None)
        assert await releases.page(5, 3) == ([], None)


async def test_recipe_server_knows_which_names_series_have_that_go_on(url: str) -> None:
    store, series = RecipeStore(url), KIT.series()
    await store.open()
    owner, now = series.probe.parties.analyst.operator, float(series.interval.start)
    async with opened(store):
        async with store.transaction() as tx:
            await tx.series.add(series, 0)
            assert await tx.series.is_open(owner, series.name, now)
            assert not await tx.series.is_open("other.example", series.name, now)
            assert not await tx.series.is_open(owner, "another", now)
            assert not await tx.series.is_open(owner, series.name, LATE)
        async with store.transaction() as tx:
            await tx.series.end(series, 1, int(now))
            assert not await tx.series.is_open(owner, series.name, now)


async def test_recipe_server_keeps_its_log_and_gives_a_slot_away_once(url: str) -> None:
    store = RecipeStore(url)
    await store.open()
    recipe, directory = KIT.recipe(), KIT.directory()
    leaf = KIT.recipe_leaf(recipe)
    async with opened(store):
        async with store.transaction() as tx:
            assert await tx.checkpoint() is None
            data = leaf.encode()
            nodes = nodes_of_append(lambda _level, _index: b"", 0, data)
            await tx.add_entry(0, leaf, data, nodes)
            await tx.add_recipe(recipe, 0)
            await tx.add_opt_in(recipe.hash, KIT.opt_in(recipe, "leader"), 1)
            await tx.add_directory(directory, LATE)
            await tx.add_key_set(KIT.ohttp_leaf(LATE).body_as(OhttpConfig), LATE + 1)
            await tx.put_checkpoint(LATE, b"first")
            await tx.put_checkpoint(LATE + 2, b"second")
            await tx.add_result(PublishedResult(recipe.hash, "0", b"{}", LATE))
        with pytest.raises(IntegrityError):
            async with store.transaction() as tx:
                await tx.add_recipe(recipe, 5)
        async with store.read() as tx:
            assert await tx.checkpoint() == (LATE + 2, b"second")
            assert (await tx.index_of(data), await tx.leaf_range(0, 5)) == (0, [data])
            assert await tx.with_nodes(lambda read: read(0, 0)) == leaf_hash(data)
            token = recipe.token
            held = await tx.series.held_slots(token.issuer, token.epoch, token.epoch)
            assert held == {token.epoch: {token.slot: (recipe.hash, recipe.parties.analyst.operator)}}
            assert await tx.recipes() == [LoggedRecipe(recipe.hash, 0, recipe.interval.end, {"leader": 1})]
            kept = LoggedDirectory(directory.issuer, directory.epoch, directory.epoch_seconds, LATE)
            assert await tx.directories() == [kept]
            assert await tx.key_sets() == [LoggedKeySet("gateway.example", LATE, KEY_ROTATION, LATE + 1)]
            assert await tx.key_sets("other.example") == []
            ((number, size),) = await tx.result_sizes(recipe.hash, -1, 9)
            (kept_result,) = await tx.numbered_results(None, [number])
            assert (kept_result.published_at, len(kept_result.body)) == (LATE, size)
            assert await tx.result_of(recipe.hash, kept_result.batch_id) == kept_result.body
            assert await tx.has_results(recipe.hash)
            assert await tx.result_sizes(recipe.hash, number, 9) == []
