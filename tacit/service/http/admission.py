"""Which request is served next at one listener, and which connections a full listener drops: fair between sources,
whatever one of them holds.

A *source* is a client address (IPv6: its /64), or all peers that proved who they are. Nothing here is a ban: a source
alone may use its whole share, and many devices behind one address wait in one queue and are served in turn.

* Connections are many and cost little. When they run out, the source that has most gives one up: an idle one first,
  then one whose request is still being received, never one that is being answered.
* The scarce resource is the *turn*: a whole request that is being answered. There are ``requests`` turns at a time, and
  one source has at most one of ``share`` parts of them, or of ``share_in_company`` while others are connected: requests
  that are being answered are the queue ahead of the next one. A request without a free turn waits unread, and sources
  take turns. A sender holds no turn before its whole request has arrived, so sending slowly holds nothing.
* Requests being received hold their bytes, and so do answers that wait for their readers. Above ``receiving_bytes`` a
  source that holds most (to within a factor of two) gives some up. A client that does not read its answer holds no turn
  either.
* Deadlines: a head has ``head_seconds``; a body must arrive at ``least_rate`` bytes a second after ``grace_seconds``,
  or the answer is 408 (``LARGE_RATE`` times as fast beyond ``ORDINARY_BODY``); an answer must be read at that rate; a
  request that has waited ``wait_seconds`` for a turn is told to come back (503).

Finding the connection to drop takes a time that does not grow with the number of sources.

Pure: no clock, no socket. Times are seconds of any one clock. An address is held only while its connections are open,
and is in no log, metric, error or representation.
"""

from __future__ import annotations

import enum
import ipaddress
import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from tacit.service.base.config import Limits
from tacit.service.http.limits import ORDINARY_BODY
from tacit.service.http.ranks import Ranks

IPV6_PREFIX = 64
LARGE_RATE = 16
"""Number of times ``least_rate`` at which the bytes of a body above ``ORDINARY_BODY`` must arrive."""
LINGER_SECONDS = 5.0
"""Seconds until a connection is cut whose request was answered before it was whole."""
LOOKS = 16
"""Number of sources with equally many connections among which one with an idle connection is preferred."""


class ConnectionHandle(Protocol):
    """A connection, as seen by ``Admission``."""

    def cut(self) -> None:
        """Close the connection at once."""
        ...

    def proceed(self, *, late: bool) -> None:
        """Read the waiting data; ``late``: only to be told to come back."""
        ...

    def too_slow(self) -> None:
        """Answer 408: the request did not arrive in time."""
        ...


class Phase(enum.IntEnum):
    """The phase of a connection: between requests; receiving a request; waiting for its turn; having its turn; its
    answer waiting to be read."""

    IDLE = enum.auto()
    RECEIVING = enum.auto()
    WAITING = enum.auto()
    WORKING = enum.auto()
    SENDING = enum.auto()


@dataclass(eq=False, slots=True)
class Source:
    """One source's connections by phase (oldest first), its turns, and the bytes of requests being received and of
    answers that wait."""

    known: bool = False
    turns: int = 0
    held: int = 0
    phases: dict[Phase, dict[ConnectionRecord, None]] = field(
        default_factory=lambda: {phase: {} for phase in Phase}, repr=False
    )

    def __len__(self) -> int:
        return sum(map(len, self.phases.values()))

    def spared(self) -> Iterator[ConnectionRecord]:
        """The connections that it could give up, the least important first."""
        for phase in (Phase.IDLE, Phase.RECEIVING, Phase.WAITING, Phase.SENDING):
            yield from self.phases[phase]


@dataclass(eq=False, slots=True)
class ConnectionRecord:
    """One connection. ``since``: start of its phase, moved on by the time that it waited for us; ``headed``: the head
    of its request has arrived; ``has_turn``: it counts among the turns; ``held``: bytes of its request received so far,
    or of its answer that waits."""

    handle: ConnectionHandle = field(repr=False)
    key: str | None = field(repr=False)
    source: Source = field(repr=False)
    since: float
    phase: Phase = Phase.IDLE
    fresh: bool = True
    headed: bool = False
    has_turn: bool = False
    gone: bool = False
    held: int = 0
    waiting_since: float = 0.0
    cut_at: float = math.inf


class Admission:
    """The connections of one listener, at most ``connections``."""

    def __init__(self, limits: Limits, connections: int) -> None:
        self.limits = limits
        self._connections = connections
        self._sources: dict[str | None, Source] = {}
        self._queue: OrderedDict[Source, None] = OrderedDict()
        self._crowded: Ranks[Source] = Ranks()
        self._heavy: Ranks[Source] = Ranks()
        self._count = self._turns = self._held = 0

    def __len__(self) -> int:
        return self._count

    @property
    def turns(self) -> int:
        """Number of requests that are being answered."""
        return self._turns

    @property
    def receiving(self) -> int:
        """Number of connections whose request is being received."""
        return sum(len(source.phases[Phase.RECEIVING]) for source in self._sources.values())

    @property
    def waiting(self) -> int:
        """Number of connections that wait for their turn."""
        return sum(len(source.phases[Phase.WAITING]) for source in self._sources.values())

    def arrive(
        self, handle: ConnectionHandle, address: str, now: float, *, known: bool = False
    ) -> ConnectionRecord | None:
        """Register a new connection; ``None`` where there is no room for it."""
        # room is made before the newcomer counts, else it could be chosen itself
        if self._count >= self._connections and not self._make_room(now):
            return None
        key = None if known else source_of(address)
        record = ConnectionRecord(handle, key, self._source(key), now)
        record.source.phases[Phase.IDLE][record] = None
        self._rank(record.source)
        self._count += 1
        return record

    def move(self, record: ConnectionRecord, address: str | None, now: float) -> None:
        """Move the connection to another source: that of ``address``, or with ``None`` to the known peers."""
        key = None if address is None else source_of(address)
        if record.gone or key == record.key:
            return
        old, new = record.source, self._source(key)
        del old.phases[record.phase][record]
        new.phases[record.phase][record] = None
        # the turn and the bytes go with it, else the old source would hold them for ever
        for source, sign in ((old, -1), (new, 1)):
            source.turns += sign * record.has_turn
            source.held += sign * record.held
            self._rank(source)
            self._line_up(source)
        self._forget_empty(record.key)
        record.key, record.source = key, new
        self._give_turns(now)

    def depart(self, record: ConnectionRecord, now: float) -> None:
        """Remove a connection that has ended."""
        if record.gone:  # it was cut, and now its transport says so as well
            return
        record.gone = True
        del record.source.phases[record.phase][record]
        self._line_up(record.source)
        self._hold(record, -record.held)
        self._rank(record.source)
        self._count -= 1
        self._end_turn(record)
        self._forget_empty(record.key)
        self._give_turns(now)

    def may_read(self, record: ConnectionRecord, size: int, now: float) -> bool:
        """Whether ``size`` bytes that have arrived may be read now; if so the caller must call ``was_read`` afterwards,
        if not ``proceed`` follows later."""
        if record.phase is Phase.IDLE:
            record.headed = False
            self._enter(record, Phase.RECEIVING, now)
        # its own bytes count first, so the newcomer may be the one that is cut
        self._hold(record, size)
        self._shed_enough(now)
        if record.gone:
            return False
        # nobody overtakes a request of the same source that waits already
        if not record.source.phases[Phase.WAITING] and self._has_turn_for(record.source):
            self._take_turn(record)
            return True
        self._enter(record, Phase.WAITING, record.since)
        record.waiting_since = now
        return False

    def was_read(self, record: ConnectionRecord, now: float, *, headed: bool, complete: bool) -> None:
        """Record that the data was read; ``complete``: a whole request has arrived, which keeps the turn until it is
        answered."""
        if record.gone:
            return
        if complete:
            self._hold(record, -record.held)
            self._enter(record, Phase.WORKING, now)
            return
        if headed and not record.headed:
            record.headed, record.since = True, now
        # without its turn again: bytes of a body may take minutes to come, and hold nothing
        self._end_turn(record)
        self._give_turns(now)

    def answered(self, record: ConnectionRecord, now: float, *, linger: bool = False) -> None:
        """Record that the connection's request was answered; ``linger``: before it was whole, so that the connection is
        only kept until its sender has seen the answer."""
        if record.gone:
            return
        record.fresh, record.cut_at = False, now + LINGER_SECONDS if linger else math.inf
        self._hold(record, -record.held)
        self._enter(record, Phase.IDLE, now)
        self._end_turn(record)
        self._give_turns(now)

    def stalled(self, record: ConnectionRecord, size: int, now: float) -> None:
        """Record that ``size`` bytes of an answer wait for their reader, which holds no turn from now on."""
        # also for a record that is not ``WORKING``: what was answered early may be left unread as well
        record.cut_at = now + self.limits.grace_seconds + size / self.limits.least_rate
        if record.gone or record.phase not in (Phase.WORKING, Phase.SENDING):
            return
        self._hold(record, size - record.held)
        self._enter(record, Phase.SENDING, now)
        self._end_turn(record)
        self._shed_enough(now)
        self._give_turns(now)

    def flows(self, record: ConnectionRecord) -> None:
        """Record that the waiting bytes were read."""
        record.cut_at = math.inf
        if not record.gone and record.phase is Phase.SENDING:
            self._hold(record, -record.held)

    def sweep(self, now: float) -> None:
        """Enforce the deadlines; to be called about once a second."""
        late = 0
        for source in list(self._sources.values()):
            for phase in Phase:
                for record in list(source.phases[phase]):
                    # one that was cut may have given its turn to another, which is then in a later phase
                    if record.gone or record.phase is not phase:
                        continue
                    if phase is Phase.WAITING:
                        if late < self.limits.requests and now - record.waiting_since > self.limits.wait_seconds:
                            late += 1
                            self._proceed(record, now, late=True)
                    elif now > record.cut_at or self._is_overdue(record, now):
                        self._cut(record, now)

    def _is_overdue(self, record: ConnectionRecord, now: float) -> bool:
        """Whether a deadline is over after which the connection is cut without an answer; a slow body gets a 408
        first."""
        limits, seconds = self.limits, now - record.since
        if record.phase is Phase.IDLE:
            return seconds > (limits.head_seconds if record.fresh else limits.idle_seconds)
        if record.phase is not Phase.RECEIVING:
            return False
        if not record.headed:
            return seconds > limits.head_seconds
        if seconds > limits.grace_seconds + self._usual_seconds(record.held) and record.cut_at == math.inf:
            record.cut_at = now + LINGER_SECONDS
            record.handle.too_slow()
        return False

    def _usual_seconds(self, size: int) -> float:
        """The most seconds after the grace in which ``size`` bytes of a body arrive."""
        large = max(0, size - ORDINARY_BODY)
        return (size - large + large / LARGE_RATE) / self.limits.least_rate

    def _make_room(self, now: float) -> bool:
        """Cut a connection of a source that has the most; False if every connection is being answered."""
        for sources in (*self._crowded.highest(), self._known_sources()):
            # a bounded look: finding the best of all would take longer the more attackers there are
            able = islice((source for source in sources if next(source.spared(), None) is not None), LOOKS)
            chosen = max(able, key=lambda source: bool(source.phases[Phase.IDLE]), default=None)
            if chosen is not None:
                self._cut(next(chosen.spared()), now)
                return True
        return False

    def _shed_enough(self, now: float) -> None:
        while self._held > self.limits.receiving_bytes and self._shed_heaviest(now):
            pass

    def _shed_heaviest(self, now: float) -> bool:
        """Cut the connection that holds the most bytes, of a source that holds the most."""
        # ranks are bit lengths of bytes: they change seldom, and are right within a factor of two
        for sources in (*self._heavy.highest(), self._known_sources()):
            for source in sources:
                record = max(source.spared(), key=lambda one: one.held, default=None)
                if record is not None and record.held:
                    self._cut(record, now)
                    return True
        return False

    def _known_sources(self) -> list[Source]:
        """The peers that proved who they are; they give up connections last."""
        return [self._sources[None]] if None in self._sources else []

    def _rank(self, source: Source) -> None:
        """Update the ranks of a source whose number of connections or bytes has changed."""
        if not source.known:
            self._crowded.put(source, len(source))
            self._heavy.put(source, source.held.bit_length())

    def _cut(self, record: ConnectionRecord, now: float) -> None:
        self.depart(record, now)
        record.handle.cut()

    def _has_turn_for(self, source: Source) -> bool:
        most = self.limits.requests if source.known else self.limits.turns_of_one(alone=len(self._sources) == 1)
        return self._turns < self.limits.requests and source.turns < most

    def _take_turn(self, record: ConnectionRecord) -> None:
        record.has_turn = True
        record.source.turns += 1
        self._turns += 1

    def _end_turn(self, record: ConnectionRecord) -> None:
        if record.has_turn:
            record.has_turn = False
            record.source.turns -= 1
            self._turns -= 1

    def _give_turns(self, now: float) -> None:
        """Give free turns to waiting sources, one each in turn."""
        passed = 0
        # a source without a free share is passed over, not waited for
        while passed < len(self._queue) and self._turns < self.limits.requests:
            source = next(iter(self._queue))
            self._queue.move_to_end(source)
            passed += 1
            if self._has_turn_for(source):
                self._proceed(next(iter(source.phases[Phase.WAITING])), now, late=False)
                passed = 0

    def _line_up(self, source: Source) -> None:
        """The queue has the sources that wait."""
        if source.phases[Phase.WAITING]:
            self._queue.setdefault(source)
        else:
            self._queue.pop(source, None)

    def _proceed(self, record: ConnectionRecord, now: float, *, late: bool) -> None:
        # its deadlines stood still while it waited for us
        record.since += now - record.waiting_since
        self._enter(record, Phase.RECEIVING, record.since)
        self._take_turn(record)
        record.handle.proceed(late=late)

    def _enter(self, record: ConnectionRecord, phase: Phase, since: float) -> None:
        del record.source.phases[record.phase][record]
        record.phase, record.since = phase, since
        record.source.phases[phase][record] = None
        self._line_up(record.source)

    def _hold(self, record: ConnectionRecord, size: int) -> None:
        """Record that the connection holds ``size`` more bytes."""
        source = record.source
        record.held += size
        source.held += size
        self._held += size
        if not source.known and source.held.bit_length() != (source.held - size).bit_length():
            self._heavy.put(source, source.held.bit_length())

    def _source(self, key: str | None) -> Source:
        return self._sources.setdefault(key, Source(known=key is None))

    def _forget_empty(self, key: str | None) -> None:
        if key in self._sources and not len(self._sources[key]):
            del self._sources[key]


def source_of(address: str) -> str:
    """The source of a client address: itself, or the /64 of an IPv6 address, since one client has all of that."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, IPV6_PREFIX), strict=False).network_address)
