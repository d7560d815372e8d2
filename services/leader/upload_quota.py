"""How many reports of one task may wait: twice the number that its recipe expects, since no more are ever released
(P15).

The size of each report is bounded by the task's VDAF (``tacit.roles.leader.check_upload``), so the bytes are bounded
too. A report for which there is no room is not stored: its sender gets a 503 and a Retry-After, and what was
acknowledged before stays.

Requests with several reports may fill half of the room. A device sends one report at a time (P12), so an attacker who
wants to keep devices out has to send as many requests as they do, and not a thousandth of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from services.leader.config import LeaderLimits
from services.leader.records import StoredReport
from services.leader.store import LeaderStore
from tacit.aggregator.parties import Parties
from tacit.ports import Clock
from tacit.roles.batches import RATE_FACTOR
from tacit.roles.leader import report_bytes
from tacit.task import Task

FLOOR_BYTES = 1 << 30
"""Most bytes of reports for which there is room whatever the recipe expects."""
LOOK_SECONDS = 1.0
"""Seconds between two counts in the database. What other processes of the Leader store in that time may exceed the
limit."""


class UploadQuota:
    """Counts the waiting reports: the database's number from at most ``LOOK_SECONDS`` ago, plus what this process
    stored since."""

    def __init__(self, store: LeaderStore, parties: Parties, clock: Clock, limits: LeaderLimits) -> None:
        self._store = store
        self._parties = parties
        self._clock = clock
        self._least = limits.pending_floor
        self._counts: dict[bytes, tuple[float, int]] = {}

    def most(self, task: Task) -> int:
        """Most reports of ``task`` that may wait for a job."""
        least = min(self._least, max(1, FLOOR_BYTES // report_bytes(task)))
        return max(least, RATE_FACTOR * task.expected_contributions)

    async def fitting(self, groups: Sequence[Sequence[StoredReport]]) -> list[bool]:
        """For each group, whether there is room for it after the groups before it. A group that the store then refuses
        still counts until the next look at the database."""
        seen: set[bytes] = set()
        admitted: Counter[bytes] = Counter()
        return [await self._take(group, seen, admitted) for group in groups]

    async def _take(self, group: Sequence[StoredReport], seen: set[bytes], admitted: Counter[bytes]) -> bool:
        """Whether ``group``, whose reports are all of one request and so of one task, fits; if so, it is counted.
        ``admitted``: reports by task that the database does not count yet, because they are stored after this."""
        if not group:
            return True
        task_id, now = group[0].task_id, self._clock.now()
        party = self._parties.find(task_id)
        if party is None:
            return True
        since, count = self._counts.get(task_id, (float("-inf"), 0))
        most = self.most(party.task)
        if len(group) > 1:
            most //= 2
        if now - since >= LOOK_SECONDS or (count + len(group) > most and task_id not in seen):
            since, count = now, await self._waiting(task_id) + admitted[task_id]
            seen.add(task_id)
        fits = count + len(group) <= most
        if fits:
            count += len(group)
            admitted[task_id] += len(group)
        self._counts[task_id] = since, count
        return fits

    async def _waiting(self, task_id: bytes) -> int:
        for known in [one for one in self._counts if self._parties.find(one) is None]:
            del self._counts[known]
        async with self._store.read() as tx:
            return (await tx.pending_summary(task_id))[0]
