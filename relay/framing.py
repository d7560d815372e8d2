"""Several messages in one exchange with the gateway, if so configured.

Frames are not in RFC 9458 (``tacit.frames``): the relay and the gateway must both support them. They save both sides
most of the HTTP work per message. Their effect on anonymity: the content of a message is as opaque as before, and the
gateway sees it arrive with up to ``max_messages - 1`` others, in an order drawn at random, up to ``max_delay`` seconds
later; so arrival times tell the gateway less about when a client sent. A frame that fails fails for all its clients,
who try again as they would with single messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from relay.config import Frames
from tacit.frames import REQUEST_OVERHEAD, FramedAnswer
from tacit.service.app import Deps

_ORDER_BYTES = 8

SendFrame = Callable[[Sequence[bytes]], Awaitable[Sequence[FramedAnswer]]]
Waiting = tuple[bytes, "asyncio.Future[FramedAnswer]"]


class Framing:
    """Gathers messages into frames and hands each frame to ``send``. Frames are sent concurrently."""

    def __init__(self, config: Frames, deps: Deps, send: SendFrame) -> None:
        self._config = config
        self._deps = deps
        self._send = send
        self._gathered: list[Waiting] = []
        self._bytes = 0
        self._timer: asyncio.Task[None] | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def submit(self, message: bytes) -> FramedAnswer:
        """The answer to ``message``. Raises what ``send`` raised for its frame."""
        size = REQUEST_OVERHEAD + len(message)
        if self._gathered and self._bytes + size > self._config.max_bytes:
            self._dispatch()
        future: asyncio.Future[FramedAnswer] = asyncio.get_running_loop().create_future()
        self._gathered.append((message, future))
        self._bytes += size
        if len(self._gathered) >= self._config.max_messages:
            self._dispatch()
        elif self._timer is None:
            self._timer = self._start(self._wait())
        return await future

    async def close(self) -> None:
        """Send what is gathered, and wait for the frames under way."""
        self._dispatch()
        while self._under_way:
            await asyncio.wait(tuple(self._under_way))

    async def _wait(self) -> None:
        await self._deps.clock.sleep(self._config.max_delay)
        self._timer = None
        self._dispatch()

    def _dispatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._gathered, self._bytes = self._gathered, [], 0
        if waiting:
            self._start(self._exchange(self._shuffled(waiting)))

    async def _exchange(self, waiting: Sequence[Waiting]) -> None:
        try:
            answers = await self._send([message for message, _ in waiting])
            pairs = list(zip(waiting, answers, strict=True))
        except Exception as error:  # every client of the frame gets the error
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), answer in pairs:
            if not future.done():
                future.set_result(answer)

    def _shuffled(self, waiting: list[Waiting]) -> list[Waiting]:
        """``waiting`` in a random order, independent of the order of arrival."""
        drawn = self._deps.entropy(_ORDER_BYTES * len(waiting))
        keys = [drawn[at : at + _ORDER_BYTES] for at in range(0, len(drawn), _ORDER_BYTES)]
        return [waiting[index] for index in sorted(range(len(waiting)), key=keys.__getitem__)]

    def _start(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task
