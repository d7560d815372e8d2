"""What was released, by recipe or in the order of its release. A release stays as it is, and none is taken back."""

from __future__ import annotations

import json
from typing import Any, Final

from services.collector.ports import ResultsTx
from tacit.service.store import Transactions

PAGE_BYTES: Final = 1 << 20
"""Bytes of documents after which a page ends."""


class Releases:
    """Result documents of ``store``."""

    def __init__(self, store: Transactions[ResultsTx]) -> None:
        self._store = store

    async def all(self, recipe_hash: bytes | None = None) -> list[dict[str, Any]]:
        """Of every recipe, or of one."""
        async with self._store.read() as tx:
            return [json.loads(result.document) for result in await tx.results(recipe_hash)]

    async def page(self, after: int, limit: int) -> tuple[list[dict[str, Any]], int | None]:
        """At most ``limit`` behind the first ``after``, in the order of their release, fewer where they are large; and
        behind how many the next page begins, if there are more."""
        async with self._store.read() as tx:
            rows = await tx.released(after, limit + 1)
        page: list[dict[str, Any]] = []
        size = 0
        for row in rows[:limit]:
            page.append(json.loads(row.document))
            size += len(row.document)
            if size >= PAGE_BYTES:
                break
        return page, after + len(page) if len(page) < len(rows) else None
