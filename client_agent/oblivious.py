"""The agent's side of oblivious HTTP: every fetch and every upload goes through the relay.

Every request has a fresh HPKE context, is padded to a size class, and carries no cookie and no identifier; the ``date``
inside is rounded to the minute. Which keys the gateway has is decided in ``client_agent.seen_leaves``.

A device whose clock is in another minute could be recognised by its dates, so dates follow the relay's time (RFC 9458
section 6.5.2). The relay never sees a date and learns nothing by giving its time. If devices followed the gateway's
time, the gateway could give each one a different date and recognise it later.
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
from tacit.retry_after import make_unanswered
from tacit.service.base.vouched import VouchedTime
from tacit.time_format import read_date_field

DATE_ROUNDING_SECONDS = 60
_DATE_LENGTH = 29
"""Number of characters of an HTTP date in its canonical form (RFC 9110 section 5.6.7)."""
KEY_PROBLEM = "https://iana.org/assignments/http-problem-types#ohttp-key"
DATE_PROBLEM = "https://iana.org/assignments/http-problem-types#date"


class KeysUnknownError(TransportError):
    """There is no key with which to ask the gateway: nothing was processed."""


Senders = Callable[[ohttp.KeyConfig], SenderContext]
"""Returns an unused HPKE context, for one request to a gateway key."""


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
        largest: int = ohttp.SIZE_CLASSES[-1],
    ) -> None:
        """``senders`` sets up HPKE contexts ahead of time, for simulations; by default each is made when it is used.
        ``largest``: the largest size class of a request."""
        self._transport = transport
        self._relay_url = relay_url
        self._configs = tuple(configs)
        self._clock = clock
        self._entropy = entropy
        self._senders = senders
        self._largest = largest
        self._behind = 0.0
        """Seconds by which this clock was behind the relay's when the relay last answered."""
        self._follows_relay = True
        self.vouched = VouchedTime(clock)
        """The relay's time beside this device's. It decides only whether something that cannot be undone is done, never
        what is sent."""

    @property
    def configs(self) -> tuple[ohttp.KeyConfig, ...]:
        """The gateway keys in use, the active one first."""
        return self._configs

    def use(self, configs: Sequence[ohttp.KeyConfig]) -> None:
        """Use these gateway keys from now on, the active one first; with none, nothing can be sent."""
        self._configs = tuple(configs)

    async def request(
        self, method: str, url: str, *, media_type: str | None = None, content: bytes = b""
    ) -> bhttp.Response:
        """One exchange with the origin of ``url``.

        If the gateway says that it does not know the active key (so nothing was processed), the previous key is tried.
        Raises ``TransportError`` if no response came out of the encapsulation (the request may still have been
        processed), and ``Refusal`` for content above the largest size class.
        """
        corrected = self._behind if self._follows_relay else 0.0
        inner = self._inner(method, url, media_type, content, self._clock.now() + corrected)
        outer = HttpResponse(0, {}, b"")
        for config in self._configs:
            sender = None if self._senders is None else self._senders(config)
            message, context = ohttp.padded_request(config, inner, self._entropy, sender, largest=self._largest)
            outer = await self._transport.request(
                "POST", self._relay_url, headers={"content-type": OHTTP_REQ}, body=message
            )
            if outer.status == 422 and problem_type(outer.body) == KEY_PROBLEM:
                continue
            if outer.status != 200 or not outer.is_a(OHTTP_RES):
                raise make_unanswered(f"the relay answered {outer.status}", outer.headers, self._clock.now())
            date = outer.headers.get("date", "")
            self._behind = _ahead_of(self._clock, date)
            self.vouched.hear_date("the relay", date)
            response = _open_response(context, outer.body)
            if response.status == 400 and problem_type(response.content) == DATE_PROBLEM:
                self._follows_relay = not corrected
                raise TransportError("the gateway refuses the date: this device's clock or the relay's is wrong")
            return response
        if not self._configs:
            raise KeysUnknownError("this device has no key of the gateway for this time")
        raise KeysUnknownError("the gateway knows none of the keys that this device has for it")

    def _inner(self, method: str, url: str, media_type: str | None, content: bytes, now: float) -> bhttp.Request:
        target = urlsplit(url)
        rounded = now // DATE_ROUNDING_SECONDS * DATE_ROUNDING_SECONDS
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


def _open_response(context: ohttp.ClientContext, message: bytes) -> bhttp.Response:
    try:
        return ohttp.open_response(context, message)
    except (CryptoError, DecodeError) as error:
        raise TransportError("the response does not open") from error


def _ahead_of(clock: Clock, date: str) -> float:
    """Seconds by which a ``date`` of just now is ahead of ``clock``; 0 if it is not a valid date."""
    if len(date) > _DATE_LENGTH:
        return 0.0
    said = read_date_field(date)
    return 0.0 if said is None else said - clock.now()
