"""The time that others vouch for: nothing irreversible follows from the local clock alone (P37).

A clock that is wrong for a minute must not cost what no later minute can give back: a private key, a token, a report,
a charge. So a service learns another party's time with every answer that it fetches from it anyway (``Voucher``): from
the log for most, from the witnesses for the log, from the issuer for the attester. What deletes, expires, closes or
refuses for ever asks ``VouchedTime.past``, which lies in the past by both clocks, and is minus infinity while nobody
vouches or while the clocks differ by more than ``BOUND_SECONDS``. ``docs/schemas/deletions.md`` lists all of it.

Two clocks that are wrong together are believed. That is the bound of what this can do: a party whose clock is right
cannot be made to delete anything by another one's, and a party whose clock is wrong cannot by itself.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from tacit.moments import when
from tacit.ports import Clock, HttpResponse, SteadyClock, Transport, TransportError

BOUND_SECONDS = 600.0
"""Most seconds by which a clock may differ from what others say; beyond, a service does nothing that cannot be undone.
As much as a gateway accepts of a request's Date by default, and far more than clocks that are kept at all differ."""
ASK_SECONDS = 60.0
"""Seconds between two questions for the time. In between, a clock that is stepped shows against the time that has
passed (``SteadyClock``)."""
UNVOUCHED = -math.inf
_LONGEST_DATE = 29
"""Number of characters of an HTTP date in its canonical form (RFC 9110 section 5.6.7)."""
_LONGEST_AGE = 7 * 86400


class VouchedTime:
    """What others say the time is, beside this machine's clock.

    A voucher's time goes on by the time that has passed since (``SteadyClock``), so it needs no answer every minute,
    and a step of the local clock is noticed at once.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._steady = clock.steady if isinstance(clock, SteadyClock) else clock.now
        self._exact: tuple[str, float] | None = None
        self._least: tuple[str, float] | None = None

    def hear(self, who: str, time: float) -> None:
        """``who`` says that it is ``time`` now (POSIX seconds). The last word counts."""
        self._exact = who, time - self._steady()

    def hear_least(self, who: str, time: float) -> None:
        """``who``, such as a signed leaf, shows that it is ``time`` or later (POSIX seconds). The latest counts, and
        only where nobody says what the time is."""
        since = time - self._steady()
        if self._least is None or since > self._least[1]:
            self._least = who, since

    def past(self) -> float:
        """A POSIX time that is over by this clock and by what others say; ``UNVOUCHED`` while nobody vouches, or while
        the two differ by more than ``BOUND_SECONDS``."""
        found = self._exact or self._least
        if found is None or self.doubt():
            return UNVOUCHED
        return min(self._clock.now(), found[1] + self._steady())

    def is_past(self, time: float) -> bool:
        """Whether ``time`` (POSIX seconds) is over by this clock and by what others say."""
        return time <= self.past()

    def doubt(self) -> str:
        """How this clock contradicts what others say, in words fit for the public; the empty string where it does not,
        or where nobody has said anything yet."""
        now = self._clock.now()
        if self._exact is not None:
            who, since = self._exact
            said = since + self._steady()
            if abs(now - said) > BOUND_SECONDS:
                return f"this machine's clock says {_words(now)}, {who} says {_words(said)}: nothing is deleted"
        elif self._least is not None:
            who, since = self._least
            said = since + self._steady()
            if now < said - BOUND_SECONDS:
                return f"this machine's clock says {_words(now)}, {who} is of {_words(said)}: nothing is deleted"
        return ""

    @property
    def ahead(self) -> float | None:
        """Seconds by which this clock is ahead of what a voucher says; None while none has said anything."""
        return None if self._exact is None else self._clock.now() - self._exact[1] - self._steady()


class Voucher:
    """A transport to a party whose time vouches for ours: the Date of each answer (RFC 9110 section 6.6.1), plus its
    Age if a cache had it (RFC 9111 section 5.1). TLS says whose answer it is."""

    def __init__(self, inner: Transport, vouched: VouchedTime, who: str) -> None:
        self._inner = inner
        self._vouched = vouched
        self._who = who

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        """One exchange, as ``Transport.request``."""
        answer = await self._inner.request(method, url, headers=headers, body=body)
        said = _date_of(answer)
        if said is not None:
            self._vouched.hear(self._who, said)
        return answer


class AskingTime:
    """A driver that asks for the time where nothing else is asked regularly: GET ``url``, whatever the answer."""

    def __init__(self, voucher: Voucher, url: str) -> None:
        self._voucher = voucher
        self._url = url

    async def step(self) -> int:
        """Ask once. Always returns 0. A party that does not answer says nothing about the time."""
        with contextlib.suppress(TransportError):
            await self._voucher.request("GET", self._url)
        return 0


def _words(time: float) -> str:
    try:
        return when(time)
    except (ValueError, OverflowError, OSError):
        return f"POSIX second {time:.0f}"


def _date_of(answer: HttpResponse) -> float | None:
    """The end of the second in which a party wrote an answer that has just come (POSIX seconds); None where it does not
    say."""
    date, age = answer.headers.get("date", ""), answer.headers.get("age", "0")
    if not 0 < len(date) <= _LONGEST_DATE or not (age.isascii() and age.isdigit() and len(age) < 7):
        return None
    try:
        written = parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None
    return written + min(int(age), _LONGEST_AGE) + 1.0
