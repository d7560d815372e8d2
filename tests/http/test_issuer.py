"""The issuer: keys ahead of time, one directory leaf per epoch, signatures for the attester only."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import LOSE_RESPONSE, FaultyTransport, InProcessTransport, matching, no_faults
from services.issuer.app import create_app
from services.issuer.config import IssuerConfig
from services.issuer.handlers import ISSUER as ISSUER_KEY
from tacit import media_types
from tacit.adapters.databases.recovery import Recovery
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.tls import ClientTls
from tacit.errors import Fatal, UsageError
from tacit.ports import HttpResponse, Transport, TransportError
from tacit.service.app import DRIVERS, SERVICE_ENV, ServiceEnv
from tacit.service.base.config import Listen
from tacit.service.base.driver import Driver
from tacit.service.base.keys import write_signing_key
from tacit.service.base.secret_files import write_secret
from tacit.service.run import started
from tacit.signing import generate_signing_key
from tacit.time_format import date_field
from tacit.tlog.leaves import LeafType, SignedLeaf
from tacit.tlog.token_directories import IssuerDirectory as DirectoryBody
from tacit.tokens.blind_rsa import TokenKey
from tacit.tokens.directory import WELL_KNOWN_PATH, IssuerDirectory
from tacit.tokens.issuance import request_token
from tacit.tokens.issuer_key import IssuerKey
from tacit.tokens.slots import Slot, TokenVerifier, slot_challenge
from tacit.tokens.structures import TokenRequest, TokenResponse
from tests.certificates import Authority
from tests.http.attester_stage import Seen

ISSUER = "http://127.0.0.1:8001"
LOG = "http://127.0.0.1:8002"
EPOCH = 86400
NOW = 20_000 * EPOCH + 100.0
CREDENTIAL = "attester-credential"
SIGNER = generate_signing_key(SeededEntropy(b"signer"))
BEARER = {"Authorization": f"Bearer {CREDENTIAL}"}
CONTENT = {"Content-Type": media_types.PRIVATE_TOKEN_REQUEST}
MAKE_KEY = IssuerKey.generate


@dataclass
class Log:
    """The recipe server's side: keeps leaves, answers as told."""

    clock: SimClock
    leaves: list[bytes] = field(default_factory=list)
    status: int = 201
    refusal: str = ""

    async def post(self, request: web.Request) -> web.Response:
        leaf = await request.read()
        if self.status == 201 and leaf not in self.leaves:
            self.leaves.append(leaf)
        if self.refusal and self.status == 422:
            return web.json_response({"type": f"urn:tacit:refusal:{self.refusal}"}, status=422)
        return web.json_response({"index": len(self.leaves)}, status=self.status)

    async def get(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def date(self, _request: web.Request, response: web.StreamResponse) -> None:
        response.headers["Date"] = date_field(int(self.clock.steady()))

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/leaves", self.post)
        app.router.add_get("/checkpoint", self.get)
        app.on_response_prepare.append(self.date)
        return app


@dataclass
class Stage:
    """A running issuer with its log and its clock."""

    folder: Path
    network: InProcessTransport
    clock: SimClock
    log: Log
    seen: Seen
    outgoing: FaultyTransport
    app: web.Application

    def config(self, **changes: object) -> IssuerConfig:
        return config_in(self.folder, **changes)

    async def restart(self, recovery: Recovery = Recovery.REFUSE, **changes: object) -> None:
        deps = ServiceEnv(self.clock, SeededEntropy(2), self.outgoing, self.seen, background=False, recovery=recovery)
        self.app = create_app(self.config(**changes), deps)
        await self.network.mount(ISSUER, self.app)

    def driver(self, name: str) -> Driver:
        return next(one for one in self.app[DRIVERS] if type(one).__name__ == name)

    async def run(self, name: str) -> int:
        moved = 0
        if name == "KeyDriver":
            self.app[SERVICE_ENV].vouched.hear("the log", self.clock.now())
        while step := await self.driver(name).step():
            moved += step
        return moved

    async def directory(self) -> IssuerDirectory:
        response = await self.network.request("GET", ISSUER + WELL_KNOWN_PATH)
        assert response.status == 200
        assert response.headers["content-type"] == media_types.ISSUER_DIRECTORY
        return IssuerDirectory.decode(response.body)

    async def ask(self, body: bytes, headers: dict[str, str] | None = None) -> HttpResponse:
        headers = {**CONTENT, **BEARER} if headers is None else headers
        return await self.network.request("POST", f"{ISSUER}/token-request", headers=headers, body=body)


def config_in(folder: Path, **changes: object) -> IssuerConfig:
    values: dict[str, object] = {
        "state_dir": folder,
        "name": "issuer.example",
        "signing_key": folder / "signing.key",
        "attester_credential": folder / "attester.credential",
        "recipe_server_url": LOG,
        "request_uri": f"{ISSUER}/token-request",
        "epoch_seconds": EPOCH,
        "slots_per_epoch": 2,
    }
    return IssuerConfig.model_validate(values | changes)


@functools.cache
def key_number(_number: int) -> IssuerKey:
    """The keys that an issuer makes here, by their order: new to each issuer, and made once for all tests."""
    return MAKE_KEY()


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    write_signing_key(tmp_path / "signing.key", SIGNER)
    write_secret(tmp_path / "attester.credential", CREDENTIAL.encode() + b"\n")
    clock, seen = SimClock(NOW), Seen()
    log = Log(clock)
    numbers = itertools.count()
    monkeypatch.setattr(IssuerKey, "generate", lambda _bits: key_number(next(numbers)))
    async with InProcessTransport({LOG: log.app()}) as network:
        outgoing = FaultyTransport(network)
        app = create_app(config_in(tmp_path), ServiceEnv(clock, SeededEntropy(1), outgoing, seen, background=False))
        await network.mount(ISSUER, app)
        yield Stage(tmp_path, network, clock, log, seen, outgoing, app)


async def token_for(stage: Stage, epoch: int, slot: int) -> HttpResponse:
    directory = await stage.directory()
    spki = next(key.token_key for key in directory.keys if (key.epoch, key.slot) == (epoch, slot))
    where = Slot("issuer.example", epoch, slot)
    pending = request_token(TokenKey.from_spki(spki), slot_challenge(where), b"n" * 32, SeededEntropy(9))
    response = await stage.ask(pending.request.encode())
    if response.status == 200:
        assert response.headers["content-type"] == media_types.PRIVATE_TOKEN_RESPONSE
        token = pending.finalize(TokenKey.from_spki(spki), TokenResponse.decode(response.body))
        TokenVerifier(spki, where).verify(token.encode())
    return response


async def test_keys_of_this_and_two_more_epochs_stand_ready_with_distinct_ids(stage: Stage) -> None:
    assert await stage.run("KeyDriver") == 6
    directory = await stage.directory()
    assert [(key.epoch, key.slot) for key in directory.keys] == [
        (epoch, slot) for epoch in (20_000, 20_001, 20_002) for slot in (0, 1)
    ]
    assert len({key.truncated_token_key_id for key in directory.keys}) == 6
    assert directory.keys[0].not_before == 19_999 * EPOCH
    assert directory.keys[0].not_after == 20_001 * EPOCH
    assert directory.request_uri == f"{ISSUER}/token-request"
    assert await stage.run("KeyDriver") == 0


async def test_the_directory_may_be_cached_until_the_next_epoch_at_most(stage: Stage) -> None:
    empty = await stage.network.request("GET", ISSUER + WELL_KNOWN_PATH)
    assert empty.headers["cache-control"] == "public, max-age=0"
    await stage.run("KeyDriver")
    response = await stage.network.request("GET", ISSUER + WELL_KNOWN_PATH)
    assert response.headers["cache-control"] == "public, max-age=3600"
    stage.clock.jump(EPOCH - 110)
    response = await stage.network.request("GET", ISSUER + WELL_KNOWN_PATH)
    assert response.headers["cache-control"] == "public, max-age=10"


async def test_a_signature_makes_a_token_that_verifies_for_its_slot(stage: Stage) -> None:
    await stage.run("KeyDriver")
    assert (await token_for(stage, 20_000, 1)).status == 200
    assert (await token_for(stage, 20_001, 0)).status == 200
    assert stage.seen.notes == [
        ("issuer", {"epoch": 20_000, "slot": 1}),
        ("issuer", {"epoch": 20_001, "slot": 0}),
    ]


async def test_a_key_signs_in_its_own_epoch_and_the_one_before_only(stage: Stage) -> None:
    await stage.run("KeyDriver")
    directory = await stage.directory()
    assert (await token_for(stage, 20_002, 0)).status == 422
    stage.clock.jump(EPOCH)
    assert (await token_for(stage, 20_002, 0)).status == 200
    old = next(key for key in directory.keys if key.epoch == 20_000)
    assert (await stage.ask(TokenRequest(old.truncated_token_key_id, b"\1" * 256).encode())).status == 422


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: b"",
        lambda body: body[:-1],
        lambda body: body + b"\0",
        lambda body: b"\0\1" + body[2:],
        lambda body: body[:3] + b"\xff" * 256,
        lambda body: body[:2] + bytes([(body[2] + 1) % 256]) + body[3:],
    ],
    ids=["empty", "short", "long", "type", "above-modulus", "unknown-key"],
)
async def test_a_malformed_request_gets_422(stage: Stage, spoil: Callable[[bytes], bytes]) -> None:
    await stage.restart(slots_per_epoch=1)
    await stage.run("KeyDriver")
    key = (await stage.directory()).keys[0]
    body = TokenRequest(key.truncated_token_key_id, b"\0" * 255 + b"\2").encode()
    assert (await stage.ask(body)).status == 200
    known = {one.truncated_token_key_id for one in (await stage.directory()).keys}
    spoiled = spoil(body)
    if len(spoiled) == len(body) and spoiled[2] != body[2]:
        spoiled = body[:2] + bytes([next(i for i in range(256) if i not in known)]) + body[3:]
    response = await stage.ask(spoiled)
    assert response.status == 422
    assert json.loads(response.body)["type"] == "urn:tacit:problem:token-request"


async def test_another_media_type_is_refused_and_a_huge_body_is_as_any_wrong_length(stage: Stage) -> None:
    await stage.run("KeyDriver")
    assert (await stage.ask(b"x" * 259, {**BEARER, "Content-Type": "text/plain"})).status == 415
    huge = await stage.ask(b"x" * 5000)
    assert (huge.status, json.loads(huge.body)["type"]) == (422, "urn:tacit:problem:token-request")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {CREDENTIAL}"},
        {"Authorization": "Bearer"},
    ],
    ids=["none", "wrong", "scheme", "empty"],
)
async def test_a_missing_or_wrong_credential_gets_401(stage: Stage, headers: dict[str, str]) -> None:
    await stage.run("KeyDriver")
    key = (await stage.directory()).keys[0]
    body = TokenRequest(key.truncated_token_key_id, b"\0" * 255 + b"\2").encode()
    assert (await stage.ask(body, {**CONTENT, **headers})).status == 401
    assert stage.seen.notes == []


async def test_an_issuer_that_anybody_could_use_does_not_start(stage: Stage) -> None:
    deps = ServiceEnv(stage.clock, SeededEntropy(3), stage.network, background=False)
    with pytest.raises(UsageError, match="attester_credential"):
        create_app(stage.config(attester_credential=None), deps)
    with pytest.raises(UsageError, match="plain http"):
        create_app(stage.config(recipe_server_url="http://log.example"), deps)
    (stage.folder / "signing.key").write_text("no key")
    with pytest.raises(UsageError, match="signing key"):
        create_app(stage.config(), deps)


async def test_a_bearer_token_from_another_machine_is_not_enough(stage: Stage) -> None:
    deps = ServiceEnv(stage.clock, SeededEntropy(3), stage.network, background=False)
    async with InProcessTransport(client_address="192.0.2.1") as outside:
        await outside.mount(ISSUER, create_app(stage.config(storage="memory"), deps))
        response = await outside.request("POST", f"{ISSUER}/token-request", headers={**CONTENT, **BEARER}, body=b"x")
    assert response.status == 401


async def test_the_attesters_certificate_opens_the_door_and_no_other_of_the_authority_does(stage: Stage) -> None:
    """The relay's certificate is as good in the handshake: only its name tells the two apart."""
    ours, other = Authority(stage.folder, "ca"), Authority(stage.folder, "other")
    certificate, key = ours.issue("server")
    names = {"attester": ("attester.example",)}
    listen = Listen(tls_cert=certificate, tls_key=key, client_ca=ours.certificate, client_names=names)
    deps = ServiceEnv(stage.clock, SeededEntropy(3), stage.network, background=False)
    app = create_app(stage.config(attester_credential=None, storage="memory", listen=listen), deps)

    async with started(app, listen) as ready:

        async def asked(tls: ClientTls, method: str = "POST", path: str = "/token-request") -> int:
            async with HttpTransport(tls=tls) as http:
                body = b"x" if method == "POST" else b""
                return (await http.request(method, ready.url + path, headers=CONTENT, body=body)).status

        known = ours.issue("attester.example")
        assert await asked(ClientTls(ours.certificate, *known)) == 422
        nobody, relay = ClientTls(ours.certificate), ClientTls(ours.certificate, *ours.issue("relay.example"))
        pretender = ClientTls(ours.certificate, *ours.issue("attester.example.attacker.example"))
        for tls in (nobody, relay, pretender):
            assert await asked(tls) == 401
            for public in (WELL_KNOWN_PATH, "/healthz"):
                assert await asked(tls, "GET", public) == 200
        page = json.loads((await get(ready.url, nobody)).body)
        assert (page["status"], page["refused_certificates"]) == ("ok", {"attester": 2})
        stranger = ClientTls(ours.certificate, *other.issue("attester.example"))
        with pytest.raises(TransportError):
            await asked(stranger)


async def get(url: str, tls: ClientTls) -> HttpResponse:
    async with HttpTransport(tls=tls) as http:
        return await http.request("GET", f"{url}/healthz")


async def test_each_epochs_leaf_is_signed_and_published_once(stage: Stage) -> None:
    await stage.run("KeyDriver")
    assert await stage.run("DirectoryDriver") == 3
    assert await stage.run("DirectoryDriver") == 0
    keys = {(key.epoch, key.slot): key.token_key for key in (await stage.directory()).keys}
    for epoch, raw in zip((20_000, 20_001, 20_002), stage.log.leaves, strict=True):
        leaf = SignedLeaf.decode(raw)
        leaf.verify(SIGNER.public)
        assert (leaf.type, leaf.signer) == (LeafType.ISSUER_DIRECTORY, "issuer.example")
        body = leaf.body_as(DirectoryBody)
        assert (body.issuer, body.epoch, body.epoch_seconds) == ("issuer.example", epoch, EPOCH)
        assert [body.spki(slot) for slot in (0, 1)] == [keys[epoch, 0], keys[epoch, 1]]


async def test_a_leaf_is_stored_before_it_is_sent_and_never_changes(stage: Stage) -> None:
    await stage.run("KeyDriver")
    stage.outgoing.plan = matching("/v1/leaves", LOSE_RESPONSE)
    with pytest.raises(TransportError):
        await stage.driver("DirectoryDriver").step()
    await stage.restart()
    assert await stage.run("KeyDriver") == 0
    stage.outgoing.plan = no_faults
    assert await stage.run("DirectoryDriver") == 3
    sent = [exchange.body for exchange in stage.outgoing.exchanges]
    assert sent[0] == sent[1]
    assert len(stage.log.leaves) == 3


async def test_a_log_that_refuses_is_asked_again(stage: Stage) -> None:
    await stage.run("KeyDriver")
    stage.log.status = 422
    with pytest.raises(Fatal, match="422"):
        await stage.driver("DirectoryDriver").step()
    stage.log.status = 201
    assert await stage.run("DirectoryDriver") == 3


async def test_a_log_whose_clock_is_ahead_makes_the_issuer_give_up_nothing(stage: Stage) -> None:
    await stage.run("KeyDriver")
    await stage.run("DirectoryDriver")
    stage.clock.jump(EPOCH)
    await stage.run("KeyDriver")
    stage.log.status, stage.log.refusal = 422, "directory-over"
    with pytest.raises(Fatal, match="directory-over by its clock"):
        await stage.driver("DirectoryDriver").step()
    stage.log.status = 201
    assert await stage.run("DirectoryDriver") == 1


async def test_an_issuer_whose_epoch_has_another_directory_in_the_log_signs_nothing_for_it_and_is_not_ready(
    stage: Stage,
) -> None:
    await stage.run("KeyDriver")
    stage.log.status, stage.log.refusal = 422, "directory-exists"
    assert await stage.driver("DirectoryDriver").step() == 1
    stage.log.status = 201
    assert await stage.run("DirectoryDriver") == 2
    for again in range(2):
        answer = await stage.network.request("GET", ISSUER + "/readyz")
        assert (answer.status, b"another directory for epoch 20000" in answer.body) == (503, True)
        assert {key.epoch for key in (await stage.directory()).keys} == {20_001, 20_002}
        if not again:
            await stage.restart()
    stage.clock.jump(EPOCH)
    assert (await stage.network.request("GET", ISSUER + "/readyz")).status == 200


@pytest.mark.parametrize("days", [70, 30 * 365])
async def test_an_issuer_whose_first_start_was_ahead_of_time_works_once_its_clock_is_right(
    stage: Stage, days: int
) -> None:
    """Nobody can vouch for its clock before it has asked, so it makes keys of epochs that are far away."""
    stage.clock.set_back(-days * 86_400)
    while await stage.driver("KeyDriver").step():
        pass
    stage.log.status, stage.log.refusal = 422, "directory-early"
    with pytest.raises(Fatal):
        await stage.driver("DirectoryDriver").step()
    stage.log.status, stage.log.refusal = 201, ""
    stage.clock.set_back(days * 86_400)
    await stage.run("KeyDriver")
    await stage.run("DirectoryDriver")
    assert await stage.driver("DirectoryDriver").step() == 0, "what is far ahead waits, and keeps nothing else waiting"
    published = [SignedLeaf.decode(raw).body_as(DirectoryBody).epoch for raw in stage.log.leaves]
    assert published == [20_000, 20_001, 20_002]
    assert {one.epoch for one in (await stage.directory()).keys} == set(published)
    assert (await stage.network.request("GET", ISSUER + "/readyz")).status == 200
    assert (await token_for(stage, 20_000, 0)).status == 200


@pytest.mark.parametrize("days", [-30 * 365, -31, 70, 30 * 365])
@pytest.mark.parametrize("start", [False, True], ids=["running", "at start"])
async def test_a_clock_that_jumps_costs_no_key_and_makes_none_that_nobody_can_use(
    stage: Stage, days: int, start: bool
) -> None:
    await stage.run("KeyDriver")
    await stage.run("DirectoryDriver")
    before, body = await stage.directory(), b""
    stage.clock.set_back(-days * 86_400)
    if start:
        await stage.restart()
        assert await stage.driver("KeyDriver").step() == 0, "nobody has vouched for the clock yet"
        await stage.driver("AskingTime").step()
    for _ in range(2):
        assert await stage.driver("KeyDriver").step() == 0
        answer = await stage.network.request("GET", ISSUER + "/readyz")
        assert (answer.status, b"this machine's clock says" in answer.body) == (503, True)
        assert (await stage.ask(body)).status == 503, "an answer may be final"
    stage.clock.set_back(days * 86_400)
    await stage.driver("AskingTime").step()
    assert await stage.driver("KeyDriver").step() == 0
    assert await stage.directory() == before
    assert (await token_for(stage, 20_000, 0)).status == 200
    assert (await stage.network.request("GET", ISSUER + "/readyz")).status == 200


@pytest.mark.parametrize("rule", ["directory-over", "directory-late"])
async def test_a_leaf_that_came_too_late_does_not_hold_up_the_later_ones(stage: Stage, rule: str) -> None:
    await stage.run("KeyDriver")
    stage.log.status, stage.log.refusal = 422, rule
    assert await stage.driver("DirectoryDriver").step() == 1
    stage.log.status = 201
    assert await stage.run("DirectoryDriver") == 2
    bodies = [SignedLeaf.decode(raw).body_as(DirectoryBody) for raw in stage.log.leaves]
    assert [body.epoch for body in bodies] == [20_001, 20_002]


async def test_an_issuer_whose_database_was_restored_signs_for_no_slot_that_was_open_and_makes_no_key_twice(
    stage: Stage,
) -> None:
    database = stage.folder / "issuer.sqlite3"
    await stage.run("KeyDriver")
    await stage.network.unmount(ISSUER)
    backup = database.read_bytes()
    await stage.restart()
    stage.clock.jump(EPOCH)
    await stage.run("KeyDriver")
    await stage.run("DirectoryDriver")
    assert (await token_for(stage, 20_001, 0)).status == 200
    before = await stage.directory()
    await stage.network.unmount(ISSUER)
    database.write_bytes(backup)
    with pytest.raises(UsageError, match="older"):
        await stage.restart()
    await stage.restart(Recovery.ACCEPT)
    for again in range(2):
        assert await stage.run("KeyDriver") == 0, "the log holds directories whose keys are lost"
        assert (await stage.directory()).keys == ()
        for key in before.keys:
            body = TokenRequest(key.truncated_token_key_id, b"\0" * 255 + b"\2").encode()
            assert (await stage.ask(body)).status == 422
        if not again:
            await stage.network.unmount(ISSUER)
            await stage.restart()
    stage.clock.jump(4 * EPOCH)
    assert await stage.run("KeyDriver") > 0
    assert (await token_for(stage, 20_005, 0)).status == 200


async def test_keys_survive_a_restart_and_are_destroyed_after_their_epoch(stage: Stage) -> None:
    await stage.run("KeyDriver")
    before = await stage.directory()
    await stage.restart()
    assert await stage.directory() == before
    assert (await token_for(stage, 20_000, 0)).status == 200
    stage.clock.jump(EPOCH)
    assert await stage.run("KeyDriver") == 2
    stage.clock.jump(3600)
    assert await stage.run("KeyDriver") == 2
    await stage.restart()
    assert {key.epoch for key in (await stage.directory()).keys} == {20_001, 20_002, 20_003}
    assert await stage.run("KeyDriver") == 0


async def test_issuance_is_counted_by_slot_and_nothing_else_is_logged(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    await stage.run("KeyDriver")
    for _ in range(3):
        await token_for(stage, 20_000, 1)
    assert await stage.run("CountDriver") == 0
    await token_for(stage, 20_000, 1)
    issuer = stage.app[ISSUER_KEY]
    assert (await issuer.issued_by_epoch(), issuer.keys_end) == ({("20000",): 4}, 20_003 * EPOCH)
    await stage.restart()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    issued = [(line["epoch"], line["slot"], line["count"]) for line in lines if line["event"] == "issued"]
    assert issued == [(20_000, 1, 3), (20_000, 1, 4)]


async def test_a_running_service_has_keys_before_it_takes_requests(tmp_path: Path) -> None:
    write_signing_key(tmp_path / "signing.key", SIGNER)
    write_secret(tmp_path / "attester.credential", CREDENTIAL.encode())
    clock = SimClock(NOW)
    log = Log(clock)
    async with InProcessTransport({LOG: log.app()}) as network:
        transport: Transport = network
        deps = ServiceEnv(clock, SeededEntropy(1), transport)
        await network.mount(ISSUER, create_app(config_in(tmp_path, slots_per_epoch=1, storage="memory"), deps))
        response = await network.request("GET", ISSUER + WELL_KNOWN_PATH)
        assert len(IssuerDirectory.decode(response.body).keys) == 3
