"""The gateway over its real HTTP server: what it opens, what it refuses inside and outside, what it remembers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from relay.app import create_app as create_relay
from relay.config import RelayConfig
from services.gateway.drivers import ReplayCleanup
from services.gateway.handlers import GATEWAY
from services.gateway.targets import http_date
from tacit import bhttp, ohttp
from tacit.adapters.databases.recovery import Recovery
from tacit.errors import UsageError
from tacit.media_types import OHTTP_REQ, PROBLEM_JSON
from tacit.ports import HttpResponse, TransportError
from tacit.service.app import ServiceEnv
from tacit.service.base.secret_files import write_secret
from tests.http.gateway_stage import (
    CLIENT,
    GATEWAY_URL,
    HEADERS,
    RELAY_URL,
    TARGET,
    Start,
    entropy,
    opened,
    problem,
    starting,
)


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    async with starting(tmp_path) as run:
        yield run


async def test_a_request_reaches_its_target_with_listed_fields_only(start: Start) -> None:
    gateway = await start()
    fields = (
        ("date", http_date(gateway.clock.now())),
        ("content-type", "application/x"),
        ("accept", "text/plain"),
        ("cookie", "id=1"),
        ("user-agent", "agent"),
        ("x-forwarded-for", CLIENT),
    )
    response = await gateway.ask(fields=fields)
    assert (response.status, response.content) == (201, b"ok")
    assert response.fields == (("content-type", "text/plain"),)
    url = TARGET + "/tasks/t/reports"
    assert gateway.targets.sent == [("POST", url, {"content-type": "application/x", "accept": "text/plain"}, b"report")]
    assert gateway.observed.seen == [("gateway", {"request_bytes": 4096, "target": url})]


async def test_a_request_passes_relay_and_gateway(start: Start, tmp_path: Path) -> None:
    gateway = await start()
    config = RelayConfig(state_dir=tmp_path / "relay", gateway_url=GATEWAY_URL, gateway_bearer=tmp_path / "bearer")
    deps = ServiceEnv(gateway.clock, entropy, gateway.network, gateway.observed, background=False)
    await gateway.network.mount(RELAY_URL, create_relay(config, deps))
    message, context = ohttp.padded_request(gateway.config, gateway.request(), entropy)
    answer = await gateway.network.request("POST", RELAY_URL + "/", headers={"Content-Type": OHTTP_REQ}, body=message)
    assert opened(context, answer).status == 201
    assert [party for party, _ in gateway.observed.seen] == ["relay", "gateway"]
    assert gateway.observed.seen[0][1] == {"client_address": CLIENT, "ciphertext_bytes": 4096}
    stale = await gateway.network.request(
        "POST", RELAY_URL + "/", headers={"Content-Type": OHTTP_REQ}, body=b"\xff" + message[1:]
    )
    assert stale.status == 422, "the relay lets the problem through, so that clients fetch new keys"


async def test_get_requests_carry_their_query_and_no_body(start: Start) -> None:
    gateway = await start()
    await gateway.ask(method="GET", path="/tasks/t/x?step=1", content=b"")
    assert gateway.targets.sent[0][:2] == ("GET", TARGET + "/tasks/t/x?step=1")
    assert gateway.observed.seen[0][1]["target"] == TARGET + "/tasks/t/x"


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status"),
    [
        ("GET", "/gateway", {}, b"", 405),
        ("POST", "/gateway", {"Content-Type": "message/bhttp"}, b"x", 415),
        ("POST", "/gateway", {"Content-Encoding": "gzip"}, b"x", 415),
        ("POST", "/gateway", {"Expect": "200-maybe"}, b"x", 417),
        ("POST", "/gateway", {"Authorization": "Bearer wrong"}, b"x", 401),
        ("POST", "/gateway", {"Authorization": ""}, b"x", 401),
        ("POST", "/gateway", {}, bytes(262145), 413),
        ("POST", "/gateway", {}, b"", 400),
        ("POST", "/gateway", {}, bytes(54), 400),
        ("POST", "/gateway-echo", {}, b"x", 404),
        ("POST", "/ohttp-keys", {}, b"x", 405),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_bad_messages_are_refused_in_clear(
    start: Start, method: str, path: str, headers: dict[str, str], body: bytes, status: int
) -> None:
    gateway = await start()
    answer = await gateway.network.request(method, GATEWAY_URL + path, headers={**HEADERS, **headers}, body=body)
    assert answer.status == status
    assert answer.headers["content-type"] == PROBLEM_JSON
    assert gateway.targets.sent == []


@pytest.mark.parametrize("change", ["key id", "suite", "ciphertext", "enc"])
async def test_messages_that_no_key_opens_get_422_in_clear(start: Start, change: str) -> None:
    gateway = await start()
    message = bytearray(ohttp.padded_request(gateway.config, gateway.request(), entropy)[0])
    message[{"key id": 0, "suite": 4, "enc": 20, "ciphertext": 100}[change]] ^= 1
    answer = await gateway.post(bytes(message))
    assert answer.status == 422
    assert json.loads(answer.body)["type"] == ("https://iana.org/assignments/http-problem-types#ohttp-key")


async def test_a_message_for_another_key_with_the_same_identifier_gets_422(start: Start) -> None:
    gateway = await start()
    config, _ = ohttp.generate_key_config(gateway.config.key_id, entropy)
    answer = await gateway.post(ohttp.padded_request(config, gateway.request(), entropy)[0])
    assert answer.status == 422


@pytest.mark.parametrize(
    "inside",
    [b"", b"\x00", b"\x01\x40\xc8", b"not binary http", bytes(4000)],
    ids=["empty", "framing only", "a response", "text", "padding only"],
)
async def test_malformed_binary_http_is_answered_inside(start: Start, inside: bytes) -> None:
    gateway = await start()
    message, context = ohttp.encapsulate_request(gateway.config, inside, entropy)
    assert problem(opened(context, await gateway.post(message))) == (400, "about:blank")
    assert gateway.targets.sent == []


@pytest.mark.parametrize(
    "changed",
    [
        {"authority": "127.0.0.1:9002"},
        {"authority": "127.0.0.1"},
        {"authority": "elsewhere.example"},
        {"authority": "127.0.0.1:9001@elsewhere.example"},
        {"authority": "127.0.0.1:9001/x"},
        {"authority": ""},
        {"authority": "127.0.0.1:99999"},
        {"scheme": "https"},
        {"scheme": "file"},
        {"path": "/"},
        {"path": "/taskset"},
        {"path": "/hpke_config"},
        {"path": "/tasks/../admin"},
        {"path": "/tasks/%2e%2e/admin"},
        {"path": "/tasks/..%2fadmin"},
        {"path": "/tasks/%252e%252e/admin"},
        {"path": "/tasks//x"},
        {"path": "/tasks/x#y"},
        {"path": "/tasks\\..\\admin"},
        {"path": "*"},
        {"method": "DELETE"},
        {"method": "CONNECT"},
    ],
    ids=str,
)
async def test_targets_off_the_list_are_refused_inside(start: Start, changed: dict[str, str]) -> None:
    gateway = await start()
    response = await gateway.ask(**changed)
    assert problem(response) == (403, "urn:tacit:problem:target-not-allowed")
    assert gateway.targets.sent == []


HOST = ("host", "127.0.0.1:9001")


@pytest.mark.parametrize("authority", ["", "127.0.0.1:9001", "127.0.0.1:09001"])
async def test_a_host_field_stands_for_the_authority_and_may_repeat_it(start: Start, authority: str) -> None:
    gateway = await start()
    fields = (HOST, *gateway.request().fields)
    assert (await gateway.ask(authority=authority, fields=fields)).status == 201
    assert gateway.targets.sent[0][1] == TARGET + "/tasks/t/reports"


@pytest.mark.parametrize(
    ("authority", "hosts", "status"),
    [
        ("127.0.0.1:9001", ("elsewhere.example",), 400),
        ("elsewhere.example", ("127.0.0.1:9001",), 400),
        ("127.0.0.1:9001", ("",), 400),
        ("", ("127.0.0.1:9001", "127.0.0.1:9001"), 400),
        ("", ("elsewhere.example",), 403),
        ("", ("127.0.0.1:9001@elsewhere.example",), 403),
        ("", ("",), 403),
    ],
)
async def test_a_host_field_that_contradicts_or_names_no_target_is_refused(
    start: Start, authority: str, hosts: tuple[str, ...], status: int
) -> None:
    gateway = await start()
    fields = (*(("host", host) for host in hosts), *gateway.request().fields)
    response = await gateway.ask(authority=authority, fields=fields)
    assert problem(response)[0] == response.status == status
    assert gateway.targets.sent == []


async def test_a_target_knows_the_gateway_by_its_credential_and_no_other_target_sees_it(
    start: Start, tmp_path: Path
) -> None:
    write_secret(tmp_path / "leader", b"gateway-credential\n")
    known = {"origin": TARGET, "path_prefix": "/tasks", "bearer": str(tmp_path / "leader")}
    gateway = await start(targets=[known, {"origin": TARGET, "path_prefix": "/v1"}])
    forged = (*gateway.request().fields, ("authorization", "Bearer forged"))
    assert (await gateway.ask(fields=forged)).status == (await gateway.ask(path="/v1/x", fields=forged)).status == 201
    assert [sent[2].get("Authorization") for sent in gateway.targets.sent] == ["Bearer gateway-credential", None]
    assert all("authorization" not in sent[2] for sent in gateway.targets.sent)
    assert "gateway-credential" not in repr(gateway.settings) + repr(gateway.app[GATEWAY])


async def test_rules_for_one_leader_with_frames_show_it_one_credential(start: Start, tmp_path: Path) -> None:
    for name in ("one", "other"):
        write_secret(tmp_path / name, b"gateway-credential\n")
    framed = {"origin": TARGET, "path_prefix": "/tasks/", "bearer": str(tmp_path / "one"), "frames": True}
    for prefix in ("/", "/tasks", "/tasks/AAAA/"):
        for second in ({"bearer": str(tmp_path / "other")}, {}, {"frames": True}):
            with pytest.raises(UsageError, match="rules for one leader with frames need the same bearer"):
                await start(targets=[{"origin": TARGET, "path_prefix": prefix, **second}, framed])
        await start(targets=[framed, {"origin": TARGET, "path_prefix": prefix}])  # no upload comes as far as that
    others = [{"origin": TARGET, "path_prefix": "/v1/"}, {"origin": TARGET, "path_prefix": "/", "methods": ["GET"]}]
    await start(targets=[framed, {**framed, "path_prefix": "/tasks/AAAA/", "frames": False}, *others])


async def test_that_a_target_does_not_know_the_gateway_is_not_told_the_client_as_its_own_fault(start: Start) -> None:
    gateway = await start()
    gateway.targets.answer = HttpResponse(401, {"content-type": PROBLEM_JSON}, b"{}")
    assert problem(await gateway.ask()) == (502, "urn:tacit:problem:target-unreachable")
    assert gateway.app[GATEWAY].counters.totals()["target_knows_us_not"] == 1


async def test_a_budget_in_which_no_large_request_would_ever_fit_is_refused(start: Start) -> None:
    with pytest.raises(UsageError, match="max_in_flight must be at least 8912896"):
        await start(max_request=4 << 20, max_in_flight=8 << 20)
    large = (await start(max_request=4 << 20, max_in_flight=8912896)).ask(content=bytes(1 << 20))
    assert (await large).content == b"ok"


async def test_without_targets_nothing_passes(start: Start) -> None:
    gateway = await start(targets=[])
    assert (await gateway.ask()).status == 403


@pytest.mark.parametrize("offset", [-540, -60, 0, 60, 600])
async def test_dates_inside_the_window_pass(start: Start, offset: int) -> None:
    gateway = await start()
    date = http_date(gateway.clock.now() + offset)
    assert (await gateway.ask(fields=(("date", date),))).status == 201


@pytest.mark.parametrize(
    "fields",
    [
        (),
        (("date", ""),),
        (("date", "yesterday"),),
        (("date", http_date(1_800_000_000 - 660)),),
        (("date", http_date(1_800_000_000 + 660)),),
        (("date", "Fri, 15 Jan 2027 08:00:07 GMT"),),
        (("date", "Fri, 15 Jan 2027 08:00:00 +0000"),),
        (("date", "Fri, 15-Jan-27 08:00:00 GMT"),),
        (("date", http_date(1_800_000_000)), ("date", http_date(1_800_000_000))),
    ],
    ids=str,
)
async def test_other_dates_are_refused_inside_with_our_own(start: Start, fields: bhttp.Fields) -> None:
    gateway = await start()
    response = await gateway.ask(fields=fields)
    assert problem(response) == (400, "https://iana.org/assignments/http-problem-types#date")
    assert bhttp.field_value(response.fields, "date") == "Fri, 15 Jan 2027 08:00:00 GMT"
    assert gateway.targets.sent == []


async def test_a_replayed_message_is_refused_also_after_a_restart(start: Start) -> None:
    gateway = await start()
    message, context = ohttp.padded_request(gateway.config, gateway.request(), entropy)
    assert opened(context, await gateway.post(message)).status == 201
    again = opened(context, await gateway.post(message))
    assert problem(again) == (409, "urn:tacit:problem:request-replayed")
    await gateway.restart()
    assert opened(context, await gateway.post(message)).status == 409
    assert len(gateway.targets.sent) == 1
    assert (await gateway.ask()).status == 201, "the same report in a fresh encapsulation passes"


async def test_of_equal_messages_at_once_one_passes(start: Start) -> None:
    gateway = await start(storage="memory")
    message, context = ohttp.padded_request(gateway.config, gateway.request(), entropy)
    answers = await asyncio.gather(*(gateway.post(message) for _ in range(5)))
    assert sorted(opened(context, answer).status for answer in answers) == [201, 409, 409, 409, 409]
    assert len(gateway.targets.sent) == 1


async def test_a_message_whose_target_failed_is_still_spent(start: Start) -> None:
    gateway = await start()
    gateway.targets.answer = TransportError("down")
    message, context = ohttp.padded_request(gateway.config, gateway.request(), entropy)
    assert opened(context, await gateway.post(message)).status == 502
    assert opened(context, await gateway.post(message)).status == 409


async def test_a_forgotten_message_is_out_of_date(start: Start) -> None:
    gateway = await start()
    message, context = ohttp.padded_request(gateway.config, gateway.request(), entropy)
    await gateway.post(message)
    gateway.clock.jump(601)
    assert await gateway.step(ReplayCleanup) == 0, "nobody vouches for the clock"
    gateway.deps.vouched.hear("the log", gateway.clock.now())
    assert await gateway.step(ReplayCleanup) == 0, "a clock ten minutes behind would take it"
    gateway.clock.jump(600)
    gateway.deps.vouched.hear("the log", gateway.clock.now())
    assert await gateway.step(ReplayCleanup) == 1
    response = opened(context, await gateway.post(message))
    assert problem(response) == (400, "https://iana.org/assignments/http-problem-types#date")


async def test_a_clock_that_steps_back_within_the_bound_lets_no_message_pass_again(start: Start) -> None:
    gateway = await start()
    message, context = ohttp.padded_request(gateway.config, gateway.request(), entropy)
    await gateway.post(message)
    gateway.clock.jump(601)
    gateway.deps.vouched.hear("the log", gateway.clock.now())
    await gateway.step(ReplayCleanup)
    gateway.clock.set_back(500)
    assert not gateway.deps.vouched.doubt()
    assert opened(context, await gateway.post(message)).status == 409


async def test_a_gateway_whose_window_was_restored_stays_closed_until_nothing_of_before_can_pass_again(
    start: Start, tmp_path: Path
) -> None:
    gateway = await start()
    database = tmp_path / "state" / "gateway.sqlite3"
    await gateway.ask()
    await gateway.network.unmount(GATEWAY_URL)
    backup = database.read_bytes()
    await gateway.restart()
    ahead = gateway.settings.date_window // 60 * 60
    fields = (("date", http_date(gateway.clock.now() + ahead - 60)), ("content-type", "application/x"))
    message, context = ohttp.padded_request(gateway.config, gateway.request(fields=fields), entropy)
    assert opened(context, await gateway.post(message)).status == 201
    await gateway.network.unmount(GATEWAY_URL)
    database.write_bytes(backup)
    with pytest.raises(UsageError, match="older"):
        await gateway.restart()
    refuse, gateway.deps = gateway.deps, replace(gateway.deps, recovery=Recovery.ACCEPT)
    await gateway.restart()
    gateway.deps = refuse
    await gateway.restart()
    statuses = []
    for _ in range(3 * gateway.settings.date_window // 60):
        assert opened(context, await gateway.post(message)).status in {400, 503}, "it passed before"
        statuses.append((await gateway.ask()).status)
        gateway.clock.jump(60)
    opening = statuses.index(201)
    assert opening in {10, 11, 12}
    assert set(statuses[:opening]) == {503}
    assert set(statuses[opening:]) == {201}


async def test_what_could_still_be_replayed_is_kept(start: Start) -> None:
    gateway = await start()
    message, context = ohttp.padded_request(gateway.config, gateway.request(), entropy)
    await gateway.post(message)
    gateway.clock.jump(590)
    assert await gateway.step(ReplayCleanup) == 0
    assert opened(context, await gateway.post(message)).status == 409


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (TransportError("down"), 502),
        (HttpResponse(200, {"content-type": "text/plain"}, bytes(262144)), 502),
        (HttpResponse(999, {}, b""), 502),
        (HttpResponse(200, {"content-type": "a\x00b"}, b""), 502),
        (RuntimeError("secret detail"), 500),
        (HttpResponse(400, {"content-type": PROBLEM_JSON}, b'{"type":"x"}'), 400),
        (HttpResponse(503, {"retry-after": "3", "content-type": PROBLEM_JSON}, b'{"type":"x"}'), 503),
    ],
    ids=["down", "too large", "impossible status", "bad field", "bug", "its problem", "busy"],
)
async def test_whatever_a_target_does_is_answered_inside(
    start: Start, capfd: pytest.CaptureFixture[str], answer: HttpResponse | Exception, status: int
) -> None:
    gateway = await start()
    gateway.targets.answer = answer
    response = await gateway.ask()
    assert problem(response)[0] == status
    assert b"secret detail" not in response.content
    assert "secret detail" not in capfd.readouterr().err
    assert bhttp.field_value(response.fields, "retry-after") == ("3" if status == 503 else None)


async def test_a_late_target_is_answered_inside(start: Start) -> None:
    gateway = await start()
    error = TransportError("late")
    error.__cause__ = TimeoutError()
    gateway.targets.answer = error
    assert problem(await gateway.ask()) == (504, "urn:tacit:problem:target-unreachable")


async def test_requests_with_trailers_or_repeated_fields_are_refused_inside(start: Start) -> None:
    gateway = await start()
    assert problem(await gateway.ask(trailers=(("a", "b"),)))[0] == 400
    date = ("date", http_date(gateway.clock.now()))
    assert problem(await gateway.ask(fields=(date, ("accept", "a"), ("accept", "b"))))[0] == 400
