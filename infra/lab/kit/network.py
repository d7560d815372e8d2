"""Networks for tests: real applications without sockets, and faults exactly where a test wants them."""

from __future__ import annotations

import asyncio
import copy
import http.client
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from tacit.adapters.network.origins import origin_of
from tacit.ports import Clock, HttpResponse, Transport, TransportError
from tacit.service.http.listener import listening_sockets
from tacit.service.run import Runner
from tacit.time_format import date_field

RESPONSE_SECONDS = 60.0


class InProcessTransport:
    """A ``Transport`` that drives mounted aiohttp applications through their real HTTP server protocol, in
    memory.

    Requests are serialised, parsed, routed and answered as on a socket (middlewares, limits and header rules
    included); only the kernel is left out. Mount applications before ``start``; ``mount`` after it starts
    them.
    """

    def __init__(self, apps: Mapping[str, web.Application] | None = None, *, client_address: str = "127.0.0.1") -> None:
        self._apps: dict[str, web.Application] = {origin_of(url): app for url, app in (apps or {}).items()}
        self._runners: dict[str, Runner] = {}
        self._client_address = client_address

    async def __aenter__(self) -> InProcessTransport:
        await self.start()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.close()

    def add(self, url: str, app: web.Application) -> None:
        """Mount ``app`` under the origin of ``url``; ``start`` will start it."""
        self._apps[origin_of(url)] = app

    async def start(self) -> None:
        """Start every mounted application that does not run yet, in the order of mounting."""
        for origin, app in self._apps.items():
            if origin not in self._runners:
                runner = Runner(app)
                await runner.setup()
                self._runners[origin] = runner

    async def mount(self, url: str, app: web.Application) -> None:
        """Mount and start ``app``, replacing the application that ran under that origin."""
        await self.unmount(url)
        self.add(url, app)
        await self.start()

    async def listen(self, url: str) -> str:
        """Let the application of that origin listen at a port of loopback too, as long as it runs; returns its URL
        there."""
        runner = self._runners[origin_of(url)]
        await runner.listen(await listening_sockets("127.0.0.1", 0, backlog=100, reuse_port=False))
        return f"http://127.0.0.1:{runner.addresses[-1][1]}"

    async def unmount(self, url: str) -> None:
        """Stop the application of that origin; requests to it then fail with ``TransportError``."""
        origin = origin_of(url)
        self._apps.pop(origin, None)
        runner = self._runners.pop(origin, None)
        if runner is not None:
            await runner.cleanup()

    async def close(self) -> None:
        """Stop all applications, the last mounted first."""
        for origin in reversed(list(self._runners)):
            await self._runners.pop(origin).cleanup()

    def seen_from(self, client_address: str) -> InProcessTransport:
        """The same applications, which see the requests of this view come from ``client_address``."""
        view = copy.copy(self)
        view._client_address = client_address
        return view

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> HttpResponse:
        """Make one exchange with the application mounted at the URL's origin."""
        return await self.half_sent(method, url, headers=headers, body=body, held=0).finish()

    def half_sent(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes, held: int = 1
    ) -> HalfSent:
        """Begin an exchange, and hold back the last ``held`` bytes of the body until ``HalfSent.finish``."""
        runner = self._runners.get(origin_of(url))
        server = runner.server if runner is not None else None
        if server is None:
            raise TransportError(f"{method} failed: no application under this origin")
        return HalfSent(
            server(), _Pipe(self._client_address), method, _serialise(method, url, headers or {}, body), held
        )


class HalfSent:
    """A request that a server has begun to read."""

    def __init__(self, protocol: Any, pipe: _Pipe, method: str, message: bytes, held: int) -> None:
        self._protocol, self._pipe, self._method = protocol, pipe, method
        self._rest = message[len(message) - held :]
        protocol.connection_made(pipe)
        protocol.data_received(message[: len(message) - held])

    async def finish(self) -> HttpResponse:
        """Send the rest; returns the answer."""
        try:
            if self._rest:
                self._protocol.data_received(self._rest)
            await asyncio.wait_for(self._pipe.closed, RESPONSE_SECONDS)
        except TimeoutError as error:
            raise TransportError(f"{self._method} failed: no response") from error
        finally:
            self._protocol.connection_lost(None)
        return _parse(self._method, self._pipe.written)


class _Pipe(asyncio.Transport):
    """The server's end of a connection. It keeps what is written; ``closed`` is done once the server closes."""

    def __init__(self, client_address: str) -> None:
        super().__init__({"peername": (client_address, 0), "sockname": ("127.0.0.1", 0)})
        self.written = bytearray()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self.write(data)

    def is_closing(self) -> bool:
        return self.closed.done()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.close()

    def close(self) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    def abort(self) -> None:
        self.close()

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        return

    def resume_reading(self) -> None:
        return

    def is_reading(self) -> bool:
        return True


def _serialise(method: str, url: str, headers: Mapping[str, str], body: bytes) -> bytes:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body or method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class _Received:
    """The part of a socket that ``http.client`` needs: its bytes as a file."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *_arguments: object) -> io.BytesIO:
        return io.BytesIO(self._data)


def _parse(method: str, data: bytes | bytearray) -> HttpResponse:
    response = http.client.HTTPResponse(_Received(bytes(data)), method=method)  # type: ignore[arg-type]
    try:
        response.begin()
        body = response.read()
    except (http.client.HTTPException, ValueError) as error:
        raise TransportError(f"{method} failed: {type(error).__name__}") from error
    finally:
        response.close()
    headers: dict[str, str] = {}
    for name, value in response.getheaders():
        key = name.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return HttpResponse(response.status, headers, body)


class FaultKind(Enum):
    """Where an exchange breaks, seen from the peer's handler."""

    LOSE_REQUEST = "lose_request"  # the peer never acts
    LOSE_RESPONSE = "lose_response"  # the peer acts, but the caller does not learn of it
    DELAY = "delay"  # the request arrives late
    DUPLICATE = "duplicate"  # the peer gets the request twice; the caller gets the second answer


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one exchange; ``seconds`` is the time of a ``DELAY``."""

    kind: FaultKind
    seconds: float = 0.0


LOSE_REQUEST = Fault(FaultKind.LOSE_REQUEST)
LOSE_RESPONSE = Fault(FaultKind.LOSE_RESPONSE)
DUPLICATE = Fault(FaultKind.DUPLICATE)


def delay(seconds: float) -> Fault:
    """Return the fault that makes a request arrive ``seconds`` late."""
    return Fault(FaultKind.DELAY, seconds)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request as a plan sees it: its position among all requests of this transport, method and URL."""

    index: int
    method: str
    url: str
    body: bytes = field(repr=False, default=b"")


Plan = Callable[[Exchange], Fault | None]


def no_faults(_exchange: Exchange) -> Fault | None:
    return None


def at(faults: Mapping[int, Fault]) -> Plan:
    """Plan faults at the given request positions (0 is the first)."""
    return lambda exchange: faults.get(exchange.index)


def matching(text: str, fault: Fault, *, times: int | None = None, method: str | None = None) -> Plan:
    """Plan ``fault`` for the first ``times`` (None: all) requests whose URL contains ``text`` (and whose method is
    ``method``).
    """
    left = [times]

    def plan(exchange: Exchange) -> Fault | None:
        if text not in exchange.url or (method is not None and method != exchange.method) or left[0] == 0:
            return None
        if left[0] is not None:
            left[0] -= 1
        return fault

    return plan


class FaultyTransport:
    """Adds faults to ``inner`` as ``plan`` says, and cuts off the origins named by ``partition``.

    Deterministic: the same calls in the same order meet the same faults.
    """

    def __init__(self, inner: Transport, plan: Plan = no_faults, *, clock: Clock | None = None) -> None:
        self.plan = plan
        self.exchanges: list[Exchange] = []
        self.dated: Callable[[], float] | None = None
        """The clock of whoever answers (POSIX seconds), where it is another one than the network's applications have.
        """
        self._inner = inner
        self._clock = clock
        self._cut: set[str] = set()

    def partition(self, *urls: str) -> None:
        """Let no request reach these origins from now on."""
        self._cut.update(origin_of(url) for url in urls)

    def heal(self) -> None:
        """Let requests reach every origin again."""
        self._cut.clear()

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> HttpResponse:
        """Make one exchange, with the fault that the plan has for it."""
        exchange = Exchange(len(self.exchanges), method, url, body)
        self.exchanges.append(exchange)
        fault = self.plan(exchange)
        kind = fault.kind if fault is not None else None
        if origin_of(url) in self._cut or kind is FaultKind.LOSE_REQUEST:
            raise TransportError(f"{method} failed: request lost")
        if kind is FaultKind.DELAY and fault is not None:
            if self._clock is None:
                raise ValueError("a delay needs a clock")
            await self._clock.sleep(fault.seconds)
        response = await self._inner.request(method, url, headers=headers, body=body)
        if kind is FaultKind.DUPLICATE:
            response = await self._inner.request(method, url, headers=headers, body=body)
        if kind is FaultKind.LOSE_RESPONSE:
            raise TransportError(f"{method} failed: response lost")
        if self.dated is not None:
            return replace(response, headers={**response.headers, "date": date_field(int(self.dated()))})
        return response
