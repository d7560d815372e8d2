"""Server-sent events, for as long as the listener has the permission to read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from functools import partial

from aiohttp import web

from services.admin.api.calls import ADMIN, Call, Reply
from services.admin.people.people import Permission
from services.admin.questions.events import Event
from tacit.errors import Abort
from tacit.media_types import EVENT_STREAM

BEAT_SECONDS = 15.0
"""How many seconds without an event pass before a comment is sent and the listener's permission is checked again."""


async def events(call: Call) -> Reply:
    """A stream of all changes from now on."""
    return Reply(None, stream=partial(_stream, call.who.person.id))


async def _stream(who: str, request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": EVENT_STREAM, "X-Accel-Buffering": "no"})
    with request.app[ADMIN].events.listening(who) as queue:
        async with contextlib.aclosing(_texts(request, queue)) as texts:
            with contextlib.suppress(ConnectionError):
                await response.prepare(request)
            async for text in texts:
                try:
                    await response.write(text)
                except ConnectionError:  # nobody listens any more
                    break
    with contextlib.suppress(ConnectionError):
        await response.write_eof()
    return response


async def _texts(request: web.Request, queue: asyncio.Queue[Event | None]) -> AsyncGenerator[bytes]:
    """What the listener is told; its permission is checked before each event."""
    yield b"retry: 5000\n\n"
    while await _may_listen(request):
        try:
            event = await asyncio.wait_for(queue.get(), BEAT_SECONDS)
        except TimeoutError:
            yield b": beat\n\n"
            continue
        if event is None:
            break
        yield event.encode()


async def _may_listen(request: web.Request) -> bool:
    try:
        return (await request.app[ADMIN].sign_in.principal(request, seen=False)).may(Permission.READ)
    except Abort:
        return False
