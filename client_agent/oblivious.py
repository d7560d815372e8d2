"""The agent's side of oblivious HTTP: every fetch and every upload goes through the relay.

A fresh HPKE context for each request, padded to a size class, no cookie, no identifier; the ``date`` inside is
rounded to the minute. Which keys the gateway has is ``client_agent.gateway_keys``' business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from email.utils import formatdate
from urllib.parse import urlsplit

from tacit import bhttp, ohttp
from tacit.errors import CryptoError, DecodeError
from tacit.hpke import SenderContext
from tacit.media_types import OHTTP_REQ, OHTTP_RES
from tacit.ports import Clock, Entropy, HttpResponse, Transport, TransportError
from tacit.problem import problem_type

DATE_ROUNDING_SECONDS = 60
KEY_PROBLEM = "https://iana.org/assignments/http-problem-types#ohttp-key"
DATE_PROBLEM = "https://iana.org/assignments/http-problem-types#date"


class KeysUnknownError(TransportError):
    """There is no key under which the gateway could be asked: nothing was processed."""


Senders = Callable[[ohttp.KeyConfig], SenderContext]
"""Gives a context that nothing has used, for one request to a gateway key."""


class ObliviousClient:
    """Sends requests to origins behind the gateway, through one relay."""

    def __init__(
        self,
        transport: Transport,
        relay_url: str,
        configs: Sequence[ohttp.KeyConfig],
        clock: Clock,
        entropy: Entropy,
        senders: Senders | None = None,
    ) -> None:
        """``senders`` sets up HPKE contexts ahead of time, for simulations; by default each is made when it is used."""
        self._transport = transport
        self._relay_url = relay_url
        self._configs = tuple(configs)
        self._clock = clock
        self._entropy = entropy
        self._senders = senders

    @property
    def configs(self) -> tuple[ohttp.KeyConfig, ...]:
        """The gateway keys in use, active first."""
        return self._configs

    def use(self, configs: Sequence[ohttp.KeyConfig]) -> None:
        """Use these gateway keys from now on, active first; none: nothing can be sent."""
        self._configs = tuple(configs)

    async def request(
        self, method: str, url: str, *, media_type: str | None = None, content: bytes = b""
    ) -> bhttp.Response:
        """One exchange with the origin of ``url``.

        Where the gateway says that it does not know the active key (so that nothing happened), the previous one is
        tried. Raises ``TransportError`` unless a response came out of the encapsulation, the request may have been
        processed all the same; ``Refusal`` for content above the largest size class.
        """
        inner = self._inner(method, url, media_type, content)
        outer = HttpResponse(0, {}, b"")
        for config in self._configs:
            sender = None if self._senders is None else self._senders(config)
            message, context = ohttp.padded_request(config, inner, self._entropy, sender)
            outer = await self._transport.request(
                "POST", self._relay_url, headers={"content-type": OHTTP_REQ}, body=message
            )
            if outer.status == 422 and problem_type(outer.body) == KEY_PROBLEM:
                continue
            if outer.status != 200 or outer.headers.get("content-type") != OHTTP_RES:
                raise TransportError(f"the relay answered {outer.status}")
            return _opened(context, outer.body)
        if not self._configs:
            raise KeysUnknownError("this device has no key of the gateway for this time")
        raise KeysUnknownError("the gateway knows none of the keys that this device has for it")

    def _inner(self, method: str, url: str, media_type: str | None, content: bytes) -> bhttp.Request:
        target = urlsplit(url)
        rounded = self._clock.now() // DATE_ROUNDING_SECONDS * DATE_ROUNDING_SECONDS
        fields: list[tuple[str, str]] = [("date", formatdate(rounded, usegmt=True))]
        if media_type is not None:
            fields.append(("content-type", media_type))
        path = target.path or "/"
        return bhttp.Request(
            method,
            target.scheme,
            target.netloc,
            f"{path}?{target.query}" if target.query else path,
            tuple(fields),
            content,
        )


def _opened(context: ohttp.ClientContext, message: bytes) -> bhttp.Response:
    try:
        response = ohttp.open_response(context, message)
    except (CryptoError, DecodeError) as error:
        raise TransportError("the response does not open") from error
    if response.status == 400 and problem_type(response.content) == DATE_PROBLEM:
        raise TransportError("the gateway refuses the date: this device's clock is wrong")
    return response
