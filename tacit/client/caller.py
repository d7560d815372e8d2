"""Sends a request to the admin API, repeats it after pauses as long as that may help, and reads the answer.

Every request may be repeated safely. All attempts of a POST have the same ``Idempotency-Key``, so that it is carried
out once; an edit or a deletion has the ETag that was read. The person's key is sent only to the origin of the URL: no
redirect is followed, and no address in an answer is used.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

from tacit.answers import may_pass
from tacit.backoff import Backoff
from tacit.client.errors import ApiError, error_of
from tacit.codec import b64url
from tacit.errors import DecodeError
from tacit.media_types import JSON
from tacit.operations.calls import NoAnswerError
from tacit.ports import Clock, Entropy, HttpResponse, Transport, TransportError
from tacit.retry_after import retry_after

PAUSES: Final = Backoff(0.25, 8.0)
_KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class Answered:
    """A successful answer: its JSON (None without a body), entity tag and status."""

    document: Any
    etag: str
    status: int


@dataclass(frozen=True)
class Caller:
    """Sends requests with the ``key`` of one person. ``patience``: for how many seconds a request is repeated, pauses
    included; the transport's own timeout limits each attempt."""

    url: str
    transport: Transport
    clock: Clock
    entropy: Entropy
    patience: float
    key: str = field(repr=False)

    async def get(self, path: str, **query: str | int | None) -> Any:
        """Get the JSON at ``path``. Raises ``ApiError``, ``TransportError`` and ``DecodeError``."""
        return (await self.send("GET", path, query=query)).document

    async def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        tag: str | None = None,
        query: Mapping[str, str | int | None] | None = None,
    ) -> Answered:
        """Send a request that is carried out once, even if it is repeated. ``tag``: the value of ``If-Match``. Raises
        as ``get``."""
        asked = {name: str(value) for name, value in (query or {}).items() if value is not None}
        url = f"{self.url}{path}" + (f"?{urlencode(asked)}" if asked else "")
        raw = b"" if body is None else _encode(body)
        answer = await self._answer(method, url, self._headers(method, tag, has_body=body is not None), raw)
        return Answered(_document(answer), answer.headers.get("etag", ""), answer.status)

    async def raw(self, path: str, accept: str, **query: str | int | None) -> bytes:
        """Get the content at ``path`` in the media type ``accept``. Raises as ``get``."""
        asked = {name: str(value) for name, value in query.items() if value is not None}
        url = f"{self.url}{path}" + (f"?{urlencode(asked)}" if asked else "")
        return (await self._answer("GET", url, {**self.authority, "Accept": accept}, b"")).body

    @property
    def authority(self) -> dict[str, str]:
        """The header that identifies the caller: its key as a bearer token (RFC 6750)."""
        return {"Authorization": f"Bearer {self.key}"}

    def _headers(self, method: str, tag: str | None, *, has_body: bool) -> dict[str, str]:
        headers = {**self.authority, "Accept": JSON}
        if has_body:
            headers["Content-Type"] = JSON
        if tag is not None:
            headers["If-Match"] = tag
        if method == "POST":
            headers["Idempotency-Key"] = b64url(self.entropy(_KEY_BYTES))
        return headers

    async def _answer(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """Repeat the request until there is an answer that another attempt would not change. Raises the last attempt's
        error when there is no time for another one. A server with a wrong certificate is not asked again."""
        until, failures = self.clock.now() + self.patience, 0
        while True:
            asked = 0.0
            problem: ApiError | NoAnswerError
            try:
                answer = await self.transport.request(method, url, headers=headers, body=body)
            except TransportError as error:
                problem = NoAnswerError(self.url, error)
                if is_stranger(error):
                    raise problem from error
            else:
                if 200 <= answer.status < 300:
                    return answer
                problem = error_of(answer)
                if not may_pass(answer.status):
                    raise problem
                asked = retry_after(answer.headers, self.clock.now())
            pause = PAUSES.pause(failures, self.entropy, asked)
            if self.clock.now() + pause > until:
                raise problem
            await self.clock.sleep(pause)
            failures += 1


def is_stranger(error: TransportError) -> bool:
    """Whether the server's certificate is for another name or is not trusted."""
    return isinstance(error.__cause__, ssl.SSLCertVerificationError)


def part(text: str) -> str:
    """Encode ``text`` as one segment of a path."""
    return quote(text, safe="-_.~") if text not in {".", ".."} else quote(text).replace(".", "%2E")


def _encode(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise DecodeError("the body cannot be written as JSON") from error


def _document(answer: HttpResponse) -> Any:
    if answer.status == 204:
        return None
    if not answer.is_a(JSON):
        raise DecodeError("the answer is not JSON; is this the URL of an admin service?")
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        raise DecodeError("the answer is not JSON") from error
