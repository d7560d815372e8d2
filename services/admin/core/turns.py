"""Work that takes a while, in threads of its own and in fair turns.

So many pieces run at a time, and of those who wait everybody's next one comes in turn, however many somebody else has
sent before. Each may have a few waiting, and all together so many: what is beyond is refused, and not kept.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tacit.errors import Abort
from tacit.ports import Entropy
from tacit.service.limits import busy

T = TypeVar("T")


class Turns:
    """``at_a_time`` pieces run, and of one person ``each`` may wait or run, of all ``together``. ``name``: of the
    threads."""

    def __init__(self, name: str, entropy: Entropy, *, at_a_time: int, each: int, together: int) -> None:
        self._threads = ThreadPoolExecutor(at_a_time, thread_name_prefix=name)
        self._entropy = entropy
        self._free = at_a_time
        self._each = each
        self._together = together
        self._held: dict[str, int] = {}
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def do(self, who: str, work: Callable[[], T]) -> T:
        """What ``work`` returns or raises, once it is the turn of ``who``. Raises ``Abort`` (503) where they, or all
        together, have too much waiting."""
        self._hold(who)
        try:
            await self._turn(who)
        except BaseException:
            self._release(who)
            raise
        running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        running.add_done_callback(lambda _: self._ended(who))  # not before the thread is free, whoever waits for it
        return await asyncio.shield(running)

    def close(self) -> None:
        """End the threads; pending work is dropped."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _hold(self, who: str) -> None:
        if self._held.get(who, 0) >= self._each or sum(self._held.values()) >= self._together:
            raise self._busy()
        self._held[who] = self._held.get(who, 0) + 1

    def _busy(self) -> Abort:
        return busy(self._entropy)

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
                self._next()  # it was called in the same moment: the turn goes on to somebody else
            else:
                self._leave(who, called)
            raise

    def _leave(self, who: str, called: asyncio.Future[None]) -> None:
        queue = self._waiting.get(who)
        if queue is not None and called in queue:
            queue.remove(called)
            if not queue:
                del self._waiting[who]

    def _ended(self, who: str) -> None:
        self._release(who)
        self._next()

    def _release(self, who: str) -> None:
        self._held[who] -= 1
        if not self._held[who]:
            del self._held[who]

    def _next(self) -> None:
        """The turn goes to the next person who waits; who has more waiting comes last again."""
        while self._waiting:
            who, queue = self._waiting.popitem(last=False)
            called = queue.popleft()
            if queue:
                self._waiting[who] = queue
            if not called.done():
                called.set_result(None)
                return
        self._free += 1
