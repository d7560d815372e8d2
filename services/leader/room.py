"""How many reports of one task may wait: twice those that its recipe expects, since no more are ever released (P15).

The size of each is bounded by the task's VDAF (``tacit.roles.leader.check_upload``), so the bytes are bounded too. A
report that finds no room is not stored: its sender is told to come back, and what was acknowledged before stays.

Requests with several reports may fill half of it. A device sends one report at a time (P12), so that whoever wants to
keep devices out has to send as many requests as they do, and not a thousandth.
"""

from __future__ import annotations

from collections.abc import Sequence

from services.leader.config import LeaderLimits
from services.leader.ports import RoomTx
from services.leader.records import StoredReport
from tacit.aggregator.parties import Parties
from tacit.ports import Clock
from tacit.roles.batches import RATE_FACTOR
from tacit.service.store import Transactions
from tacit.task import Task

LOOK_SECONDS = 1.0
"""What other processes of the Leader stored in so long may come on top."""


class Room:
    """Counts what waits: the database's word from at most ``LOOK_SECONDS`` ago, and what this process stored since."""

    def __init__(self, store: Transactions[RoomTx], parties: Parties, clock: Clock, limits: LeaderLimits) -> None:
        self._store = store
        self._parties = parties
        self._clock = clock
        self._least = limits.pending_floor
        self._counts: dict[bytes, tuple[float, int]] = {}

    def most(self, task: Task) -> int:
        """Reports of ``task`` that may wait for a job."""
        return max(self._least, RATE_FACTOR * task.expected_contributions)

    async def fitting(self, groups: Sequence[Sequence[StoredReport]]) -> list[bool]:
        """For which groups there is room; those before count. Whatever the store refuses after all is counted until the
        next look."""
        seen: set[bytes] = set()
        return [await self._take(group, seen) for group in groups]

    async def _take(self, group: Sequence[StoredReport], seen: set[bytes]) -> bool:
        """A group is one request's, so of one task."""
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
            since, count = now, await self._waiting(task_id)
            seen.add(task_id)
        fits = count + len(group) <= most
        self._counts[task_id] = (since, count + len(group) * fits)
        return fits

    async def _waiting(self, task_id: bytes) -> int:
        for known in [one for one in self._counts if self._parties.find(one) is None]:
            del self._counts[known]
        async with self._store.read() as tx:
            return (await tx.pending_summary(task_id))[0]
