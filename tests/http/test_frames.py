"""Frames: several messages in one exchange between a relay and a gateway that agreed on them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.clock import SimClock
from relay.app import create_app as create_relay
from relay.app import make_transport
from relay.config import RelayConfig
from relay.handlers import RELAY
from services.gateway.handlers import GATEWAY
from tacit import bhttp, ohttp
from tacit.errors import UsageError
from tacit.media_types import OHTTP_REQ, OHTTP_REQ_FRAME, OHTTP_RES, OHTTP_RES_FRAME, PROBLEM_JSON
from tacit.message_frames import decode_answers, decode_requests, encode_requests
from tacit.ports import HttpResponse
from tacit.service.app import ServiceEnv
from tacit.service.base.config_files import parse_config
from tests.http.gateway_stage import GATEWAY_URL, HEADERS, RELAY_URL, Running, Start, entropy, opened
from tests.http.test_gateway import start  # noqa: F401 - a fixture

FRAMES = {"max_messages": 8, "max_bytes": 1 << 20, "max_delay": 0.05}


@dataclass
class Between:
    """What the relay sends to the gateway, and the answer in its place if there is one; ``respelled`` is the media type
    that a proxy between them gives every answer."""

    gateway: Running
    answer: HttpResponse | None = None
    respelled: str = ""
    sent: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        self.sent.append((url, dict(headers or {}), body))
        if self.answer is not None:
            return self.answer
        found = await self.gateway.network.request(method, url, headers=headers, body=body)
        return replace(found, headers={**found.headers, "content-type": self.respelled}) if self.respelled else found


@dataclass
class VersionedMessage:
    """A relay that sends frames to a gateway."""

    gateway: Running
    between: Between
    app: Any

    @classmethod
    async def start(
        cls, gateway: Running, tmp_path: Path, answer: HttpResponse | None = None, **changed: Any
    ) -> VersionedMessage:
        data = {
            "state_dir": str(tmp_path / "relay"),
            "gateway_url": GATEWAY_URL,
            "gateway_bearer": str(tmp_path / "bearer"),
            "frames": FRAMES,
            **changed,
        }
        between = Between(gateway, answer)
        deps = ServiceEnv(gateway.clock, entropy, between, gateway.observed, background=False)
        app = create_relay(parse_config(data, RelayConfig), deps)
        await gateway.network.mount(RELAY_URL, app)
        return cls(gateway, between, app)

    def message(self, **changed: Any) -> tuple[bytes, ohttp.ClientContext]:
        return ohttp.padded_request(self.gateway.config, self.gateway.request(**changed), entropy)

    async def send(self, *messages: bytes, seconds: float = 0.05) -> list[HttpResponse]:
        """The answers to messages that clients send at the same time."""
        posts = [
            self.gateway.network.request("POST", RELAY_URL + "/", headers={"Content-Type": OHTTP_REQ}, body=message)
            for message in messages
        ]
        answers = asyncio.gather(*posts)
        for _ in range(100):  # turns of the loop, until all wait in the relay
            await asyncio.sleep(0)
        await self.gateway.clock.advance(seconds)
        return await answers


async def test_messages_share_an_exchange_and_each_gets_its_own_answer(start: Start, tmp_path: Path) -> None:  # noqa: F811
    relay = await VersionedMessage.start(await start(), tmp_path)
    made = [relay.message(content=f"report {number}".encode()) for number in range(5)]
    answers = await relay.send(*(message for message, _ in made))
    assert [opened(context, answer).content for (_, context), answer in zip(made, answers, strict=True)] == [b"ok"] * 5
    assert {body for _, _, _, body in relay.gateway.targets.sent} == {b"report %d" % number for number in range(5)}
    ((url, headers, body),) = relay.between.sent
    assert url == GATEWAY_URL + "/gateway/frames"
    assert headers == {"Content-Type": OHTTP_REQ_FRAME, "Authorization": "Bearer relay-credential"}
    assert sorted(decode_requests(body, max_messages=8, max_message=4096)) == sorted(message for message, _ in made)
    assert relay.app[RELAY].budget.in_flight == relay.gateway.app[GATEWAY].budget.in_flight == 0


@pytest.mark.parametrize("spelling", [f"{OHTTP_RES_FRAME}; charset=utf-8", OHTTP_RES_FRAME.upper()])
async def test_a_frame_of_answers_may_spell_its_media_type_as_the_standard_allows(
    start: Start,  # noqa: F811
    tmp_path: Path,
    spelling: str,
) -> None:
    relay = await VersionedMessage.start(await start(), tmp_path)
    relay.between.respelled = spelling
    (answer,) = await relay.send(relay.message()[0])
    assert (answer.status, answer.headers["content-type"]) == (200, OHTTP_RES)


async def test_the_order_within_a_frame_is_not_that_of_arrival(start: Start, tmp_path: Path) -> None:  # noqa: F811
    relay = await VersionedMessage.start(await start(), tmp_path)
    orders = set()
    for _ in range(4):
        messages = [relay.message()[0] for _ in range(7)]
        await relay.send(*messages)
        sent = decode_requests(relay.between.sent[-1][2], max_messages=8, max_message=4096)
        orders.add(tuple(messages.index(message) for message in sent))
    assert len(orders) > 1


async def test_a_full_frame_leaves_at_once_and_its_bytes_are_bounded(start: Start, tmp_path: Path) -> None:  # noqa: F811
    relay = await VersionedMessage.start(await start(), tmp_path)
    answers = await relay.send(*(relay.message()[0] for _ in range(8)), seconds=0.0)
    assert {answer.status for answer in answers} == {200}
    frames = FRAMES | {"max_bytes": 2 * 16384}
    small = await VersionedMessage.start(relay.gateway, tmp_path, frames=frames, max_request=16384)
    answers = await small.send(*(small.message(content=bytes(9000))[0] for _ in range(3)))
    assert [len(body) for _, _, body in small.between.sent] == [4 + 16384] * 3
    assert {answer.status for answer in answers} == {200}


async def test_one_bad_message_costs_only_itself(start: Start, tmp_path: Path) -> None:  # noqa: F811
    relay = await VersionedMessage.start(await start(), tmp_path)
    (good, context), (twice, _) = relay.message(), relay.message()
    garbage, stale = bytes(60), b"\xff" + good[1:]
    malformed, inner = ohttp.encapsulate_request(relay.gateway.config, b"\x01", entropy)
    answers = await relay.send(good, garbage, stale, b"short", twice, twice, malformed)
    assert [answer.status for answer in answers] == [200, 422, 422, 400, 200, 200, 200]
    assert answers[1].headers["content-type"] == PROBLEM_JSON
    assert opened(context, answers[0]).status == 201
    assert opened(inner, answers[6]).status == 400
    assert len(relay.gateway.targets.sent) == 2, "of two copies one passes"


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (HttpResponse(404, {"content-type": PROBLEM_JSON}, b"{}"), 502),
        (HttpResponse(200, {"content-type": OHTTP_RES}, b"sealed"), 502),
        (HttpResponse(200, {"content-type": OHTTP_RES_FRAME}, b"\x00\xc8\x01"), 502),
        (HttpResponse(200, {"content-type": OHTTP_RES_FRAME}, b"\x01\x2e\x01" + bytes(8)), 502),
        (HttpResponse(503, {"content-type": PROBLEM_JSON, "retry-after": "3"}, b"{}"), 503),
    ],
    ids=["unknown there", "no frame", "a broken frame", "a redirect inside", "busy"],
)
async def test_a_frame_that_fails_fails_for_all_its_clients(
    start: Start,  # noqa: F811
    tmp_path: Path,
    answer: HttpResponse,
    status: int,
) -> None:
    relay = await VersionedMessage.start(await start(), tmp_path, answer)
    count = 1 if answer.body.startswith(b"\x01\x2e") else 6
    answers = await relay.send(*(relay.message()[0] for _ in range(count)))
    assert [answer.status for answer in answers] == [status] * count
    if status == 503:
        assert len({answer.headers["retry-after"] for answer in answers}) > 1, "each comes back at its own time"


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"Authorization": "Bearer other"}, encode_requests([b"x"]), 401),
        ({"Content-Type": OHTTP_REQ}, encode_requests([b"x"]), 415),
        ({}, b"", 400),
        ({}, b"\x00\x00\x00\x09x", 400),
        ({}, encode_requests([b"x"] * 257), 400),
        ({}, encode_requests([bytes(262145)]), 400),
        ({}, bytes((4 << 20) + 1), 413),
    ],
    ids=["credential", "media type", "empty", "truncated", "too many", "one too large", "too large"],
)
async def test_a_gateway_refuses_bad_frames_whole(
    start: Start,  # noqa: F811
    headers: dict[str, str],
    body: bytes,
    status: int,
) -> None:
    gateway = await start()
    sent = {**HEADERS, "Content-Type": OHTTP_REQ_FRAME, **headers}
    answer = await gateway.network.request("POST", GATEWAY_URL + "/gateway/frames", headers=sent, body=body)
    assert (answer.status, answer.headers["content-type"]) == (status, PROBLEM_JSON)


async def test_a_frame_over_the_byte_budget_is_refused_before_anything_is_opened(start: Start) -> None:  # noqa: F811
    gateway = await start(max_in_flight=600_000)
    messages = [ohttp.padded_request(gateway.config, gateway.request(), entropy)[0] for _ in range(3)]
    sent = {**HEADERS, "Content-Type": OHTTP_REQ_FRAME}
    url = GATEWAY_URL + "/gateway/frames"
    answer = await gateway.network.request("POST", url, headers=sent, body=encode_requests(messages))
    assert answer.status == 503
    assert gateway.targets.sent == []
    answer = await gateway.network.request("POST", url, headers=sent, body=encode_requests(messages[:2]))
    assert [each.status for each in decode_answers(answer.body, count=2, max_body=4096)] == [200, 200]


async def test_a_fault_within_one_message_is_its_own_answer(
    start: Start,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    relay = await VersionedMessage.start(await start(), tmp_path)
    (good, _), (bad, _) = relay.message(), relay.message(content=b"bad")
    sealed = ohttp.padded_response
    monkeypatch.setattr(
        ohttp, "padded_response", lambda *arguments: sealed(*arguments) if _is_good(*arguments) else 1 / 0
    )
    relay.gateway.targets.answer = HttpResponse(201, {}, b"ok")

    async def fail(requests: Sequence[tuple[ohttp.Opened, int]]) -> list[bhttp.Response]:
        contents = [bhttp.decode_request(encoded).content for (encoded, _), _ in requests]
        return [bhttp.Response(599 if content == b"bad" else 201) for content in contents]

    monkeypatch.setattr(relay.gateway.app[GATEWAY], "_inside", fail)
    assert [answer.status for answer in await relay.send(good, bad)] == [200, 502]


def _is_good(_context: object, response: bhttp.Response, *_: object) -> bool:
    return response.status == 201


def test_a_frame_holds_at_least_one_message(tmp_path: Path) -> None:
    config = RelayConfig(state_dir=tmp_path, gateway_url=GATEWAY_URL, frames={"max_bytes": 4096})
    with pytest.raises(UsageError, match="max_bytes"):
        create_relay(config, ServiceEnv(SimClock(), entropy, make_transport(config)))
