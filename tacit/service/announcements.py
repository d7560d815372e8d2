"""What is announced, and how a service reacts to it: it looks at the log now rather than later.

An announcement says how many entries the log has, and its topic says which kind was added. It carries no authority: a
service that hears one fetches and verifies as always, not more often than every ``REST_SECONDS``, and polls without
one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from aiohttp import web

from tacit.errors import DecodeError
from tacit.ports import Announcer, Clock
from tacit.service.app import SERVICE_ENV, SERVICE_NAME
from tacit.service.base.backends import AnnouncerConfig, make_announcer

LOG, KEYS, RECIPES = "tacit/v1/log", "tacit/v1/keys", "tacit/v1/recipes"
REST_SECONDS = 0.25
_MAX_DIGITS = 15


def encode_size(size: int) -> bytes:
    """The payload that says that the log has ``size`` entries."""
    return b"%d" % size


def parse_size(payload: bytes) -> int:
    """The size in a payload: decimal digits without leading zeros. Raises ``DecodeError``."""
    if len(payload) > _MAX_DIGITS or not payload.isdigit() or (payload[:1] == b"0" and payload != b"0"):
        raise DecodeError("not an announcement of a log's size")
    return int(payload)


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
