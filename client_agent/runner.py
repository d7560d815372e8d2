"""Runs one agent: opens what its configuration names, and keeps it running until it is told to stop.

Tokens are fetched in a loop of their own, so that a slow upload never delays a request that the attester sees: what
the attester can observe does not depend on the coin. The log is followed, the models of rounds are fetched, and reports
are sent, in loops of their own too, so that neither a slow data source nor a missing model delays anything else: when
anything leaves the device does not depend on the datum.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from client_agent.agent import Agent
from client_agent.cached_store import RememberedStore
from client_agent.common import Common
from client_agent.config import LOCK, AgentConfig
from client_agent.data.sources import DataSource, Learner, open_source
from client_agent.deciding import AgentEnv
from client_agent.hints import Hints, check_broker
from client_agent.journal import AgentStore, Entry, Fact, Trouble
from client_agent.store import SqlAgentStore
from client_agent.watching import open_watches
from tacit.adapters.databases.watermark import DoubtfulError, Watermark
from tacit.adapters.disk.files import read_bounded
from tacit.adapters.disk.folder_lock import alone_in
from tacit.adapters.network.origins import require_secure_url
from tacit.adapters.system import OsEntropy, ShiftedClock, SystemClock
from tacit.adapters.waiting import first_of
from tacit.backoff import NEVER
from tacit.errors import DecodeError, UsageError
from tacit.logview.view import LogState
from tacit.ports import Clock, Entropy
from tacit.service.base.config_files import MOST_BYTES
from tacit.service.base.secret_files import read_secret
from tacit.tokens.attestation import SoftwareDevice

DATABASE = "agent.sqlite3"
MARK = "agent.mark"
GRACE_SECONDS = 5.0
SHORTEST_PAUSE = 0.02
OVER = "over"
"""The detail that reports the end of a trouble."""

Report = Callable[[str, dict[str, str | int | float]], None]
"""Called for every event of a run, with a word and its members. Never with data, tokens or addresses."""


def database_of(config: AgentConfig) -> Path:
    """The file with the agent's journal."""
    return config.state_dir / DATABASE


async def open_store(config: AgentConfig, clock: Clock | None = None) -> SqlAgentStore:
    """The agent's store, made on the first start. With a ``clock`` the agent may decide, and the store is refused if it
    is older than the mark beside it: what the agent decided since then it would decide a second time. Raises
    ``UsageError``."""
    path = database_of(config)
    if clock is None:
        return await SqlAgentStore.open(path)
    mark = config.state_dir / MARK
    try:
        return await SqlAgentStore.open(path, Watermark(mark, clock))
    except DoubtfulError as error:
        raise UsageError(
            f"{mark}: the journal beside it is older than what this device has decided, or the mark itself is lost; "
            "put the newest journal back, or enrol the device anew in an empty folder once every budget period is over"
        ) from error


@contextlib.asynccontextmanager
async def journal_of(config: AgentConfig) -> AsyncIterator[SqlAgentStore]:
    """The agent's store for reading, also while an agent is at work: neither waits for the other. A store that an older
    version left is upgraded first. Raises ``UsageError``."""
    store = SqlAgentStore.look(database_of(config))
    try:
        await store.entries()
        await store.prefetches()
    except sqlite3.OperationalError:
        await store.close()
        store = await open_store(config)
    try:
        yield store
    finally:
        await store.close()


def clock_of(config: AgentConfig, clock: Clock) -> Clock:
    """The device's clock, made from ``clock``, the machine's."""
    error = config.clock_error_seconds
    return ShiftedClock(clock, clock.now() + error) if error else clock


@contextlib.asynccontextmanager
async def open_agent(
    config: AgentConfig,
    clock: Clock | None = None,
    source: DataSource | None = None,
    common: Common | None = None,
    entropy: Entropy | None = None,
    learner: Learner | None = None,
) -> AsyncIterator[tuple[Agent, AgentStore]]:
    """The agent of ``config`` on the system's clock, randomness and network. ``source`` replaces the data source that
    ``config`` names; ``common`` is shared with other agents of this process; ``learner`` trains the models that only
    the application knows. Raises ``UsageError`` for files that
    cannot be used, and if another process already runs this agent."""
    data = open_source(config.source) if source is None else source
    for name in ("relay_url", "recipe_server_url", "attester_url"):
        try:
            require_secure_url(getattr(config, name), insecure_http=config.insecure_http)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from error
    try:
        device = SoftwareDevice.from_pem(read_secret(config.attestation.identity))
    except DecodeError as error:
        raise UsageError(f"{config.attestation.identity}: {error}") from error
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(alone_in(config.state_dir, LOCK, "another agent is at work here"))
        shared = Common() if common is None else common
        if common is None:
            await stack.enter_async_context(shared)
        stack.enter_context(shared.alone_with(device.fingerprint))
        policy = shared.policy(config.policy, _read)
        check_broker(config, policy)
        transport = await shared.transport(config)
        own_clock = clock_of(config, clock or SystemClock())
        store = RememberedStore(await open_store(config, own_clock))
        stack.push_async_callback(store.close)
        deps = AgentEnv(own_clock, entropy or OsEntropy(), transport, learner)
        watches = open_watches(config.state_dir, deps.clock, deps.entropy, policy)
        stack.callback(watches.close)
        try:
            agent = Agent(config, policy, deps, store, data, device, watches)
        except DecodeError as error:
            raise UsageError(f"a pinned key in the configuration is malformed: {error}") from error
        yield agent, store


async def keep_running(
    agent: Agent, clock: Clock, limit: float, stop: asyncio.Event, seen: Watch, hints: Hints | None = None
) -> None:
    """Run ``agent`` until ``stop`` is set. It sleeps until the next due time, at most ``limit`` seconds, and less if
    ``hints`` say so."""
    wake = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        if hints is not None:
            await stack.enter_async_context(hints.followed(agent, wake))
        await _run_loops(agent, clock, limit, stop, seen, wake)


async def _run_loops(
    agent: Agent, clock: Clock, limit: float, stop: asyncio.Event, seen: Watch, wake: asyncio.Event
) -> None:
    polled, read, decided = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def follow() -> float:
        wake.clear()
        due = await agent.poll()
        polled.set()
        read.set()
        return due

    async def fetch() -> float:
        read.clear()
        if await agent.fetch_models():
            polled.set()
        return NEVER

    async def decide() -> float:
        polled.clear()
        await agent.consider()
        decided.set()
        return NEVER

    async def send() -> float:
        decided.clear()
        return await agent.send_due()

    loops = [
        asyncio.ensure_future(_loop(action, clock, limit, stop, seen, early))
        for action, early in (
            (follow, wake),
            (fetch, read),
            (decide, polled),
            (agent.prefetch, asyncio.Event()),
            (send, decided),
        )
    ]
    await _until_stopped(loops, stop)


async def _until_stopped(loops: Sequence[asyncio.Task[None]], stop: asyncio.Event) -> None:
    """Wait until ``stop`` is set or a loop ends, then end all of them. Raises what ended a loop."""
    try:
        waiting = asyncio.ensure_future(stop.wait())
        await asyncio.wait([*loops, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        stop.set()
        await asyncio.wait(loops, timeout=GRACE_SECONDS)
    finally:
        for loop in loops:
            loop.cancel()
        ended = await asyncio.gather(*loops, return_exceptions=True)
    for result in ended:
        if isinstance(result, Exception):
            raise result


async def _loop(
    action: Callable[[], Awaitable[float]],
    clock: Clock,
    limit: float,
    stop: asyncio.Event,
    seen: Watch,
    wake: asyncio.Event,
) -> None:
    while not stop.is_set():
        due = await action()
        await seen.look()
        pause = min(max(due - clock.now(), SHORTEST_PAUSE), limit)
        await first_of(clock.sleep(pause), stop.wait(), wake.wait())


@dataclass
class Watch:
    """Calls ``report`` with what changed in the agent's store since the last look."""

    store: AgentStore
    report: Report
    _entries: dict[bytes, Entry] = field(default_factory=dict)
    _troubles: dict[Fact, bytes] = field(default_factory=dict)
    _log_state: bytes = b""
    _log_size: int = -1
    _held: tuple[int, int] = (0, 0)

    async def recall(self) -> None:
        """Load the present contents, so that what earlier runs decided is not reported as a change."""
        self._entries = {entry.recipe_hash: entry for entry in await self.store.entries()}

    async def look(self) -> None:
        """Log every change since the last call."""
        for fact in Fact.troubles():
            await self._trouble(fact)
        state = await self.store.fact(Fact.LOG_STATE)
        if state != self._log_state:
            self._log_state = state
            self._log(LogState.decode(state).size)
        rows = await self.store.prefetches()
        held = (sum(row.usable for row in rows), len(rows))
        if held != self._held:
            self._held = held
            self.report("slots", {"held": held[0], "known": held[1]})
        for entry in await self.store.entries():
            before, self._entries[entry.recipe_hash] = self._entries.get(entry.recipe_hash), entry
            if before is None or (before.state, before.attempts) != (entry.state, entry.attempts):
                told: dict[str, str | int | float] = {"recipe": entry.name, "attempts": entry.attempts}
                self.report(entry.state.value, told | ({"detail": entry.detail} if entry.detail else {}))

    async def _trouble(self, fact: Fact) -> None:
        kept = await self.store.fact(fact)
        before, self._troubles[fact] = self._troubles.get(fact, b""), kept
        if kept != before:
            earlier, trouble = Trouble.decode(before), Trouble.decode(kept)
            what = trouble.what if trouble else ""
            if what != (earlier.what if earlier else ""):
                self.report(fact.value, {"detail": what or OVER})

    def _log(self, size: int) -> None:
        if size != self._log_size:
            self._log_size = size
            self.report("log-read", {"entries": size})


def _read(path: Path) -> bytes:
    return read_bounded(path, MOST_BYTES)
