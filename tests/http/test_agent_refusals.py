"""A whole agent behind a real relay and gateway: what it refuses or waits for, and what the relay sees of that."""

from __future__ import annotations

from decimal import Decimal

from client_agent.journal import Entry, MemoryAgentStore, State
from infra.lab.kit.recipes import EPOCH, EPOCH_SECONDS, NOW, URLS, bad_recipes, changed
from infra.lab.kit.reports import issuer_key
from tacit.codec import b64url
from tacit.recipe.model import Recipe
from tacit.tlog.leaves import LeafType, sign_leaf
from tacit.tokens.slots import Slot
from tests.http.agent_world import (
    ALWAYS,
    KIT,
    NEVER_SAMPLED,
    SLOT,
    World,
    give_token,
    leaves_of,
    only,
)


def logged_bad_recipes() -> list[tuple[str, Recipe]]:
    """Every bad recipe whose signature is that of the analyst whom it names."""
    key = b64url(KIT.keys["analyst"].public)
    return [(rule, recipe) for rule, recipe in bad_recipes(KIT) if recipe.parties.analyst.signing_key == key]


async def test_every_bad_recipe_is_refused_by_its_rule_and_nothing_is_sent(world: World) -> None:
    tried = set()
    for rule, recipe in logged_bad_recipes():
        world.log.leaves = []
        world.log.add(KIT.directory_leaf(), *leaves_of(recipe))
        agent, store = await world.device()
        await agent.step()
        await world.clock.advance(1)
        await agent.step()
        entry = await only(store)
        assert entry.state is State.REFUSED, (rule, recipe)
        assert f"{rule}: " in entry.detail
        assert entry.charged_epsilon == ""
        tried.add(rule)
    assert len(tried) > 25
    assert world.uploads == []


async def test_a_refused_an_idle_and_an_unsampled_device_look_alike_to_the_relay(world: World) -> None:
    refused = changed(ALWAYS, "batch.min_batch_size", 99)
    shapes = []
    for recipe, value in ((refused, 3), (ALWAYS, None), (NEVER_SAMPLED, 3)):
        world.log.leaves = []
        world.log.add(KIT.directory_leaf(), *leaves_of(recipe))
        agent, _ = await world.device(value)
        before = len(world.network.exchanges)
        for _ in range(3):
            await agent.step()
            await world.clock.advance(120)
        shapes.append([(one.url, len(one.body)) for one in world.network.exchanges[before:]])
    assert shapes[0] == shapes[1] == shapes[2]
    assert {size for url, size in shapes[0] if url == URLS["relay"]} == {4096}


async def test_a_recipe_waits_for_both_opt_ins(world: World) -> None:
    recipe, leader, helper = leaves_of(ALWAYS)
    agent, store = await world.device()
    world.log.add(recipe)
    await agent.step()
    world.log.add(leader)
    await agent.sync()
    await agent.consider()
    assert await store.entries() == []
    world.log.add(helper)
    await agent.sync()
    await agent.consider()
    assert (await only(store)).state is State.SCHEDULED


async def test_opt_ins_that_disagree_are_a_refusal(world: World) -> None:
    recipe, leader, _ = leaves_of(ALWAYS)
    other = KIT.opt_in(ALWAYS, "helper").model_copy(update={"seed_id": "seed-2"})
    world.log.add(recipe, leader, sign_leaf(LeafType.OPT_IN, other, "helper.example", KIT.keys["helper"]))
    agent, store = await world.device()
    await agent.step()
    assert "opt-in-mismatch" in (await only(store)).detail


async def test_a_recipe_waits_for_the_token_and_is_decided_when_it_comes(world: World) -> None:
    later = {"start": ALWAYS.interval.start + 75_600, "duration": 7_200}
    world.log.add(*leaves_of(changed(ALWAYS, "interval", later)))
    store = MemoryAgentStore()
    agent = world.agent(store)
    await agent.step()
    assert await store.entries() == []
    await give_token(store)
    await agent.consider()
    assert (await only(store)).state is State.SCHEDULED


async def test_a_recipe_of_a_later_epoch_waits_for_its_directory(world: World) -> None:
    start = (EPOCH + 1) * EPOCH_SECONDS
    token = {"issuer": "issuer.example", "epoch": EPOCH + 1, "slot": 0}
    recipe = changed(changed(ALWAYS, "token", token), "interval", {"start": start, "duration": 3600})
    world.log.add(*leaves_of(recipe))
    agent, store = await world.device()
    await agent.step()
    assert await store.entries() == []
    world.log.add(KIT.directory_leaf(EPOCH + 1))
    await give_token(store, Slot("issuer.example", EPOCH + 1, 0))
    await agent.sync()
    await agent.consider()
    entry = await only(store)
    assert entry.state is State.SCHEDULED
    assert start <= entry.send_at < start + 3600


async def test_a_recipe_that_counts_on_another_relay_is_refused(world: World) -> None:
    world.log.add(*leaves_of(changed(ALWAYS, "parties.relay.url", "https://relay.example")))
    agent, store = await world.device()
    await agent.step()
    assert "relay-mismatch" in (await only(store)).detail


async def test_the_devices_ledger_is_never_overdrawn(world: World) -> None:
    world.log.add(*leaves_of(NEVER_SAMPLED))
    cost, delta = Decimal(ALWAYS.privacy.epsilon["aggregator"]), ALWAYS.privacy.delta
    agent, store = await world.device(budget={"epsilon": str(cost), "delta": "0.000002", "days": 1})
    await store.decide(Entry(b"o" * 32, "earlier", State.NOT_SAMPLED, NOW - 3600.0, "", str(cost), charged_delta=delta))
    await agent.step()
    entry = (await store.entries())[1]
    assert entry.state is State.REFUSED
    assert "budget-spent" in entry.detail
    again, other = await world.device(budget={"epsilon": str(cost), "delta": "0.000002", "days": 1})
    await other.decide(
        Entry(b"o" * 32, "earlier", State.NOT_SAMPLED, NOW - 90_000.0, "", str(cost), charged_delta=delta)
    )
    await again.step()
    assert (await other.entries())[1].state is State.NOT_SAMPLED


async def test_the_devices_ledger_composes_and_does_not_add(world: World) -> None:
    world.log.add(*leaves_of(ALWAYS))
    agent, store = await world.device(budget={"epsilon": "6", "days": 30})
    for number in range(60):
        spent = Entry(
            bytes([number]) * 32, "earlier", State.NOT_SAMPLED, NOW - 60.0, "", "0.1", charged_delta="0.000000001"
        )
        await store.decide(spent)
    await agent.step()
    entry = (await store.entries())[60]
    assert 6.0 + float(entry.charged_epsilon) > 6.5, "by addition it would be over"
    assert (entry.state, entry.charged_delta) == (State.SCHEDULED, ALWAYS.privacy.delta)


async def test_the_second_recipe_of_a_slot_is_refused_also_when_the_log_hides_the_first(world: World) -> None:
    world.log.add(*leaves_of(NEVER_SAMPLED))
    agent, store = await world.device()
    await agent.step()
    world.log.hidden.update(range(1, 4))
    world.log.add(*leaves_of(ALWAYS))
    await agent.sync()
    await agent.consider()
    states = {entry.recipe_hash: entry for entry in await store.entries()}
    assert states[ALWAYS.hash].state is State.REFUSED
    assert "slot-taken" in states[ALWAYS.hash].detail


async def test_a_token_under_another_key_than_the_logs_is_not_spent(world: World) -> None:
    world.log.add(*leaves_of(ALWAYS))
    store = MemoryAgentStore()
    await give_token(store, key=issuer_key(1))
    await world.agent(store).step()
    entry = await only(store)
    assert entry.state is State.REFUSED
    assert "slot-key-changed" in entry.detail
    assert next(row for row in await store.prefetches() if row.slot == SLOT).usable
