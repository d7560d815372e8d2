"""What the attester sees of a device (R15): the same, whatever the coin says."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field

import gmpy2
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa

from client_agent.agent import Agent
from client_agent.data.sources import CallableSource
from client_agent.deciding import AgentEnv
from client_agent.journal import MemoryAgentStore, State
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import EPOCH, EPOCH_SECONDS, NOW, changed
from tacit.codec import b64url, unb64url
from tacit.media_types import PRIVATE_TOKEN_RESPONSE
from tacit.tlog.leaves import LeafType, sign_leaf
from tacit.tlog.token_directories import IssuerDirectory, SlotKey
from tacit.tokens.blind_rsa import TokenKey
from tacit.tokens.issuer_key import IssuerKey, issue
from tacit.tokens.structures import TokenRequest
from tests.http.agent_world import (
    ALWAYS,
    ATTESTER,
    ENTROPY,
    KIT,
    NEVER_SAMPLED,
    Device,
    World,
    leaves_of,
    only,
)


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


def unusable_keys(count: int) -> list[str]:
    """Token keys of the right form whose modulus has many small factors: a message under one of them can be blinded
    with probability below 0.04."""
    small = math.prod(candidate for candidate in range(3, 350, 2) if gmpy2.is_prime(candidate))
    first = (1 << 2047) // small * small + 3 * small
    moduli = [number for number in range(first, first + 4 * count * small, small) if number % 2][:count]
    keys = [rsa.RSAPublicNumbers(65537, modulus).public_key() for modulus in moduli]
    return [b64url(TokenKey.from_public_key(key).spki) for key in keys]


async def test_a_key_under_which_nothing_can_be_blinded_ends_the_slot_and_not_the_agent(world: World) -> None:
    """All ten of ten keys give a token request with probability below 1e-13."""
    slots = [SlotKey(slot=slot, token_key=key) for slot, key in enumerate(unusable_keys(10))]
    body = IssuerDirectory(
        issuer="issuer.example", epoch=EPOCH, epoch_seconds=EPOCH_SECONDS, request_uri="/token-request", keys=slots
    )
    world.log.leaves = []  # one directory per epoch: the first would be the only one
    world.log.add(sign_leaf(LeafType.ISSUER_DIRECTORY, body, "issuer.example", KIT.keys["issuer"]))
    store = MemoryAgentStore()
    agent = world.agent(store)
    await agent.sync()
    assert len(await store.prefetches()) == len(slots)
    world.clock.jump(body.end - 1 - world.clock.now())
    await agent.prefetch()
    given_up = [row for row in await store.prefetches() if row.due_at == body.end and not row.pending]
    assert given_up


async def test_issuance_looks_the_same_whatever_the_coin_says(world: World) -> None:
    keys: dict[int, IssuerKey] = {}
    while len(keys) < 4:
        key = IssuerKey.generate()
        keys[key.token_key.truncated_token_key_id] = key
    spkis = [b64url(key.token_key.spki) for key in keys.values()]
    transcripts, states = [], []
    for recipe in (NEVER_SAMPLED, ALWAYS):
        long = changed(recipe, "interval", {"start": (EPOCH + 1) * EPOCH_SECONDS - 60, "duration": 60})
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
            AgentEnv(clock, OneDevice(recipe.hash_text), world.network),
            store,
            CallableSource(lambda _metric: 3),
            Device(),
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
