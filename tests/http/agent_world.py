"""A relay and a gateway around devices, with a log that the test controls."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from aiohttp import web

from client_agent.agent import Agent
from client_agent.config import AgentConfig
from client_agent.data.sources import CallableSource, Value
from client_agent.deciding import AgentEnv
from client_agent.journal import AgentStore, Entry, Fact, MemoryAgentStore, Prefetch, Trouble
from infra.lab.kit.bundles import paged, signed_bundle
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.learning import Model
from infra.lab.kit.network import FaultyTransport, InProcessTransport
from infra.lab.kit.recipes import EPOCH, EPOCH_SECONDS, NOW, URLS, RecipeKit
from infra.lab.kit.reports import issuer_key, token_source
from relay.app import create_app as create_relay
from relay.config import RelayConfig
from relay.key_sets import FILE, LoggedKeySets
from services.gateway.service import Gateway
from tacit.codec import b64url
from tacit.errors import Refusal
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy, WitnessLimit
from tacit.recipe.training import MODEL_PIECE
from tacit.service.app import DRIVERS, ServiceEnv
from tacit.signing import generate_signing_key
from tacit.tlog.checkpoint import COSIGNATURE, Note, NoteKey
from tacit.tlog.cosignature import cosign
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.log import MemoryTree
from tacit.tokens.attestation import Evidence
from tacit.tokens.issuer_key import IssuerKey
from tacit.tokens.slots import Slot

KIT = RecipeKit()
ENTROPY = SeededEntropy(b"decision tests")
LOG_URL = "http://127.0.0.1:8090"
GATEWAY_URL = "http://127.0.0.1:8084"
ATTESTER = "http://127.0.0.1:8085"
SLOT = Slot("issuer.example", EPOCH, 0)
WITNESSES = {f"w{number}.example": generate_signing_key(ENTROPY.child(f"w{number}")) for number in (1, 2, 3)}
WITNESS_LIMIT = WitnessLimit(
    keys=tuple(NoteKey(name, key.public, COSIGNATURE).encode() for name, key in WITNESSES.items()), k=2
)
"""Two of three, within a day."""
RARE = Decimal("0.0000000001")
"""A rate at which no coin says yes (one in 10^10), and at which 10^14 devices still send the contributions expected."""
ALWAYS = KIT.recipe(rate=Decimal(1), min_batch_size=200)
NEVER_SAMPLED = KIT.recipe(rate=RARE, min_batch_size=200)


def leaves_of(recipe: Recipe) -> list[SignedLeaf]:
    """The recipe with its opt-ins, where it has a task at all and names the keys that these are signed with."""
    found = [KIT.recipe_leaf(recipe)]
    with contextlib.suppress(Refusal):
        for role in ("leader", "helper"):
            server = recipe.parties.server(role)
            if server is not None and server.signing_key == b64url(KIT.keys[role].public):
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
    models: dict[str, bytes] = field(default_factory=dict)
    """The models that are handed out, by path; ``asked``: the paths of all requests for models."""
    asked: list[str] = field(default_factory=list)
    witnesses: dict[str, float] = field(default_factory=dict)
    """When each witness last cosigned what is shown; ``WITNESSES`` are their keys."""

    def add(self, *leaves: SignedLeaf) -> None:
        self.leaves += [leaf.encode() for leaf in leaves]

    def hold(self, model: Model) -> None:
        """Hand this model out from now on."""
        self.models[model.stated().path] = model.file

    async def model(self, request: web.Request) -> web.Response:
        """A piece of a model."""
        self.asked.append(request.path)
        path, _, number = request.path.rpartition("/")
        piece = self.models.get(path, b"")[int(number) * MODEL_PIECE :][:MODEL_PIECE]
        return web.Response(body=piece) if piece else web.Response(status=404)

    async def answer(self, request: web.Request) -> web.Response:
        if self.status != 200:
            return web.Response(status=self.status)
        tree = MemoryTree(self.leaves)
        bundle = signed_bundle(tree, 0, KIT.keys[self.signer], self.hidden)
        note = Note.decode(bundle.checkpoint)
        lines = (cosign(note.text, name, WITNESSES[name], int(made)) for name, made in self.witnesses.items())
        bundle = replace(bundle, checkpoint=Note(note.text, (*note.signatures, *lines)).encode())
        if self.spoil_inclusion:
            spoilt = tuple(replace(one, inclusion=(bytes(32), *one.inclusion[1:])) for one in bundle.entries)
            bundle = replace(bundle, entries=spoilt)
        found = paged(tree, bundle, request.path)
        return web.Response(status=404) if found is None else web.Response(body=found, content_type="application/json")


@dataclass
class World:
    """Relay, gateway, log, a Leader that stores everything, and devices."""

    clock: SimClock
    inner: InProcessTransport
    network: FaultyTransport
    gateway: Gateway
    log: Log
    relay: web.Application
    relay_config: RelayConfig
    first_key: str
    uploads: list[bytes] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    policy: Policy = field(default_factory=lambda: KIT.policy)

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
                "rotation_seconds": self.gateway.ring.rotation,
                "period": NOW // self.gateway.ring.rotation,
                "key_config": self.first_key,
            },
            "relay_url": URLS["relay"],
            "recipe_server_url": LOG_URL,
            "attester_url": ATTESTER,
            "attestation": {"identity": "unused"},
            "policy": "unused",
            "source": {"kind": "csv", "path": "unused"},
            "timing": {"late_seconds": 1e6, "resume_seconds": 0.0},
        }
        return AgentConfig.model_validate({**body, **changes})

    def agent(self, store: AgentStore, value: Value | None = 3, **changes: Any) -> Agent:
        deps = AgentEnv(self.clock, ENTROPY.child(f"agent {next(self.numbers)}"), self.network)
        return Agent(self.config(**changes), self.policy, deps, store, CallableSource(lambda _metric: value), Device())

    async def device(self, value: Value | None = 3, **options: Any) -> tuple[Agent, MemoryAgentStore]:
        """A fresh device that holds the token of the first slot."""
        store = MemoryAgentStore()
        await give_token(store)
        return self.agent(store, value, **options), store

    def publish_keys(self, ahead: int = 0) -> None:
        """The gateway's key set of this period, or of the one that is so many ahead, is in the log."""
        ring = self.gateway.ring
        body = ring.key_set("gateway.example", ring.period + ahead)
        leaf = sign_leaf(LeafType.OHTTP_CONFIG, body, "gateway.example", KIT.keys["gateway"])
        if leaf.encode() not in self.log.leaves:
            self.log.add(leaf)

    async def restart_relay(self, *, forget: bool = False) -> None:
        """The relay stops and starts again on what it kept of the log, or without that."""
        await self.inner.unmount(URLS["relay"])
        if forget:
            (self.relay_config.state_dir / FILE).unlink(missing_ok=True)
        deps = ServiceEnv(self.clock, ENTROPY.child("relay again"), self.inner, background=False)
        self.relay = create_relay(self.relay_config, deps)
        await self.inner.mount(URLS["relay"], self.relay)

    async def relay_reads_the_log(self) -> int:
        """The relay looks whether the log shows other key sets; 1 if so."""
        (driver,) = (one for one in self.relay[DRIVERS] if isinstance(one, LoggedKeySets))
        return await driver.step()

    def next_period(self) -> None:
        """The gateway's next key period begins."""
        ring = self.gateway.ring
        self.clock.jump((ring.period + 1) * ring.rotation - self.clock.now())
        self.gateway.rotate_if_due()

    @property
    def relay_url(self) -> str:
        """Where devices find the relay."""
        return URLS["relay"]

    def relayed(self) -> list[int]:
        """Sizes of everything that devices sent to the relay."""
        return [len(exchange.body) for exchange in self.network.exchanges if exchange.url == URLS["relay"]]


class Device:
    def attest(self, binding: bytes) -> Evidence:
        return Evidence("software-root", hashlib.sha256(binding).digest() * 30)


async def give_token(store: AgentStore, slot: Slot = SLOT, key: IssuerKey | None = None) -> None:
    key = key or issuer_key()
    bound = token_source(key, ENTROPY)(slot)
    key_id = key.token_key.token_key_id
    secrets = bound.preimages.r_leader + bound.preimages.r_helper
    await store.put_prefetch(Prefetch(slot, float(NOW), key_id, preimages=secrets, token=bound.token))


async def only(store: AgentStore) -> Entry:
    (entry,) = await store.entries()
    return entry


async def trouble(store: AgentStore) -> str:
    found = Trouble.decode(await store.fact(Fact.LOG_TROUBLE))
    return found.what if found else ""
