"""Whatever the log holds, an aggregator and a collector take part in the recipes beside it (P30)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import insert

from infra.lab.kit.recipes import NOW, changed
from services.leader.store import LeaderStore
from tacit.adapters.databases.watermark import CLOSED
from tacit.aggregator.records import TaskRow, TaskState
from tacit.aggregator.schema import MARKS
from tacit.codec import b64url
from tacit.errors import CryptoError
from tacit.recipe.policy import AccountLimit
from tacit.tlog.leaves import LeafType, sign_leaf
from tests.hostile import odd_leaves, recipe_leaves
from tests.http.collector_stage import KIT as COLLECTORS_KIT
from tests.http.collector_stage import Stage, publish_recipe, write_secrets
from tests.unit.test_aggregator_log_follower import KIT, Log, Subject, pins_of, serve

GOOD = KIT.recipe(name="a-good-question", slot=2)
ACCOUNT = AccountLimit(epsilon="100", delta="0.0001", window_seconds=86_400)


def _hostile_log() -> Log:
    log = Log(KIT.directory_leaf())
    leaves = recipe_leaves(KIT, KIT.recipe())
    huge = [leaf for leaf in leaves if b'"999999999"' in leaf]
    assert huge, "claims that are no claims"
    for leaf in [*odd_leaves(KIT), *huge, *leaves[::5]]:
        log.entries.append(leaf)
        log.tree.append(leaf)
    log.add(KIT.recipe_leaf(GOOD))
    return log


@pytest.fixture
async def store() -> AsyncIterator[LeaderStore]:
    found = LeaderStore("sqlite+aiosqlite:///:memory:")
    await found.open()
    yield found
    await found.close()


async def test_a_leader_takes_part_in_the_good_recipe_of_a_hostile_log(store: LeaderStore) -> None:
    policy = KIT.policy.model_copy(update={"aggregators": pins_of(GOOD), "accounts": {"default": ACCOUNT}})
    subject = Subject(store, _hostile_log(), policy=policy)
    assert await subject.follower.step() > 20
    assert (await subject.row(GOOD)).state is TaskState.OPTED_IN
    async with store.read() as tx:
        rows = await tx.tasks()
    assert not [row.detail for row in rows if row.rule == "recipe-unusable"]


@pytest.mark.parametrize("error", [CryptoError("no"), KeyError("x"), RecursionError()])
async def test_what_nobody_foresaw_in_one_recipe_is_no_reason_to_leave_the_others(
    store: LeaderStore, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tacit.rules import table as rules

    bad = KIT.recipe(name="bad-question")
    log = Log(KIT.directory_leaf(), KIT.recipe_leaf(bad), KIT.recipe_leaf(GOOD))
    subject = Subject(store, log, policy=KIT.policy.model_copy(update={"aggregators": pins_of(GOOD)}))
    require = rules.require

    def broken(recipe: object, *arguments: object, **options: object) -> None:
        if getattr(recipe, "name", "") == bad.name:
            raise error
        require(recipe, *arguments, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(rules, "require", broken)
        await subject.follower.step()
    row = await subject.row(bad)
    assert (row.state, row.rule) == (TaskState.REFUSED, "recipe-unusable")
    assert type(error).__name__ in row.detail
    assert (await subject.row(GOOD)).state is TaskState.OPTED_IN
    log.add(KIT.opt_in_leaf(GOOD, "helper"))
    await subject.follower.step()
    assert (await subject.row(bad)).state is TaskState.OPTED_IN, "looked at again with every new leaf"


async def test_a_collector_collects_the_good_recipe_of_a_hostile_log(tmp_path: Path) -> None:
    write_secrets(tmp_path)
    kit = COLLECTORS_KIT
    good = kit.recipe(name="a-good-question", slot=0)
    stage = Stage(tmp_path, good)
    publish_recipe(stage, good)
    for leaf in [*odd_leaves(kit), *recipe_leaves(kit, kit.recipe(slot=1))[::5]]:
        stage.log.tree.append(leaf)
    await stage.start()
    await stage.driver("Recipes").step()
    assert (await stage.ask())["state"] == "requested"
    await stage.inner.close()


async def test_what_somebody_else_signs_in_our_name_is_no_sign_that_our_database_is_old(store: LeaderStore) -> None:
    recipe = KIT.recipe()
    log = await serve(store, recipe)
    subject = Subject(store, log)
    subject.clock.jump(recipe.interval.start + 60 - NOW)
    false_key = KIT.keys["analyst"]
    false = changed(KIT.recipe(name="false", slot=2), "parties.leader.signing_key", b64url(false_key.public))
    log.add(KIT.recipe_leaf(false))
    about = {"recipe_hash": false.hash_text, "task_id": b64url(bytes(32)), "role": "leader"}
    opt_in = {**about, "seed_id": "x", "verify_key_confirmation": b64url(bytes(32))}
    log.add(sign_leaf(LeafType.OPT_IN, opt_in, "leader.example", false_key))
    log.add(sign_leaf(LeafType.VOID, about, "leader.example", false_key))
    await subject.follower.step()
    async with store.read() as tx:
        assert not await tx.in_doubt()


async def test_a_task_of_an_older_version_whose_recipe_cannot_be_read_stops_no_other(
    store: LeaderStore,
) -> None:
    async with store.transaction() as tx:
        for state in (TaskState.OPTED_IN, TaskState.ACTIVE):
            await tx.put_task(TaskRow(bytes([len(state)]) * 32, state, b"{}", task_id=bytes([len(state)]) * 32))
    log = Log(KIT.directory_leaf(), KIT.recipe_leaf(GOOD))
    subject = Subject(store, log)
    await subject.follower.step()
    assert (await subject.row(GOOD)).state is TaskState.OPTED_IN
    async with store.transaction() as tx:
        await tx.connection.execute(insert(MARKS).values(shard=CLOSED, number=NOW))
    await subject.follower.load()
    async with store.read() as tx:
        assert [row.state for row in await tx.tasks() if row.recipe == b"{}"] == [TaskState.ENDED] * 2
