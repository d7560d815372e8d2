"""HTTP between parties over one pooled aiohttp session.

The session follows no redirect, keeps no cookie, decodes no content coding, adds no header that would tell
which software speaks, reads no proxy settings and bounds what it reads.
"""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp
from yarl import URL

from tacit.adapters.origins import origin_of, require_secure_url
from tacit.adapters.tls import ClientTls, tls_reason
from tacit.ports import HttpResponse, TransportError

__all__ = ["AiohttpTransport", "ClientTls"]

_SILENT_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class AiohttpTransport:
    """A ``Transport`` over real HTTP. Close it (or use ``async with``) in the loop that used it.

    ``origin_headers`` maps an origin (any URL of it) to headers that go to that origin only, such as
    ``{"Authorization": "Bearer ..."}``. ``timeout`` (seconds) covers a whole exchange, ``max_response`` is
    in bytes.
    """

    def __init__(
        self,
        *,
        timeout: float = 30.0,
        max_response: int = 16 << 20,
        connections: int = 100,
        origin_headers: Mapping[str, Mapping[str, str]] | None = None,
        tls: ClientTls | None = None,
        insecure_http: bool = False,
    ) -> None:
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._max_response = max_response
        self._connections = connections
        self._origin_headers = {origin_of(url): dict(names) for url, names in (origin_headers or {}).items()}
        self._tls = (tls or ClientTls()).live()
        self._insecure_http = insecure_http
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> AiohttpTransport:
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
        """One exchange; see ``tacit.ports.Transport``. Raises ``UsageError`` for a URL that P7 forbids."""
        origin = require_secure_url(url, insecure_http=self._insecure_http)
        sent = {**(headers or {}), **self._origin_headers.get(origin, {})}
        try:
            async with self._open_session().request(
                method,
                URL(url, encoded=True),
                headers=sent,
                data=body or None,
                allow_redirects=False,
                ssl=self._tls.current() if origin.startswith("https:") else True,
            ) as response:
                return HttpResponse(response.status, _flatten(response.headers), await self._read(response))
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise TransportError(f"{method} failed: {tls_reason(error) or type(error).__name__}") from error

    async def close(self) -> None:
        """Close the pooled connections. The transport may be used again afterwards."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=self._connections,
                ttl_dns_cache=60,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=_SILENT_HEADERS,
                auto_decompress=False,
                trust_env=False,
            )
        return self._session

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        if (response.content_length or 0) > self._max_response:
            raise TransportError("the response is larger than allowed")
        parts: list[bytes] = []
        size = 0
        async for part in response.content.iter_any():
            size += len(part)
            if size > self._max_response:
                raise TransportError("the response is larger than allowed")
            parts.append(part)
        return b"".join(parts)


def _flatten(headers: Mapping[str, str]) -> dict[str, str]:
    """Lower-case names; repeated fields joined by ", " (RFC 9110 section 5.2)."""
    joined: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined
