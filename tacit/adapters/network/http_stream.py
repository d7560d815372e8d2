"""Streaming responses, read piece by piece (``tacit.adapters.network.http`` waits for the whole response).

The same rules apply: plain HTTP on loopback only, no redirects, cookies, content coding or proxy settings, no header
that identifies the software, and a limit on silence.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tacit.adapters.network.origins import require_secure_url
from tacit.adapters.network.tls import ClientTls, tls_reason
from tacit.extras import require_extra
from tacit.ports import HttpResponse, TransportError

if TYPE_CHECKING:
    import aiohttp

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 60.0
"""Seconds without a byte after which a stream counts as ended; servers send something every 15 s."""
MOST_WHOLE = 1 << 20
_SILENT_HEADERS = ("User-Agent", "Accept-Encoding", "Accept")


@dataclass(frozen=True)
class Stream:
    """A response that has begun; headers by lower-case name."""

    status: int
    headers: Mapping[str, str]
    _response: aiohttp.ClientResponse = field(repr=False)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield data as it arrives, until the response ends. Raises ``TransportError``."""
        import aiohttp

        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise TransportError(f"the stream broke off: {type(error).__name__}") from error

    async def whole(self) -> HttpResponse:
        """Read the whole response, where it is a short one. Raises ``TransportError``."""
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
            if len(body) > MOST_WHOLE:
                raise TransportError("the answer is too large")
        return HttpResponse(self.status, self.headers, bytes(body))


class Streams:
    """Opens streams; each has its own connection, which ends with it."""

    def __init__(self, tls: ClientTls | None = None, *, insecure_http: bool = False) -> None:
        self._tls = (tls or ClientTls()).live()
        self._insecure_http = insecure_http

    @asynccontextmanager
    async def get(self, url: str, headers: Mapping[str, str]) -> AsyncIterator[Stream]:
        """Request ``url`` and yield the response. Raises ``UsageError`` for a URL that P7 forbids, and
        ``TransportError``."""
        require_extra("a stream of events", "cli", "aiohttp")
        import aiohttp

        encrypted = require_secure_url(url, insecure_http=self._insecure_http).startswith("https://")
        context: ssl.SSLContext | bool = self._tls.current() if encrypted else True
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
        session = aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_SILENT_HEADERS,
            timeout=timeout,
        )
        async with session:
            try:
                response = await session.get(url, headers=dict(headers), ssl=context, allow_redirects=False)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise TransportError(f"GET failed: {tls_reason(error) or type(error).__name__}") from error
            try:
                found = {name.lower(): value for name, value in response.headers.items()}
                yield Stream(response.status, found, response)
            finally:
                await session.close()  # aborts the connection: TLS would wait for the peer, even after the loop's end
                response.close()
