"""When the coordinator looks for reports that make a job: as soon as enough of one task have been stored, and otherwise
soon after the first, so that many uploads cost one look.

Every process counts the reports that it stores. Those that do not coordinate tell the one that does, in signals between
the processes of a database. Counts only decide when to look: what is there, the coordinator reads in the database.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from services.leader.store import LeaderStore
from tacit.adapters.databases.signals import LONGEST_TEXT, Signals, Wakeup
from tacit.backoff import uniform
from tacit.codec import b64url, unb64url
from tacit.errors import DecodeError
from tacit.ports import Entropy

TOPIC = "stored"

WAKE_SECONDS = 0.5
"""Seconds from the first report that the coordinator has not seen until it looks."""

EARLY_SECONDS = 0.1
"""When a full job has come together, the coordinator looks within so many seconds, at a random time: the time of a job
should tell little of its last report's."""

TELL_SECONDS = 0.05
"""Seconds for which a process gathers its counts before it tells the coordinator."""


class Wakeups(NamedTuple):
    """Notified when there may be work: jobs to form, jobs to send to Helpers, batches to collect, Collectors to
    answer because collection jobs have ``moved``."""

    forming: Wakeup
    sending: Wakeup
    collecting: Wakeup
    moved: Wakeup


def make_wakeups(signals: Signals) -> Wakeups:
    """One for each kind of work of a Leader process."""
    return Wakeups(*(Wakeup(signals, topic) for topic in Wakeups._fields))


class Arrivals:
    """Counts stored reports, and notifies ``forming`` in this process when the coordinator should look. Without
    ``background`` (tests that take every step themselves) it does nothing."""

    def __init__(self, store: LeaderStore, forming: Wakeup, entropy: Entropy, *, background: bool) -> None:
        self._store = store
        self._entropy = entropy
        self._forming = forming
        self._background = background
        self._new: Counter[bytes] = Counter()
        self._lacking: dict[bytes, int] = {}
        self._untold: Counter[bytes] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._early: asyncio.TimerHandle | None = None
        store.signals.on(TOPIC, self._heard)

    def stored(self, counts: Mapping[bytes, int]) -> None:
        """This process has committed ``counts`` reports, by task."""
        if not self._background or not counts:
            return
        if self._store.coordinates:
            self._count(counts)
        else:
            self._untold.update(counts)
            self._within(TELL_SECONDS)

    def begin(self, most: Mapping[bytes, int]) -> None:
        """The coordinator looks now at the tasks of which a job holds ``most`` reports, and will see all that was
        counted so far: no other look is due for it."""
        self._cancel()
        self._new.clear()
        self._untold.clear()
        self._lacking = {task_id: self._lacking.get(task_id) or count for task_id, count in most.items()}

    def lacks(self, task_id: bytes, count: int) -> None:
        """The coordinator has read that ``count`` more reports of a task make a full job, or 0 if more reports alone
        make none. Where no report waits it reads no such number, and the one from before holds."""
        self._lacking[task_id] = count
        self._check(task_id)

    def close(self) -> None:
        """Count nothing more, and tell nobody."""
        self._background = False
        self._cancel()

    def _cancel(self) -> None:
        for timer in (self._timer, self._early):
            if timer is not None:
                timer.cancel()
        self._timer = self._early = None

    def _count(self, counts: Mapping[bytes, int]) -> None:
        self._new.update(counts)
        self._within(WAKE_SECONDS)
        for task_id in counts:
            self._check(task_id)

    def _check(self, task_id: bytes) -> None:
        if self._early is None and 0 < self._lacking.get(task_id, 0) <= self._new[task_id]:
            delay = uniform(self._entropy, 0.0, EARLY_SECONDS)
            self._early = asyncio.get_running_loop().call_later(delay, self._full)

    def _full(self) -> None:
        self._early = None
        self._forming.handler()

    def _within(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._over)

    def _over(self) -> None:
        self._timer = None
        if self._store.coordinates:
            self._forming.handler()
            return
        text = " ".join(f"{b64url(task_id)}:{count}" for task_id, count in self._untold.items())
        self._untold.clear()
        self._store.signals.send(TOPIC, text if len(text) <= LONGEST_TEXT else "")

    def _heard(self, text: str) -> None:
        """Another process has stored reports. Without counts, or with ones that cannot be read: look now."""
        if not self._background or not self._store.coordinates:
            return
        try:
            counts = _read(text)
        except (ValueError, DecodeError):
            counts = {}
        if counts:
            self._count(counts)
        else:
            self._forming.handler()


def _read(text: str) -> dict[bytes, int]:
    """The counts of a signal. Raises ``ValueError`` or ``DecodeError``."""
    pairs = (pair.partition(":") for pair in text.split())
    counts = {unb64url(task_id): int(count) for task_id, _, count in pairs}
    if any(count < 1 for count in counts.values()):
        raise ValueError("a count is at least 1")
    return counts
