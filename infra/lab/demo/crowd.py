"""The devices of a large data set beyond those that are agents of their own: the simulated devices of ``tacit fleet``.

Each has its own datum, coin, attestation identity, token and sealed report, and sends it through relay and gateway like
everybody; what they have in common, the log and the recipe, is fetched and verified once for all of them
(``infra.lab.devices.destination``), and worker processes make their reports in batches. These wait in a file, so that
memory does not grow with their number.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from client_agent.config import AgentConfig
from client_agent.deciding import AgentEnv
from infra.lab.devices.destination import Destination, verified_target
from infra.lab.devices.metrics import Snapshot
from infra.lab.devices.pool import Workers
from infra.lab.devices.population import Population
from infra.lab.fleet.origin import Origin
from infra.lab.fleet.run import FleetRun, Load, Look
from infra.lab.kit.patience import Patience
from infra.stacks.layout import Layout
from tacit.errors import Fatal
from tacit.ports import Clock
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.service.base.secret_files import read_secret
from tacit.tokens.software_root import SoftwareRoot

T = TypeVar("T")

WINDOW = 128
"""Contributions of one worker on their way."""
LEAST_WORKERS, MOST_WORKERS = 2, 4
"""Two keep a machine of two cores busy: the services wait for devices more often than these for them."""
LIMIT_SECONDS = 3000.0
"""Of one stage: less than what is left of an interval of an hour when it begins."""


class Others(Protocol):
    """Devices that are no agents of their own; ``sampled`` of them take part."""

    sampled: int

    async def send(self, clock: Clock, tick: Callable[[int], None]) -> None:
        """Upload the prepared reports, each at its drawn time; ``tick`` is told how many have been sent."""
        ...


class Crowd:
    """``devices`` devices with what ``population`` gives each."""

    def __init__(
        self,
        layout: Layout,
        config: AgentConfig,
        policy: Policy,
        devices: int,
        population: Population,
        workers: Workers,
    ) -> None:
        """``workers``: they make and send the reports, and may serve several crowds, one after the other."""
        self._config = config
        self._policy = policy
        self._authority = read_secret(layout.device_authority)
        self._file = layout.state_dir / "crowd.fleet"
        self._population = population
        self._workers = workers
        self._load = Load(devices, workers=workers.number, window=WINDOW, limit=LIMIT_SECONDS)
        self._target: Destination | None = None
        self.sampled = 0

    async def prepare(self, recipe: Recipe, world: AgentEnv, patience: Patience, tick: Callable[[int], None]) -> None:
        """Verify the recipe, toss every coin, fetch the tokens of those that take part, and make their reports. Raises
        what ``verified_target`` and the workers raise."""
        self._file.unlink(missing_ok=True)  # of the round before, which is over
        device = SoftwareRoot.from_pem(self._authority).issue("crowd", world.entropy, world.clock.now())
        asked = (self._config, self._policy, device, world, recipe.hash_text, 0.0)
        self._target = await patience(lambda: verified_target(*asked))
        fleet = self._fleet(self._target, world.clock, self._load)
        result = await _beside(lambda look: fleet.prepare(self._file, look), _counting(tick, lambda one: one.tokens))
        self.sampled = result.sampled

    async def send(self, clock: Clock, tick: Callable[[int], None]) -> None:
        """Upload the reports. Raises what the workers raise."""
        if self._target is None:
            raise Fatal("the crowd's reports were not prepared")
        fleet = self._fleet(self._target, clock, replace(self._load, devices=None, prepared=self._file))
        await _beside(lambda look: fleet.run(look, oracle=False), _counting(tick, lambda one: one.acknowledged))

    def _fleet(self, target: Destination, clock: Clock, load: Load) -> FleetRun:
        ahead = clock.now() - time.time()
        origin = Origin(self._config, self._authority, ahead=ahead)
        return FleetRun(origin, target, load, self._population, self._workers)


def crowd_workers() -> Workers:
    """As many as keep this machine busy; they start with their block."""
    return Workers(min(MOST_WORKERS, max(LEAST_WORKERS, (os.cpu_count() or 1) - 1)))


async def _beside(work: Callable[[Look], T], look: Look) -> T:
    """``work`` in a thread beside this event loop; where the caller is cancelled, its workers are stopped."""
    stopped = threading.Event()

    def looking(found: Sequence[Snapshot]) -> None:
        if stopped.is_set():
            raise Fatal("the demo was stopped")
        look(found)

    try:
        return await asyncio.to_thread(work, looking)
    finally:
        stopped.set()


def _counting(tick: Callable[[int], None], count: Callable[[Snapshot], int]) -> Look:
    """Advance a bar by what has come since the last look."""
    before = 0

    def look(found: Sequence[Snapshot]) -> None:
        nonlocal before
        now = sum(map(count, found))
        tick(now - before)
        before = now

    return look
