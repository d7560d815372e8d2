"""Announcements as hints to read the log sooner than at the next poll, for devices whose owner wants them (P12).

The connection says nothing about the device: it sends no name, no topic and no message of its own. The effect of an
announcement is bounded by ``Agent.poll_within``: one poll at a random moment within the configured delay. Without a
broker the device polls as always, and imports no client for one (13 MB).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from client_agent.agent import Agent
from client_agent.config import AgentConfig
from tacit.adapters.messaging.topics import LOG, parse_size
from tacit.adapters.network.origins import is_loopback
from tacit.announcer import Announcer
from tacit.errors import DecodeError, UsageError
from tacit.extras import require_extra
from tacit.ports import Clock, Entropy
from tacit.recipe.policy import Policy


@dataclass(frozen=True)
class Hints:
    """An announcer, and the longest delay in seconds after which a device acts on an announcement."""

    announcer: Announcer
    delay: float

    @contextlib.asynccontextmanager
    async def followed(self, agent: Agent, wake: asyncio.Event) -> AsyncIterator[None]:
        """While the block runs, let ``agent`` poll sooner after each announcement, and set ``wake``."""
        await self.announcer.open()
        following = asyncio.create_task(self._follow(agent, wake))
        try:
            yield
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await self.announcer.close()

    async def _follow(self, agent: Agent, wake: asyncio.Event) -> None:
        async for announcement in self.announcer.subscribe(LOG):
            with contextlib.suppress(DecodeError):
                parse_size(announcement.payload)
                agent.poll_within(self.delay)
                wake.set()


def check_broker(config: AgentConfig, policy: Policy) -> None:
    """Raise ``UsageError`` for a broker that an analyst runs (the gateway's operator may be one), for a plain
    connection to another machine, and where no client for a broker is installed."""
    wanted = config.announcements
    if wanted is None:
        return
    require_extra("a device that follows announcements", "messaging", "aiomqtt")
    if wanted.operator in {config.gateway.name, *(policy.analysts or {})}:
        raise UsageError("announcements: the broker must not be run by an analyst, who would see this device's address")
    if not wanted.tls and not config.insecure_http and not is_loopback(wanted.host):
        raise UsageError("announcements: a plain connection to another machine; set tls, or insecure_http = true")


def hints_of(config: AgentConfig, clock: Clock, entropy: Entropy) -> Hints | None:
    """The hints that ``config`` asks for, or None. Raises ``UsageError`` for a CA file that cannot be read."""
    wanted = config.announcements
    if wanted is None:
        return None
    from tacit.adapters.messaging.mqtt import Broker, MqttAnnouncer
    from tacit.service.base.backends import broker_tls

    tls = broker_tls(wanted.tls_ca) if wanted.tls else None
    return Hints(MqttAnnouncer(Broker(wanted.host, wanted.port, tls), clock, entropy), wanted.delay_seconds)
