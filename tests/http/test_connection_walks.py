"""Random walks over the connections of a listener, in memory and on a clock of their own.

In each walk a few clients send pipelines of requests of all kinds, whole or cut off, in pieces of any size. They read
at once, slowly or never; they close their side, leave, or reset the connection. Meanwhile turns are given, bytes are
shed, deadlines pass, and the server may stop. A walk keeps to these invariants:

* ``Admission`` counts as many turns and bytes as its connections have. Once everybody has sent and read, no request
  has a turn or waits for one; once time has passed, no connection, source, byte or task is left.
* Every whole request gets exactly one answer, in its order, or its connection ends. No handler is called twice for one
  request, no answer follows one that says that it is the last, and no connection stays open behind a part of an answer.
* A handler reads the body of its own request, and no byte of another; answers begin where the framing of those before
  them ends.
* No connection stays paused that waits for nothing, and no reader of a stream that has left goes unnoticed.
* Nothing fails unheard in the loop.

Such walks have found, within these seeds: an answer framed otherwise than its head says, since an earlier one had
failed; a body behind an answer to HEAD, refused or streamed; a connection left paused after an early answer, or
behind a stream; the waiting end of a body dropped by a stop; and, once in some thousand walks, a request that was
answered again when its turn came. Each has a test of its own in ``test_connection_order.py``. How much work is done
walks do not see: bytes sent ahead that were parsed again and again are counted in ``tests/unit/test_http_reader.py``.

A failure names its seed: ``Walk(seed)`` repeats it step by step.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple, NoReturn

import pytest
from aiohttp import web

from infra.lab.kit.entropy import SeededEntropy
from tacit.adapters.system import SystemClock
from tacit.ports import HttpResponse
from tacit.service.app import ServiceEnv, make_app, read_body
from tacit.service.base.config import Limits
from tacit.service.base.log import set_log_level
from tacit.service.fast_routes import add_fast_route, serving
from tacit.service.http.admission import Admission
from tacit.service.http.application import Application
from tacit.service.http.connection import Connection
from tacit.service.http.fast_route import Asking, FastRoute, Respond
from tacit.service.http.problems import Answer
from tacit.service.http.server import Server
from tests.kit.wires import Reply, StillLoop, Wire, read_replies

TYPE = "application/x-test"
FAST_LIMIT, LIMIT = 100_000, 1 << 20
MOST_CONNECTIONS = 14
SETTLED = 30
"""Number of rounds in which nobody sends or reads anything, after which nobody ever will."""
BODIES = ("fast", "refused", "post", "early", "pstream")
OTHERS = ("get", "old", "big", "stream", "events", "found", "pre")
KINDS = (*BODIES, *OTHERS, "fast", "post", "early", "early", "get", "head", "bad")
BAD = (
    b"GET / HTTP/1.1\r\n\r\n",
    b"\0\1\2zz\r\n\r\n",
    b"POST /post HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
)


class Sent(NamedTuple):
    """A request. ``number``: its own in the walk, which its head has too."""

    number: int
    kind: str
    method: str
    raw: bytes
    body: bytes


class Nowhere:
    """A transport for a service that calls nobody."""

    async def request(self, method: str, url: str, **_rest: object) -> HttpResponse:
        raise AssertionError(f"{method} {url}")


@dataclass
class Client:
    """One client. ``whole``: how many of its requests it sends to their end; ``laziness`` and ``temper``: the
    probabilities that it does not read, and that it resets the connection, when it could."""

    wire: Wire
    connection: Connection
    sent: list[Sent]
    whole: int
    laziness: float
    temper: float


@dataclass
class Walk:
    """The walk with one seed. ``number``: that of the latest request; ``bodies``: what each has; ``called``: how often
    each had a handler called; ``mixed``: those whose handlers have read something else; ``failed``: what the loop heard
    of that nobody else did; ``stopped``: the server takes no further requests."""

    seed: int
    clients: list[Client] = field(default_factory=list)
    bodies: dict[int, bytes] = field(default_factory=dict)
    called: Counter[int] = field(default_factory=Counter)
    mixed: list[int] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)
    number: int = 0
    stopped: bool = False

    async def run(self) -> None:
        """Walk, let everybody come to an end, and let time pass."""
        self.random, self.gate = Random(self.seed), asyncio.Event()
        self.loop = asyncio.get_running_loop()
        assert isinstance(self.loop, StillLoop)
        self.loop.set_exception_handler(lambda _loop, context: self.failed.append(context))
        app = self.application()
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        assert runner.server is not None
        limits = Limits(
            connections=self.random.choice((3, 8, 100)),
            requests=self.random.choice((1, 1, 2, 50)),
            receiving_bytes=self.random.choice((1 << 16, 1 << 20, 64 << 20)),
        )
        self.admission = Admission(limits, limits.connections)
        self.server = Server(self.admission, serving(app), Application(runner.server))
        await self.walk(self.random.choice((60, 200, 400)))
        await self.settle()
        for client in self.clients:
            self.check(client)
        assert not self.mixed, "a handler has read what is not of its request"
        assert self.called.total() == len(self.called), "a handler was called twice for one request"
        await self.let_time_pass()
        assert not self.failed
        await runner.cleanup()

    def application(self) -> web.Application:
        """Handlers that answer at once, later or when ``gate`` opens; some never read the body, fail, or do not end."""
        app = make_app("probe", ServiceEnv(SystemClock(), SeededEntropy(1), Nowhere()), max_body=LIMIT)

        def number_of(request: Asking) -> int:
            number = int(request.headers.getall("X-Number", [])[0])
            self.called[number] += 1
            return number

        async def pause(number: int) -> None:
            # not of the walk's own numbers, as handlers run in any order
            random = Random(f"{self.seed} {number}")
            for _ in range(random.choice((0, 0, 1, 3, 10))):
                await asyncio.sleep(0)
            if random.random() < 0.3:
                await self.gate.wait()

        def digest_of(number: int, body: bytes) -> str:
            if body != self.bodies[number]:
                self.mixed.append(number)  # what a handler raises becomes an answer
            return hashlib.sha256(body).hexdigest()

        def admit(head: Asking) -> Respond:
            number = number_of(head)

            async def answer(body: bytes) -> Answer:
                await pause(number)
                return Answer(digest_of(number, body).encode(), {"Content-Type": TYPE})

            return answer

        async def post(request: web.Request) -> web.Response:
            number = number_of(request)
            await pause(number)
            body = await read_body(request, LIMIT)
            await pause(number)
            return web.Response(text=digest_of(number, body))

        async def plain(request: web.Request) -> web.Response:
            number = number_of(request)
            await pause(number)
            return web.Response(text="x" * 200_000 if request.path == "/big" else str(number))

        async def stream(request: web.Request) -> web.StreamResponse:
            number, response = number_of(request), web.StreamResponse()
            await pause(number)
            await response.prepare(request)
            for _ in range(4):
                await response.write(b"y" * 40_000)
                await pause(number)
            if number % 10 == 0:
                raise ValueError("and no more")
            await response.write_eof()
            return response

        async def events(request: web.Request) -> NoReturn:
            number_of(request)
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(b"event")
                await asyncio.sleep(0)
                await self.gate.wait()

        async def failing(request: web.Request) -> NoReturn:
            number_of(request)
            await web.StreamResponse().prepare(request)
            raise ValueError("before the first byte")

        async def found(request: web.Request) -> NoReturn:
            number_of(request)
            raise web.HTTPFound("/elsewhere")

        app.router.add_post("/post", post)
        app.router.add_post("/early", plain)
        app.router.add_post("/pstream", stream)
        for path, handler in {"/big": plain, "/get": plain, "/stream": stream}.items():
            app.router.add_get(path, handler)
        for path, handler in {"/events": events, "/pre": failing, "/found": found}.items():
            app.router.add_get(path, handler, allow_head=False)
        add_fast_route(app, FastRoute("/", TYPE, FAST_LIMIT, admit))
        return app

    def draw_request(self) -> Sent:
        """Any request, with a number of its own."""
        random = self.random
        self.number += 1
        number, kind = self.number, random.choice(KINDS)
        if kind == "bad":
            return Sent(number, kind, "GET", random.choice(BAD), b"")
        asks = ("", "", "", "Connection: Upgrade\r\nUpgrade: h2c\r\n", "Expect: 100-continue\r\n", "Expect: more\r\n")
        more = "Connection: close\r\n" if random.random() < 0.05 else random.choice(asks)
        if kind == "old" and random.random() < 0.7:
            more = "Connection: keep-alive\r\n"
        path, method, version = f"/{kind}", "GET", "1.0" if kind == "old" else "1.1"
        if kind in BODIES:
            method = "POST"
        if kind in ("fast", "refused"):
            path = "/"
        elif kind == "old":
            path = "/get"
        elif kind == "head":
            method, path = "HEAD", random.choice(("/get", "/stream", "/"))
        type_ = "text/plain" if kind == "refused" else TYPE
        head = f"{method} {path} HTTP/{version}\r\nHost: a\r\nContent-Type: {type_}\r\nX-Number: {number}\r\n{more}"
        body = self.draw_body(number, kind) if kind in BODIES else b""
        self.bodies[number] = body
        return Sent(number, kind, method, head.encode() + self.framed(body, kind), body)

    def draw_body(self, number: int, kind: str) -> bytes:
        """A body, mostly of a size that its route takes, which says whose it is."""
        size = self.random.choice((0, 1, 10, 5_000, 70_000, 300_000, 700_000))
        if kind in ("fast", "refused"):
            size = min(size, 70_000) if self.random.random() < 0.9 else 200_000
        part = b"%d:%b;" % (number, self.random.randbytes(7).hex().encode())
        return (part * (size // len(part) + 1))[:size]

    def framed(self, body: bytes, kind: str) -> bytes:
        """What follows a head without its end: a length or chunks, and the body."""
        if kind not in BODIES:
            return b"\r\n"
        if self.random.random() < 0.6:
            return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        sizes = (1, 100, 5_000, 100_000) if len(body) < 20_000 else (5_000, 100_000)
        raw, at = b"Transfer-Encoding: chunked\r\n\r\n", 0
        while at < len(body):
            part = body[at : at + self.random.choice(sizes)]
            raw, at = raw + b"%x\r\n%b\r\n" % (len(part), part), at + len(part)
        return raw + b"0\r\n" + self.random.choice((b"", b"", b"", b"X-Trailer: y\r\n")) + b"\r\n"

    def connect(self) -> None:
        """A new client, with what it is going to send."""
        random = self.random
        wire = Wire(random.choice(("10.0.0.1", "10.0.0.2", "10.0.0.3")), tls=random.random() < 0.3)
        wire.protocol = connection = self.server()
        sent = [self.draw_request() for _ in range(random.choice((1, 1, 2, 3, 6)))]
        raw, whole = b"".join(one.raw for one in sent), len(sent)
        mode = random.choice(("keep", "keep", "end", "cut off"))
        wire.ends = mode == "end"
        if mode == "cut off":
            raw = raw[: random.randrange(len(raw) + 1)]
            ends = [sum(len(one.raw) for one in sent[: place + 1]) for place in range(len(sent))]
            whole, wire.ends = sum(end <= len(raw) for end in ends), random.random() < 0.5
        wire.unsent = raw
        laziness, temper = random.choice((0.0, 0.0, 0.9, 1.0)), random.choice((0.0, 0.0, 0.0, 0.2))
        self.clients.append(Client(wire, connection, sent, whole, laziness, temper))
        connection.connection_made(wire)

    async def walk(self, steps: int) -> None:
        """Take so many steps."""
        stops = self.random.choice((0.0, 0.0, 0.3, 1.0))
        for _ in range(steps):
            await self.step(stops)
            if self.random.random() < 0.8:
                await self.turn_over(self.random.choice((1, 1, 2, 6)))
            sources = self.admission._sources.values()
            records = [record for source in sources for phase in source.phases.values() for record in phase]
            assert sum(record.has_turn for record in records) == self.admission.turns
            assert sum(record.held for record in records) == self.admission._held
            assert len(records) == len(self.admission)

    async def step(self, stops: float) -> None:
        """Something happens; ``stops``: the probability that the server does if it could."""
        random, what = self.random, self.random.random()
        if what < 0.08:
            if len(self.clients) < MOST_CONNECTIONS:
                self.connect()
        elif what < 0.72:
            if self.clients:
                self.act(random.choice(self.clients), what)
        elif what < 0.8:
            self.gate.set()
            if random.random() < 0.5:  # deadlines pass while answers are about to be given
                self.pass_time(random.choice((1.0, 12.0)), sweeps=True)
            await self.turn_over(random.choice((1, 3)))
            self.gate.clear()
        elif what < 0.84:
            self.pass_time(random.choice((0.5, 1.0, 4.0, 12.0, 30.0)), sweeps=random.random() < 0.5)
        elif what < 0.86 and random.random() < stops:
            self.stopped = True
            # as Server does, but in the same order in every process
            for client in self.clients:
                if client.connection in self.server.connections:
                    client.connection.close_idle()

    def act(self, client: Client, what: float) -> None:
        """A client sends, reads or resets its connection."""
        random, wire = self.random, client.wire
        if what < 0.5:
            wire.deliver(random.choice((1, 10, 100, 5_000, 65_536, 262_144)))
        elif what < 0.7:
            if random.random() >= client.laziness:
                wire.drain(random.choice((100, 20_000, 200_000)))
        elif random.random() < client.temper and not wire.lost:
            wire.reset()

    def pass_time(self, seconds: float, *, sweeps: bool) -> None:
        assert isinstance(self.loop, StillLoop)
        self.loop.now += seconds
        if sweeps:
            self.admission.sweep(self.loop.now)

    async def turn_over(self, times: int) -> None:
        """Let the loop run whatever can run, so many times."""
        for _ in range(times):
            await asyncio.sleep(0)

    async def settle(self) -> None:
        """Everybody sends and reads everything, readers of streams without end leave, and handlers go on."""
        self.gate.set()
        for client in self.clients:
            if any(one.kind == "events" for one in client.sent):
                client.wire.leave()
        quiet = 0
        for _ in range(3_000):
            busy = [client.wire for client in self.clients if client.wire.unread or client.wire.has_more]
            for wire in busy:
                wire.drain(1 << 20)
                wire.deliver(65_536)
            await self.turn_over(3)
            quiet = 0 if busy else quiet + 1
            if quiet > SETTLED:
                break
        assert self.admission.turns == self.admission.waiting == 0

    def check(self, client: Client) -> None:
        """Check what a client has got, and the state in which its connection was left."""
        wire, connection = client.wire, client.connection
        found = read_replies(wire.read, [one.method for one in client.sent])
        replies = found.replies
        assert not wire.written_late, "something is sent behind the server's own end"
        assert len(replies) <= len(client.sent), "more answers than requests"
        assert wire.lost or not found.rest, "half a head, and no end"
        assert not any(reply.last or not reply.complete for reply in replies[:-1]), "an answer behind the last one"
        for sent, reply in zip(client.sent, replies, strict=False):
            check_body(sent, reply)
        if wire.lost:
            return
        assert not wire.unsent, "nobody reads what was sent"
        assert not wire.paused or connection._answering is not None, "paused, and nothing to wait for"
        if not connection._is_last:
            assert all(reply.complete for reply in replies), "half an answer, and the connection is kept"
            assert len(replies) >= client.whole, "no answer, and the connection is kept"

    async def let_time_pass(self) -> None:
        """With time, everything ends."""
        for _ in range(100):
            self.pass_time(5.0, sweeps=True)
            await self.turn_over(5)
            for client in self.clients:
                client.wire.drain(1 << 20)
        admission = self.admission
        assert (len(admission), admission.turns, admission._held) == (0, 0, 0)
        assert not admission._sources
        assert not admission._queue
        assert not self.server.connections
        assert asyncio.all_tasks() == {asyncio.current_task()}


def check_body(sent: Sent, reply: Reply) -> None:
    """Check that an answer is the one to this request."""
    if reply.status != 200 or not reply.complete or sent.method == "HEAD":
        return
    if sent.kind in ("fast", "post"):
        assert reply.body == hashlib.sha256(sent.body).hexdigest().encode(), "the answer to another request"
    elif sent.kind in ("get", "old", "early"):
        assert reply.body == str(sent.number).encode(), "the answer to another request"


def assert_walks(seeds: Iterable[int]) -> None:
    """Take the walks with these seeds; a failure has a note of its own."""
    set_log_level("critical")
    for seed in seeds:
        try:
            with asyncio.Runner(loop_factory=StillLoop) as runner:
                runner.run(Walk(seed).run())
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_whatever_happens_on_connections_each_request_has_one_answer_and_nothing_is_left() -> None:
    assert_walks(range(250))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(250, 3_250, 1_000))
def test_in_thousands_of_walks_each_request_has_one_answer_and_nothing_is_left(first: int) -> None:
    assert_walks(range(first, first + 1_000))
