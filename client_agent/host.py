"""Many agents in one process, each a separate device: one for every folder with a configuration, as folders come and
go.

This is for staging, where hundreds of devices have to behave as real ones do. An agent works here exactly as it does
alone (``client_agent.embedding.at_work``); what it shares with the others is ``client_agent.common``. Whatever ends one
of them, or keeps it from starting, is reported and retried later; the others go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from client_agent.common import Common
from client_agent.config import AgentConfig
from client_agent.embedding import at_work
from client_agent.journal import AgentStore, Fact
from client_agent.runner import open_agent
from tacit.adapters.waiting import first_of
from tacit.errors import TacitError, UsageError
from tacit.ports import Clock
from tacit.service.base.config_files import load_config

CONFIG_NAMES = ("agent.json", "agent.toml")
SCAN_SECONDS = 2.0
"""Seconds between two checks for folders that came or went."""
RETRY_SECONDS = 60.0
"""Seconds after which a failed agent is started again, if its configuration is still the same."""
STARTING = 32
"""How many agents are started at a time, where starting includes the first reading of the log."""
PATIENCE_SECONDS = 5.0
"""Seconds for which a first reading of the log may keep others from starting."""

Signature = tuple[int, int, int]
"""Identifies the contents of a configuration file: another signature means another configuration."""
Tell = Callable[[str, str], None]
"""Called for an agent that failed, with the name of its folder and a one-line reason."""


@dataclass(frozen=True)
class Counts:
    """The state of the host in numbers of devices: those with a folder, ``working``, being started or stopped
    (``changing``), and ``failed``; working ones in trouble, by kind; tokens ``held`` and slots ``known``; and the
    entries of all journals by their state."""

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
    """One agent: its configuration file, and its state."""

    config: Path
    signature: Signature
    stop: asyncio.Event
    task: asyncio.Task[None] | None = None
    store: AgentStore | None = None
    leaving: bool = False
    """Whether it is to stop: its folder is gone or holds another configuration, or the host ends. A failing agent stops
    by itself."""
    failure: str = ""
    failed_at: float = 0.0

    def leave(self) -> None:
        """Tell the agent to stop and not to be started again."""
        self.leaving = True
        self.stop.set()


class _Tally:
    """Adds up the contents of stores."""

    def __init__(self) -> None:
        self.troubles, self.entries, self.held, self.known = Counter[str](), Counter[str](), 0, 0

    async def add(self, store: AgentStore) -> None:
        """Add one store's contents. A store that raises, whose agent is about to fail, adds nothing."""
        with contextlib.suppress(*store.errors):
            troubles = [fact.value for fact in Fact.troubles() if await store.fact(fact)]
            rows, entries = await store.prefetches(), await store.entries()
            self.troubles.update(troubles)
            self.held, self.known = self.held + sum(row.usable for row in rows), self.known + len(rows)
            self.entries.update([entry.state.value for entry in entries])


class AgentHost:
    """The agents whose folders are in ``folder``. Raises ``UsageError`` if there is no such folder."""

    def __init__(self, folder: Path, clock: Clock, tell: Tell) -> None:
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder")
        self._folder, self._clock, self._tell = folder, clock, tell
        self._agents: dict[str, _Hosted] = {}
        self._starting = asyncio.Semaphore(STARTING)
        self._lost = False

    async def run(self, stop: asyncio.Event) -> None:
        """Keep all agents running until ``stop`` is set, then stop them."""
        async with Common() as common:
            try:
                while not stop.is_set():
                    await self.scan(common)
                    await first_of(self._clock.sleep(SCAN_SECONDS), stop.wait())
            finally:
                await self._end()

    async def scan(self, common: Common) -> None:
        """Start new agents, stop those whose folder is gone or whose configuration changed, and retry failed ones."""
        try:
            found = await asyncio.to_thread(_found_in, self._folder)
        except OSError as error:  # a disk that went away for a while: agents at work go on
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
        """Count the agents by what they do now. The contents of a store that cannot be read are not counted."""
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
        """Run one agent from its start to its end, whatever that is."""
        try:
            await self._work(agent, common)
        except (TacitError, sqlite3.Error, OSError) as error:
            agent.failure = str(error) if isinstance(error, TacitError) else f"its files: {type(error).__name__}"
        except Exception as error:  # an error of this agent alone: the others go on
            agent.failure = f"unexpected {type(error).__name__}"
        finally:
            agent.store = None
        if agent.failure:
            agent.failed_at = self._clock.now()
            if not agent.leaving:  # an agent whose folder was just removed is not reported
                self._tell(name, agent.failure)

    async def _work(self, agent: _Hosted, common: Common) -> None:
        config = await asyncio.to_thread(load_config, agent.config, AgentConfig)
        async with contextlib.AsyncExitStack() as stack:
            async with self._starting:
                if agent.stop.is_set():
                    return
                opened = await stack.enter_async_context(open_agent(config, self._clock, common=common))
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
    """The folders with a configuration, by name, and the signature of each configuration."""
    folders = {}
    for one in sorted(folder.iterdir()):
        for config in (one / name for name in CONFIG_NAMES):
            with contextlib.suppress(OSError):
                stat = config.stat()
                folders[one.name] = (config, (stat.st_ino, stat.st_size, stat.st_mtime_ns))
                break
    return folders
