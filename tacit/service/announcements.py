"""How a service reacts to an announcement of the log: it looks at the log now rather than later.

It fetches and verifies as always, not more often than every ``REST_SECONDS``, and polls without an announcement.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from aiohttp import web

from tacit.adapters.messaging.topics import LOG, parse_size
from tacit.announcer import Announcer
from tacit.errors import DecodeError
from tacit.ports import Clock
from tacit.service.app import SERVICE_ENV, SERVICE_NAME
from tacit.service.base.backends import AnnouncerConfig, make_announcer

REST_SECONDS = 0.25


def wake_on_announcements(
    app: web.Application, config: AnnouncerConfig | None, wake: asyncio.Event, *, insecure: bool
) -> None:
    """While ``app`` runs, set ``wake`` when its broker says that the log grew. Without ``config``, or without
    background work, nothing happens. Raises ``UsageError`` for an unsafe or unreadable setting."""
    deps = app[SERVICE_ENV]
    if config is None or not deps.background:
        return
    name = app[SERVICE_NAME]

    async def running(_app: web.Application) -> AsyncIterator[None]:
        announcer = make_announcer(config, name, deps.clock, deps.entropy, insecure=insecure)
        await announcer.open()
        waking = asyncio.create_task(_wake(announcer, wake, deps.clock))
        yield
        waking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waking
        await announcer.close()

    config.url(insecure=insecure)
    app.cleanup_ctx.append(running)


async def _wake(announcer: Announcer, wake: asyncio.Event, clock: Clock) -> None:
    async for announcement in announcer.subscribe(LOG):
        with contextlib.suppress(DecodeError):
            parse_size(announcement.payload)
            wake.set()
        await clock.sleep(REST_SECONDS)
