"""What the runs with many devices have in common: worker processes make the reports of those that are no agents."""

from __future__ import annotations

import abc
import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from client_agent.journal import State
from infra.lab.demo.drill import Drilled, report_id_of
from infra.lab.demo.fleet import Fleet
from infra.lab.demo.staging import DAY
from tacit.adapters.network.http import HttpTransport

if TYPE_CHECKING:
    from client_agent.deciding import AgentEnv
    from infra.lab.demo.crowd import Others
    from infra.lab.devices.pool import Workers
    from infra.lab.devices.population import Population
    from tacit.recipe.model import Recipe

SETTLE_SECONDS = 2.0
"""How often jobs are made of what a crowd has sent."""
CANDIDATES = 20
"""Devices that are followed one by one; with a rate of 1/2 one of them takes part but for one run in a million."""

DRAWN = (State.SCHEDULED, State.SENT, State.FAILED, State.EXPIRED)
"""What a journal says of a recipe for which the device's coin said yes."""


class Crowded(Drilled, abc.ABC):
    """A world with agents, and with others beside them."""

    _agents: int
    """How many devices are agents that are asked what is shown; they come first in the fleet."""

    def __init__(self, *world: Any) -> None:
        """``world``: as for ``Staging``."""
        super().__init__(*world)
        self._workers: Workers | None = None

    @property
    def _has_crowd(self) -> bool:
        """Whether devices beyond the agents make reports, in batches."""
        return True

    @contextlib.asynccontextmanager
    async def _running(self) -> AsyncIterator[HttpTransport]:
        """The services and the transport of the agents; and the workers of a crowd, which start beside them."""
        with contextlib.ExitStack() as stack:
            if self._has_crowd:
                from infra.lab.demo.crowd import crowd_workers

                self._workers = stack.enter_context(crowd_workers())
            async with self._stack.running(), HttpTransport(connections=64) as direct:
                yield direct

    @abc.abstractmethod
    async def _crowd(self, recipe: Recipe, world: AgentEnv) -> Others | None:
        """The devices beyond the agents that are asked ``recipe``, ready to send; None where there are none."""

    async def _crowd_of(self, recipe: Recipe, world: AgentEnv, devices: int, population: Population) -> Others | None:
        """So many others that know what ``population`` says: their coins, tokens and reports, made before they send.
        None where the world has no others."""
        if self._workers is None:
            return None
        from infra.lab.demo.crowd import Crowd

        crowd = Crowd(self._layout, Fleet.config(self._layout), self._policy, devices, population, self._workers)
        name, total = "other devices: coins, tokens, reports", round(recipe.rate * devices)
        with self._timed("crowd"), self._stages.stage(name, total) as tick:
            await crowd.prepare(recipe, world, self._patience, tick)
        return crowd

    async def _tokens(self, fleet: Fleet) -> None:
        """The day before: every device fetches the token of every slot at its own random time."""
        total = self._layout.options.slots_per_epoch * len(fleet.devices)
        with self._timed("tokens"), self._stages.stage("devices: one blind token per slot", total) as tick:
            for moment in self._prefetch_moments():
                await self._wait_for(fleet, moment, self._epoch * DAY)
                self._jump_to(moment)
                for number in range(min(CANDIDATES, len(fleet.devices))):
                    async with self._stack.following(number):
                        await fleet.prefetch_due(tick, only=number)
                await fleet.prefetch_due(tick)

    async def _decide(self, fleet: Fleet) -> None:
        name = "devices: verify, coin, randomise, shard"
        with self._timed("coins"), self._stages.stage(name, len(fleet.devices)) as tick:
            await fleet.consider(tick)

    async def _pick_followed(self, fleet: Fleet, recipe: Recipe) -> int | None:
        """The first candidate whose coin said yes; its report is followed through the aggregators too."""
        for number in range(min(CANDIDATES, self._agents)):
            entry = await fleet.devices[number].entry(recipe.hash)
            if entry is not None and entry.state is State.SCHEDULED:
                await self._stack.follow_report(self._report_id(recipe.model, entry.report).hex())
                return number
        return None

    def _report_id(self, model: str, body: bytes) -> bytes:
        return report_id_of(model, body)

    async def _send_crowd(self, crowd: Others) -> None:
        """The reports of the others, as fast as the stack takes them, while leader and helper aggregate."""
        with self._stages.stage("other devices: uploads in batches", crowd.sampled) as tick:
            sending = asyncio.ensure_future(crowd.send(self._clock, tick))
            try:
                while not sending.done():
                    await self._settle(self._servers[0])
                    await asyncio.wait((sending,), timeout=SETTLE_SECONDS)
            finally:
                sending.cancel()
            await sending
