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

from tacit.ports import Clock, HttpResponse, SteadyClock, Transport, TransportError
from tacit.time_format import format_time, read_date_field

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
        self._ahead: dict[str, float] = {}
        self._least: tuple[str, float, float] | None = None
        self._asked = -math.inf
        self._alone = False

    def alone(self) -> None:
        """There is nobody to ask, as in a test of protocols between two servers: this clock alone is believed."""
        self._alone = True

    def hear(self, who: str, time: float) -> None:
        """``who`` says that it is ``time`` now (POSIX seconds). The last word of each counts, and of several, such as
        witnesses, the middle one, or both middle ones: so a minority with a wrong clock changes nothing, and one of two
        stops nothing."""
        self._asked = self._steady()
        self._ahead[who] = time - self._asked

    def hear_date(self, who: str, date: str, age: str = "0") -> None:
        """``who`` has just written ``date`` (a Date field), or a cache has had it for ``age`` seconds (an Age field);
        nothing where that is no date."""
        said = _end_of(date, age)
        if said is not None:
            self.hear(who, said)

    def hear_least(self, who: str, time: float, until: float) -> None:
        """``who``, such as the newest signed leaf, shows that it is ``time`` or later (POSIX seconds), and before
        ``until`` unless a newer one is missing. The latest counts, and only where nobody says what the time is."""
        if self._least is None or until > self._least[2]:
            self._least = who, time - self._steady(), until

    def past(self) -> float:
        """A POSIX time that is over by this clock and by what others say; ``UNVOUCHED`` while nobody vouches, or while
        the two differ by more than ``BOUND_SECONDS``."""
        if self._alone:
            return self._clock.now()
        middle = self._read_middle() or self._least
        if middle is None or self.doubt() or self.late():
            return UNVOUCHED
        return min(self._clock.now(), middle[1] + self._steady())

    def is_past(self, time: float) -> bool:
        """Whether ``time`` (POSIX seconds) is over by this clock and by what others say."""
        return time <= self.past()

    def is_over(self, time: float) -> bool:
        """Whether ``time`` (POSIX seconds) is over by both clocks, however much they differ: for devices, which take
        part with a clock that is some hours wrong. False while nobody says anything."""
        said = self.said()
        return said is not None and time <= min(self._clock.now(), said)

    def differs_by(self, seconds: float) -> bool:
        """Whether this clock and what others say differ by more than ``seconds``."""
        said = self.said()
        return said is not None and abs(self._clock.now() - said) > seconds

    def doubt(self) -> str:
        """How this clock contradicts what others say, in words fit for the public; the empty string where it does not,
        or where nobody has said anything yet."""
        now, middle = self._clock.now(), self._read_middle()
        if self._alone:
            return ""
        if middle is not None:
            who, ahead = middle
            said, times = ahead + self._steady(), sorted(self._ahead.values())
            later = times[len(times) // 2] + self._steady()  # of two, the other one
            if abs(now - said) > BOUND_SECONDS and abs(now - later) > BOUND_SECONDS:
                return (
                    f"this machine's clock says {format_time(now)}, {who} says {format_time(said)}: nothing is deleted"
                )
        elif self._least is not None:
            who, ahead, _ = self._least
            said = ahead + self._steady()
            if now < said - BOUND_SECONDS:
                return (
                    f"this machine's clock says {format_time(now)}, {who} is of {format_time(said)}: nothing is deleted"
                )
        return ""

    def late(self) -> str:
        """That something newer than ``hear_least`` heard was due, in words fit for the public; empty where it was not,
        and where somebody says the time. Either this clock is ahead or it did not come, so it is no reason to refuse
        what may end it: a log that is not ready because a directory is missing would never get one."""
        if self._read_middle() is not None or self._alone or self._least is None or self._clock.now() <= self._least[2]:
            return ""
        who, ahead, _ = self._least
        return (
            f"{who} is of {format_time(ahead + self._steady())} and a newer one was due: it is late, or this machine's "
            f"clock, which says {format_time(self._clock.now())}, is ahead; nothing is deleted"
        )

    def said(self) -> float | None:
        """What others say that the time is (POSIX seconds); None while nobody does."""
        middle = self._read_middle()
        return None if middle is None else middle[1] + self._steady()

    def _read_middle(self) -> tuple[str, float] | None:
        """Who says the middle one of all times, the earlier of two, and by how much it is ahead of ``_steady``."""
        ranked = sorted(self._ahead.items(), key=lambda one: one[1])
        return ranked[(len(ranked) - 1) // 2] if ranked else None

    @property
    def is_fresh(self) -> bool:
        """Whether somebody has said the time within ``ASK_SECONDS``."""
        return self._steady() - self._asked < ASK_SECONDS


class EarlierClock:
    """The clock and what others say, whichever is earlier: by it a wait is over, which must not end early. The clock
    alone while nobody says anything."""

    def __init__(self, clock: Clock, vouched: VouchedTime) -> None:
        self._clock = clock
        self._vouched = vouched

    def now(self) -> float:
        """POSIX time in seconds."""
        said = self._vouched.said()
        return self._clock.now() if said is None else min(self._clock.now(), said)

    async def sleep(self, seconds: float) -> None:
        """Return once ``seconds`` have passed on the clock, whatever others say."""
        await self._clock.sleep(seconds)


class LaterClock(EarlierClock):
    """The clock and what others say, whichever is later: by it a wait begins that ends by ``EarlierClock``. So a date
    in the past, said for a moment, makes no wait shorter."""

    def now(self) -> float:
        """POSIX time in seconds."""
        said = self._vouched.said()
        return self._clock.now() if said is None else max(self._clock.now(), said)


class Voucher:
    """A transport to a party whose time vouches for ours: the Date of each answer (RFC 9110 section 6.6.1), plus its
    Age if a cache had it (RFC 9111 section 5.1). An answer that caches may keep for ever says nothing, as not every one
    of them adds an Age. TLS says whose answer it is."""

    def __init__(self, inner: Transport, vouched: VouchedTime, who: str) -> None:
        self._inner = inner
        self.vouched = vouched
        self._who = who

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        """One exchange, as ``Transport.request``; notes the Date of the answer, unless caches may keep that for
        ever."""
        answer = await self._inner.request(method, url, headers=headers, body=body)
        if "immutable" not in answer.headers.get("cache-control", "").lower():
            self.vouched.hear_date(self._who, answer.headers.get("date", ""), answer.headers.get("age", "0"))
        return answer


class AskingTime:
    """A driver that asks for the time where nothing else was asked lately: GET ``url``, whatever the answer."""

    def __init__(self, voucher: Voucher, url: str) -> None:
        self._voucher = voucher
        self._url = url

    async def step(self) -> int:
        """Ask once. Always returns 0. A party that does not answer says nothing about the time."""
        if self._voucher.vouched.is_fresh:
            return 0
        with contextlib.suppress(TransportError):
            await self._voucher.request("GET", self._url)
        return 0


def _end_of(date: str, age: str) -> float | None:
    """The end of the second in a Date field plus an Age field (POSIX seconds); None where they are malformed."""
    if not 0 < len(date) <= _LONGEST_DATE or not (age.isascii() and age.isdigit() and len(age) < 7):
        return None
    if int(age) > _LONGEST_AGE:  # Date plus less than that would be days ago
        return None
    written = read_date_field(date)
    return None if written is None else written + int(age) + 1.0
