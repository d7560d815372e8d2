"""Opens together the messages that arrived in one turn of the event loop.

Under load many requests arrive between two turns. They are handed to one function at once, so that a backend that opens
several messages for less than the sum of their costs can be used there; ``tacit.ohttp.Decapsulator.decapsulate_all``
opens them one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tacit.errors import CryptoError, DecodeError
from tacit.ohttp import Opened

OpenAll = Callable[[Sequence[bytes]], list[Opened | CryptoError | DecodeError]]


class Opening:
    """``open_all`` gets the messages of one turn, or of one frame, and returns the opened request or the error of
    each."""

    def __init__(self, open_all: OpenAll) -> None:
        self.open_all = open_all
        self._waiting: list[tuple[bytes, asyncio.Future[Opened]]] = []

    async def open(self, message: bytes) -> Opened:
        """BHTTP bytes and context of ``message``. Raises ``CryptoError`` or ``DecodeError``."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Opened] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._turn)
        self._waiting.append((message, future))
        return await future

    def _turn(self) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            results: Sequence[Opened | Exception] = self.open_all([message for message, _ in waiting])
        except Exception as error:  # an error of the backend is passed to every message
            results = [error] * len(waiting)
        for (_, future), result in zip(waiting, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
