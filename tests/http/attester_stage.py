"""An attester and its issuer on simulated time, and what goes between them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pytest
from aiohttp import web

import attester.app
import services.issuer.app
from attester.config import AttesterConfig
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import (
    FaultyTransport,
    InProcessTransport,
)
from services.issuer.config import IssuerConfig
from tacit import media_types
from tacit.adapters.databases.recovery import Recovery
from tacit.ports import HttpResponse
from tacit.service.app import DRIVERS, ServiceEnv
from tacit.service.base.keys import write_signing_key
from tacit.service.base.secret_files import write_secret
from tacit.service.base.vouched import AskingTime
from tacit.signing import generate_signing_key
from tacit.tokens.attestation import (
    Evidence,
    SoftwareDevice,
    attestation_binding,
    challenge_of,
    token_request_body,
)
from tacit.tokens.blind_rsa import TokenKey
from tacit.tokens.directory import WELL_KNOWN_PATH, IssuerDirectory
from tacit.tokens.issuance import PendingToken, request_token
from tacit.tokens.issuer_key import IssuerKey
from tacit.tokens.slots import Slot, slot_challenge
from tacit.tokens.software_root import SoftwareRoot
from tacit.tokens.structures import TokenRequest

ATTESTER = "http://127.0.0.1:8003"
ISSUER = "http://127.0.0.1:8001"
EPOCH = 86400
NOW = 20_000 * EPOCH + 100.0
JSON = {"Content-Type": media_types.JSON}
ENTROPY = SeededEntropy(b"attester tests")


@lru_cache
def authority() -> SoftwareRoot:
    return SoftwareRoot.create(ENTROPY.child("root"), NOW)


@lru_cache
def issuer_keys() -> list[IssuerKey]:
    """Six keys with distinct truncated ids, made once for all tests."""
    keys: dict[int, IssuerKey] = {}
    while len(keys) < 6:
        key = IssuerKey.generate()
        keys[key.token_key.truncated_token_key_id] = key
    return list(keys.values())


@dataclass
class Seen:
    """An observer that remembers."""

    notes: list[tuple[str, dict[str, str | int]]] = field(default_factory=list)

    def saw(self, party: str, what: object) -> None:
        assert isinstance(what, dict)
        self.notes.append((party, what))


@dataclass
class Stage:
    """A running attester and issuer, their clock, and what goes between them."""

    folder: Path
    network: InProcessTransport
    clock: SimClock
    seen: Seen
    between: FaultyTransport
    directory: IssuerDirectory

    def config(self, **changes: object) -> AttesterConfig:
        values: dict[str, object] = {
            "state_dir": self.folder / "attester",
            "issuer_url": ISSUER,
            "issuer_credential": self.folder / "attester.credential",
            "software_roots": [self.folder / "root.pem"],
            "revocations": self.folder / "revoked.txt",
        }
        return AttesterConfig.model_validate(values | changes)

    async def restart(self, recovery: Recovery = Recovery.REFUSE, **changes: object) -> web.Application:
        deps = ServiceEnv(self.clock, ENTROPY, self.between, self.seen, background=False, recovery=recovery)
        await self.network.unmount(ATTESTER)
        app = attester.app.create_app(self.config(**changes), deps)
        await self.network.mount(ATTESTER, app)
        self.app = app
        return app

    async def ask_time(self) -> None:
        """Let the attester hear the issuer's time."""
        await next(one for one in self.app[DRIVERS] if isinstance(one, AskingTime)).step()

    def device(self, name: str = "device", lifetime: float = 30.0 * EPOCH) -> SoftwareDevice:
        return authority().issue(name, ENTROPY, NOW, lifetime)

    def key(self, slot: int = 0, epoch: int = 20_000) -> TokenKey:
        spki = next(one.token_key for one in self.directory.keys if (one.epoch, one.slot) == (epoch, slot))
        return TokenKey.from_spki(spki)

    def pending(self, slot: int = 0, epoch: int = 20_000) -> PendingToken:
        challenge = slot_challenge(Slot("issuer.example", epoch, slot))
        return request_token(self.key(slot, epoch), challenge, ENTROPY(32), ENTROPY)

    async def challenge(self) -> bytes:
        response = await self.network.request("POST", f"{ATTESTER}/v1/challenge")
        assert response.status == 200
        return challenge_of(response.body)

    async def send(self, evidence: Evidence, challenge: bytes, request: TokenRequest) -> HttpResponse:
        body = token_request_body(evidence, challenge, request)
        return await self.network.request("POST", f"{ATTESTER}/v1/token-requests", headers=JSON, body=body)

    async def ask(self, device: SoftwareDevice, request: TokenRequest) -> HttpResponse:
        challenge = await self.challenge()
        return await self.send(device.attest(attestation_binding(challenge, request)), challenge, request)

    def forwarded(self) -> int:
        return sum(1 for one in self.between.exchanges if one.url.endswith("/token-request"))


@asynccontextmanager
async def issuing(
    folder: Path, deps: Callable[[InProcessTransport], ServiceEnv], epoch_seconds: int, patch: pytest.MonkeyPatch
) -> AsyncIterator[InProcessTransport]:
    """A network with an issuer that has made its keys; ``attester.credential`` in ``folder`` is shown to it."""
    made = iter(issuer_keys())
    patch.setattr(IssuerKey, "generate", lambda _bits: next(made))
    write_signing_key(folder / "signing.key", generate_signing_key(ENTROPY))
    write_secret(folder / "attester.credential", b"credential\n")
    issuer = IssuerConfig(
        state_dir=folder / "issuer",
        storage="memory",
        name="issuer.example",
        signing_key=folder / "signing.key",
        attester_credential=folder / "attester.credential",
        recipe_server_url="http://127.0.0.1:8002",
        request_uri=f"{ISSUER}/token-request",
        epoch_seconds=epoch_seconds,
        slots_per_epoch=2,
        lookahead=2,
    )
    async with InProcessTransport() as network:
        app = services.issuer.app.create_app(issuer, deps(network))
        await network.mount(ISSUER, app)
        while await app[DRIVERS][0].step():
            pass
        yield network


@asynccontextmanager
async def staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    """An attester and its issuer, both running."""
    clock, seen = SimClock(NOW), Seen()
    (tmp_path / "root.pem").write_bytes(authority().root_pem)
    (tmp_path / "revoked.txt").write_text("# SHA-256 of SubjectPublicKeyInfo\n")

    def deps(network: InProcessTransport) -> ServiceEnv:
        return ServiceEnv(clock, ENTROPY, network, background=False)

    async with issuing(tmp_path, deps, EPOCH, monkeypatch) as network:
        found = await network.request("GET", ISSUER + WELL_KNOWN_PATH)
        between = FaultyTransport(network)
        stage = Stage(tmp_path, network, clock, seen, between, IssuerDirectory.decode(found.body))
        await stage.restart()
        yield stage


def problem(response: HttpResponse) -> str:
    name: str = json.loads(response.body)["type"]
    return name.removeprefix("urn:tacit:problem:")


def good(device: SoftwareDevice, challenge: bytes, request: TokenRequest) -> Evidence:
    return device.attest(attestation_binding(challenge, request))
