"""The collector's background work: the log, the collections, the publishing of results."""

from __future__ import annotations

from services.collector.config import PublishConfig
from services.collector.store import CollectorStore
from tacit import media_types
from tacit.ports import TransportError
from tacit.service.app import Deps

BATCH = 16


class PublishDriver:
    """One step hands unpublished results to the recipe server; failures are retried with the same bytes."""

    def __init__(self, store: CollectorStore, publish: PublishConfig, token: str, deps: Deps) -> None:
        self._store = store
        self._url = f"{publish.url}/v1/results"
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": media_types.JSON}
        self._transport = deps.transport

    async def step(self) -> int:
        """Number of results that were acknowledged. Raises ``TransportError`` when the server does not take one."""
        async with self._store.read() as tx:
            waiting = await tx.unpublished(BATCH)
        for result in waiting:
            body = result.document.encode()
            answer = await self._transport.request("POST", self._url, headers=self._headers, body=body)
            if not 200 <= answer.status < 300:
                raise TransportError(f"the recipe server answered with status {answer.status}")
            async with self._store.transaction() as tx:
                await tx.set_published(result.collection)
        return len(waiting)
