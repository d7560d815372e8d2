"""HTTP between parties, and between devices and parties: a pool of plain HTTP/1.1 connections per origin.

No redirects, cookies, content coding or proxy settings; no header that identifies the software; everything that is read
is bounded. An exchange takes a fifth of the processor time of aiohttp's client, which is most of what a relay costs.

A kept connection that its peer has just closed shows only when the next request fails. Whether that request may be sent
again on a fresh connection depends on what a second copy would do (RFC 9110 section 9.2.2, RFC 9112 section 9.3.1):

* nothing of it was written: it is sent again;
* an idempotent method, or a POST whose sender says that its peers are idempotent by content (``repeat_posts``: DAP
  uploads and aggregation jobs are), on a connection that was used before and closed without a byte of an answer: it is
  sent again once;
* everything else, above all a relay's messages (RFC 9458 section 6.2 asks for a positive sign that the request was not
  processed, and a gateway answers a second copy with a refusal): never. The client gets a 502 and sends a fresh
  request.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from tacit.adapters.network.happy_eyeballs import connect
from tacit.adapters.network.http1 import Bounds, ClientConnection, UnansweredError
from tacit.adapters.network.origins import origin_of, require_secure_url
from tacit.adapters.network.tls import ClientTls, Make, tls_reason
from tacit.errors import UsageError
from tacit.ports import HttpResponse, TransportError

IDLE_SECONDS = 15.0
"""A connection that has been idle for longer is not reused; below the 75 s after which our servers close one."""
AGE_SECONDS = 300.0
"""Connections are closed at this age, so that load spreads again over peers behind one name or port."""

_IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})
_FIXED = frozenset({"host", "content-length", "transfer-encoding", "connection", "expect", "upgrade"})
_KNOWN_LENGTH = 512
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_METHOD = re.compile(r"[A-Z]+")
_TARGET = re.compile(r"/[!-~]*")
_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t -~\x80-\xff]*")


@dataclass(frozen=True, slots=True)
class _Place:
    """The address in a URL; ``target`` and ``host`` as they appear in a request."""

    origin: str
    name: str
    port: int
    encrypted: bool
    host: str
    target: str


class HttpTransport:
    """A ``Transport`` over real HTTP. Close it (or use ``async with``) in the loop that used it.

    * ``timeout``: seconds for a whole exchange, including waiting for a connection; ``connect_timeout`` for making one.
      ``upload_rate``: bytes a second that a body may take in addition.
    * ``max_response``, ``max_head``: bytes of a response's body and of its head; ``max_responses``: those of a body by
      URL, where they differ.
    * ``connections``: per origin; further requests wait in order of arrival.
    * ``origin_headers``: maps an origin (any URL of it) to headers that go to that origin only, such as
      ``{"Authorization": "Bearer ..."}``.
    * ``tls``: the trusted authorities and our certificate; ``insecure_http``: plain HTTP off loopback is allowed.
    * ``repeat_posts``: see the module's docstring.
    """

    def __init__(
        self,
        *,
        timeout: float = 30.0,
        connect_timeout: float = 10.0,
        upload_rate: float = math.inf,
        max_response: int = 16 << 20,
        max_responses: Mapping[str, int] | None = None,
        max_head: int = 32_768,
        connections: int = 256,
        origin_headers: Mapping[str, Mapping[str, str]] | None = None,
        tls: ClientTls | None = None,
        insecure_http: bool = False,
        repeat_posts: bool = False,
    ) -> None:
        if connections < 1:
            raise ValueError("a pool needs at least one connection")
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._upload_rate = upload_rate
        self._bounds = Bounds(max_head, max_response)
        self._max_responses = dict(max_responses or {})
        self._connections = connections
        self._origin_headers = {origin_of(url): dict(names) for url, names in (origin_headers or {}).items()}
        self._tls = (tls or ClientTls()).live()
        self._insecure_http = insecure_http
        self._repeated = _IDEMPOTENT | {"POST"} if repeat_posts else _IDEMPOTENT
        self._pools: dict[str, _Pool] = {}

    async def __aenter__(self) -> HttpTransport:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> HttpResponse:
        """One exchange; see ``tacit.ports.Transport``. Raises ``UsageError`` for a URL that P7 forbids, and
        ``ValueError`` for a method or header that HTTP does not allow or that is the transport's own."""
        find = _known_place_of if len(url) <= _KNOWN_LENGTH else _place_of
        place = find(url, self._insecure_http)
        extra = self._origin_headers.get(place.origin)
        head = _head(method, place, {**(headers or {}), **extra} if extra else headers, len(body))
        deadline = asyncio.get_running_loop().time() + self._timeout + len(body) / self._upload_rate
        pool = self._pools.get(place.origin) or self._open_pool(place)
        try:
            return await self._exchange(pool, method, head, body, deadline, self._max_responses.get(url))
        except TimeoutError as error:
            raise TransportError(f"{method} failed: TimeoutError") from error
        except OSError as error:  # ssl.SSLError is one
            raise TransportError(f"{method} failed: {tls_reason(error) or type(error).__name__}") from error

    async def close(self) -> None:
        """Close all connections and fail waiting requests. The transport may be used again afterwards."""
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            await pool.close()

    async def _exchange(
        self, pool: _Pool, method: str, head: bytes, body: bytes, deadline: float, most: int | None
    ) -> HttpResponse:
        may_repeat = True
        while True:
            connection, used_before = await pool.acquire(deadline)
            try:
                return await connection.exchange(head, body, deadline, without_body=method == "HEAD", most_body=most)
            except UnansweredError as error:
                harmless = not error.sent or (used_before and method in self._repeated)
                if not (may_repeat and harmless):
                    raise
                may_repeat = False
                pool.drop_idle()
            finally:
                pool.release(connection)

    def _open_pool(self, place: _Place) -> _Pool:
        context = self._tls.current if place.encrypted else None
        pool = _Pool(place, self._connections, self._connect_timeout, self._bounds, context)
        return self._pools.setdefault(place.origin, pool)


class _Pool:
    """The connections to one origin. A place in ``_open`` belongs to a connection, or to whoever is making one."""

    def __init__(self, place: _Place, limit: int, connect_timeout: float, bounds: Bounds, context: Make | None) -> None:
        self._place = place
        self._limit = limit
        self._connect_timeout = connect_timeout
        self._bounds = bounds
        self._context = context
        self._open = 0
        self._alive: set[ClientConnection] = set()
        self._idle: deque[ClientConnection] = deque()
        self._waiting: deque[asyncio.Future[ClientConnection | None]] = deque()
        self._closed = False
        self._ended = asyncio.Event()

    async def acquire(self, deadline: float) -> tuple[ClientConnection, bool]:
        """Return a connection for exclusive use, and whether it was used before. Raises ``TransportError``,
        ``TimeoutError`` or ``OSError``."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.popleft()
            if connection.usable and now - connection.idle_since < IDLE_SECONDS:
                return connection, True
            connection.abort()
            self._give_up_place()
        if self._closed:
            raise TransportError("the transport is closed")
        if self._open >= self._limit:
            connection_or_place = await self._wait(deadline)
            if connection_or_place is not None:
                return connection_or_place, True
        else:
            self._open += 1
        try:
            async with asyncio.timeout_at(min(deadline, now + self._connect_timeout)):
                return await self._connect(), False
        except BaseException:
            self._give_up_place()
            raise

    def release(self, connection: ClientConnection) -> None:
        """Return a connection from ``acquire``: it goes to the longest waiting request, into the pool, or is closed."""
        now = asyncio.get_running_loop().time()
        if self._closed or not connection.usable or now - connection.opened_at > AGE_SECONDS:
            connection.abort()
            self._give_up_place()
        elif not self._hand_over(connection):
            connection.idle_since = now
            self._idle.append(connection)

    def drop_idle(self) -> None:
        """Close idle connections: the peer has closed one, so probably all."""
        while self._idle:
            self._idle.popleft().abort()
            self._give_up_place()

    async def close(self) -> None:
        """Close every connection and wait until all are closed."""
        self._closed = True
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(TransportError("the transport is closed"))
        for connection in tuple(self._alive):
            connection.abort()
        self._ended.clear()
        if self._alive:
            await self._ended.wait()
        await asyncio.sleep(0)

    async def _wait(self, deadline: float) -> ClientConnection | None:
        """Wait for a connection, or for a free place to make one (None)."""
        waiter: asyncio.Future[ClientConnection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout_at(deadline):
                return await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                connection = waiter.result()
                if connection is None:
                    self._give_up_place()
                else:
                    self.release(connection)
            raise

    async def _connect(self) -> ClientConnection:
        loop = asyncio.get_running_loop()
        place = self._place
        _, connection = await connect(
            lambda: ClientConnection(self._bounds, self._lost, encrypted=place.encrypted),
            place.name,
            place.port,
            ssl=None if self._context is None else self._context(),
            server_hostname=place.name if place.encrypted else None,
        )
        self._alive.add(connection)
        if self._closed:
            connection.abort()
            raise TransportError("the transport is closed")
        connection.opened_at = loop.time()
        return connection

    def _lost(self, connection: ClientConnection) -> None:
        self._alive.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
            self._give_up_place()
        if not self._alive:
            self._ended.set()

    def _hand_over(self, connection: ClientConnection | None) -> bool:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False

    def _give_up_place(self) -> None:
        if self._closed or not self._hand_over(None):
            self._open -= 1


def _place_of(url: str, insecure_http: bool) -> _Place:
    origin = require_secure_url(url, insecure_http=insecure_http)
    parts, written = urlsplit(url), urlsplit(origin)
    encrypted = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    name, port = written.hostname or "", written.port or 0
    if not _TARGET.fullmatch(target) or not name.isascii():
        raise UsageError("a URL must be written in visible ASCII characters")
    host = f"[{name}]" if ":" in name else name
    if port != (443 if encrypted else 80):
        host = f"{host}:{port}"
    return _Place(origin, name, port, encrypted, host, target)


_known_place_of = lru_cache(maxsize=4096)(_place_of)


def _head(method: str, place: _Place, headers: Mapping[str, str] | None, length: int) -> bytes:
    """Request line and header section of a request."""
    fields = _fields(tuple(headers.items())) if headers else ""
    if not _METHOD.fullmatch(method):
        raise ValueError("not an HTTP method")
    size = f"Content-Length: {length}\r\n" if length or method in _WITH_BODY else ""
    return f"{method} {place.target} HTTP/1.1\r\nHost: {place.host}\r\n{fields}{size}\r\n".encode("latin-1")


@lru_cache(maxsize=256)
def _fields(headers: tuple[tuple[str, str], ...]) -> str:
    """Header lines, cached because a service sends few different ones."""
    lines = []
    for name, value in headers:
        line = f"{name}: {value}"
        if not _FIELD.fullmatch(line) or name.lower() in _FIXED:
            raise ValueError("not a header that may be sent")
        lines.append(line + "\r\n")
    return "".join(lines)
