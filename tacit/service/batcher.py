"""Gathers messages that may share one exchange with a peer: a relay's for its gateway, a gateway's for its leaders.

The peer sees each message arrive with others, in an order drawn at random, up to ``max_delay`` later; so arrival times
tell it less about when a client sent. A frame that fails fails for all its senders, who try again as they would with
single messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from tacit.service.app import ServiceEnv
from tacit.service.base.random_order import shuffle

Item = TypeVar("Item")
Result = TypeVar("Result")


class FrameBounds(NamedTuple):
    """A frame is full, and is sent, at so many messages or bytes; ``max_delay``: seconds that it waits for more, 0 for
    one turn of the event loop."""

    max_messages: int
    max_bytes: int
    max_delay: float


class Batcher(Generic[Item, Result]):
    """Gathers items into frames and hands each frame to ``send``. Frames are sent concurrently."""

    def __init__(
        self, bounds: FrameBounds, deps: ServiceEnv, send: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]]
    ):
        self._bounds = bounds
        self._deps = deps
        self._send = send
        self._gathered: list[tuple[Item, asyncio.Future[Result]]] = []
        self._bytes = 0
        self._timer: asyncio.Task[None] | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    def submit(self, item: Item, size: int) -> asyncio.Future[Result]:
        """The result of ``item``, which takes ``size`` bytes of a frame, or what ``send`` raised for its frame."""
        if self._gathered and self._bytes + size > self._bounds.max_bytes:
            self._dispatch()
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._gathered.append((item, future))
        self._bytes += size
        if len(self._gathered) >= self._bounds.max_messages:
            self._dispatch()
        elif self._timer is None:
            self._timer = self._start(self._wait())
        return future

    async def close(self) -> None:
        """Send what is gathered, and wait for the frames under way."""
        self._dispatch()
        while self._under_way:
            await asyncio.wait(tuple(self._under_way))

    async def _wait(self) -> None:
        if self._bounds.max_delay:
            await self._deps.clock.sleep(self._bounds.max_delay)
        self._timer = None
        self._dispatch()

    def _dispatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._gathered, self._bytes = self._gathered, [], 0
        if waiting:
            _end_with(
                [future for _, future in waiting],
                self._start(self._exchange(shuffle(waiting, self._deps.entropy))),
            )

    async def _exchange(self, waiting: Sequence[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._send([item for item, _ in waiting])
            pairs = list(zip(waiting, results, strict=True))
        except Exception as error:  # every sender of the frame gets the error
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), result in pairs:
            if not future.done():
                future.set_result(result)

    def _start(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task


def _end_with(waited: Sequence[asyncio.Future[Result]], exchange: asyncio.Task[None]) -> None:
    """Cancel ``exchange`` once nobody waits for any of its results, so that it holds memory no longer than they do."""
    left = set(waited)

    def done(future: asyncio.Future[Result]) -> None:
        left.discard(future)
        if not left:
            exchange.cancel()

    for future in waited:
        future.add_done_callback(done)
