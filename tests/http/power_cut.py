"""A process that dies at one of its commits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any


class PowerCutError(Exception):
    """Stands for the end of the process."""


class PowerCut:
    """Ends the ``number``-th write transaction of a ``store``, and with it the process, before or after its commit."""

    def __init__(self, store: Any, number: int, *, committed: bool) -> None:
        self.left = number
        self.committed = committed
        self.happened = False
        self._real = store.transaction
        store.transaction = self._transaction

    @asynccontextmanager
    async def _transaction(self, **options: Any) -> AsyncIterator[Any]:
        if self.happened:
            raise PowerCutError
        self.left -= 1
        async with self._real(**options) as tx:
            yield tx
            if self.left < 0 and not self.committed:
                self.happened = True
                raise PowerCutError
        if self.left < 0:
            self.happened = True
            raise PowerCutError
