"""Rows of a database, in a transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection


class Rows:
    """The queries and statements that all parts of the store use."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def _one(self, query: sa.Select[Any]) -> Mapping[str, Any] | None:
        row: Mapping[str, Any] | None = (await self._connection.execute(query)).mappings().first()
        return row

    async def _all(self, query: sa.Select[Any]) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = (await self._connection.execute(query)).mappings().all()
        return found

    async def _run(self, statement: sa.Executable) -> int:
        result: Any = await self._connection.execute(statement)
        return int(result.rowcount)
