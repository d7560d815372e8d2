"""The agents of one process, from their first step to a signal: what ``tacit-agent`` and ``tacit agent run`` do."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence

from client_agent.common import Common
from client_agent.config import AgentConfig
from client_agent.embedding import at_work
from client_agent.journal import Fact
from client_agent.runner import Watch, open_agent
from tacit.adapters.system import SystemClock
from tacit.service.base.log import get_logger

Tell = Callable[[int, str, dict[str, str | int | float]], None]
"""Called for every event of an agent, with its place among the configurations; ``client_agent.runner.Report`` for
several. Beside a report's events there are ``started`` and ``stopped``."""


def json_lines() -> Tell:
    """Writes each event as one JSON line on stderr."""
    log = get_logger("agent")

    def tell(agent: int, event: str, told: dict[str, str | int | float]) -> None:
        log.info(event, agent=agent, **told)

    return tell


async def run_agents(configs: Sequence[AgentConfig], tell: Tell, *, once: bool, until: float | None) -> bool:
    """Run the agents until SIGINT or SIGTERM, or for ``until`` seconds, or for a single step (``once``); return whether
    that step could not read the log. Raises ``UsageError`` as ``open_agent`` does."""
    stop = asyncio.Event()
    if not once:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        if until is not None:
            loop.call_later(until, stop.set)
    async with Common() as common:

        async def run_one(place: int, config: AgentConfig) -> bool:
            clock = SystemClock()

            def report(event: str, told: dict[str, str | int | float]) -> None:
                tell(place, event, told)

            async with open_agent(config, clock, common=common) as (agent, store):
                if once:
                    watch = Watch(store, report)
                    await watch.recall()
                    await agent.step()
                    await watch.look()
                    return bool(await store.fact(Fact.LOG_TROUBLE))
                report("started", {})
                try:
                    await at_work(agent, store, config, clock, stop, report)
                finally:
                    report("stopped", {})
            return False

        return any(await asyncio.gather(*(run_one(place, config) for place, config in enumerate(configs))))
