"""Sends contributions when they are due, by OHTTP through the relay, with faults and identical bytes in every retry.

At most ``window`` first tries are in flight at once, and as many retries. A contribution that could not be sent waits
outside both windows for its next try. The agent's own code judges the answers (``client_agent.upload.offer``).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from client_agent.journal import State
from client_agent.oblivious import ObliviousClient
from client_agent.upload import AttemptResult, offer
from infra.lab.devices.additions import add
from infra.lab.devices.contributions import Contribution
from infra.lab.devices.faults import FATE, Fault
from infra.lab.devices.metrics import Snapshot, bin_of
from tacit.backoff import Backoff, uniform
from tacit.models.interfaces.device import DeviceSide
from tacit.ports import Clock, Entropy

BACKOFF = Backoff(0.5, 10.0)
AWAY_SECONDS = 3.0
"""Longest time for which a device that broke off stays away."""
Due = tuple[float | None, Contribution]
"""When a contribution is due (POSIX seconds; ``None``: when a sender is free for it), and the contribution."""
Note = Callable[[int, State, int], None]
"""Called for a device's next journal line, with number, state and attempts."""


@dataclass
class Deliveries:
    """What became of the contributions: counts by fault and final state, and the sums by cell of those that count."""

    states: Counter[tuple[Fault, State]] = field(default_factory=Counter)
    sums: Counter[int] = field(default_factory=Counter)

    def add(self, contribution: Contribution, state: State) -> None:
        """Count a contribution that has reached its final ``state``."""
        self.states[contribution.fault, state] += 1
        if state is State.SENT and FATE[contribution.fault].counts:
            add(self.sums, contribution.adds)


@dataclass(frozen=True)
class Clients:
    """The same oblivious client over an ordinary transport and over the two rude ones."""

    ordinary: ObliviousClient
    aborting: ObliviousClient
    slow: ObliviousClient


class Sender:
    """Delivers contributions to one URL until ``deadline`` (POSIX seconds)."""

    def __init__(
        self,
        clients: Clients,
        model: DeviceSide,
        url: str,
        clock: Clock,
        entropy: Entropy,
        deadline: float,
        window: int,
        note: Note,
    ) -> None:
        self._clients = clients
        self._model = model
        self._url = url
        self._clock = clock
        self._entropy = entropy
        self._deadline = deadline
        self._window = window
        self._note = note
        self._free = asyncio.Semaphore(window)
        self.progress = Snapshot()
        self.deliveries = Deliveries()

    async def run(self, source: AsyncIterator[Due]) -> None:
        """Send everything that ``source`` yields, each when it is due; returns when all have ended."""
        taking = asyncio.Lock()

        async def worker(group: asyncio.TaskGroup) -> None:
            while True:
                async with taking:
                    following = await anext(source, None)
                if following is None:
                    return
                planned, contribution = following
                now = self._clock.now()
                due = now if planned is None else planned
                if due > now:
                    await self._clock.sleep(due - now)
                if not await self._first(contribution, due):
                    group.create_task(self._again(contribution, due))

        async with asyncio.TaskGroup() as group:
            for _ in range(self._window):
                group.create_task(worker(group))

    async def _first(self, contribution: Contribution, due: float) -> bool:
        """Make the first try; returns True if nothing is left to do."""
        self.progress.started += 1
        if contribution.fault is Fault.VANISH:
            await self._offer(self._clients.aborting, contribution)
            self._end(contribution, AttemptResult(State.EXPIRED, "vanished"), due, 1)
            return True
        if contribution.fault is Fault.ABORT:
            await self._offer(self._clients.aborting, contribution)
            return False
        client = self._clients.slow if contribution.fault is Fault.SLOW else self._clients.ordinary
        answer = await self._offer(client, contribution)
        if answer.state is State.SENT and contribution.fault is Fault.DUPLICATE:
            answer = await self._offer(client, contribution)
        return self._end(contribution, answer, due, 1)

    async def _again(self, contribution: Contribution, due: float) -> None:
        """Retry until the contribution has ended."""
        attempts = 1
        pause = uniform(self._entropy, 0.0, AWAY_SECONDS) if contribution.fault is Fault.ABORT else None
        while True:
            await self._clock.sleep(BACKOFF.pause(attempts - 1, self._entropy) if pause is None else pause)
            pause = None
            attempts += 1
            if self._clock.now() >= self._deadline:
                answer = AttemptResult(State.EXPIRED, "the recipe ended before the report could be stored")
            else:
                async with self._free:
                    answer = await self._offer(self._clients.ordinary, contribution)
            if self._end(contribution, answer, due, attempts):
                return

    async def _offer(self, client: ObliviousClient, contribution: Contribution) -> AttemptResult:
        self.progress.in_flight += 1
        self.progress.attempts += 1
        try:
            return await offer(client, self._model, self._url, contribution.body)
        finally:
            self.progress.in_flight -= 1

    def _end(self, contribution: Contribution, answer: AttemptResult, due: float, attempts: int) -> bool:
        """Count an answer; returns False if the contribution has not ended."""
        if answer.state is not State.SENT:
            self.progress.causes[answer.detail] += 1
        if answer.state is State.SCHEDULED:
            return False
        self.deliveries.add(contribution, answer.state)
        self._note(contribution.device, answer.state, attempts)
        if answer.state is State.SENT:
            now = self._clock.now()
            self.progress.acknowledged += 1
            self.progress.seconds[int(now)] += 1
            if contribution.fault not in (Fault.ABORT, Fault.SLOW):
                self.progress.latencies[bin_of(now - due)] += 1
        return True
