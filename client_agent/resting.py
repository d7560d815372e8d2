"""A device's transport: where a service asks to be left alone, nothing is sent to it until then."""

from __future__ import annotations

from collections.abc import Mapping

from tacit.answers import may_pass
from tacit.backoff import Backoff
from tacit.ports import Clock, Entropy, HttpResponse, Transport, TransportError
from tacit.retry_after import retry_after


class RestingTransport:
    """A ``Transport`` for a device, whose requests to an origin all mean one service: once it asks to be left alone
    (408, 429, 5xx with ``Retry-After``), nothing is sent to that origin until then, whatever is due there."""

    def __init__(self, transport: Transport, clock: Clock, entropy: Entropy) -> None:
        self._transport = transport
        self._clock = clock
        self._entropy = entropy
        self._rests: dict[str, tuple[float, float]] = {}
        """From when until when nothing is sent to an origin; a clock that goes back before it ends a rest."""

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        """As ``Transport.request``. Raises ``TransportError`` without asking while the origin is left alone."""
        origin, now = "/".join(url.split("/", 3)[:3]), self._clock.now()
        begun, until = self._rests.get(origin, (0.0, 0.0))
        if begun <= now < until:
            raise TransportError("the server asked to be left alone for a while", retry_after=until - now)
        self._rests.pop(origin, None)
        answer = await self._transport.request(method, url, headers=headers, body=body)
        if may_pass(answer.status) and (asked := retry_after(answer.headers, now)):
            now = self._clock.now()
            self._rests[origin] = now, now + Backoff.spread(asked, self._entropy)
        return answer
