"""The Python client where the admin service is away, slow, busy, cut off, or somebody else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.base.free_ports import free_ports
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.tls import ClientTls
from tacit.client import AsyncOperator, AwayError, BusyError, Event, RedirectError, UnauthorizedError
from tacit.errors import DecodeError
from tacit.ports import TransportError
from tests.certificates import Authority

KEY = "tacit-secret-of-one-person"
SESSION = {
    "person": {"id": "1", "name": "a", "role": "analyst", "disabled": False, "has_password": False, "created": 1},
    "permissions": ["read"],
}
HANGS_UP = b""
"""The server closes the connection instead of an answer."""


def answer(status: int, body: object = None, kind: str = "application/json", **headers: str) -> bytes:
    raw = b"" if body is None else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Words", f"Content-Type: {kind}", f"Content-Length: {len(raw)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + raw


def problem(status: int, **headers: str) -> bytes:
    body = {"type": "urn:tacit:problem:peer-away", "title": "Away.", "status": status}
    return answer(status, body, "application/problem+json", **headers)


class Server:
    """Answers each request with the next of ``answers``, the last one for ever; ``None`` never comes."""

    def __init__(self) -> None:
        self.answers: list[bytes | None] = []
        self.requests: list[str] = []
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.requests.append(head)
            said = self.answers[min(len(self.requests), len(self.answers)) - 1]
            if said is None:
                await reader.read()
            else:
                writer.write(said)
                await writer.drain()
        writer.close()

    def sent(self, name: str) -> list[str]:
        """The values of a header in the order of the requests."""
        lines = [line for head in self.requests for line in head.splitlines()]
        return [line.partition(": ")[2] for line in lines if line.lower().startswith(f"{name.lower()}: ")]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving(Server()) as running:
        yield running


@contextlib.asynccontextmanager
async def serving(running: Server) -> AsyncIterator[Server]:
    listening = await asyncio.start_server(running.handle, "127.0.0.1", 0)
    running.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with listening:
        yield running


@contextlib.asynccontextmanager
async def client(
    url: str, clock: SimClock, *, seconds: float = 30.0, patience: float = 30.0
) -> AsyncIterator[AsyncOperator]:
    async with HttpTransport(timeout=seconds, repeat_posts=True) as transport:
        yield AsyncOperator(url, key=KEY, transport=transport, clock=clock, entropy=SeededEntropy(3), patience=patience)


def jumping() -> SimClock:
    """A clock that moves on as soon as nobody does anything but wait."""
    return SimClock(autojump=0.005)


async def test_a_service_that_is_away_is_asked_again_until_patience_ends() -> None:
    clock = jumping()
    began = clock.now()
    async with client(f"http://127.0.0.1:{free_ports(1)[0]}", clock) as operator:
        with pytest.raises(TransportError, match="does not answer") as away:
            await operator.session()
    assert 10 < clock.now() - began <= 30
    assert KEY not in f"{away.value!r} {operator!r}"


async def test_what_is_lost_or_cut_off_or_refused_for_a_while_is_sent_again_with_the_same_key(server: Server) -> None:
    whole = answer(200, {"hash": "h", "stage": "draft", "accepted": True, "rules": [], "refusals": [], "recipe": {}})
    server.answers = [HANGS_UP, whole[:-4], problem(503), problem(502), answer(504, kind="text/html"), whole]
    async with client(server.url, jumping()) as operator:
        assert (await operator.questions.check("x")).accepted
    assert len(server.requests) == 6
    assert len(set(server.sent("Idempotency-Key"))) == 1
    assert server.sent("Authorization") == [f"Bearer {KEY}"] * 6
    server.requests.clear()
    async with client(server.url, jumping()) as operator:
        await operator.questions.check("x")
        await operator.questions.check("x")
    assert len(set(server.sent("Idempotency-Key"))) == 2


@pytest.mark.parametrize("status", [429, 503])
async def test_the_pause_that_a_service_asks_for_is_kept_if_there_is_patience_for_it(
    server: Server, status: int
) -> None:
    clock = jumping()
    began = clock.now()
    server.answers = [problem(status, Retry_After="20"), answer(200, SESSION)]
    async with client(server.url, clock) as operator:
        assert (await operator.session()).permissions == ("read",)
    assert 20 <= clock.now() - began <= 25, "a quarter at random: others were asked the same"
    for said in ("31", "999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"):
        server.requests.clear()
        server.answers = [problem(status, Retry_After=said)]
        async with client(server.url, clock) as operator:
            with pytest.raises(BusyError if status == 429 else AwayError):
                await operator.session()
        assert len(server.requests) == 1


async def test_a_pause_that_cannot_be_read_is_one_of_the_clients_own(server: Server) -> None:
    server.answers = [*(problem(503, Retry_After=said) for said in ("soon", "-1", "1e9", "٣")), answer(200, SESSION)]
    async with client(server.url, jumping()) as operator:
        await operator.session()
    assert len(server.requests) == 5


async def test_a_service_that_says_nothing_is_not_waited_for_longer_than_the_timeout(server: Server) -> None:
    server.answers = [None]
    async with client(server.url, SimClock(), seconds=0.2, patience=0.0) as operator:
        with pytest.raises(TransportError, match="TimeoutError"):
            await operator.session()
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_and_the_key_goes_nowhere_else(server: Server, status: int) -> None:
    async with serving(Server()) as other:
        other.answers = [answer(200, SESSION)]
        server.answers = [answer(status, Location=f"{other.url}/v1/session")]
        async with client(server.url, jumping()) as operator:
            with pytest.raises(RedirectError):
                await operator.session()
            with pytest.raises(RedirectError):
                await operator.questions.submit("x")
    assert (len(server.requests), other.requests) == (2, [])


@pytest.mark.parametrize(
    "said",
    [
        answer(200, kind="text/html"),
        answer(200, [1]),
        answer(200, {"person": {}}),
        answer(200, {**SESSION, "permissions": 7}),
        answer(200, {**SESSION, "person": {**SESSION, "id": ["secret-value"]}}),
        answer(204),
        answer(200).replace(b"Content-Length: 0", b"Content-Length: 9") + b"[" * 9,
    ],
)
async def test_an_answer_that_is_none_is_an_error_that_quotes_nothing(server: Server, said: bytes) -> None:
    server.answers = [said]
    async with client(server.url, jumping()) as operator:
        with pytest.raises(DecodeError) as odd:
            await operator.session()
    assert "secret-value" not in str(odd.value)
    assert len(server.requests) == 1


async def test_pages_that_go_in_a_circle_end(server: Server) -> None:
    server.answers = [answer(200, {"people": [SESSION["person"]], "next": "1"})]
    async with client(server.url, jumping()) as operator:
        with pytest.raises(DecodeError, match="circle"):
            assert [one async for one in operator.people.all()]
    assert len(server.requests) == 2


async def test_a_server_whose_certificate_is_for_another_name_gets_no_key_and_is_not_asked_twice(
    tmp_path: Path,
) -> None:
    authority, running = Authority(tmp_path, "authority"), Server()
    running.answers = [answer(200, SESSION)]
    certificate, key = authority.issue("elsewhere", addresses=())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    listening = await asyncio.start_server(running.handle, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    clock = SimClock()
    async with listening, HttpTransport(tls=ClientTls(ca=authority.certificate)) as transport:
        operator = AsyncOperator(url, key=KEY, transport=transport, clock=clock, entropy=SeededEntropy(3))
        with pytest.raises(TransportError, match="another host"):
            await operator.session()
        streaming = AsyncOperator(
            url, key=KEY, tls=ClientTls(ca=authority.certificate), clock=clock, entropy=SeededEntropy(3)
        )
        with pytest.raises(TransportError, match="another host"):
            await anext(streaming.events())
        await streaming.close()
    assert running.requests == []


def stream(*blocks: str) -> bytes:
    """An answer that breaks off after ``blocks``, in the middle of another."""
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    text = "".join(f"{len(one.encode()):x}\r\n{one}\r\n" for one in blocks)
    return f"{head}{text}40\r\nevent: question".encode()


async def test_a_stream_that_breaks_off_is_begun_anew_and_says_so(server: Server) -> None:
    server.answers = [
        stream(": beat\n\nevent: question\nda", 'ta: {"id": "1"}\n\n'),
        problem(503),
        HANGS_UP,
        stream("event: later\nother: 1\ndata: {}\n\n"),
        problem(401),
    ]
    heard: list[Event] = []

    async def listen(operator: AsyncOperator) -> None:
        async for event in operator.events():
            heard.append(event)

    async with client(server.url, jumping()) as operator:
        with pytest.raises(UnauthorizedError):
            await listen(operator)
    assert [one.kind for one in heard] == ["listening", "question", "listening", "later"]
    assert heard[1].document == {"id": "1"}
    assert server.sent("Authorization") == [f"Bearer {KEY}"] * 5


async def test_events_are_read_from_nobody_else(server: Server) -> None:
    async with serving(Server()) as other, client(server.url, jumping()) as operator:
        other.answers = [stream()]
        for said, error in (
            (answer(307, Location=f"{other.url}/v1/events"), RedirectError),
            (answer(200, SESSION), DecodeError),
            (stream("data: {\n\n"), DecodeError),
            (stream("data: [1]\n\n"), DecodeError),
            (problem(503), TransportError),
        ):
            server.answers = [said]
            with pytest.raises(error):
                assert [event async for event in operator.events() if event.kind == "never"]
        assert other.requests == []
