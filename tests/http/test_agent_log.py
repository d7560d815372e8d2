"""A whole agent whose log forks, shrinks or lies, and whose gateway changes its keys."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import pytest

from client_agent.agent import Agent
from client_agent.journal import Entry, Fact, MemoryAgentStore, State
from client_agent.pace import NEVER
from tacit.codec import b64url
from tacit.errors import Refusal
from tacit.testing.recipes import EPOCH, NOW, changed
from tacit.tlog.client import LogState
from tacit.tlog.leaves import LeafType, OhttpConfig, sign_leaf
from tests.http.agent_world import (
    ALWAYS,
    KIT,
    NEVER_SAMPLED,
    World,
    leaves_of,
    only,
    trouble,
)


async def scheduled(world: World) -> tuple[Agent, MemoryAgentStore, Entry]:
    world.log.add(*leaves_of(ALWAYS))
    agent, store = await world.device()
    await agent.step()
    return agent, store, await only(store)


def fork(leaves: Sequence[bytes], more: int = 0) -> list[bytes]:
    """Another history: the last entry is another one, and ``more`` follow."""
    return [*leaves[:-1], *(KIT.ohttp_leaf(9 + number).encode() for number in range(1 + more))]


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
    world.log.add(*leaves_of(ALWAYS))
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


async def test_a_leaf_that_its_signer_did_not_sign_spoils_the_answer(world: World) -> None:
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
        world.gateway.rotate()
        world.publish_key()
        await agent.sync()
        await world.clock.advance(60)
    assert (await store.fact(Fact.GATEWAY_KEYS))[:32] == hashlib.sha256(world.first_key.encode()).digest()
    await world.agent(store).sync()
    with pytest.raises(Exception, match="knows none of the keys"):
        await world.agent(MemoryAgentStore()).sync()
    again = world.agent(
        store,
        gateway={
            "name": "gateway.example",
            "signing_key": b64url(KIT.keys["gateway"].public),
            "key_config": b64url(world.gateway.ring.active.config.encode()),
        },
    )
    await again.sync()


async def test_a_published_key_that_nobody_can_use_changes_nothing(world: World) -> None:
    body = OhttpConfig(gateway="gateway.example", key_config="AAAA", not_before=NOW, not_after=NOW + 3600)
    world.log.add(sign_leaf(LeafType.OHTTP_CONFIG, body, "gateway.example", KIT.keys["gateway"]))
    agent, store = await world.device()
    await agent.step()
    await world.clock.advance(120)
    await agent.step()
    assert await trouble(store) == ""
