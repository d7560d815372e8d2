"""Group commit: many waiting requests share one transaction, and each is answered after its commit.

While one group is being written the next one gathers, so the group size follows the load; ``max_delay`` adds a wait for
further items, which ends as soon as there are ``enough``.
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
    """``flush`` gets up to ``max_items`` items in order of arrival and returns one result per item, or raises for all.

    At most one flush runs at a time. ``max_delay`` is in seconds of ``clock``; 0 flushes on the next loop turn. A group
    of ``enough`` items (by default ``max_items``) does not wait for more.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        max_items: int,
        max_delay: float,
        clock: Clock,
        enough: int | None = None,
    ) -> None:
        if max_items < 1 or max_delay < 0:
            raise ValueError("a group needs at least one item and no negative delay")
        self._flush = flush
        self._max_items = max_items
        self._max_delay = max_delay
        self._clock = clock
        self._enough = min(max_items, enough or max_items)
        self._pending: deque[tuple[Sequence[Item], asyncio.Future[Sequence[Result]]]] = deque()
        self._waiting = 0
        self._delay: asyncio.Task[None] | None = None
        self._worker: asyncio.Task[None] | None = None
        self._closing = False

    async def submit(self, item: Item) -> Result:
        """Wait until ``item`` is durable; returns its result. Raises what ``flush`` raised for the item's
        group.

        A cancelled caller leaves the item in its group: it may still be written.
        """
        return (await self.submit_all((item,)))[0]

    async def submit_all(self, items: Sequence[Item]) -> Sequence[Result]:
        """Submit several items that must be in one group, even if they are more than ``max_items``; return their
        results in order."""
        if self._closing:
            raise RuntimeError("the committer is closed")
        if not items:
            return ()
        future: asyncio.Future[Sequence[Result]] = asyncio.get_running_loop().create_future()
        self._pending.append((items, future))
        self._waiting += len(items)
        if self._waiting >= self._enough and self._delay is not None:
            self._delay.cancel()
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._run())
        return await future

    async def close(self) -> None:
        """Write what is waiting, then refuse new items."""
        self._closing = True
        if self._delay is not None:
            self._delay.cancel()
        if self._worker is not None:
            await self._worker

    async def _run(self) -> None:
        while self._pending:
            await self._gather()
            await self._write(self._group())

    def _group(self) -> list[tuple[Sequence[Item], asyncio.Future[Sequence[Result]]]]:
        """The items to write together: the oldest, and those that fit with it."""
        group = [self._pending.popleft()]
        size = len(group[0][0])
        while self._pending and size + len(self._pending[0][0]) <= self._max_items:
            group.append(self._pending.popleft())
            size += len(group[-1][0])
        self._waiting -= size
        return group

    async def _gather(self) -> None:
        if self._max_delay == 0 or self._closing or self._waiting >= self._enough:
            await asyncio.sleep(0)
            return
        self._delay = asyncio.create_task(self._sleep())
        try:
            await asyncio.wait((self._delay,))
        finally:
            self._delay.cancel()
            self._delay = None

    async def _sleep(self) -> None:
        await self._clock.sleep(self._max_delay)

    async def _write(self, group: Sequence[tuple[Sequence[Item], asyncio.Future[Sequence[Result]]]]) -> None:
        asked = [item for items, _ in group for item in items]
        try:
            results = [result for _, result in zip(asked, await self._flush(asked), strict=True)]
        except Exception as error:  # raised in every waiting caller
            for _, future in group:
                if not future.done():
                    future.set_exception(error)
            return
        start = 0
        for items, future in group:
            if not future.done():
                future.set_result(results[start : start + len(items)])
            start += len(items)
