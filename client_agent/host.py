"""Many agents in one process, each a device of its own: every folder with a configuration, as they come and go.

For staging, where hundreds of devices shall behave as real ones do. An agent works here exactly as it does alone
(``client_agent.embedding.at_work``); what it has in common with the others is ``client_agent.common``. Whatever ends
one of them, or keeps it from starting, is told, and tried again later; the others go on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from client_agent.common import Common
from client_agent.config import AgentConfig
from client_agent.embedding import at_work
from client_agent.journal import AgentStore, Fact
from client_agent.runner import opened_agent
from tacit.adapters.waiting import first_of
from tacit.errors import TacitError, UsageError
from tacit.ports import Clock
from tacit.service.config import load_config

CONFIG_NAMES = ("agent.json", "agent.toml")
SCAN_SECONDS = 2.0
"""How often the host looks for folders that came or went."""
RETRY_SECONDS = 60.0
"""After which an agent that failed is started again, if its configuration is still the same."""
STARTING = 32
"""How many agents are started at a time: opened, and through their first look at the log."""
PATIENCE_SECONDS = 5.0
"""For how long a first look at the log keeps others from starting."""

Signature = tuple[int, int, int]
"""Of a configuration file: another one is another configuration."""
Tell = Callable[[str, str], None]
"""Told of an agent that failed: the name of its folder, and why, in a line."""


@dataclass(frozen=True)
class Counts:
    """How it goes, in numbers of devices: those with a folder, ``working``, being started or stopped (``changing``),
    and ``failed``; of the working ones those in trouble, by kind; tokens ``held`` and slots ``known``; entries of all
    journals by their state."""

    devices: int = 0
    working: int = 0
    changing: int = 0
    failed: int = 0
    troubles: dict[str, int] = field(default_factory=dict)
    slots_held: int = 0
    slots_known: int = 0
    entries: dict[str, int] = field(default_factory=dict)


@dataclass
class _Hosted:
    """One agent: its configuration's file, and where it is in its life."""

    config: Path
    signature: Signature
    stop: asyncio.Event
    task: asyncio.Task[None] | None = None
    store: AgentStore | None = None
    leaving: bool = False
    """Its folder went, or holds another configuration, or the host ends. An agent that fails stops by itself, too."""
    failure: str = ""
    failed_at: float = 0.0

    def leave(self) -> None:
        """Have it stop."""
        self.leaving = True
        self.stop.set()


class _Tally:
    """Adds up what stores hold."""

    def __init__(self) -> None:
        self.troubles, self.entries, self.held, self.known = Counter[str](), Counter[str](), 0, 0

    async def add(self, store: AgentStore) -> None:
        """Count in one store; one that breaks, whose agent is about to fail, has nothing."""
        with contextlib.suppress(*store.errors):
            troubles = [fact.value for fact in Fact.troubles() if await store.fact(fact)]
            rows, entries = await store.prefetches(), await store.entries()
            self.troubles.update(troubles)
            self.held, self.known = self.held + sum(row.usable for row in rows), self.known + len(rows)
            self.entries.update([entry.state.value for entry in entries])


class AgentHost:
    """The agents whose folders lie in ``folder``. Raises ``UsageError`` where there is no such folder."""

    def __init__(self, folder: Path, clock: Clock, tell: Tell) -> None:
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder")
        self._folder, self._clock, self._tell = folder, clock, tell
        self._agents: dict[str, _Hosted] = {}
        self._starting = asyncio.Semaphore(STARTING)
        self._lost = False

    async def run(self, stop: asyncio.Event) -> None:
        """Keep all agents going until ``stop`` is set, then stop them."""
        async with Common() as common:
            try:
                while not stop.is_set():
                    await self.scan(common)
                    await first_of(self._clock.sleep(SCAN_SECONDS), stop.wait())
            finally:
                await self._end()

    async def scan(self, common: Common) -> None:
        """Start what is new, stop what has gone or whose configuration is another now, and try what failed."""
        try:
            found = await asyncio.to_thread(_found_in, self._folder)
        except OSError as error:  # a disk that went away for a while: whoever is at work goes on
            if not self._lost:
                self._tell(self._folder.name, f"the folder of all devices: {error.strerror or 'cannot be read'}")
            self._lost = True
            return
        self._lost = False
        for name, agent in list(self._agents.items()):
            present = found.get(name)
            if present is not None and present == (agent.config, agent.signature) and not self._may_retry(agent):
                continue
            agent.leave()
            if agent.task is None or agent.task.done():
                del self._agents[name]
        for name, (config, signature) in found.items():
            if name not in self._agents:
                agent = self._agents[name] = _Hosted(config, signature, asyncio.Event())
                agent.task = asyncio.ensure_future(self._live(name, agent, common))

    async def counts(self) -> Counts:
        """How it goes now."""
        agents = list(self._agents.values())
        working = [agent.store for agent in agents if agent.store is not None and not agent.leaving]
        failed = sum(bool(agent.failure) for agent in agents)
        tally = _Tally()
        await asyncio.gather(*(tally.add(store) for store in working))  # each may be waiting for a write of its own
        changing = len(agents) - len(working) - failed
        troubles, entries = dict(tally.troubles), dict(tally.entries)
        return Counts(len(agents), len(working), changing, failed, troubles, tally.held, tally.known, entries)

    def _may_retry(self, agent: _Hosted) -> bool:
        now = self._clock.now()
        return bool(agent.failure) and not agent.failed_at <= now < agent.failed_at + RETRY_SECONDS

    async def _live(self, name: str, agent: _Hosted, common: Common) -> None:
        """One agent from its start to its end, whatever that is."""
        try:
            await self._work(agent, common)
        except (TacitError, SQLAlchemyError, OSError) as error:
            agent.failure = str(error) if isinstance(error, TacitError) else f"its files: {type(error).__name__}"
        except Exception as error:  # of this agent alone: the others go on
            agent.failure = f"unexpected {type(error).__name__}"
        finally:
            agent.store = None
        if agent.failure:
            agent.failed_at = self._clock.now()
            if not agent.leaving:  # of one whose folder was just taken away nobody wants to know
                self._tell(name, agent.failure)

    async def _work(self, agent: _Hosted, common: Common) -> None:
        config = await asyncio.to_thread(load_config, agent.config, AgentConfig)
        async with contextlib.AsyncExitStack() as stack:
            async with self._starting:
                if agent.stop.is_set():
                    return
                opened = await stack.enter_async_context(opened_agent(config, self._clock, common=common))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE_SECONDS):
                        await opened[0].poll()
            _, agent.store = opened
            await at_work(*opened, config, self._clock, agent.stop, lambda _event, _told: None)

    async def _end(self) -> None:
        for agent in self._agents.values():
            agent.leave()
        tasks = [agent.task for agent in self._agents.values() if agent.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)


def _found_in(folder: Path) -> dict[str, tuple[Path, Signature]]:
    """The folders with a configuration, by name, and what tells it from another."""
    found = {}
    for one in sorted(folder.iterdir()):
        for config in (one / name for name in CONFIG_NAMES):
            with contextlib.suppress(OSError):
                stat = config.stat()
                found[one.name] = (config, (stat.st_ino, stat.st_size, stat.st_mtime_ns))
                break
    return found
