"""A device that was away for longer than its keys live, or whose image is old, and a relay that leads it astray."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from client_agent.agent import Agent
from client_agent.journal import Fact, MemoryAgentStore
from infra.lab.kit.bundles import paged, signed_bundle
from infra.lab.kit.recipes import EPOCH, KEY_PERIOD, KEY_ROTATION, NOW, URLS
from tacit.codec import b64url
from tacit.errors import Refusal
from tacit.logview.view import LogState
from tacit.ports import TransportError
from tacit.service.app import DRIVERS
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.log import MemoryTree
from tests.http.agent_world import KIT, World, trouble

KEY_SETS = f"{URLS['relay']}/key-sets"


async def pass_periods(world: World, count: int, *, fill: int = 0) -> None:
    """So many periods of the gateway go by, each published ahead, and the log grows by other leaves too."""
    for number in range(count):
        world.publish_keys()
        world.publish_keys(ahead=1)
        world.log.add(*(KIT.directory_leaf(EPOCH + 1000 + number * fill + one, 1) for one in range(fill)))
        world.next_period()
    await world.relay_reads_the_log()


def serve(world: World, document: bytes) -> None:
    """The relay serves something else from now on."""
    (driver,) = (one for one in world.relay[DRIVERS] if hasattr(one, "document"))
    driver.document = document


def forged(world: World, *leaves: SignedLeaf, signer: str = "log") -> bytes:
    """Key sets in a log of the attacker's own making."""
    tree = MemoryTree([*world.log.leaves, *(leaf.encode() for leaf in leaves)])
    return paged(tree, signed_bundle(tree, 0, KIT.keys[signer]), "/v1/key-sets") or b""


async def away_for_a_year(world: World) -> tuple[Agent, MemoryAgentStore]:
    """A device that read the log, and came back twelve periods and some 300 leaves later."""
    world.publish_keys()
    await world.relay_reads_the_log()
    store = MemoryAgentStore()
    await world.agent(store).sync()
    await pass_periods(world, 13, fill=24)
    return world.agent(store), store


async def test_a_device_that_was_silent_for_a_year_comes_back(world: World) -> None:
    agent, store = await away_for_a_year(world)
    before = LogState.decode(await store.fact(Fact.LOG_STATE))
    asked = [exchange.url for exchange in world.network.exchanges].count(KEY_SETS)
    await agent.sync()
    assert list(agent.gateway_keys) == world.gateway.ring.configs()
    after = LogState.decode(await store.fact(Fact.LOG_STATE))
    assert after.size == len(world.log.leaves) > before.size + 256
    await world.agent(store).sync()
    now_asked = [exchange.url for exchange in world.network.exchanges].count(KEY_SETS)
    assert now_asked == asked + 1, "once it has a key it asks the relay no more"


async def test_a_new_device_with_an_image_of_61_days_comes_in(world: World) -> None:
    await pass_periods(world, 3)
    agent, store = await world.device()
    await agent.step()
    assert await trouble(store) == ""
    assert list(agent.gateway_keys) == world.gateway.ring.configs()


async def test_all_devices_that_come_back_ask_the_relay_for_the_same_thing_and_get_the_same(world: World) -> None:
    await pass_periods(world, 3)
    answers = set()
    for _ in range(3):
        await world.agent(MemoryAgentStore()).sync()
        answer = await world.inner.request("GET", KEY_SETS)
        assert answer.headers["cache-control"] == "public, max-age=600"
        answers.add(answer.body)
    asked = [exchange for exchange in world.network.exchanges if exchange.url == KEY_SETS]
    assert {(exchange.method, exchange.body) for exchange in asked} == {("GET", b"")}
    assert len(asked) == 3
    assert len(answers) == 1


async def test_a_device_whose_key_the_gateway_lost_gets_the_one_in_the_log(world: World) -> None:
    ring = world.gateway.ring
    world.publish_keys()
    await world.relay_reads_the_log()
    stale = KIT.ohttp_leaf().body["active"]
    gateway = {"name": "gateway.example", "signing_key": b64url(KIT.keys["gateway"].public)}
    pin = {**gateway, "rotation_seconds": ring.rotation, "period": KEY_PERIOD, "key_config": stale}
    agent = world.agent(MemoryAgentStore(), gateway=pin)
    await agent.sync()
    assert list(agent.gateway_keys) == ring.configs()


@pytest.mark.parametrize(
    ("attack", "error"),
    [
        ("a log of another key", "log-checkpoint"),
        ("a signature of another key", "the recipe server answered"),
        ("a set that is in no tree", "log-inclusion"),
        ("another gateway's set", "no key set of the gateway"),
        ("an older document", "log-rollback"),
        ("a set of a later period alone", "no key set of the gateway"),
        ("a tree that does not extend the device's", "log-consistency"),
        ("no document", "400|document|key sets"),
    ],
)
async def test_a_relay_can_withhold_key_sets_and_not_put_others_in_their_place(
    world: World, attack: str, error: str
) -> None:
    agent, store = await away_for_a_year(world)
    period = world.gateway.ring.period
    leaf = KIT.ohttp_leaf(period)
    good = (await world.inner.request("GET", KEY_SETS)).body
    documents: dict[str, Callable[[], bytes]] = {
        "a log of another key": lambda: forged(world, leaf, signer="leader"),
        "a signature of another key": lambda: forged(world, replace(leaf, signature=bytes(64))),
        "a set that is in no tree": lambda: _swapped(good, leaf),
        "another gateway's set": lambda: _only(world, KIT.ohttp_leaf(period), "other.example"),
        "an older document": lambda: _older(world),
        "a set of a later period alone": lambda: _only(world, KIT.ohttp_leaf(period + 2), "gateway.example"),
        "a tree that does not extend the device's": lambda: _another_history(world),
        "no document": lambda: b"{}",
    }
    serve(world, documents[attack]())
    before = await store.fact(Fact.GATEWAY_KEYS), await store.fact(Fact.LOG_STATE)
    with pytest.raises(Exception, match=error):
        await agent.sync()
    assert (await store.fact(Fact.GATEWAY_KEYS), await store.fact(Fact.LOG_STATE)) == before
    serve(world, good)
    await agent.sync()
    assert list(agent.gateway_keys) == world.gateway.ring.configs()


async def test_a_set_of_the_past_is_not_taken_for_one_of_this_period(world: World) -> None:
    """A replay: the relay still serves what was right two periods ago."""
    await pass_periods(world, 1)
    old = (await world.inner.request("GET", KEY_SETS)).body
    await pass_periods(world, 3)
    serve(world, old)
    agent = world.agent(MemoryAgentStore())
    with pytest.raises(TransportError, match="no key set of the gateway for this time"):
        await agent.sync()
    assert agent.gateway_keys == ()


async def test_a_log_that_has_the_relay_show_a_second_set_of_a_period_is_never_trusted_again(world: World) -> None:
    store = MemoryAgentStore()
    world.log.add(KIT.ohttp_leaf())
    await world.relay_reads_the_log()
    await world.agent(store).sync()
    await world.restart_relay(forget=True)
    world.log.hidden.add(len(world.log.leaves) - 1)
    world.publish_keys()
    await world.relay_reads_the_log()
    with pytest.raises(Refusal, match="log-second-leaf"):
        await world.agent(store).sync()
    world.log.leaves.pop()
    with pytest.raises(Refusal, match="log-second-leaf"):
        await world.agent(store).sync()


# The relay's side


async def test_a_second_root_that_the_relay_shows_ends_trust_for_good_too(world: World) -> None:
    _, store = await away_for_a_year(world)
    size = LogState.decode(await store.fact(Fact.LOG_STATE)).size
    tree = MemoryTree([*world.log.leaves[: size - 1], KIT.directory_leaf(EPOCH + 5).encode()])
    serve(world, paged(tree, signed_bundle(tree, 0, KIT.keys["log"]), "/v1/key-sets") or b"")
    with pytest.raises(Refusal, match="log-split-view"):
        await world.agent(store).sync()
    assert LogState.decode(await store.fact(Fact.LOG_STATE)).failure.startswith("log-split-view")
    with pytest.raises(Refusal, match="log-split-view"):
        await world.agent(store).sync()


async def test_a_relay_that_has_no_key_sets_yet_fills_nobodys_log(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        answer = await world.inner.request("GET", KEY_SETS)
        assert (answer.status, "retry-after" in answer.headers) == (503, False), "devices may send meanwhile"
    assert '"level": "error"' not in capsys.readouterr().err


async def test_a_relay_serves_only_what_the_gateway_signed_and_the_log_proved(world: World) -> None:
    assert (await world.inner.request("GET", KEY_SETS)).status == 503
    foreign = {**KIT.ohttp_leaf(KEY_PERIOD).body, "gateway": "other.example"}
    world.log.add(sign_leaf(LeafType.OHTTP_CONFIG, foreign, "other.example", KIT.keys["leader"]))
    world.publish_keys()
    assert await world.relay_reads_the_log() == 1
    assert await world.relay_reads_the_log() == 0
    document = json.loads((await world.inner.request("GET", KEY_SETS)).body)
    assert [entry["index"] for entry in document["entries"]] == [len(world.log.leaves) - 1]
    world.log.signer = "leader"
    assert await world.relay_reads_the_log() == 0
    assert json.loads((await world.inner.request("GET", KEY_SETS)).body) == document
    health = json.loads((await world.inner.request("GET", f"{URLS['relay']}/healthz")).body)
    assert "key sets of the gateway" in json.dumps(health)


async def test_a_relay_whose_log_is_away_for_an_hour_says_so_and_serves_what_it_has(world: World) -> None:
    world.publish_keys()
    await world.relay_reads_the_log()
    world.log.status = 503
    for healthy in (True, False):
        assert await world.relay_reads_the_log() == 0
        health = (await world.inner.request("GET", f"{URLS['relay']}/healthz")).body
        assert (b"key sets" not in health) is healthy
        assert (await world.inner.request("GET", KEY_SETS)).status == 200
        world.clock.jump(3601)


async def test_a_relay_that_is_shown_a_second_set_keeps_the_first_also_after_a_restart(world: World) -> None:
    world.publish_keys()
    await world.relay_reads_the_log()
    document = (await world.inner.request("GET", KEY_SETS)).body
    world.log.hidden.add(len(world.log.leaves) - 1)
    world.log.add(KIT.ohttp_leaf())
    assert await world.relay_reads_the_log() == 0
    assert (await world.inner.request("GET", KEY_SETS)).body == document
    await world.restart_relay()
    world.log.leaves.pop()
    assert await world.relay_reads_the_log() == 0
    assert (await world.inner.request("GET", KEY_SETS)).status == 503, "it trusts that log no more"


async def test_a_relay_forgets_no_set_of_this_period_however_many_others_it_is_shown(world: World) -> None:
    """A log and its gateway could else have it show a second set to those who come later."""
    world.publish_keys()
    await world.relay_reads_the_log()
    world.log.hidden.add(len(world.log.leaves) - 1)
    for first in range(2, 42, 8):
        others = [KIT.ohttp_leaf(KEY_PERIOD + ahead) for ahead in range(first, first + 8)]
        others += [_of_another_length(KEY_ROTATION + extra) for extra in range(first, first + 8)]
        world.log.add(*others)
        await world.relay_reads_the_log()
        world.log.hidden.update(range(len(world.log.leaves) - len(others), len(world.log.leaves)))
    world.log.add(KIT.ohttp_leaf())
    assert await world.relay_reads_the_log() == 0
    health = (await world.inner.request("GET", f"{URLS['relay']}/healthz")).body
    assert b"two leaves for one key-set" in health


def _of_another_length(rotation: int) -> SignedLeaf:
    body = {**KIT.ohttp_leaf().body, "rotation_seconds": rotation, "period": NOW // rotation}
    return sign_leaf(LeafType.OHTTP_CONFIG, body, "gateway.example", KIT.keys["gateway"])


async def test_a_relay_that_is_shown_a_second_root_trusts_that_log_no_more_also_after_a_restart(world: World) -> None:
    world.publish_keys()
    await world.relay_reads_the_log()
    honest = world.log.leaves
    world.log.leaves = [*honest[:-1], KIT.ohttp_leaf().encode()]
    assert await world.relay_reads_the_log() == 0
    await world.restart_relay()
    world.log.leaves = honest
    assert await world.relay_reads_the_log() == 0
    assert (await world.inner.request("GET", KEY_SETS)).status == 503


def _swapped(document: bytes, leaf: SignedLeaf) -> bytes:
    plain = json.loads(document)
    plain["entries"][-1]["leaf"] = b64url(leaf.encode())
    return json.dumps(plain).encode()


def _only(world: World, leaf: SignedLeaf, gateway: str) -> bytes:
    body = {**leaf.body, "gateway": gateway}
    signed = sign_leaf(LeafType.OHTTP_CONFIG, body, gateway, KIT.keys["gateway"])
    tree = MemoryTree([*world.log.leaves, signed.encode()])
    hidden = range(len(world.log.leaves))
    return paged(tree, signed_bundle(tree, 0, KIT.keys["log"], hidden), "/v1/key-sets") or b""


def _older(world: World) -> bytes:
    tree = MemoryTree(world.log.leaves[:1])
    return paged(tree, signed_bundle(tree, 0, KIT.keys["log"]), "/v1/key-sets") or b""


def _another_history(world: World) -> bytes:
    tree = MemoryTree([KIT.directory_leaf(EPOCH + 9).encode(), *world.log.leaves[1:]])
    return paged(tree, signed_bundle(tree, 0, KIT.keys["log"]), "/v1/key-sets") or b""
