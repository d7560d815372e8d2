"""Uploads that a gateway sends to its leader in frames: which share a request, and what each device is answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from infra.lab.kit.aggregators import GATEWAY_TOKEN, AggregatorPair
from infra.lab.kit.network import DUPLICATE, LOSE_RESPONSE, matching
from services.gateway import service
from services.gateway.app import make_transport
from services.gateway.config import TargetRule
from services.gateway.handlers import GATEWAY
from services.gateway.leader_uploads import PAUSE_SECONDS
from services.gateway.service import TARGET_UNREACHABLE
from services.gateway.targets import TARGET_REFUSED, http_date
from tacit import bhttp, ohttp
from tacit.adapters.system import SystemClock
from tacit.codec import b64url
from tacit.media_types import OHTTP_REQ_FRAME, PROBLEM_JSON, UPLOAD_REQ_FRAME, UPLOAD_RES_FRAME, dap
from tacit.message_frames import MessageAnswer, decode_answers, decode_uploads, encode_answers, encode_requests
from tacit.messages import Role
from tacit.ports import HttpResponse, TransportError
from tacit.service.app import ServiceEnv, make_app
from tacit.service.base.config import Listen
from tacit.service.base.secret_files import write_secret
from tacit.service.run import started
from tests.http.gateway_stage import GATEWAY_URL, HEADERS, TARGET, Running, entropy, opened, problem, starting
from tests.http.test_leader import KIT, pair_of

TASKS = (bytes(32), b"\x01" * 32)
UPLOAD = dap("upload-req")
FRAMES_URL = TARGET + "/uploads"
OTHER = "http://127.0.0.1:9003"
PATIENCE = 60
Answered = Callable[[str, bytes], HttpResponse | Exception]


def kept(url: str, body: bytes) -> HttpResponse:
    """What a leader answers that keeps every upload; the answer tells which one it is for."""
    if url != FRAMES_URL:
        return HttpResponse(200, {"content-type": dap("upload-errors")}, body[::-1])
    answers = [MessageAnswer(200, dap("upload-errors"), upload[::-1]) for _, upload in decode_uploads(body)]
    return HttpResponse(200, {"content-type": UPLOAD_RES_FRAME}, encode_answers(answers))


@dataclass
class Leader:
    """The network behind the gateway: keeps what arrives, answers as the test says."""

    answered: Answered = kept
    sent: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        self.sent.append((url, dict(headers or {}), body))
        answer = self.answered(url, body)
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass
class Stage:
    """A gateway that sends frames to ``leader``."""

    gateway: Running
    leader: Leader

    def upload(self, content: bytes, task: bytes = TASKS[0], **changed: Any) -> bhttp.Request:
        fields = (("date", http_date(self.gateway.clock.now())), ("content-type", UPLOAD), ("accept", "text/x"))
        parts = {"path": f"/tasks/{b64url(task)}/reports", "fields": fields, "content": content}
        return self.gateway.request(**{**parts, **changed})

    async def send(self, *requests: bhttp.Request) -> list[bhttp.Response]:
        """The inner answers to requests that come in one frame of the relay."""
        return await through(self.gateway, requests)


async def through(gateway: Running, requests: Sequence[bhttp.Request]) -> list[bhttp.Response]:
    made = [ohttp.padded_request(gateway.config, request, entropy) for request in requests]
    headers = {**HEADERS, "Content-Type": OHTTP_REQ_FRAME}
    frame = encode_requests([message for message, _ in made])
    answer = await gateway.network.request("POST", GATEWAY_URL + "/gateway/frames", headers=headers, body=frame)
    answers = decode_answers(answer.body, count=len(made), max_body=ohttp.SIZE_CLASSES[-1])
    return [
        opened(context, HttpResponse(one.status, {"content-type": one.content_type}, one.body))
        for (_, context), one in zip(made, answers, strict=True)
    ]


async def use(gateway: Running, transport: Any) -> None:
    """Start the gateway again, with another network behind it."""
    gateway.deps = ServiceEnv(gateway.clock, entropy, transport, gateway.observed, background=False)
    await gateway.restart()


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    write_secret(tmp_path / "leader.token", b"gateway-credential")
    rule = {"origin": TARGET, "path_prefix": "/tasks/", "bearer": str(tmp_path / "leader.token"), "frames": True}
    async with starting(tmp_path) as start:
        found = Stage(await start(targets=[rule, {"origin": TARGET, "path_prefix": "/v1/"}]), Leader())
        await use(found.gateway, found.leader)
        yield found


async def test_uploads_that_are_ready_together_share_a_request_and_each_gets_its_own_answer(stage: Stage) -> None:
    contents = [b"report %d" % number for number in range(20)]
    answers = await stage.send(*(stage.upload(content, TASKS[at % 2]) for at, content in enumerate(contents)))
    assert [(one.status, one.content) for one in answers] == [(200, content[::-1]) for content in contents]
    ((url, headers, body),) = stage.leader.sent
    assert url == FRAMES_URL
    assert headers == {"Content-Type": UPLOAD_REQ_FRAME, "Authorization": "Bearer gateway-credential"}
    arrived = decode_uploads(body)
    assert sorted(arrived) == sorted((TASKS[at % 2], content) for at, content in enumerate(contents))
    assert [content for _, content in arrived] != contents, "in an order drawn at random (once in 20! it is the same)"
    assert stage.gateway.app[GATEWAY].budget.in_flight == 0


async def test_messages_that_came_one_by_one_and_are_ready_together_share_a_request(stage: Stage) -> None:
    contents = [b"report %d" % number for number in range(5)]
    answers = await asyncio.gather(
        *(stage.gateway.ask(**asdict(stage.upload(content))) for content in contents),
    )
    assert [one.content for one in answers] == [content[::-1] for content in contents]
    assert [url for url, _, _ in stage.leader.sent] == [FRAMES_URL]


async def test_a_frame_holds_so_many_uploads(stage: Stage) -> None:
    await stage.gateway.restart(max_frame_messages=300)
    answers = await stage.send(*(stage.upload(b"%d" % number) for number in range(260)))
    assert [one.content for one in answers] == [(b"%d" % number)[::-1] for number in range(260)]
    assert [len(decode_uploads(body)) for url, _, body in stage.leader.sent if url == FRAMES_URL] == [256, 4]


async def test_what_is_no_upload_or_is_alone_leaves_as_it_is(stage: Stage) -> None:
    date = stage.upload(b"").fields[0]
    other = stage.upload(b"d", fields=(date, ("content-type", "text/plain")))
    foreign = stage.upload(b"e", path=f"/v1/tasks/{b64url(TASKS[0])}/reports")
    odd = [stage.upload(b"f", path=f"/tasks/{text}/reports") for text in ("A" * 42, "A" * 42 + "B")]
    queried = stage.upload(b"g", path=f"/tasks/{b64url(TASKS[0])}/reports?x=1")
    await stage.send(stage.upload(b"a"))
    await stage.send(stage.upload(b"b"), stage.upload(b"c"), other, foreign, *odd, queried)
    assert {url: body for url, _, body in stage.leader.sent if body not in (b"f", b"a")} == {
        FRAMES_URL: next(body for url, _, body in stage.leader.sent if url == FRAMES_URL),
        f"{TARGET}/tasks/{b64url(TASKS[0])}/reports": b"d",
        f"{TARGET}/v1/tasks/{b64url(TASKS[0])}/reports": b"e",
        f"{TARGET}/tasks/{b64url(TASKS[0])}/reports?x=1": b"g",
    }
    url, headers, body = stage.leader.sent[0]
    assert (url, body) == (f"{TARGET}/tasks/{b64url(TASKS[0])}/reports", b"a")
    assert headers == {"content-type": UPLOAD, "accept": "text/x", "Authorization": "Bearer gateway-credential"}


async def test_the_media_type_of_a_frame_of_answers_may_be_spelled_as_the_standard_allows(stage: Stage) -> None:
    def proxied(url: str, body: bytes) -> HttpResponse:
        found = kept(url, body)
        return replace(found, headers={"content-type": found.headers["content-type"].upper() + "; charset=utf-8"})

    stage.leader.answered = proxied
    answers = await stage.send(stage.upload(b"ab"), stage.upload(b"cd"))
    assert sorted(one.content for one in answers) == [b"ba", b"dc"]
    assert [url for url, _, _ in stage.leader.sent] == [FRAMES_URL]


@pytest.mark.parametrize("status", [200, 302, 400, 401, 404, 405, 406, 413, 415, 422, 501])
async def test_a_leader_without_frames_gets_single_uploads_until_frames_are_offered_again(
    stage: Stage, status: int
) -> None:
    """So does one behind a proxy that has an answer of its own to what it does not know."""

    def without(url: str, body: bytes) -> HttpResponse:
        return HttpResponse(status, {"content-type": "text/html"}, b"hello") if url == FRAMES_URL else kept(url, body)

    stage.leader.answered = without
    for expected in (3, 2, 3):
        stage.leader.sent.clear()
        answers = await stage.send(stage.upload(b"ab"), stage.upload(b"cd"))
        assert [(one.status, one.content) for one in answers] == [(200, b"ba"), (200, b"dc")]
        assert len(stage.leader.sent) == expected
        await stage.gateway.clock.advance(PAUSE_SECONDS * 0.6)
    stage.leader.answered = kept
    stage.leader.sent.clear()
    await stage.gateway.clock.advance(PAUSE_SECONDS)
    await stage.send(stage.upload(b"ab"), stage.upload(b"cd"))
    assert [url for url, _, _ in stage.leader.sent] == [FRAMES_URL]


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (HttpResponse(200, {"content-type": UPLOAD_RES_FRAME}, b""), 502),
        (HttpResponse(200, {"content-type": UPLOAD_RES_FRAME}, bytes(22)), 502),
        (HttpResponse(200, {"content-type": UPLOAD_RES_FRAME}, encode_answers([MessageAnswer(200, "", b"")])), 502),
        (TransportError("lost"), 502),
    ],
    ids=["none", "no status", "too few", "lost"],
)
async def test_an_answer_that_cannot_be_read_acknowledges_nothing(
    stage: Stage, answer: HttpResponse | Exception, status: int
) -> None:
    stage.leader.answered = lambda _url, _body: answer
    answers = await stage.send(stage.upload(b"a"), stage.upload(b"b"))
    assert [problem(one) for one in answers] == [(status, TARGET_UNREACHABLE)] * 2


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503, 507])
async def test_a_leader_in_trouble_is_not_asked_again_for_each_upload(stage: Stage, status: int) -> None:
    stage.leader.answered = lambda _url, _body: HttpResponse(status, {}, b"")
    answers = await stage.send(stage.upload(b"a"), stage.upload(b"b"))
    assert [one.status for one in answers] == [status] * 2
    assert [url for url, _, _ in stage.leader.sent] == [FRAMES_URL]


async def test_devices_of_a_frame_that_a_busy_leader_refused_come_back_at_times_of_their_own(stage: Stage) -> None:
    refusal = HttpResponse(503, {"content-type": PROBLEM_JSON, "retry-after": "77"}, b'{"type": "urn:x"}')
    stage.leader.answered = lambda _url, _body: refusal
    answers = await stage.send(*(stage.upload(b"%d" % number) for number in range(20)))
    assert {problem(one) for one in answers} == {(503, "urn:x")}
    assert len({bhttp.field_value(one.fields, "retry-after") for one in answers}) > 1


async def test_an_upload_with_a_time_to_come_back_costs_no_other(stage: Stage) -> None:
    def some(_url: str, body: bytes) -> HttpResponse:
        answers = [
            MessageAnswer(503, PROBLEM_JSON, b'{"type": "urn:x"}', 9) if upload == b"b" else MessageAnswer(200, "", b"")
            for _, upload in decode_uploads(body)
        ]
        return HttpResponse(200, {"content-type": UPLOAD_RES_FRAME}, encode_answers(answers))

    stage.leader.answered = some
    good, bad = await stage.send(stage.upload(b"a"), stage.upload(b"b"))
    assert (good.status, good.content, good.fields) == (200, b"", ())
    assert (problem(bad), bhttp.field_value(bad.fields, "retry-after")) == ((503, "urn:x"), "9")


@pytest.mark.parametrize("hanging", [TARGET, OTHER])
async def test_a_target_that_hangs_costs_no_other_in_its_frame(
    stage: Stage, hanging: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "STRAGGLING_SECONDS", 0.01)
    ended: list[str] = []
    answer = stage.leader.request

    async def request(method: str, url: str, **rest: Any) -> HttpResponse:
        if url.startswith(hanging):
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(url)
        return await answer(method, url, **rest)

    monkeypatch.setattr(stage.leader, "request", request)
    other = TargetRule(origin=OTHER, path_prefix="/v1/")
    await stage.gateway.restart(targets=(*rules(stage), other), target_timeout=3600.0)
    elsewhere = stage.upload(b"c", authority=OTHER.removeprefix("http://"), path="/v1/a")
    sent = stage.send(stage.upload(b"a"), elsewhere, stage.upload(b"b"), elsewhere)
    answers = await asyncio.wait_for(sent, PATIENCE)
    late = (1, 3) if hanging == OTHER else (0, 2)
    assert [problem(answers[at]) for at in late] == [(504, TARGET_UNREACHABLE)] * 2
    assert [one.content for at, one in enumerate(answers) if at not in late] in ([b"a", b"b"], [b"c", b"c"])
    await asyncio.sleep(0)
    assert ended == ([FRAMES_URL] if hanging == TARGET else [f"{OTHER}/v1/a"] * 2), "nothing is left under way"
    assert stage.gateway.app[GATEWAY].budget.in_flight == 0


async def test_only_the_answer_to_a_frame_may_be_larger_than_any_that_a_device_gets(stage: Stage) -> None:
    """Otherwise one answer of any target could take eight times what the gateway counts for it."""

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=bytes(ohttp.SIZE_CLASSES[-1] + 1))

    app = make_app("leader", ServiceEnv(SystemClock(), entropy, stage.leader, background=False), max_body=1 << 20)
    app.router.add_post("/dap/{what:.*}", answer)
    async with started(app, Listen(), grace_seconds=1) as ready:
        rule = {"origin": ready.url, "path_prefix": "/dap/tasks/", "frames": True}
        config = stage.gateway.settings.model_copy(update={"targets": (TargetRule.model_validate(rule),)})
        async with make_transport(config) as transport:
            frame = await transport.request("POST", f"{ready.url}/dap/uploads", body=b"x")
            assert len(frame.body) > ohttp.SIZE_CLASSES[-1]
            with pytest.raises(TransportError, match="larger"):
                await transport.request("POST", f"{ready.url}/dap/tasks/a/reports", body=b"x")


@pytest.mark.parametrize("kind", [UPLOAD_REQ_FRAME, UPLOAD_REQ_FRAME.upper() + "; a=b"])
async def test_a_device_cannot_send_a_frame_itself(stage: Stage, kind: str) -> None:
    await stage.gateway.restart(targets=tuple(one.model_copy(update={"path_prefix": "/"}) for one in rules(stage)))
    fields = (stage.upload(b"").fields[0], ("content-type", kind))
    frame = encode_requests([TASKS[0] + b"a", TASKS[0] + b"b"])
    (answer,) = await stage.send(stage.upload(frame, path="/uploads", fields=fields))
    assert problem(answer) == (403, TARGET_REFUSED)
    assert stage.leader.sent == []


def rules(stage: Stage) -> tuple[Any, ...]:
    return stage.gateway.settings.targets[:1]


@dataclass
class Behind:
    """A gateway in front of a real leader and helper."""

    gateway: Running
    pair: AggregatorPair

    async def send(self, bodies: Sequence[bytes]) -> list[bhttp.Response]:
        fields = (("date", http_date(self.gateway.clock.now())), ("content-type", UPLOAD))
        authority = KIT.task.configuration.leader_aggregator_endpoint.removeprefix("http://")
        path = f"/tasks/{KIT.task.task_id_text}/reports"
        requests = [
            self.gateway.request(authority=authority, path=path, fields=fields, content=body) for body in bodies
        ]
        return await through(self.gateway, requests)

    @property
    def posts(self) -> list[str]:
        return [one.url.rpartition("/")[2] for one in self.pair.network.exchanges]


@pytest.fixture
async def behind(tmp_path: Path) -> AsyncIterator[Behind]:
    write_secret(tmp_path / "leader.token", GATEWAY_TOKEN.encode())
    origin = KIT.task.configuration.leader_aggregator_endpoint
    rule = {"origin": origin, "path_prefix": "/tasks/", "bearer": str(tmp_path / "leader.token"), "frames": True}
    async with starting(tmp_path) as start, pair_of(tmp_path, storage="file") as pair:
        gateway = await start(targets=[rule])
        await use(gateway, pair.network)
        yield Behind(gateway, pair)


async def test_reports_in_frames_are_counted(behind: Behind) -> None:
    factory = KIT.reports(401)
    bodies = [factory.valid(1).encode() for _ in range(10)]
    answers = await behind.send([*bodies, bodies[0], b"malformed"])
    assert [one.status for one in answers] == [200] * 11 + [400]
    assert json.loads(answers[-1].content)["taskid"] == KIT.task.task_id_text
    assert behind.posts == ["uploads"]
    await behind.pair.end_interval()
    assert behind.pair.opened(await behind.pair.collect()).values == (0, 10, 0, 0)


@pytest.mark.parametrize("restarted", ["leader", "gateway"])
async def test_a_frame_whose_answer_is_lost_is_sent_again_by_its_devices_and_counts_once(
    behind: Behind, restarted: str
) -> None:
    factory = KIT.reports(402)
    bodies = [factory.valid(1).encode() for _ in range(10)]
    behind.pair.network.plan = matching("/uploads", LOSE_RESPONSE, times=1)
    assert {problem(one) for one in await behind.send(bodies)} == {(502, TARGET_UNREACHABLE)}
    if restarted == "leader":
        await behind.pair.start(Role.LEADER)
    else:
        await behind.gateway.restart()
    assert [one.status for one in await behind.send(bodies)] == [200] * 10
    assert (await behind.pair.status(Role.LEADER))["uploaded"] == 10
    await behind.pair.end_interval()
    assert behind.pair.opened(await behind.pair.collect()).values == (0, 10, 0, 0)


async def test_a_frame_that_arrives_twice_counts_once(behind: Behind) -> None:
    factory = KIT.reports(403)
    bodies = [factory.valid(1).encode() for _ in range(10)]
    behind.pair.network.plan = matching("/uploads", DUPLICATE)
    assert [one.status for one in await behind.send(bodies)] == [200] * 10
    assert (await behind.pair.status(Role.LEADER))["uploaded"] == 10
