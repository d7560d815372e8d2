"""Group commit: many waiting requests share one transaction, and each is answered after its commit.

While one group is being written the next one gathers, so the group size follows the load by itself;
``max_delay`` adds a wait for company only where it is wanted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from tacit.ports import Clock

Item = TypeVar("Item")
Result = TypeVar("Result")


class GroupCommitter(Generic[Item, Result]):
    """``flush`` gets up to ``max_items`` items in order of arrival and returns one result per item, or
    raises for all.

    At most one flush runs at a time. ``max_delay`` is in seconds of ``clock``; 0 flushes on the next loop
    turn.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        max_items: int,
        max_delay: float,
        clock: Clock,
    ) -> None:
        if max_items < 1 or max_delay < 0:
            raise ValueError("a group needs at least one item and no negative delay")
        self._flush = flush
        self._max_items = max_items
        self._max_delay = max_delay
        self._clock = clock
        self._pending: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._full = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._closing = False

    async def submit(self, item: Item) -> Result:
        """Wait until ``item`` is durable; returns its result. Raises what ``flush`` raised for the item's
        group.

        A cancelled caller leaves the item in its group: it may still be written.
        """
        if self._closing:
            raise RuntimeError("the committer is closed")
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._pending.append((item, future))
        if len(self._pending) >= self._max_items:
            self._full.set()
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._run())
        return await future

    async def close(self) -> None:
        """Write what waits, then refuse new items."""
        self._closing = True
        self._full.set()
        if self._worker is not None:
            await self._worker

    async def _run(self) -> None:
        while self._pending:
            await self._gather()
            count = min(self._max_items, len(self._pending))
            group = [self._pending.popleft() for _ in range(count)]
            await self._write(group)

    async def _gather(self) -> None:
        if self._max_delay == 0 or self._closing or len(self._pending) >= self._max_items:
            await asyncio.sleep(0)
            return
        self._full.clear()
        waits = [
            asyncio.ensure_future(self._clock.sleep(self._max_delay)),
            asyncio.ensure_future(self._full.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _write(self, group: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._flush([item for item, _ in group])
            answers = list(zip(group, results, strict=True))
        except Exception as error:  # handed to every waiting caller
            for _, future in group:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), result in answers:
            if not future.done():
                future.set_result(result)
