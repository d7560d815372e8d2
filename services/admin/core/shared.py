"""Answers of another service, shared for a moment by all who ask for the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from services.admin.core.log import told
from tacit.ports import Clock, Entropy
from tacit.service.limits import busy

SHARED_SECONDS: Final = 2.0
"""How old an answer may be that is given to somebody else, too."""
MOST_ASKED: Final = 64
"""How many different things may be asked for within that time."""


class Shared:
    """However many ask for however much, ``peer`` sees ``MOST_ASKED`` requests in ``SHARED_SECONDS``."""

    def __init__(self, peer: str, clock: Clock, entropy: Entropy) -> None:
        self._peer = peer
        self._clock = clock
        self._entropy = entropy
        self._asked: dict[str, tuple[float, asyncio.Task[Any]]] = {}

    async def get(self, what: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        """What ``ask`` returns, or did a moment ago for the same ``what``; what it raises is ``told``. Raises ``Abort``
        (503) where too much else is being asked for."""
        now = self._clock.now()
        for name, (since, task) in list(self._asked.items()):
            if task.done() and now - since >= SHARED_SECONDS:
                del self._asked[name]
        if what not in self._asked:
            if len(self._asked) >= MOST_ASKED:
                raise busy(self._entropy)
            self._asked[what] = now, asyncio.create_task(self._done(ask))
        return await asyncio.shield(self._asked[what][1])

    async def close(self) -> None:
        """Stop all waiting."""
        tasks = [task for _, task in self._asked.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _done(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        async with told(self._peer):
            return await ask()
