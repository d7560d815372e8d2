"""The gateway and the Leader's uploads in one process: which requests become calls, and what the calls answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from infra.lab.kit.network import InProcessTransport
from infra.stacks.ingest import LocalUploads, leader_url_of, upload_call
from services.gateway.handlers import GATEWAY
from tacit import bhttp, ohttp
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.errors import Abort, UsageError
from tacit.media_types import dap
from tacit.ports import HttpResponse, TransportError
from tacit.service.app import ServiceEnv, make_app, read_body
from tacit.service.base.config import Listen
from tests.http.gateway_stage import TARGET, Start, entropy, opened, problem
from tests.http.test_gateway import start  # noqa: F401 - a fixture

TASK = "A" * 43
UPLOAD = dap("upload-req")


@dataclass
class Onward:
    """What was not for the Leader."""

    sent: list[tuple[str, str]] = field(default_factory=list)

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        self.sent.append((method, url))
        return HttpResponse(202, {}, b"onward")


@dataclass
class Uploads:
    """The Leader's uploads as a function: the calls, and their answer."""

    calls: list[tuple[str, str | None, bytes]] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    answer: HttpResponse | Exception = field(default_factory=lambda: HttpResponse(200, {}, b""))

    async def call(self, uploads: Sequence[tuple[str, str | None, bytes]]) -> list[HttpResponse]:
        self.calls += uploads
        self.groups.append(len(uploads))
        if isinstance(self.answer, Exception):
            raise self.answer
        return [self.answer] * len(uploads)


@pytest.mark.parametrize(
    ("method", "url", "local"),
    [
        ("POST", f"https://leader.example/dap/tasks/{TASK}/reports", True),
        ("POST", f"https://LEADER.example:443/dap/tasks/{TASK}/reports", True),
        ("POST", f"https://leader.example/tasks/{TASK}/reports", False),
        ("POST", f"https://leader.example/dap/tasks/{TASK}/reports?x=1", False),
        ("POST", f"https://leader.example/dap/tasks/{TASK}/reports/", False),
        ("POST", f"https://leader.example/dap/tasks/a/b{TASK}/reports", False),
        ("POST", f"https://leader.example/dap/tasks/%41{TASK}/reports", False),
        ("POST", f"https://leader.example/dap/tasks/{TASK * 20}/reports", False),
        ("POST", f"https://leader.example:444/dap/tasks/{TASK}/reports", False),
        ("POST", f"https://helper.example/dap/tasks/{TASK}/reports", False),
        ("POST", f"http://leader.example/dap/tasks/{TASK}/reports", False),
        ("GET", f"https://leader.example/dap/tasks/{TASK}/reports", False),
    ],
)
async def test_exactly_the_upload_resource_of_the_leader_is_called(method: str, url: str, local: bool) -> None:
    onward, uploads = Onward(), Uploads()
    transport = LocalUploads(onward, "https://leader.example/dap/", uploads.call)
    for _ in range(2):
        await transport.request(method, url, headers={"Content-Type": UPLOAD}, body=b"report")
    assert uploads.calls == ([(TASK, UPLOAD, b"report")] * 2 if local else [])
    assert onward.sent == ([] if local else [(method, url)] * 2)


async def test_a_report_that_the_gateway_opened_is_an_upload_by_call(start: Start) -> None:  # noqa: F811
    gateway, uploads, onward = await start(), Uploads(), Onward()
    gateway.deps = ServiceEnv(
        gateway.clock, entropy, LocalUploads(onward, TARGET, uploads.call), gateway.observed, background=False
    )
    await gateway.restart()
    fields = (*gateway.request().fields[:1], ("content-type", UPLOAD))
    assert (await gateway.ask(path=f"/tasks/{TASK}/reports", fields=fields)).status == 200
    assert uploads.calls == [(TASK, UPLOAD, b"report")]
    uploads.answer = HttpResponse(503, {"content-type": "application/problem+json", "retry-after": "4"}, b"{}")
    answer = await gateway.ask(path=f"/tasks/{TASK}/reports", fields=fields)
    assert (answer.status, bhttp.field_value(answer.fields, "retry-after")) == (503, "4")
    assert (await gateway.ask(path=f"/tasks/{TASK}/collection_jobs")).status == 202
    assert onward.sent == [("POST", f"{TARGET}/tasks/{TASK}/collection_jobs")]


async def test_the_uploads_of_a_frame_are_one_call_and_every_message_keeps_its_answer(start: Start) -> None:  # noqa: F811
    gateway, onward = await start(), Onward()
    uploads = Uploads(answer=HttpResponse(200, {"content-type": "x/y"}, b"errors"))
    deps = ServiceEnv(
        gateway.clock, entropy, LocalUploads(onward, TARGET, uploads.call), gateway.observed, background=False
    )
    gateway.deps = deps
    await gateway.restart()
    fields = (*gateway.request().fields[:1], ("content-type", UPLOAD))
    paths = [f"/tasks/{TASK}/reports", f"/tasks/{TASK}/collection_jobs", "/elsewhere", f"/tasks/{TASK}/reports"]
    made = [ohttp.padded_request(gateway.config, gateway.request(path=path, fields=fields), entropy) for path in paths]
    messages = [message for message, _ in made]
    answers = await gateway.app[GATEWAY].answer_frame([messages[0], b"short", *messages[1:], messages[0]])
    assert [answer.status for answer in answers] == [200, 400, 200, 200, 200, 200]
    found = [
        ohttp.open_response(context, answer.body)
        for (_, context), answer in zip((*made, made[0]), (answers[0], *answers[2:]), strict=True)
    ]
    assert [(one.status, one.content) for one in found[:2]] == [(200, b"errors"), (202, b"onward")]
    assert [one.status for one in found[2:]] == [403, 200, 409]
    assert uploads.groups == [2]
    assert len(onward.sent) == 1


@pytest.mark.parametrize(("fault", "status"), [(TransportError("down"), 502), (RuntimeError("bug"), 500)])
async def test_what_fails_in_the_leader_is_answered_inside(start: Start, fault: Exception, status: int) -> None:  # noqa: F811
    gateway = await start()
    uploads = Uploads(answer=fault)
    transport = LocalUploads(Onward(), TARGET, uploads.call)
    gateway.deps = ServiceEnv(gateway.clock, entropy, transport, background=False)
    await gateway.restart()
    assert problem(await gateway.ask(path=f"/tasks/{TASK}/reports"))[0] == status


async def test_call_and_http_exchange_answer_alike(start: Start) -> None:  # noqa: F811
    """The double of the Leader's upload is an application; the call goes through its real HTTP server, in memory."""

    async def upload(request: web.Request) -> web.Response:
        body = await read_body(request, 100, UPLOAD)
        if request.match_info["task_id"] != TASK:
            raise Abort("urn:x", status=404)
        return web.Response(body=body[::-1], headers={"Content-Type": dap("upload-errors")})

    leader = make_app("leader", ServiceEnv(SystemClock(), OsEntropy(), Onward(), background=False))
    leader.router.add_post("/tasks/{task_id}/reports", upload)
    async with InProcessTransport({TARGET: leader}) as network:

        async def call(uploads: Sequence[tuple[str, str | None, bytes]]) -> list[HttpResponse]:
            found = []
            for task_id, content_type, body in uploads:
                headers = {} if content_type is None else {"Content-Type": content_type}
                url = f"{TARGET}/tasks/{task_id}/reports"
                found.append(await network.request("POST", url, headers=headers, body=body))
            return found

        answers = []
        for transport in (network, LocalUploads(network, TARGET, call)):
            gateway = await start()
            gateway.deps = ServiceEnv(gateway.clock, entropy, transport, background=False)
            await gateway.restart()
            for path, content in ((TASK, b"abc"), (TASK, bytes(101)), ("B" * 43, b"abc")):
                fields = (*gateway.request().fields[:1], ("content-type", UPLOAD))
                request = gateway.request(path=f"/tasks/{path}/reports", content=content, fields=fields)
                message, context = ohttp.padded_request(gateway.config, request, entropy)
                answers.append(opened(context, await gateway.post(message)))
        assert answers[:3] == answers[3:]
        assert [answer.status for answer in answers[:3]] == [200, 413, 404]


def test_the_leader_is_known_by_its_listener_unless_its_url_is_given() -> None:
    assert leader_url_of(Listen(port=8200), "/dap") == "http://127.0.0.1:8200/dap"
    assert leader_url_of(Listen(host="::1", port=8200), "") == "http://[::1]:8200"
    with pytest.raises(UsageError, match="--leader-url"):
        leader_url_of(Listen(port=0), "")


def test_a_leader_that_takes_no_uploads_cannot_be_called() -> None:
    with pytest.raises(UsageError, match="uploads"):
        upload_call(web.Application())
