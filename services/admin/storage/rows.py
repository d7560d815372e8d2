"""Queries and statements in a transaction of the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection


class Rows:
    """The base of all parts of the store: runs queries and statements on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def _one(self, query: sa.Select[Any]) -> Mapping[str, Any] | None:
        row: Mapping[str, Any] | None = (await self._connection.execute(query)).mappings().first()
        return row

    async def _all(self, query: sa.Select[Any]) -> Sequence[Mapping[str, Any]]:
        rows: Sequence[Mapping[str, Any]] = (await self._connection.execute(query)).mappings().all()
        return rows

    async def _run(self, statement: sa.Executable) -> int:
        result: Any = await self._connection.execute(statement)
        return int(result.rowcount)
