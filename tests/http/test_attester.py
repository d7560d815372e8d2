"""The attester and the issuer behind it: one token per attested device and slot, whatever breaks."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509

import attester.app
from attester.handlers import ATTESTER as ATTESTER_KEY
from attester.software_root import spki_hash
from infra.lab.kit.network import (
    LOSE_REQUEST,
    LOSE_RESPONSE,
    matching,
    no_faults,
)
from tacit import media_types
from tacit.adapters.databases.recovery import Recovery
from tacit.codec import b64url
from tacit.errors import UsageError
from tacit.service.app import DRIVERS, ServiceEnv
from tacit.service.base.secret_files import write_secret
from tacit.service.base.vouched import ASK_SECONDS
from tacit.tokens.attestation import (
    Evidence,
    SoftwareDevice,
    SoftwareRootStatement,
    attestation_binding,
    token_request_body,
)
from tacit.tokens.directory import WELL_KNOWN_PATH
from tacit.tokens.slots import Slot, TokenVerifier
from tacit.tokens.software_root import SoftwareRoot
from tacit.tokens.structures import TokenRequest, TokenResponse
from tests.http.attester_stage import (
    ATTESTER,
    ENTROPY,
    EPOCH,
    ISSUER,
    JSON,
    NOW,
    Stage,
    authority,
    good,
    problem,
    staged,
)


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    async with staged(tmp_path, monkeypatch) as running:
        yield running


async def test_an_attested_device_gets_a_token_that_verifies(stage: Stage) -> None:
    device = stage.device()
    for slot in (0, 1):
        pending = stage.pending(slot)
        response = await stage.ask(device, pending.request)
        assert response.status == 200
        assert response.headers["content-type"] == media_types.PRIVATE_TOKEN_RESPONSE
        token = pending.finalize(stage.key(slot), TokenResponse.decode(response.body))
        TokenVerifier(stage.key(slot).spki, Slot("issuer.example", 20_000, slot)).verify(token.encode())
    tags = {str(what["device"]) for party, what in stage.seen.notes if party == "attester"}
    assert [what["slot"] for _, what in stage.seen.notes] == [0, 1]
    assert len(tags) == 1
    assert len(tags.pop()) == 8


async def test_a_hundred_parallel_requests_of_one_device_give_one_token(stage: Stage) -> None:
    device = stage.device()
    requests = [stage.pending().request for _ in range(100)]
    responses = await asyncio.gather(*(stage.ask(device, request) for request in requests))
    assert Counter(one.status for one in responses) == {200: 1, 429: 99}
    assert {problem(one) for one in responses if one.status == 429} == {"quota"}
    assert stage.forwarded() == 1


async def test_every_device_has_its_own_quota_for_every_slot(stage: Stage) -> None:
    devices = [stage.device(f"device {i}") for i in range(5)]
    asks = [stage.ask(device, stage.pending(slot, epoch).request) for device in devices for slot, epoch in SLOTS]
    assert {one.status for one in await asyncio.gather(*asks)} == {200}
    again = [stage.ask(device, stage.pending(slot, epoch).request) for device in devices for slot, epoch in SLOTS]
    assert {one.status for one in await asyncio.gather(*again)} == {429}


SLOTS = [(0, 20_000), (1, 20_000), (0, 20_001)]


@pytest.mark.parametrize("fault", [LOSE_REQUEST, LOSE_RESPONSE], ids=["request-lost", "response-lost"])
async def test_a_crash_after_the_debit_costs_a_retry_and_never_a_second_token(stage: Stage, fault: object) -> None:
    device, pending = stage.device(), stage.pending()
    stage.between.plan = matching("/token-request", LOSE_REQUEST if fault is LOSE_REQUEST else LOSE_RESPONSE)
    assert (await stage.ask(device, pending.request)).status == 502
    await stage.restart()
    assert (await stage.ask(device, stage.pending().request)).status == 429
    assert (await stage.ask(device, pending.request)).status == 502
    stage.between.plan = no_faults
    response = await stage.ask(device, pending.request)
    assert response.status == 200
    pending.finalize(stage.key(), TokenResponse.decode(response.body))
    assert (await stage.ask(device, stage.pending().request)).status == 429


async def test_the_same_message_is_signed_again_after_a_restart(stage: Stage) -> None:
    device, pending = stage.device(), stage.pending()
    first = await stage.ask(device, pending.request)
    await stage.restart()
    second = await stage.ask(device, pending.request)
    assert first.body == second.body
    assert (await stage.ask(device, stage.pending().request)).status == 429


async def test_a_lost_device_secret_would_be_noticed_so_it_is_kept(stage: Stage) -> None:
    path = stage.folder / "attester" / "stable-id.key"
    before = path.read_bytes()
    await stage.restart()
    assert path.read_bytes() == before
    assert path.stat().st_mode & 0o777 == 0o600


Spoil = Callable[[Stage, SoftwareDevice, bytes, TokenRequest], Evidence]


def _foreign_chain(stage: Stage, device: SoftwareDevice, challenge: bytes, request: TokenRequest) -> Evidence:
    other = SoftwareRoot.create(ENTROPY, NOW).issue("device", ENTROPY, NOW)
    return good(other, challenge, request)


def _foreign_leaf(stage: Stage, device: SoftwareDevice, challenge: bytes, request: TokenRequest) -> Evidence:
    other = SoftwareRoot.create(ENTROPY, NOW).issue("device", ENTROPY, NOW)
    return good(replace(other, chain=(other.chain[0], device.chain[1])), challenge, request)


def _missing_intermediate(stage: Stage, device: SoftwareDevice, challenge: bytes, request: TokenRequest) -> Evidence:
    return good(replace(device, chain=device.chain[:1]), challenge, request)


def _leaf_as_authority(stage: Stage, device: SoftwareDevice, challenge: bytes, request: TokenRequest) -> Evidence:
    leaf = x509.load_der_x509_certificate(device.chain[0])
    rogue = SoftwareRoot(authority().root, leaf, device.key).issue("child", ENTROPY, NOW)
    return good(replace(rogue, chain=(*rogue.chain[:1], *device.chain)), challenge, request)


def _expired(stage: Stage, device: SoftwareDevice, challenge: bytes, request: TokenRequest) -> Evidence:
    return good(stage.device("old", lifetime=-10.0), challenge, request)


def _wrong_purpose(stage: Stage, device: SoftwareDevice, challenge: bytes, request: TokenRequest) -> Evidence:
    server = x509.oid.ExtendedKeyUsageOID.SERVER_AUTH
    return good(authority().issue("server", ENTROPY, NOW, eku=server), challenge, request)


def _no_purpose(stage: Stage, device: SoftwareDevice, challenge: bytes, request: TokenRequest) -> Evidence:
    return good(authority().issue("none", ENTROPY, NOW, eku=None), challenge, request)


def _other_request(stage: Stage, device: SoftwareDevice, challenge: bytes, request: TokenRequest) -> Evidence:
    return good(device, challenge, stage.pending().request)


def _other_challenge(stage: Stage, device: SoftwareDevice, challenge: bytes, request: TokenRequest) -> Evidence:
    return good(device, b"c" * 32, request)


def _other_key(stage: Stage, device: SoftwareDevice, challenge: bytes, request: TokenRequest) -> Evidence:
    return good(replace(device, key=stage.device("other").key), challenge, request)


def _unknown_format(stage: Stage, device: SoftwareDevice, challenge: bytes, request: TokenRequest) -> Evidence:
    return replace(good(device, challenge, request), fmt="other")


def _garbage(stage: Stage, device: SoftwareDevice, challenge: bytes, request: TokenRequest) -> Evidence:
    return Evidence("software-root", b"\0\3abc")


def _garbage_certificate(stage: Stage, device: SoftwareDevice, challenge: bytes, request: TokenRequest) -> Evidence:
    statement = SoftwareRootStatement((b"leaf", device.chain[1]), b"signature")
    return Evidence("software-root", statement.encode())


@pytest.mark.parametrize(
    "spoil",
    [
        _foreign_chain,
        _foreign_leaf,
        _missing_intermediate,
        _leaf_as_authority,
        _expired,
        _wrong_purpose,
        _no_purpose,
        _other_request,
        _other_challenge,
        _other_key,
        _unknown_format,
        _garbage,
        _garbage_certificate,
    ],
)
async def test_every_failure_of_attestation_looks_the_same(stage: Stage, spoil: Spoil) -> None:
    device, request = stage.device(), stage.pending().request
    challenge = await stage.challenge()
    refused = await stage.send(spoil(stage, device, challenge, request), challenge, request)
    unknown = await stage.send(good(device, b"u" * 32, request), b"u" * 32, request)
    assert (refused.status, refused.body) == (unknown.status, unknown.body)
    assert refused.status == 403
    assert stage.forwarded() == 0
    assert (await stage.send(good(device, challenge, request), challenge, request)).status == 200


async def test_a_revoked_device_or_authority_is_refused(stage: Stage) -> None:
    app = await stage.restart()
    first, second = stage.device("first"), stage.device("second")
    leaf = x509.load_der_x509_certificate(first.chain[0])
    (stage.folder / "revoked.txt").write_text(f"{spki_hash(leaf).hex()}  # stolen\n")
    await app[DRIVERS][0].step()
    assert (await stage.ask(first, stage.pending().request)).status == 403
    assert (await stage.ask(second, stage.pending().request)).status == 200
    (stage.folder / "revoked.txt").write_text(spki_hash(authority().intermediate).hex())
    await stage.restart()
    assert (await stage.ask(second, stage.pending(1).request)).status == 403


async def test_a_broken_revocation_list_is_an_error_and_keeps_the_old_list(stage: Stage) -> None:
    app = await stage.restart()
    device = stage.device()
    leaf = x509.load_der_x509_certificate(device.chain[0])
    (stage.folder / "revoked.txt").write_text(spki_hash(leaf).hex())
    await app[DRIVERS][0].step()
    (stage.folder / "revoked.txt").write_text("not hex")
    with pytest.raises(UsageError, match="hex"):
        await app[DRIVERS][0].step()
    assert (await stage.ask(device, stage.pending().request)).status == 403


async def test_only_open_slots_are_forwarded(stage: Stage) -> None:
    device = stage.device()
    known = {one.truncated_token_key_id for one in stage.directory.keys}
    unknown = TokenRequest(next(i for i in range(256) if i not in known), b"b" * 256)
    for request in (unknown, stage.pending(0, 20_002).request):
        response = await stage.ask(device, request)
        assert (response.status, problem(response)) == (422, "token-request")
    stage.clock.jump(EPOCH)
    assert (await stage.ask(device, stage.pending(0, 20_002).request)).status == 200
    assert (await stage.ask(device, stage.pending(0, 20_000).request)).status == 422


async def test_the_directory_is_fetched_once_while_it_holds(stage: Stage) -> None:
    for i in range(3):
        await stage.ask(stage.device(f"device {i}"), stage.pending().request)
    fetches = [one for one in stage.between.exchanges if one.url.endswith(WELL_KNOWN_PATH)]
    assert len(fetches) == 1
    stage.clock.jump(3601)
    stage.between.plan = matching(WELL_KNOWN_PATH, LOSE_REQUEST)
    assert (await stage.ask(stage.device("late"), stage.pending().request)).status == 200


async def test_a_directory_that_was_fetched_when_the_clock_was_ahead_is_fetched_again(stage: Stage) -> None:
    device = stage.device()
    stage.clock.jump(300 * EPOCH)
    assert (await stage.ask(device, stage.pending().request)).status == 422
    stage.clock.set_back(300 * EPOCH)
    stage.clock.jump(ASK_SECONDS)
    await stage.ask_time()
    before = len(stage.between.exchanges)
    assert (await stage.ask(device, stage.pending().request)).status == 200
    assert [one.url.endswith(WELL_KNOWN_PATH) for one in stage.between.exchanges[before:]] == [True, False]


async def test_without_any_directory_the_device_is_told_to_come_back(stage: Stage) -> None:
    stage.between.plan = matching(WELL_KNOWN_PATH, LOSE_REQUEST)
    assert (await stage.ask(stage.device(), stage.pending().request)).status == 502
    stage.between.plan = no_faults
    assert (await stage.ask(stage.device(), stage.pending().request)).status == 200


async def test_a_wrong_issuer_credential_gives_502_and_keeps_the_debit(stage: Stage) -> None:
    write_secret(stage.folder / "wrong.credential", b"wrong")
    await stage.restart(issuer_credential=stage.folder / "wrong.credential")
    device, pending = stage.device(), stage.pending()
    response = await stage.ask(device, pending.request)
    assert (response.status, problem(response)) == (502, "issuer")
    await stage.restart()
    assert (await stage.ask(device, stage.pending().request)).status == 429
    assert (await stage.ask(device, pending.request)).status == 200


async def test_an_attester_without_a_credential_or_with_a_distant_http_issuer_does_not_start(stage: Stage) -> None:
    deps = ServiceEnv(stage.clock, ENTROPY, stage.between, background=False)
    with pytest.raises(UsageError, match="issuer_credential"):
        attester.app.create_app(stage.config(issuer_credential=None), deps)
    with pytest.raises(UsageError, match="plain http"):
        attester.app.create_app(stage.config(issuer_url="http://issuer.example"), deps)
    with pytest.raises(UsageError, match="no PEM"):
        attester.app.create_app(stage.config(software_roots=[stage.folder / "revoked.txt"]), deps)


@dataclass
class Recording:
    """An issuer's door that keeps what came in."""

    headers: list[dict[str, str]] = field(default_factory=list)
    answer: bytes = b""

    async def post(self, request: web.Request) -> web.Response:
        self.headers.append(dict(request.headers))
        return web.Response(body=self.answer)


async def test_the_issuer_gets_a_fresh_request_and_a_malformed_answer_is_not_passed_on(stage: Stage) -> None:
    door, device, request = Recording(), stage.device(), stage.pending().request
    await stage.ask(stage.device("warm"), stage.pending().request)
    app = web.Application()
    app.router.add_post("/token-request", door.post)
    await stage.network.mount(ISSUER, app)
    challenge = await stage.challenge()
    body = token_request_body(good(device, challenge, request), challenge, request)
    headers = {**JSON, "X-Device": "serial 7", "Cookie": "a=b", "User-Agent": "agent"}
    response = await stage.network.request("POST", f"{ATTESTER}/v1/token-requests", headers=headers, body=body)
    assert response.status == 502
    names = {name.lower() for name in door.headers[0]}
    assert names - {"host", "connection", "content-length"} == {"content-type", "authorization"}
    assert door.headers[0]["authorization"] == "Bearer credential"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"evidence":{"fmt":"software-root","blob":"AA"},"challenge":"AA","token_request":"AA"}',
        json.dumps(
            {
                "evidence": {"fmt": "software-root", "blob": "A=", "more": 1},
                "challenge": b64url(bytes(32)),
                "token_request": "",
            }
        ).encode(),
    ],
)
async def test_malformed_bodies_get_400(stage: Stage, body: bytes) -> None:
    response = await stage.network.request("POST", f"{ATTESTER}/v1/token-requests", headers=JSON, body=body)
    assert response.status == 400
    assert response.headers["content-type"] == media_types.PROBLEM_JSON


@pytest.mark.parametrize("text", ["", "AAEA", "A=", "AAIA" + "A" * 341, "AAIA" + "A" * 400, "AAEA" + "A" * 342])
async def test_what_is_no_token_request_gets_422(stage: Stage, text: str) -> None:
    evidence = {"fmt": "software-root", "blob": "AA"}
    body = json.dumps({"evidence": evidence, "challenge": b64url(bytes(32)), "token_request": text}).encode()
    response = await stage.network.request("POST", f"{ATTESTER}/v1/token-requests", headers=JSON, body=body)
    assert (response.status, problem(response)) == (422, "token-request")


async def test_what_no_issuer_can_sign_costs_the_device_nothing(stage: Stage) -> None:
    device, pending = stage.device(), stage.pending()
    for value in (stage.key().n, (1 << 2048) - 1):
        above = TokenRequest(pending.request.truncated_token_key_id, int(value).to_bytes(256, "big"))
        refused = await stage.ask(device, above)
        assert (refused.status, problem(refused)) == (422, "token-request")
    assert stage.forwarded() == 0
    assert (await stage.ask(device, pending.request)).status == 200


async def test_json_may_name_its_charset(stage: Stage) -> None:
    device, request = stage.device(), stage.pending().request
    challenge = await stage.challenge()
    body = token_request_body(good(device, challenge, request), challenge, request)
    headers = {"Content-Type": "application/json; charset=utf-8"}
    url = f"{ATTESTER}/v1/token-requests"
    assert (await stage.network.request("POST", url, headers=headers, body=body)).status == 200


async def test_other_media_types_and_huge_bodies_are_refused(stage: Stage) -> None:
    url = f"{ATTESTER}/v1/token-requests"
    assert (await stage.network.request("POST", url, body=b"{}")).status == 415
    assert (await stage.network.request("POST", url, headers=JSON, body=b" " * 40_000)).status == 413


async def test_logs_count_by_slot_and_reason_and_name_no_device(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    app = await stage.restart()
    for i in range(3):
        await stage.ask(stage.device(f"device {i}"), stage.pending().request)
    await stage.ask(stage.device("old", lifetime=-10.0), stage.pending().request)
    for _ in range(2):
        await app[DRIVERS][0].step()
    logged = capsys.readouterr().err
    lines = [json.loads(line) for line in logged.splitlines()]
    issued = [line for line in lines if line["event"] == "issued"]
    counts = ("epoch", "slot", "devices", "requested", "answered")
    assert [tuple(line[name] for name in counts) for line in issued] == [(20_000, 0, 3, 3, 3)]
    assert [line["by_validity"] for line in lines if line["event"] == "refused"] == [1]
    attester = app[ATTESTER_KEY]
    assert (await attester.answered_by_epoch(), await attester.refused_by_cause()) == (
        {("20000",): 3},
        {("validity",): 1},
    )
    tags = {str(what["device"]) for party, what in stage.seen.notes if party == "attester"}
    assert not any(tag in logged for tag in tags)


async def test_the_database_holds_no_device_key_and_no_blinded_message(stage: Stage) -> None:
    device, pending = stage.device(), stage.pending()
    await stage.ask(device, pending.request)
    await stage.network.unmount(ATTESTER)
    stored = (stage.folder / "attester" / "attester.sqlite3").read_bytes()
    leaf = x509.load_der_x509_certificate(device.chain[0])
    for secret in (spki_hash(leaf), device.chain[0][:64], pending.request.blinded_msg[:64]):
        assert secret not in stored


async def test_an_attester_whose_database_was_restored_gives_nobody_a_second_token(stage: Stage) -> None:
    device = stage.device()
    database = stage.folder / "attester" / "attester.sqlite3"
    assert (await stage.ask(device, stage.pending(0).request)).status == 200
    await stage.network.unmount(ATTESTER)
    backup = database.read_bytes()
    await stage.restart()
    used, second = await stage.challenge(), stage.pending(1).request
    evidence = device.attest(attestation_binding(used, second))
    assert (await stage.send(evidence, used, second)).status == 200
    await stage.network.unmount(ATTESTER)
    database.write_bytes(backup)
    with pytest.raises(UsageError, match="older"):
        await stage.restart()
    await stage.restart(Recovery.ACCEPT)
    for again in range(2):
        sent = stage.forwarded()
        assert (await stage.send(evidence, used, second)).status in {403, 422}
        for slot in (0, 1):
            for one in (device, stage.device("other")):
                assert (await stage.ask(one, stage.pending(slot).request)).status == 422
        assert stage.forwarded() == sent
        if not again:
            await stage.restart()
    stage.clock.jump(EPOCH)
    assert (await stage.ask(device, stage.pending(0, 20_002).request)).status == 200


async def test_quotas_are_forgotten_after_their_slot_is_closed(stage: Stage) -> None:
    app = await stage.restart(quota_grace_seconds=0)
    device = stage.device()
    await stage.ask(device, stage.pending(0, 20_000).request)
    await stage.ask(device, stage.pending(0, 20_001).request)
    stage.clock.jump(EPOCH)
    await app[DRIVERS][0].step()
    assert (await stage.ask(device, stage.pending(0, 20_000).request)).status == 422
    assert (await stage.ask(device, stage.pending(0, 20_001).request)).status == 429
