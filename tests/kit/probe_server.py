"""An application whose fast routes are served as such or as its others are, and a client that reads answers as h11
does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import h11
from aiohttp import web

from infra.lab.kit.entropy import SeededEntropy
from tacit.adapters.system import SystemClock
from tacit.errors import Abort, DecodeError, Refusal
from tacit.ports import HttpResponse, TransportError
from tacit.service.app import COUNT, ServiceEnv, make_app, read_body
from tacit.service.base.config import Limits
from tacit.service.fast_routes import FAST_ROUTES, add_fast_route
from tacit.service.http.auth import require_bearer, token_digest
from tacit.service.http.fast_route import Asking, FastRoute, Respond
from tacit.service.http.listener import listening_sockets
from tacit.service.http.problems import Answer
from tacit.service.http.server import Server
from tacit.service.run import Runner

PATIENCE = 60.0
LIMIT = 100_000
TYPE = "application/x-test;message=one"
DIGEST = token_digest("let-me-in")
SERVERS = ("fast", "application")
FAULTS: dict[str, Exception] = {
    "abort": Abort(
        "urn:x:y", "this time", status=409, title="Always.", extensions={"n": 7}, headers={"Retry-After": "3"}
    ),
    "decode": DecodeError("Report is truncated"),
    "refusal": Refusal("batch-floor", "B is 3, the floor is 10"),
    "transport": TransportError("POST failed"),
    "late": TimeoutError(),
}


class _Nowhere:
    """A transport for services that call nobody."""

    async def request(self, method: str, url: str, **_rest: object) -> HttpResponse:
        raise TransportError(f"{method} {url}")


@dataclass
class Served:
    """An application, served in one of the two ways. ``bodies``: what handlers have read; ``open`` lets them answer;
    ``counted``: route and status of every answer that was counted."""

    runner: Runner
    bodies: list[bytes]
    open: asyncio.Event
    counted: list[tuple[str, int]]
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self.runner.addresses[0][:2])
        self.writers.append(writer)
        return reader, writer

    async def exchange(self, raw: bytes) -> tuple[int, dict[str, str], bytes, bool]:
        """Status, fields without the time, body, and whether the server then closed the connection."""
        reader, writer = await self.connect()
        writer.write(raw)
        answer = await read_answer(reader, raw.partition(b" ")[0])
        writer.write_eof()
        return answer

    @property
    def server(self) -> Server:
        assert self.runner.server is not None
        return self.runner.server


async def read_answer(reader: asyncio.StreamReader, method: bytes = b"POST") -> tuple[int, dict[str, str], bytes, bool]:
    """The next answer, as h11 reads it."""
    peer = h11.Connection(h11.CLIENT)
    known = method if method in {b"POST", b"GET", b"HEAD", b"OPTIONS"} else b"POST"
    peer.send(h11.Request(method=known, target="/", headers=[("Host", "a")]))
    peer.send(h11.EndOfMessage())
    status, headers, body = 0, {}, b""
    async with asyncio.timeout(PATIENCE):
        while True:
            event = peer.next_event()
            if event is h11.NEED_DATA:
                peer.receive_data(await reader.read(65_536))
            elif isinstance(event, h11.Response):
                status, headers = event.status_code, {k.decode(): v.decode() for k, v in event.headers}
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
    assert headers.pop("date"), "every answer has the time"
    return status, headers, body, headers.get("connection") == "close"


def make_probe(bodies: list[bytes], opened: asyncio.Event) -> web.Application:
    """An application with one fast route for everybody, and one that wants a token and fails on demand."""
    app = make_app("probe", ServiceEnv(SystemClock(), SeededEntropy(1), _Nowhere()), max_body=LIMIT)

    def admit(_head: Asking) -> Respond:
        return echo

    async def echo(body: bytes) -> Answer:
        bodies.append(body)
        await opened.wait()
        return Answer(body, {"Content-Type": TYPE})

    def admit_known(head: Asking) -> Respond:
        require_bearer(head, DIGEST)
        how = head.match_info["how"]

        async def fail(body: bytes) -> Answer:
            bodies.append(body)
            if how in FAULTS:
                raise FAULTS[how]
            return Answer()

        return fail

    def explain(abort: Abort, named: Mapping[str, str]) -> None:
        abort.extensions = {**abort.extensions, "how": named["how"]}

    async def later(request: web.Request) -> web.Response:
        await opened.wait()
        return web.Response(text=str(len(await read_body(request, 1 << 20))))

    async def begun(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"some")
        raise ValueError("and no more")

    app.router.add_post("/later", later)
    app.router.add_post("/begun", begun)
    add_fast_route(app, FastRoute("/", TYPE, LIMIT, admit))
    add_fast_route(app, FastRoute("/known/{how}", TYPE, LIMIT, admit_known))
    return app


@asynccontextmanager
async def served(by: str, **limits: object) -> AsyncIterator[Served]:
    bodies: list[bytes] = []
    opened = asyncio.Event()
    opened.set()
    app, counted = make_probe(bodies, opened), list[tuple[str, int]]()
    app[COUNT] = lambda route, status, _began: counted.append((route, status))
    if by == "application":
        app[FAST_ROUTES].clear()
    runner = Runner(app, grace_seconds=1.0, limits=Limits.model_validate(limits))
    found = Served(runner, bodies, opened, counted)
    await runner.setup()
    try:
        await runner.listen(await listening_sockets("127.0.0.1", 0, backlog=100, reuse_port=False))
        yield found
    finally:
        for writer in found.writers:
            writer.transport.abort()
        opened.set()
        await runner.cleanup()


def request(
    body: bytes = b"abc", line: str = "POST / HTTP/1.1", *more: str, type_: str = TYPE, length: str = ""
) -> bytes:
    fields = ["Host: a", f"Content-Type: {type_}", f"Content-Length: {length or len(body)}", *more]
    return "\r\n".join([line, *fields, "", ""]).encode() + body


def chunked(*parts: bytes, more: str = "") -> bytes:
    head = f"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: {TYPE}\r\nTransfer-Encoding: chunked\r\n{more}\r\n".encode()
    return head + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


KNOWN = "Authorization: Bearer let-me-in"


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - what a server has read from a socket is no event here
            await asyncio.sleep(0.01)


def head_of(*fields: str | bytes, line: bytes = b"POST / HTTP/1.1\r\n") -> bytes:
    """A head with these lines, each with its own end, and the end of the head."""
    lines = [field.encode("latin-1") + b"\r\n" if isinstance(field, str) else field for field in fields]
    return line + f"Host: a\r\nContent-Type: {TYPE}\r\n".encode() + b"".join(lines) + b"\r\n"
