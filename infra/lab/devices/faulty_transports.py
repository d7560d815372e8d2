"""Transports that behave like faulty clients: they break off within a body, or take very long to send it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit

from tacit.adapters.network.origins import require_secure_url
from tacit.adapters.network.tls import ClientTls
from tacit.ports import HttpResponse, TransportError

MAX_ANSWER = 1 << 20
TIMEOUT = 30.0
PIECES = 8
PAUSE_SECONDS = 0.25


class _RawTransport:
    """One connection per request, HTTP/1.1 written by hand."""

    def __init__(self, tls: ClientTls | None = None, *, insecure_http: bool = False) -> None:
        self._tls = tls or ClientTls()
        self._insecure_http = insecure_http

    @contextlib.asynccontextmanager
    async def _connected(self, url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        require_secure_url(url, insecure_http=self._insecure_http)
        target = urlsplit(url)
        secure = target.scheme == "https"
        tls = self._tls.context() if secure else None
        try:
            async with asyncio.timeout(TIMEOUT):
                port = target.port or (443 if secure else 80)
                reader, writer = await asyncio.open_connection(target.hostname, port, ssl=tls, limit=MAX_ANSWER)
                try:
                    yield reader, writer
                finally:
                    writer.close()
                    with contextlib.suppress(OSError):
                        await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
            raise TransportError(f"POST failed: {type(error).__name__}") from error


class AbortingTransport(_RawTransport):
    """Sends half of a request's body and breaks the connection off."""

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        """Send half of the body and close the connection. Always raises ``TransportError``."""
        async with self._connected(url) as (_, writer):
            writer.write(_head(method, url, headers, len(body)) + body[: len(body) // 2])
            await writer.drain()
        raise TransportError("broken off")


class SlowTransport(_RawTransport):
    """Sends a request's body in ``PIECES`` pieces with a pause after each."""

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        """Send a request slowly and return the response. Raises ``TransportError``."""
        async with self._connected(url) as (reader, writer):
            writer.write(_head(method, url, headers, len(body)))
            size = -(-len(body) // PIECES)
            for at in range(0, len(body), size):
                writer.write(body[at : at + size])
                await writer.drain()
                await asyncio.sleep(PAUSE_SECONDS)
            return _answer(await reader.read(MAX_ANSWER), await _rest(reader))


async def _rest(reader: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := await reader.read(1 << 16):
        size += len(part)
        if size > MAX_ANSWER:
            raise TransportError("the response is larger than allowed")
        parts.append(part)
    return b"".join(parts)


def _head(method: str, url: str, headers: Mapping[str, str] | None, size: int) -> bytes:
    target = urlsplit(url)
    lines = [f"{method} {target.path or '/'} HTTP/1.1", f"Host: {target.netloc}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, f"Content-Length: {size}", "", ""]).encode("ascii")


def _answer(first: bytes, rest: bytes) -> HttpResponse:
    """Parse a whole response, whose body ends with the connection. Raises ``TransportError``."""
    head, _, body = (first + rest).partition(b"\r\n\r\n")
    status_line, *lines = head.decode("latin-1").split("\r\n")
    words = status_line.split()
    if len(words) < 2 or not words[1].isdigit():
        raise TransportError("the answer is not an HTTP response")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("content-length", str(len(body))) != str(len(body)):
        raise TransportError("the answer was cut off")
    return HttpResponse(int(words[1]), headers, body)
