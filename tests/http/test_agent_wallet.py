"""The device's wallet against a real attester and issuer: one token per slot, at times that say nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import attester.app
from attester.config import AttesterConfig
from client_agent.config import Timing
from client_agent.journal import AgentStore, MemoryAgentStore
from client_agent.store import SqlAgentStore
from client_agent.wallet import LATE_SHARE, TokenWallet
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import (
    LOSE_REQUEST,
    LOSE_RESPONSE,
    FaultyTransport,
    InProcessTransport,
    matching,
    no_faults,
)
from tacit import media_types
from tacit.backoff import NEVER
from tacit.codec import b64url
from tacit.ports import HttpResponse
from tacit.service.app import ServiceEnv
from tacit.tlog.token_directories import IssuerDirectory, SlotKey
from tacit.tokens.attestation import SoftwareDevice
from tacit.tokens.binding import Preimages
from tacit.tokens.directory import WELL_KNOWN_PATH
from tacit.tokens.directory import IssuerDirectory as DirectoryDocument
from tacit.tokens.slots import Slot, TokenVerifier
from tacit.tokens.software_root import SoftwareRoot
from tests.http.attester_stage import ATTESTER, ISSUER, issuing

EPOCH = 3600
NOW = 500_000 * EPOCH + 100.0
ENTROPY = SeededEntropy(b"wallet tests")
ROOT = SoftwareRoot.create(ENTROPY.child("root"), NOW)
TIMING = Timing(retry_seconds=5, retry_limit_seconds=60)


@dataclass
class World:
    """A running attester and issuer, the directories of two epochs, and the network between device and attester."""

    clock: SimClock
    network: FaultyTransport
    directories: list[IssuerDirectory]

    def device(self, name: str = "device") -> SoftwareDevice:
        return ROOT.issue(name, ENTROPY, NOW)

    def wallet(
        self, store: AgentStore, device: SoftwareDevice | None = None, seed: bytes = b"seed", network: Any = None
    ) -> TokenWallet:
        return TokenWallet(
            store,
            network or self.network,
            ATTESTER,
            device or self.device(),
            self.clock,
            SeededEntropy(seed),
            TIMING,
        )

    async def until(self, wallet: TokenWallet, end: float) -> None:
        """Run the wallet at its own due times up to ``end``."""
        while (due := await wallet.step()) < end:
            await self.clock.advance(max(due - self.clock.now(), 0.001))
        await self.clock.advance(max(end - self.clock.now(), 0))

    def asked(self) -> list[bytes]:
        """The blinded messages that the attester was sent, as base64url."""
        bodies = (one.body for one in self.network.exchanges if one.url.endswith("/v1/token-requests"))
        return [json.loads(body)["token_request"].encode() for body in bodies]


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    clock = SimClock(NOW)
    (tmp_path / "root.pem").write_bytes(ROOT.root_pem)

    def deps(network: InProcessTransport) -> ServiceEnv:
        return ServiceEnv(clock, ENTROPY, network, background=False)

    config = AttesterConfig(
        state_dir=tmp_path / "attester",
        storage="memory",
        issuer_url=ISSUER,
        issuer_credential=tmp_path / "attester.credential",
        software_roots=(tmp_path / "root.pem",),
    )
    async with issuing(tmp_path, deps, EPOCH, monkeypatch) as network:
        await network.mount(ATTESTER, attester.app.create_app(config, deps(network)))
        document = DirectoryDocument.decode((await network.request("GET", ISSUER + WELL_KNOWN_PATH)).body)
        yield World(clock, FaultyTransport(network), _leaves(document))


def _leaves(document: DirectoryDocument) -> list[IssuerDirectory]:
    """What the log says of the keys of this and the next epoch."""
    by_epoch: dict[int, list[SlotKey]] = {}
    for key in document.keys:
        slot = SlotKey(slot=key.slot or 0, token_key=b64url(key.token_key))
        by_epoch.setdefault(key.epoch or 0, []).append(slot)
    return [
        IssuerDirectory(
            issuer="issuer.example", epoch=epoch, epoch_seconds=EPOCH, request_uri="/token-request", keys=keys
        )
        for epoch, keys in sorted(by_epoch.items())[:2]
    ]


async def test_every_slot_of_this_and_the_next_epoch_gets_one_token_at_its_own_time(world: World) -> None:
    store = MemoryAgentStore()
    wallet = world.wallet(store)
    await wallet.plan(world.directories)
    planned = await store.prefetches()
    current, coming = world.directories
    assert len({row.due_at for row in planned}) == len(planned) == 4
    for row in planned:
        until = coming.start if row.slot.epoch == coming.epoch else NOW + LATE_SHARE * (current.end - NOW)
        assert NOW <= row.due_at < until
    await world.until(wallet, coming.start)
    for row in await store.prefetches():
        directory = current if row.slot.epoch == current.epoch else coming
        spki = directory.spki(row.slot.slot)
        assert spki is not None
        token = TokenVerifier(spki, row.slot).verify(row.token)
        assert token.nonce == Preimages(row.preimages[:32], row.preimages[32:]).nonce
        assert row.pending == b""
    assert len(world.asked()) == 4
    assert await wallet.step() == NEVER


async def test_a_new_plan_keeps_the_times_that_were_drawn(world: World) -> None:
    store = MemoryAgentStore()
    wallet = world.wallet(store)
    await wallet.plan(world.directories)
    before = await store.prefetches()
    await wallet.plan(world.directories)
    assert await store.prefetches() == before


async def test_a_device_that_joins_late_asks_within_a_share_of_what_is_left(world: World) -> None:
    current = world.directories[0]
    await world.clock.advance(current.end - 400 - world.clock.now())
    store = MemoryAgentStore()
    await world.wallet(store).plan([current])
    assert all(current.end - 400 <= row.due_at < current.end - 300 for row in await store.prefetches())


async def test_a_directory_of_a_later_epoch_waits_and_one_of_the_past_is_left_alone(world: World) -> None:
    later = world.directories[1].model_copy(update={"epoch": world.directories[1].epoch + 1})
    past = world.directories[0].model_copy(update={"epoch": world.directories[0].epoch - 1})
    store = MemoryAgentStore()
    await world.wallet(store).plan([later, past])
    assert await store.prefetches() == []


@pytest.mark.parametrize("lost", [LOSE_REQUEST, LOSE_RESPONSE], ids=["request", "response"])
@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
async def test_after_a_loss_the_same_blinded_message_is_sent_and_gives_one_token(
    world: World, tmp_path: Path, lost: Any, restart: bool
) -> None:
    path = tmp_path / "agent.sqlite3"
    store, device = await SqlAgentStore.open(path), world.device()
    wallet = world.wallet(store, device)
    await wallet.plan([world.directories[1]])
    world.network.plan = matching("/v1/token-requests", lost)
    await world.clock.advance(EPOCH // 2)
    await wallet.step()
    tried = len(world.asked())
    assert tried > 0
    if restart:
        await store.close()
        store = await SqlAgentStore.open(path)
        wallet = world.wallet(store, device, seed=b"another seed")
        await wallet.plan([world.directories[1]])
    world.network.plan = no_faults
    await world.until(wallet, world.directories[1].start)
    rows = await store.prefetches()
    assert all(row.usable for row in rows)
    assert len(set(world.asked())) == len(rows) == 2
    await store.close()


async def test_retries_grow_and_have_no_beat(world: World) -> None:
    store = MemoryAgentStore()
    wallet = world.wallet(store)
    await wallet.plan([world.directories[1]])
    world.network.partition(ATTESTER)
    times: list[float] = []
    first = min(await store.prefetches(), key=lambda row: row.due_at)
    await world.clock.advance(first.due_at - world.clock.now())
    for _ in range(8):
        await wallet.step()
        row = next(row for row in await store.prefetches() if row.slot == first.slot)
        times.append(row.due_at - world.clock.now())
        await world.clock.advance(times[-1] + 0.001)
    assert len(set(times)) == len(times)
    assert times[0] < 8 <= times[-1] <= 1.5 * TIMING.retry_limit_seconds
    wallet_after_years = replace(row, attempts=5000, due_at=world.clock.now())
    await store.put_prefetch(wallet_after_years)
    assert await wallet.step() > world.clock.now()


async def test_a_spent_quota_ends_the_slot_and_any_other_429_is_tried_again(world: World) -> None:
    device = world.device()
    first = MemoryAgentStore()
    wallet = world.wallet(first, device)
    await wallet.plan([world.directories[1]])
    await world.until(wallet, world.directories[1].start - 1800)
    done = {row.slot for row in await first.prefetches() if row.usable}
    assert done
    reinstalled = MemoryAgentStore()
    wallet = world.wallet(reinstalled, device, seed=b"reinstalled")
    await wallet.plan([world.directories[1]])
    await world.until(wallet, world.directories[1].start)
    for row in await reinstalled.prefetches():
        assert row.token == b"" if row.slot in done else row.usable
        if row.slot in done:
            assert not await wallet.may_come(row.slot, world.directories[1].end)
            assert row.attempts == 1
    busy = MemoryAgentStore()
    wallet = world.wallet(busy, world.device("other"), network=_Busy(world.network))
    await wallet.plan([world.directories[1]])
    await world.until(wallet, world.directories[1].start + 1000)
    rows = await busy.prefetches()
    assert all(row.usable for row in rows)
    assert sum(row.attempts for row in rows) == 4


class _Busy:
    """An attester that is behind a rate limiter: one request in two gets 429, of no type that we know."""

    def __init__(self, inner: FaultyTransport) -> None:
        self._inner = inner
        self._count = 0

    async def request(self, method: str, url: str, **others: Any) -> HttpResponse:
        if url.endswith("/v1/token-requests"):
            self._count += 1
            if self._count <= 2:
                return HttpResponse(429, {"content-type": media_types.PROBLEM_JSON}, b'{"type":"about:blank"}')
        return await self._inner.request(method, url, **others)


async def test_a_slot_whose_key_changes_in_the_log_is_not_asked_for(world: World) -> None:
    store = MemoryAgentStore()
    wallet = world.wallet(store)
    coming = world.directories[1]
    await wallet.plan([coming])
    first, second = coming.keys
    swapped = [
        first.model_copy(update={"token_key": second.token_key}),
        second.model_copy(update={"token_key": first.token_key}),
    ]
    await wallet.plan([coming.model_copy(update={"keys": swapped})])
    await world.until(wallet, coming.start)
    assert world.asked() == []
    assert not any(row.token for row in await store.prefetches())


async def test_a_malformed_key_costs_its_slot_and_no_other(world: World) -> None:
    store = MemoryAgentStore()
    wallet = world.wallet(store)
    coming = world.directories[1]
    keys = [SlotKey(slot=coming.keys[0].slot, token_key=b64url(b"no key")), coming.keys[1]]
    await wallet.plan([coming.model_copy(update={"keys": keys})])
    await world.until(wallet, coming.start)
    assert [row.usable for row in await store.prefetches()] == [False, True]


async def test_two_steps_at_once_ask_once(world: World) -> None:
    store = MemoryAgentStore()
    wallet = world.wallet(store)
    await wallet.plan([world.directories[1]])
    await world.clock.advance(world.directories[1].start - world.clock.now())
    await asyncio.gather(wallet.step(), wallet.step(), wallet.step())
    assert len(world.asked()) == 2
    assert all(row.usable for row in await store.prefetches())


async def test_the_secrets_of_a_held_token_are_in_no_repr(world: World) -> None:
    store = MemoryAgentStore()
    wallet = world.wallet(store)
    await wallet.plan([world.directories[1]])
    await world.until(wallet, world.directories[1].start)
    row = (await store.prefetches())[0]
    held = await wallet.held(row.slot)
    assert held is not None
    assert held.token == row.token
    for shown in (repr(held), repr(row)):
        assert "\\x" not in shown.replace(repr(row.key_id), "")
    assert await wallet.held(Slot("issuer.example", 1, 1)) is None
