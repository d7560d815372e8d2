"""Answers of another service, shared for a moment by all requests that need the same one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from services.admin.questions.log import blaming
from tacit.ports import Clock, Entropy
from tacit.service.http.limits import busy

SHARED_SECONDS: Final = 2.0
"""How old an answer may be to be used for another request."""
MOST_ASKED: Final = 64
"""How many different answers may be requested within that time."""


class Shared:
    """Limits the requests to the service ``peer``: at most ``MOST_ASKED`` within ``SHARED_SECONDS``, however many
    people ask."""

    def __init__(self, peer: str, clock: Clock, entropy: Entropy) -> None:
        self._peer = peer
        self._clock = clock
        self._entropy = entropy
        self._asked: dict[str, tuple[float, asyncio.Task[Any]]] = {}

    async def get(self, what: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Return what ``ask`` returns, or what it returned a moment ago for the same ``what``. Its failures become an
        ``Abort`` as in ``told``. Raises ``Abort`` (503) if too many other answers are being requested."""
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
        """Cancel all requests that are under way."""
        tasks = [task for _, task in self._asked.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _done(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        async with blaming(self._peer):
            return await ask()
