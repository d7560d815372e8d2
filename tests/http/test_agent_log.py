"""A whole agent whose log forks, shrinks or lies, and whose gateway changes its keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from client_agent.agent import Agent
from client_agent.journal import Entry, Fact, MemoryAgentStore, State
from infra.lab.kit.recipes import EPOCH, KEY_PERIOD, NOW, changed
from tacit.backoff import NEVER
from tacit.codec import b64url, unb64url
from tacit.errors import Refusal
from tacit.logview.view import LogState
from tacit.ohttp import KeyConfig
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tests.http.agent_world import (
    ALWAYS,
    KIT,
    NEVER_SAMPLED,
    WITNESS_LIMIT,
    World,
    leaves_of,
    only,
    trouble,
)

SOON = changed(ALWAYS, "interval.start", ALWAYS.interval.start + 3_600)


async def scheduled(world: World) -> tuple[Agent, MemoryAgentStore, Entry]:
    world.log.add(*leaves_of(ALWAYS))
    agent, store = await world.device()
    await agent.step()
    return agent, store, await only(store)


def fork(leaves: Sequence[bytes], more: int = 0) -> list[bytes]:
    """Another history: the last entry is another one, and ``more`` follow."""
    return [*leaves[:-1], *(KIT.directory_leaf(EPOCH + 9 + number).encode() for number in range(1 + more))]


async def test_a_log_with_two_histories_silences_the_device_for_good(world: World) -> None:
    rule = "log-split-view"
    agent, store, entry = await scheduled(world)
    honest = world.log.leaves
    world.log.leaves = fork(honest)
    await world.clock.advance(120)
    await agent.step()
    assert (await trouble(store)).startswith(rule)
    world.log.leaves = honest
    world.log.add(*leaves_of(changed(NEVER_SAMPLED, "token.slot", 1)))
    sent = len(world.network.exchanges)
    for silenced in (agent, world.agent(store)):
        await world.clock.advance(max(0, entry.send_at - world.clock.now()))
        assert await silenced.step() == NEVER
        with pytest.raises(Refusal, match=rule):
            await silenced.sync()
    assert len(world.network.exchanges) == sent
    assert world.uploads == []
    assert await only(store) == entry
    assert LogState.decode(await store.fact(Fact.LOG_STATE)).failure.startswith(rule)


async def test_a_device_believes_what_enough_witnesses_have_cosigned_lately(world: World) -> None:
    world.policy = KIT.policy.model_copy(update={"witnesses": WITNESS_LIMIT})
    world.log.add(*leaves_of(SOON))
    agent, store = await world.device()
    day = WITNESS_LIMIT.max_age_seconds
    for lines in ({}, {"w1.example": NOW}, {"w1.example": NOW, "w3.example": NOW - day - 1}):
        world.log.witnesses = {**lines}
        await agent.step()
        assert (await trouble(store)).startswith("log-checkpoint: the checkpoint has ")
        assert await store.entries() == []
        await world.clock.advance(120)
    world.log.witnesses = {"w1.example": NOW, "w3.example": NOW}
    await agent.step()
    assert (await trouble(store), (await only(store)).state) == ("", State.SCHEDULED)
    await world.clock.advance(day + 1)  # a log that shows for ever what it showed a day ago
    with pytest.raises(Refusal, match="0 recent"):
        await agent.sync()


async def test_a_device_whose_clock_was_ahead_for_a_while_goes_on_asking_the_log(world: World) -> None:
    world.log.add(*leaves_of(SOON))
    agent, _ = await world.device()
    world.clock.jump(300 * 86_400)
    await agent.poll()
    world.clock.set_back(300 * 86_400)
    sent = len(world.network.exchanges)
    assert await agent.poll() - world.clock.now() < 2 * 86_400
    assert len(world.network.exchanges) > sent
    later = len(world.network.exchanges)
    await agent.poll()
    assert len(world.network.exchanges) == later, "and no more often than before"


async def test_a_second_history_that_no_witness_cosigned_is_evidence_all_the_same(world: World) -> None:
    world.policy = KIT.policy.model_copy(update={"witnesses": WITNESS_LIMIT})
    world.log.witnesses = {"w1.example": NOW, "w2.example": NOW}
    _, store, _ = await scheduled(world)
    world.log.leaves, world.log.witnesses = fork(world.log.leaves), {}
    with pytest.raises(Refusal, match="log-split-view"):
        await world.agent(store).sync()
    assert LogState.decode(await store.fact(Fact.LOG_STATE)).failure.startswith("log-split-view")


@pytest.mark.parametrize("rule", ["log-rollback", "log-consistency"])
async def test_what_proves_no_fork_is_refused_and_noted_until_the_log_is_whole_again(world: World, rule: str) -> None:
    """A smaller tree and a bad proof can be anybody's doing on the way: neither is signed evidence."""
    agent, store, _ = await scheduled(world)
    honest = world.log.leaves
    world.log.leaves = honest[:-1] if rule == "log-rollback" else fork(honest, 2)
    await world.clock.advance(120)
    await agent.step()
    assert (await trouble(store)).startswith(rule)
    world.log.leaves = honest
    await world.clock.advance(120)
    await agent.step()
    assert await trouble(store) == ""


async def test_a_checkpoint_of_another_key_or_an_entry_outside_the_tree_is_not_believed(world: World) -> None:
    world.log.add(*leaves_of(SOON))
    agent, store = await world.device()
    world.log.signer = "leader"
    await agent.step()
    assert (await trouble(store)).startswith("log-checkpoint")
    world.log.signer, world.log.spoil_inclusion = "log", True
    await world.clock.advance(120)
    await agent.step()
    assert (await trouble(store)).startswith("log-inclusion")
    assert await store.entries() == []
    world.log.spoil_inclusion = False
    await world.clock.advance(120)
    await agent.step()
    assert (await only(store)).state is State.SCHEDULED


async def test_a_leaf_that_its_signer_did_not_sign_is_left_out_and_noted(world: World) -> None:
    leaf = KIT.recipe_leaf(ALWAYS)
    world.log.add(replace(leaf, signature=bytes(64)))
    agent, store = await world.device()
    await agent.step()
    assert (await trouble(store)).startswith("leaf-signature")
    assert await store.entries() == []


async def test_a_directory_of_another_epoch_length_is_not_the_pinned_issuers(world: World) -> None:
    body = KIT.directory(EPOCH + 1).model_copy(update={"epoch": NOW // 60, "epoch_seconds": 60})
    world.log.add(sign_leaf(LeafType.ISSUER_DIRECTORY, body, "issuer.example", KIT.keys["issuer"]))
    agent, store = await world.device()
    await agent.step()
    assert {row.slot.epoch for row in await store.prefetches()} == {EPOCH}


# The gateway's keys


async def test_gateway_keys_come_from_the_log_and_survive_a_restart(world: World) -> None:
    store = MemoryAgentStore()
    agent = world.agent(store)
    for _ in range(3):
        world.publish_keys()
        world.publish_keys(ahead=1)
        await world.relay_reads_the_log()
        await agent.sync()
        world.next_period()
    again = world.agent(store)
    await again.sync()
    assert list(again.gateway_keys) == world.gateway.ring.configs()


async def test_all_devices_change_keys_in_the_second_in_which_the_period_begins(world: World) -> None:
    world.publish_keys()
    world.publish_keys(ahead=1)
    ring = world.gateway.ring
    await world.relay_reads_the_log()
    active, following = ring.keys[0].config, ring.keys[1].config
    agents = [world.agent(MemoryAgentStore()) for _ in range(3)]
    for agent in agents:
        await agent.sync()
        assert agent.gateway_keys == (active,), "the next period's key waits for its period"
    world.clock.jump((ring.period + 1) * ring.rotation - 1 - world.clock.now())
    for agent in agents:
        await agent.work()
        assert agent.gateway_keys == (active,)
    world.clock.jump(1)
    for agent in (*agents, world.agent(MemoryAgentStore())):
        await agent.work()
    assert {agent.gateway_keys for agent in agents} == {(following, active)}


async def test_a_key_set_of_an_earlier_or_a_later_period_is_not_used(world: World) -> None:
    first = KeyConfig.decode(unb64url(world.first_key))
    for away in (-2, 2):
        await world.restart_relay(forget=True)
        world.log.leaves = []
        world.log.add(KIT.ohttp_leaf(KEY_PERIOD + away))
        await world.relay_reads_the_log()
        agent = world.agent(MemoryAgentStore())
        await agent.sync()
        assert agent.gateway_keys == (first,)
    await world.restart_relay(forget=True)
    world.log.leaves = []
    world.log.add(KIT.ohttp_leaf(KEY_PERIOD - 1))
    await world.relay_reads_the_log()
    agent = world.agent(MemoryAgentStore())
    await agent.sync()
    assert len(agent.gateway_keys) == 1
    assert agent.gateway_keys != (first,)


async def test_key_sets_of_periods_of_another_length_do_not_count(world: World) -> None:
    body = {**KIT.ohttp_leaf().body, "rotation_seconds": 3600, "period": NOW // 3600}
    world.log.add(sign_leaf(LeafType.OHTTP_CONFIG, body, "gateway.example", KIT.keys["gateway"]))
    agent = world.agent(MemoryAgentStore())
    await agent.sync()
    assert [b64url(key.encode()) for key in agent.gateway_keys] == [world.first_key]


async def test_a_log_with_three_key_sets_of_one_period_gives_no_device_a_key_of_its_own(world: World) -> None:
    """An analyst who runs log and gateway signs one checkpoint over three key sets, and means one for each device."""
    world.log.add(*(KIT.ohttp_leaf() for _ in range(3)))
    for _ in range(3):
        agent, store = await world.device()
        await agent.step()
        assert (await trouble(store)).startswith("log-second-leaf")
        state = LogState.decode(await store.fact(Fact.LOG_STATE))
        evidence = json.loads(state.evidence)
        assert KIT.log_policy.open(evidence["checkpoint"].encode()).size == 4
        for leaf in map(SignedLeaf.decode, map(unb64url, evidence["leaves"])):
            leaf.verify(KIT.keys["gateway"].public)
        assert [b64url(key.encode()) for key in agent.gateway_keys] == [world.first_key]
        assert await agent.step() == NEVER, "nothing is sent to anybody any more"


async def test_a_log_that_shows_each_of_three_devices_a_key_set_of_its_own_tags_none_of_them(world: World) -> None:
    """One checkpoint, three key sets, and answers that leave out what belongs to the others; the relay is shown the
    first. The devices end up with one key, or with the knowledge that the log is false."""
    world.log.add(*(KIT.ohttp_leaf() for _ in range(3)))
    world.log.hidden = {2, 3}
    await world.relay_reads_the_log()
    keys, failures = set(), []
    for shown in range(3):
        world.log.hidden = {1, 2, 3} - {1 + shown}
        agent, store = await world.device()
        await agent.poll()
        keys.add(agent.gateway_keys if await trouble(store) == "" else ())
        failures.append(LogState.decode(await store.fact(Fact.LOG_STATE)).failure.partition(":")[0])
    assert failures == ["", "log-second-leaf", "log-second-leaf"]
    assert len(keys - {()}) == 1


async def test_a_key_set_that_the_relay_has_not_seen_is_not_used_until_it_has(world: World) -> None:
    await world.relay_reads_the_log()
    world.publish_keys()
    agent, store = await world.device()
    for seen in (False, True):
        if seen:
            await world.relay_reads_the_log()
        await world.clock.advance(120)
        await agent.poll()
        assert bool(json.loads(await store.fact(Fact.GATEWAY_KEYS) or b'{"leaves":[]}')["leaves"]) is seen
    asked = len(world.network.exchanges)
    await world.clock.advance(120)
    await agent.poll()
    assert len(world.network.exchanges) == asked + 1, "what is known is not asked for again"


async def test_a_relay_that_serves_no_key_sets_is_no_obstacle(world: World) -> None:
    world.relay_config = world.relay_config.model_copy(update={"log": None})
    await world.restart_relay()
    world.publish_keys()
    agent, store = await world.device()
    await agent.poll()
    assert await trouble(store) == ""
    assert json.loads(await store.fact(Fact.GATEWAY_KEYS))["leaves"]


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_key_set_once_seen_is_not_replaced_by_one_that_is_shown_later(world: World, restarted: bool) -> None:
    """The answers leave out what would give the log away; the device remembers it."""
    world.publish_keys()
    await world.relay_reads_the_log()
    agent, store = await world.device()
    await agent.step()
    keys = agent.gateway_keys
    world.log.hidden.add(len(world.log.leaves) - 1)
    await world.clock.advance(120)
    world.log.add(KIT.ohttp_leaf())
    agent = world.agent(store) if restarted else agent
    with pytest.raises(Refusal, match="log-second-leaf"):
        await agent.sync()
    assert agent.gateway_keys == keys
    world.log.leaves.pop()
    with pytest.raises(Refusal, match="log-second-leaf"):
        await world.agent(store).sync()


async def test_two_directories_of_one_epoch_end_the_trust_in_a_log(world: World) -> None:
    world.log.add(KIT.directory_leaf(slots=2))
    agent, store = await world.device()
    await agent.step()
    assert (await trouble(store)).startswith("log-second-leaf")


async def test_a_published_key_that_nobody_can_use_changes_nothing(world: World) -> None:
    body = {**KIT.ohttp_leaf(KEY_PERIOD - 1).body, "active": "AAAA"}
    world.log.add(sign_leaf(LeafType.OHTTP_CONFIG, body, "gateway.example", KIT.keys["gateway"]))
    await world.relay_reads_the_log()
    agent, store = await world.device()
    await agent.step()
    await world.clock.advance(120)
    await agent.step()
    assert await trouble(store) == ""


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_directory_once_seen_is_not_replaced_by_one_that_is_shown_later(world: World, restarted: bool) -> None:
    """As with key sets: each answer by itself gives nothing away."""
    agent, store = await world.device()
    await agent.step()
    planned = await store.prefetches()
    assert planned
    world.log.hidden.add(0)
    await world.clock.advance(120)
    world.log.add(KIT.directory_leaf(slots=2))
    agent = world.agent(store) if restarted else agent
    with pytest.raises(Refusal, match="log-second-leaf"):
        await agent.sync()
    world.log.leaves.pop()
    with pytest.raises(Refusal, match="log-second-leaf"):
        await world.agent(store).sync()
