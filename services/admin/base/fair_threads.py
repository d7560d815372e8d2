"""Slow work, in its own threads and in fair turns.

A limited number of pieces run at a time. Those that wait are served in turn, one of each person, however many another
person has sent before. One person may have only a few waiting, and all together a limited number; any further piece is
refused.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tacit.ports import Entropy
from tacit.service.http.limits import busy

T = TypeVar("T")


class FairThreads:
    """Runs at most ``at_a_time`` pieces of work at a time. One person may have ``each`` pieces running or waiting, all
    together ``together``. ``name``: the prefix of the threads' names."""

    def __init__(self, name: str, entropy: Entropy, *, at_a_time: int, each: int, together: int) -> None:
        self._threads = ThreadPoolExecutor(at_a_time, thread_name_prefix=name)
        self._entropy = entropy
        self._free = at_a_time
        self._each = each
        self._together = together
        self._held: dict[str, int] = {}
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def do(self, who: str, work: Callable[[], T]) -> T:
        """Run ``work`` when it is the turn of ``who``, and return or raise what it does. Raises ``Abort`` (503) if
        they, or all together, have too much running or waiting."""
        if self._held.get(who, 0) >= self._each or sum(self._held.values()) >= self._together:
            raise busy(self._entropy)
        self._held[who] = self._held.get(who, 0) + 1
        try:
            await self._turn(who)
        except BaseException:
            self._release(who)
            raise
        running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        running.add_done_callback(lambda _: self._ended(who))  # once the thread is free, even if nobody waits any more
        return await asyncio.shield(running)

    def close(self) -> None:
        """Stop the threads; waiting work is dropped."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _turn(self, who: str) -> None:
        if self._free:
            self._free -= 1
            return
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(called)
        try:
            await called
        except asyncio.CancelledError:
            if called.done() and not called.cancelled():
                self._next()  # its turn came at the same moment: pass it on to somebody else
            else:
                queue = self._waiting.get(who)
                if queue is not None and called in queue:
                    queue.remove(called)
                    if not queue:
                        del self._waiting[who]
            raise

    def _ended(self, who: str) -> None:
        self._release(who)
        self._next()

    def _release(self, who: str) -> None:
        self._held[who] -= 1
        if not self._held[who]:
            del self._held[who]

    def _next(self) -> None:
        """Give the turn to the next person who waits. If they have more work waiting, they join the end of the
        queue."""
        while self._waiting:
            who, queue = self._waiting.popitem(last=False)
            called = queue.popleft()
            if queue:
                self._waiting[who] = queue
            if not called.done():
                called.set_result(None)
                return
        self._free += 1
