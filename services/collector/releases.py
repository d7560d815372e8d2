"""Released results, by recipe or in the order of release. A release never changes and is never withdrawn."""

from __future__ import annotations

import json
from typing import Any, Final

from services.collector.store import CollectorStore

PAGE_BYTES: Final = 1 << 20
"""Bytes of documents at which a page ends."""


class Releases:
    """The result documents in ``store``."""

    def __init__(self, store: CollectorStore) -> None:
        self._store = store

    async def page(
        self, after: int, limit: int, recipe_hash: bytes | None = None
    ) -> tuple[list[dict[str, Any]], int | None]:
        """At most ``limit`` documents of one recipe or of all after the first ``after``, in the order of release (fewer
        if they are large), and the ``after`` of the next page, or None if there is none."""
        async with self._store.read() as tx:
            if recipe_hash is None:
                rows = await tx.released(after, limit + 1)
            else:
                rows = await tx.results(recipe_hash, after, limit + 1)
        page: list[dict[str, Any]] = []
        size = 0
        for row in rows[:limit]:
            page.append(json.loads(row.document))
            size += len(row.document)
            if size >= PAGE_BYTES:
                break
        return page, after + len(page) if len(page) < len(rows) else None
