"""The collector's background work: the publishing of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from services.collector.config import PublishConfig
from services.collector.records import Result
from tacit import media_types
from tacit.counting_words import plural
from tacit.ports import TransportError
from tacit.retry_after import retry_after
from tacit.service.app import ServiceEnv
from tacit.service.base.store import Transactions
from tacit.service.http.live_tokens import ShownToken

BATCH = 16


class PublishDriver:
    """One step hands unpublished results to the recipe server; failed ones are sent again with the same bytes."""

    def __init__(
        self, store: Transactions[ReleasesTx], publish: PublishConfig, token: ShownToken, deps: ServiceEnv
    ) -> None:
        self._store = store
        self._url = f"{publish.url}/v1/results"
        self._token = token
        self._transport = deps.transport
        self._clock = deps.clock
        self._refused: set[str] = set()
        """Collections whose result the server did not take in the current round; cleared once all were offered."""
        self._status = 0
        self._asked = 0.0

    async def step(self) -> int:
        """Number of results that the server acknowledged. Raises ``TransportError`` if the server does not take one,
        but only after all were offered, so that one refused result does not hold up the others."""
        async with self._store.read() as tx:
            unpublished = await tx.unpublished(BATCH + len(self._refused))
        waiting = [result for result in unpublished if result.collection not in self._refused][:BATCH]
        if not waiting:
            self._refused.clear()
            waiting = list(unpublished[:BATCH])
        for result in waiting:
            await self._publish(result)
        if self._refused:
            asked, self._asked = self._asked, 0.0
            raise TransportError(
                f"the recipe server does not take {plural(len(self._refused), 'result')}, {self._status} the last",
                retry_after=asked,
            )
        return len(waiting)

    async def _publish(self, result: Result) -> None:
        body = result.document.encode()
        headers = {**self._token.headers(), "Content-Type": media_types.JSON}
        answer = await self._transport.request("POST", self._url, headers=headers, body=body)
        if not 200 <= answer.status < 300:
            self._refused.add(result.collection)
            self._status = answer.status
            self._asked = max(self._asked, retry_after(answer.headers, self._clock.now()))
            return
        async with self._store.transaction() as tx:
            await tx.set_published(result.collection)


class ReleasesTx(Protocol):
    """The transaction that publishes results."""

    async def unpublished(self, limit: int) -> Sequence[Result]:
        """At most ``limit`` releases that the recipe server has not acknowledged."""
        ...

    async def set_published(self, collection: str) -> None:
        """Record that the recipe server has the result."""
        ...
