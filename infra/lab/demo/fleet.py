"""The demo's devices that are complete agents, one for a row of the data, all in this process.

Each has its own attestation identity, its own datum, its own coin and its own journal in memory; they share only
the HTTP connection pool. Nothing about a device is decided here: the agents do that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from client_agent.agent import Agent
from client_agent.config import AgentConfig
from client_agent.data.sources import CallableSource
from client_agent.deciding import AgentEnv
from client_agent.journal import Entry, MemoryAgentStore, State
from client_agent.panprivate.watches import Watches
from infra.lab.kit.patience import Patience
from infra.lab.kit.reports import BoundToken
from infra.stacks.agent_configs import agent_config
from infra.stacks.layout import Layout
from tacit.errors import Refusal
from tacit.ports import Clock
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.tokens.binding import PREIMAGE_SIZE, Preimages
from tacit.tokens.software_root import SoftwareRoot

CONCURRENCY = 32


@dataclass(frozen=True)
class Device:
    """One simulated device: its agent and its store."""

    agent: Agent
    store: MemoryAgentStore

    async def entry(self, recipe_hash: bytes) -> Entry | None:
        """What the device's journal says about a recipe."""
        return next((entry for entry in await self.store.entries() if entry.recipe_hash == recipe_hash), None)


class Fleet:
    """The demo's devices, each with its agent, in the order of their numbers."""

    def __init__(self, devices: Sequence[Device], clock: Clock) -> None:
        self.devices = tuple(devices)
        self._clock = clock
        self._due = [0.0] * len(devices)

    @classmethod
    def make(
        cls,
        layout: Layout,
        policies: Sequence[Policy],
        data: Sequence[dict[str, str]],
        world: AgentEnv,
        tick: Callable[[], None],
        folders: Mapping[int, Path] | None = None,
    ) -> Fleet:
        """One device per member of ``data`` (metric -> value), each with the policy at its place. ``folders``: of the
        devices that keep the states of watched events in files; the others keep them in memory."""
        authority = SoftwareRoot.from_pem(layout.device_authority.read_bytes())
        config = cls.config(layout)
        devices = []
        for number, (row, policy) in enumerate(zip(data, policies, strict=True)):
            store = MemoryAgentStore()
            identity = authority.issue(f"device-{number}", world.entropy, world.clock.now())
            watches = Watches((folders or {}).get(number), world.clock, world.entropy)
            agent = Agent(config, policy, world, store, CallableSource(row.get), identity, watches)
            devices.append(Device(agent, store))
            tick()
        return cls(devices, world.clock)

    @staticmethod
    def config(layout: Layout) -> AgentConfig:
        """The agent configuration that all devices share."""
        unused = {"kind": "csv", "path": Path("unused.csv")}
        return agent_config(layout, layout.state_dir / "fleet", unused, join_late=False, staged=True)

    async def sync(self, tick: Callable[[], None], patience: Patience) -> None:
        """Every device fetches and verifies the log through the relay, again where somebody on the way is busy."""

        async def one(device: Device) -> None:
            await patience(device.agent.sync)
            tick()

        await _all(one(device) for device in self.devices)

    async def prefetch_due(self, tick: Callable[[int], None], only: int | None = None) -> None:
        """Every device (or only one) fetches the tokens whose random time has come."""

        async def one(number: int) -> None:
            before = await self._tokens(number)
            self._due[number] = await self.devices[number].agent.prefetch()
            tick(await self._tokens(number) - before)

        await _all(one(number) for number in self._due_now(only))

    async def consider(self, tick: Callable[[], None]) -> None:
        """Every device verifies, tosses its coin, randomises and shards."""
        for number, device in enumerate(self.devices):
            await device.agent.consider()
            self._due[number] = 0.0
            tick()
            if number % CONCURRENCY == 0:
                await asyncio.sleep(0)

    async def send_due(self, tick: Callable[[int], None], only: int | None = None) -> None:
        """Every device (or only one) uploads the reports whose random delay is over."""

        async def one(number: int) -> None:
            before = await self._stored(number)
            self._due[number] = await self.devices[number].agent.send_due()
            tick(await self._stored(number) - before)

        await _all(one(number) for number in self._due_now(only))

    async def is_behind(self, begin: float, end: float) -> bool:
        """Whether a device tried to fetch a token or to send a report in vain, and tries again from ``begin`` on,
        before ``end`` (POSIX seconds). What an earlier round left behind is not tried again."""
        for device in self.devices:
            entries, prefetches = await device.store.entries(), await device.store.prefetches()
            if any(
                entry.state is State.SCHEDULED and entry.attempts and begin <= entry.send_at < end for entry in entries
            ):
                return True
            if any(one.attempts and not one.token and begin <= one.due_at < end for one in prefetches):
                return True
        return False

    async def count(self, recipe_hash: bytes, *states: State, first: int | None = None) -> int:
        """How many devices (of the ``first``) have ``recipe_hash`` in one of ``states`` in their journals."""
        entries = [await device.entry(recipe_hash) for device in self.devices[:first]]
        return sum(entry is not None and entry.state in states for entry in entries)

    def _due_now(self, only: int | None) -> list[int]:
        now = self._clock.now()
        numbers = range(len(self.devices)) if only is None else [only]
        return [number for number in numbers if self._due[number] <= now]

    async def _tokens(self, number: int) -> int:
        return sum(bool(prefetch.token) for prefetch in await self.devices[number].store.prefetches())

    async def _stored(self, number: int) -> int:
        return sum(entry.state is State.SENT for entry in await self.devices[number].store.entries())


async def _all(jobs: Iterable[Coroutine[None, None, None]]) -> None:
    """Run coroutines, at most ``CONCURRENCY`` at a time; the first error stops the rest."""
    waiting = iter(jobs)

    async def worker() -> None:
        for job in waiting:
            await job

    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(worker())


async def spender_of(devices: Sequence[Device], recipe: Recipe) -> Device:
    """A device whose report, and with it its token, the leader has."""
    for device in devices:
        entry = await device.entry(recipe.hash)
        if entry is not None and entry.state is State.SENT:
            return device
    raise Refusal("demo-staged", "no device has sent its report of the staged recipe")


async def loot_of(device: Device, slot: int) -> BoundToken:
    """The token of ``slot`` that a device holds or held, with its secrets."""
    for prefetch in await device.store.prefetches():
        if prefetch.slot.slot == slot and prefetch.token:
            secrets = prefetch.preimages
            return BoundToken(prefetch.token, Preimages(secrets[:PREIMAGE_SIZE], secrets[PREIMAGE_SIZE:]))
    raise Refusal("demo-staged", "a device has no token for the staged recipe")
