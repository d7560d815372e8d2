"""A whole agent behind a real relay and gateway, with a log that the test controls: what it decides, and what it
shows of that on the wire."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from client_agent.agent import Agent, journal_table
from client_agent.agent import Deps as AgentDeps
from client_agent.config import AgentConfig
from client_agent.journal import AgentStore, Entry, Fact, MemoryAgentStore, Prefetch, State, Trouble
from client_agent.pace import NEVER
from client_agent.sources import CallableSource, Value
from client_agent.store import SqlAgentStore
from relay.app import create_app as create_relay
from relay.config import RelayConfig
from services.gateway.app import create_app as create_gateway
from services.gateway.config import GatewayConfig, TargetRule
from services.gateway.handlers import GATEWAY
from services.gateway.service import Gateway
from tacit.codec import b64url, unb64url
from tacit.errors import Refusal, UsageError
from tacit.media_types import PRIVATE_TOKEN_RESPONSE
from tacit.messages import UploadRequest
from tacit.recipe.derive import task_of
from tacit.recipe.model import Recipe
from tacit.service.app import Deps
from tacit.service.config import write_secret
from tacit.testing.clock import SimClock
from tacit.testing.entropy import SeededEntropy
from tacit.testing.network import FaultyTransport, InProcessTransport
from tacit.testing.recipes import EPOCH, EPOCH_SECONDS, NOW, URLS, RecipeKit, bad_recipes, changed
from tacit.testing.reports import issuer_key, token_source
from tacit.tlog.checkpoint import Checkpoint, NoteKey, sign_checkpoint
from tacit.tlog.client import Bundle, BundleEntry, LogState
from tacit.tlog.leaves import IssuerDirectory, LeafType, OhttpConfig, SignedLeaf, SlotKey, sign_leaf
from tacit.tlog.log import MemoryTree
from tacit.tlog.merkle import prove_consistency, prove_inclusion
from tacit.tokens.attestation import Evidence
from tacit.tokens.blind_rsa import IssuerKey
from tacit.tokens.issuance import issue
from tacit.tokens.slots import Slot
from tacit.tokens.structures import TokenRequest

KIT = RecipeKit()
ENTROPY = SeededEntropy(b"decision tests")
LOG_URL = "http://127.0.0.1:8090"
GATEWAY_URL = "http://127.0.0.1:8084"
ATTESTER = "http://127.0.0.1:8085"
SLOT = Slot("issuer.example", EPOCH, 0)
RARE = Decimal("0.000000000000000001")
ALWAYS = KIT.recipe(rate=Decimal(1), min_batch_size=200)
NEVER_SAMPLED = KIT.recipe(rate=RARE, min_batch_size=200)


def leaves_of(recipe: Recipe) -> list[SignedLeaf]:
    """The recipe with its opt-ins, where it has a task at all and names the keys that these are signed with."""
    found = [KIT.recipe_leaf(recipe)]
    with contextlib.suppress(Refusal):
        for role in ("leader", "helper"):
            if getattr(recipe.parties, role).signing_key == b64url(KIT.keys[role].public):
                found.append(KIT.opt_in_leaf(recipe, role))
    return found


@dataclass
class Log:
    """A log that the test writes, signs and bends."""

    leaves: list[bytes] = field(default_factory=list)
    status: int = 200
    hidden: set[int] = field(default_factory=set)
    signer: str = "log"
    spoil_inclusion: bool = False

    def add(self, *leaves: SignedLeaf) -> None:
        self.leaves += [leaf.encode() for leaf in leaves]

    def bundle(self, since: int) -> Bundle:
        tree = MemoryTree(self.leaves)
        size, read = tree.size, tree.read
        checkpoint = Checkpoint("log.example/tacit", size, tree.root())
        proof = prove_consistency(read, since, size) if 0 < since < size else ()
        entries = []
        for index, leaf in enumerate(self.leaves):
            if index not in self.hidden:
                inclusion = tuple(prove_inclusion(read, index, size))
                if self.spoil_inclusion:
                    inclusion = (bytes(32), *inclusion[1:])
                entries.append(BundleEntry(index, leaf, inclusion))
        return Bundle(sign_checkpoint(checkpoint, KIT.keys[self.signer]), tuple(proof), tuple(entries))

    async def answer(self, request: web.Request) -> web.Response:
        if self.status != 200:
            return web.Response(status=self.status)
        since = int(request.query["since"])
        return web.Response(body=self.bundle(since).encode(), content_type="application/json")


@dataclass
class World:
    """Relay, gateway, log, a Leader that stores everything, and devices."""

    clock: SimClock
    inner: InProcessTransport
    network: FaultyTransport
    gateway: Gateway
    log: Log
    first_key: str
    uploads: list[bytes] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def config(self, **changes: Any) -> AgentConfig:
        body: dict[str, Any] = {
            "state_dir": "unused",
            "log_key": NoteKey("log.example/tacit", KIT.keys["log"].public).encode(),
            "issuer": {
                "name": "issuer.example",
                "signing_key": b64url(KIT.keys["issuer"].public),
                "epoch_seconds": EPOCH_SECONDS,
            },
            "gateway": {
                "name": "gateway.example",
                "signing_key": b64url(KIT.keys["gateway"].public),
                "key_config": self.first_key,
            },
            "relay_url": URLS["relay"],
            "recipe_server_url": LOG_URL,
            "attester_url": ATTESTER,
            "attestation": {"identity": "unused"},
            "policy": "unused",
            "source": {"kind": "csv", "path": "unused"},
        }
        return AgentConfig.model_validate({**body, **changes})

    def agent(self, store: AgentStore, value: Value | None = 3, **changes: Any) -> Agent:
        deps = AgentDeps(self.clock, ENTROPY.child(f"agent {next(self.numbers)}"), self.network)
        return Agent(self.config(**changes), KIT.policy, deps, store, CallableSource(lambda _metric: value), _Device())

    async def device(self, value: Value | None = 3, **options: Any) -> tuple[Agent, MemoryAgentStore]:
        """A fresh device that holds the token of the first slot."""
        store = MemoryAgentStore()
        await give_token(store)
        return self.agent(store, value, **options), store

    def publish_key(self) -> None:
        """The gateway's active key goes into the log."""
        key = self.gateway.ring.active
        body = OhttpConfig(
            gateway="gateway.example",
            key_config=b64url(key.config.encode()),
            not_before=key.not_before,
            not_after=key.not_after,
        )
        self.log.add(sign_leaf(LeafType.OHTTP_CONFIG, body, "gateway.example", KIT.keys["gateway"]))

    def relayed(self) -> list[int]:
        """Sizes of everything that devices sent to the relay."""
        return [len(exchange.body) for exchange in self.network.exchanges if exchange.url == URLS["relay"]]


class _Device:
    def attest(self, binding: bytes) -> Evidence:
        return Evidence("software-root", hashlib.sha256(binding).digest() * 30)


async def give_token(store: AgentStore, slot: Slot = SLOT, key: IssuerKey | None = None) -> None:
    key = key or issuer_key()
    bound = token_source(key, ENTROPY)(slot)
    key_id = key.token_key.token_key_id
    secrets = bound.preimages.r_leader + bound.preimages.r_helper
    await store.put_prefetch(Prefetch(slot, float(NOW), key_id, preimages=secrets, token=bound.token))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    clock, log = SimClock(float(NOW)), Log()
    write_secret(tmp_path / "relay.token", b"relay-credential\n")
    uploads: list[bytes] = []

    async def upload(request: web.Request) -> web.Response:
        uploads.append(await request.read())
        return web.Response()

    async with InProcessTransport() as inner:
        gateway = create_gateway(
            GatewayConfig(
                state_dir=tmp_path / "gateway",
                storage="memory",
                group_delay=0.0,
                relay_bearer=tmp_path / "relay.token",
                targets=(
                    TargetRule(origin=URLS["leader"], path_prefix="/tasks/"),
                    TargetRule(origin=LOG_URL, path_prefix="/v1/", methods=("GET",)),
                ),
            ),
            Deps(clock, ENTROPY.child("gateway"), inner, background=False),
        )
        relay = create_relay(
            RelayConfig(state_dir=tmp_path, gateway_url=GATEWAY_URL, gateway_bearer=tmp_path / "relay.token"),
            Deps(clock, ENTROPY.child("relay"), inner, background=False),
        )
        leader, server = web.Application(), web.Application()
        leader.router.add_post("/tasks/{task}/reports", upload)
        server.router.add_get("/v1/bundle", log.answer)
        for url, app in (
            (GATEWAY_URL, gateway),
            (URLS["relay"], relay),
            (URLS["leader"], leader),
            (LOG_URL, server),
        ):
            await inner.mount(url, app)
        ring = gateway[GATEWAY].ring
        first = b64url(ring.active.config.encode())
        log.add(KIT.directory_leaf())
        yield World(clock, inner, FaultyTransport(inner), gateway[GATEWAY], log, first, uploads)


async def only(store: AgentStore) -> Entry:
    (entry,) = await store.entries()
    return entry


async def trouble(store: AgentStore) -> str:
    found = Trouble.decode(await store.fact(Fact.LOG_TROUBLE))
    return found.what if found else ""


# Taking part


async def test_a_sampled_device_makes_one_report_inside_the_interval_and_sends_it_at_its_time(world: World) -> None:
    world.log.add(*leaves_of(ALWAYS))
    agent, store = await world.device()
    await agent.step()
    entry = await only(store)
    assert entry.state is State.SCHEDULED
    assert entry.charged_epsilon == ALWAYS.privacy.epsilon.aggregator
    assert ALWAYS.interval.start <= entry.send_at < ALWAYS.interval.end
    assert world.uploads == []
    await world.clock.advance(entry.send_at - world.clock.now())
    await agent.send_due()
    assert world.uploads == [entry.report]
    task = task_of(ALWAYS, issuer_key().token_key.spki)
    (report,) = UploadRequest.decode(entry.report).reports
    assert task.in_interval(report.report_metadata.time)
    assert (await only(store)).state is State.SENT
    row = journal_table(await store.entries())[0]
    assert (row["recipe"], row["state"], row["attempts"]) == ("doctor-visits", "sent", 1)


async def test_a_used_token_leaves_the_device_with_the_next_poll(world: World) -> None:
    world.log.add(*leaves_of(ALWAYS))
    agent, store = await world.device()
    await agent.step()
    await agent.sync()
    row = next(row for row in await store.prefetches() if row.slot == SLOT)
    assert row.spent
    assert row.token == row.preimages == row.pending == b""


async def test_a_device_that_the_coin_leaves_out_is_charged_and_keeps_its_token(world: World) -> None:
    world.log.add(*leaves_of(NEVER_SAMPLED))
    agent, store = await world.device()
    await agent.step()
    entry = await only(store)
    assert (entry.state, entry.report) == (State.NOT_SAMPLED, b"")
    assert entry.charged_epsilon == NEVER_SAMPLED.privacy.epsilon.aggregator
    assert next(row for row in await store.prefetches() if row.slot == SLOT).usable


@pytest.mark.parametrize(
    ("value", "detail"),
    [(None, "no datum"), (-1, "below the first edge"), ("many", "not a number"), (float("nan"), "finite")],
)
async def test_a_device_without_a_fitting_datum_stays_silent_and_is_not_charged(
    world: World, value: Value | None, detail: str
) -> None:
    world.log.add(*leaves_of(ALWAYS))
    agent, store = await world.device(value)
    await agent.step()
    entry = await only(store)
    assert (entry.state, entry.charged_epsilon) == (State.INELIGIBLE, "")
    assert detail in entry.detail
    assert str(value) not in entry.detail or value is None


async def test_an_unreadable_source_is_told_to_the_owner_and_asked_again(world: World) -> None:
    world.log.add(*leaves_of(ALWAYS))
    agent, store = await world.device()
    broken = True

    def read(_metric: str) -> Value:
        if broken:
            raise UsageError("data.csv: cannot read the data source")
        return 2

    agent = Agent(
        world.config(),
        KIT.policy,
        AgentDeps(world.clock, SeededEntropy(b"d"), world.network),
        store,
        CallableSource(read),
        _Device(),
    )
    await agent.step()
    assert await store.entries() == []
    found = Trouble.decode(await store.fact(Fact.SOURCE_TROUBLE))
    assert found is not None
    assert "data.csv" in found.what
    broken = False
    await agent.step()
    assert (await only(store)).state is State.SCHEDULED
    assert await store.fact(Fact.SOURCE_TROUBLE) == b""


# Refusing


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
    world.log.add(*leaves_of(changed(ALWAYS, "interval.duration", 79_200)))
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
    cost = Decimal(ALWAYS.privacy.epsilon.aggregator)
    agent, store = await world.device(budget={"epsilon": str(cost), "days": 1})
    await store.decide(Entry(b"o" * 32, "earlier", State.NOT_SAMPLED, NOW - 3600.0, "", str(cost)))
    await agent.step()
    entry = (await store.entries())[1]
    assert entry.state is State.REFUSED
    assert "budget-spent" in entry.detail
    again, other = await world.device(budget={"epsilon": str(cost), "days": 1})
    await other.decide(Entry(b"o" * 32, "earlier", State.NOT_SAMPLED, NOW - 90_000.0, "", str(cost)))
    await again.step()
    assert (await other.entries())[1].state is State.NOT_SAMPLED


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


# Once


@pytest.mark.parametrize("storage", ["memory", "sqlite"])
async def test_steps_that_race_decide_once(world: World, storage: str, tmp_path: Path) -> None:
    world.log.add(*leaves_of(ALWAYS))
    store: AgentStore = MemoryAgentStore()
    if storage == "sqlite":
        store = await SqlAgentStore.open(f"sqlite+aiosqlite:///{tmp_path}/agent.sqlite3")
    await give_token(store)
    agents = [world.agent(store) for _ in range(3)]
    for agent in agents:
        await agent.sync()
    await asyncio.gather(*(agent.consider() for agent in agents for _ in range(2)))
    entry = await only(store)
    await world.clock.advance(entry.send_at - world.clock.now())
    await asyncio.gather(agents[0].send_due(), agents[0].send_due())
    assert world.uploads == [entry.report]
    if isinstance(store, SqlAgentStore):
        await store.close()


async def test_after_a_crash_the_decided_report_is_sent_even_while_the_log_is_away(
    world: World, tmp_path: Path
) -> None:
    world.log.add(*leaves_of(ALWAYS))
    url = f"sqlite+aiosqlite:///{tmp_path}/agent.sqlite3"
    store = await SqlAgentStore.open(url)
    await give_token(store)
    agent = world.agent(store)
    await agent.step()
    entry = await only(store)
    await store.close()
    store = await SqlAgentStore.open(url)
    agent = world.agent(store)
    world.log.status = 503
    await world.clock.advance(entry.send_at - world.clock.now())
    await agent.step()
    assert world.uploads == [entry.report]
    assert (await only(store)).state is State.SENT
    assert "503" in await trouble(store)
    await store.close()


# The log


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


# What the attester sees (R15)


class OneDevice:
    """The same device twice: coins, times and pauses are the same, keys and secrets are not."""

    def __init__(self, run: str) -> None:
        self._same = SeededEntropy(b"one device")
        self._fresh = ENTROPY.child(run)

    def __call__(self, length: int, /) -> bytes:
        return self._fresh(length) if length > 16 else self._same(length)


@dataclass
class Attester:
    """Signs whatever it is asked for, and keeps what it saw."""

    clock: SimClock
    keys: dict[int, IssuerKey]
    seen: list[tuple[float, str, int]] = field(default_factory=list)

    async def challenge(self, request: web.Request) -> web.Response:
        self.seen.append((self.clock.now(), request.path, len(await request.read())))
        return web.json_response({"challenge": b64url(bytes(32))})

    async def token(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.seen.append((self.clock.now(), request.path, len(body)))
        asked = TokenRequest.decode(unb64url(json.loads(body)["token_request"]))
        response = issue(self.keys[asked.truncated_token_key_id], asked, ENTROPY)
        return web.Response(body=response.encode(), headers={"Content-Type": PRIVATE_TOKEN_RESPONSE})


async def test_issuance_looks_the_same_whatever_the_coin_says(world: World) -> None:
    keys: dict[int, IssuerKey] = {}
    while len(keys) < 4:
        key = IssuerKey.generate()
        keys[key.token_key.truncated_token_key_id] = key
    spkis = [b64url(key.token_key.spki) for key in keys.values()]
    transcripts, states = [], []
    for recipe in (NEVER_SAMPLED, ALWAYS):
        long = changed(recipe, "interval", {"start": EPOCH * EPOCH_SECONDS, "duration": EPOCH_SECONDS})
        world.log.leaves = []
        for number in (0, 1):
            directory = IssuerDirectory(
                issuer="issuer.example",
                epoch=EPOCH + number,
                epoch_seconds=EPOCH_SECONDS,
                request_uri="/token-request",
                keys=[SlotKey(slot=slot, token_key=spkis[2 * number + slot]) for slot in (0, 1)],
            )
            world.log.add(sign_leaf(LeafType.ISSUER_DIRECTORY, directory, "issuer.example", KIT.keys["issuer"]))
        world.log.add(*leaves_of(long))
        clock = SimClock(float(NOW))
        attester = Attester(clock, keys)
        app = web.Application()
        app.router.add_post("/v1/challenge", attester.challenge)
        app.router.add_post("/v1/token-requests", attester.token)
        await world.inner.mount(ATTESTER, app)
        store = MemoryAgentStore()
        agent = Agent(
            world.config(timing={"poll_seconds": 1e6}),
            KIT.policy,
            AgentDeps(clock, OneDevice(recipe.hash_text), world.network),
            store,
            CallableSource(lambda _metric: 3),
            _Device(),
        )
        end = (EPOCH + 1) * EPOCH_SECONDS
        await agent.sync()
        while clock.now() < end:
            due = min(await agent.prefetch(), await agent.work())
            await clock.advance(max(min(due, end) - clock.now(), 0.001))
        transcripts.append(attester.seen)
        states.append((await only(store)).state)
    assert states[0] is State.NOT_SAMPLED
    assert states[1] in {State.SENT, State.SCHEDULED}
    assert len(transcripts[0]) == 8
    assert transcripts[0] == transcripts[1]
