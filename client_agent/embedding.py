"""An agent within an application: it runs in the application's event loop, and asks the application for the device's
data.

The agent does what ``tacit agent run`` does, with the same journal, ledger and timing, so nothing that leaves the
device depends on what the application is doing. The application supplies the data and may report events; it learns what
the device's owner may learn.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from client_agent.agent import Agent
from client_agent.config import AgentConfig
from client_agent.data.sources import DataSource, Learner
from client_agent.hints import hints_of
from client_agent.journal import AgentStore, Fact
from client_agent.runner import Report, Watch, clock_of, keep_running, open_agent
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.extension_points import WATCHED_STATE
from tacit.ports import Clock


@contextlib.asynccontextmanager
async def embedded(
    config: AgentConfig, source: DataSource, report: Report | None = None, *, learner: Learner | None = None
) -> AsyncIterator[Agent]:
    """Run the agent of ``config`` until the block ends; ``Agent.record`` reports events to it. ``source`` replaces the
    data source that ``config`` names; ``learner`` trains models that only the application knows (None: their rounds are
    refused); both are called in threads of their own. ``report`` is called for everything that changes.

    Raises ``UsageError`` for files that cannot be used, and if another process runs this agent; at the end of the block
    it raises whatever ended the agent before.
    """
    clock, stop = SystemClock(), asyncio.Event()
    async with open_agent(config, clock, source, learner=learner) as (agent, store):
        work = asyncio.ensure_future(at_work(agent, store, config, clock, stop, report or _nobody))
        try:
            yield agent
        finally:
            stop.set()
            await work


async def at_work(
    agent: Agent, store: AgentStore, config: AgentConfig, clock: Clock, stop: asyncio.Event, report: Report
) -> None:
    """Keep an opened agent running until ``stop`` is set; ``report`` is called for everything that changes from now
    on."""
    clock, watch = clock_of(config, clock), Watch(store, report)
    await watch.recall()

    def in_trouble(words: str) -> None:
        report(Fact.STATE_TROUBLE.value, {"detail": words})

    hints = hints_of(config, clock, OsEntropy())
    async with contextlib.AsyncExitStack() as stack:
        if keep_watches := WATCHED_STATE.get("keep-watches"):
            ticks = config.timing.tick_seconds
            await stack.enter_async_context(keep_watches(agent.watches, config.state_dir, clock, ticks, in_trouble))
        await keep_running(agent, clock, config.timing.poll_seconds, stop, watch, hints)


def _nobody(_event: str, _told: dict[str, str | int | float]) -> None:
    """A ``Report`` that ignores what it is told."""
