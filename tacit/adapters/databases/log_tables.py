"""The tables of a party that follows the log with its database, and the statements on them.

The state of the log's reader is one row. A leaf is stored once, under its index in the log.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Column, Integer, LargeBinary, MetaData, Table, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tacit.adapters.databases.upsert import Int64

_AT_ONCE = 1000
"""Positions of one statement: a database takes no list of any length."""


class LogTables:
    """The tables of the log, made on ``metadata``."""

    def __init__(self, metadata: MetaData) -> None:
        self.log_state = Table(
            "log_state",
            metadata,
            Column("id", Integer, primary_key=True),
            Column("state", LargeBinary, nullable=False),
            info={
                "holds": (
                    "the last checkpoint of the log that was accepted and what the next proof needs, written before "
                    "anything is concluded from a look at the log"
                ),
                "kept": "replaced",
            },
        )
        self.leaves = Table(
            "leaves",
            metadata,
            Column("position", Int64, primary_key=True, autoincrement=False),
            Column("leaf", LargeBinary, nullable=False),
            info={
                "holds": "the log's verified leaves, by index",
                "kept": "always",
            },
        )


class SqlLeavesTx:
    """One transaction on ``LogTables``; its methods are documented in ``tacit.logview.stored.LeavesTx``."""

    connection: AsyncConnection
    log_tables: LogTables

    async def log_state(self) -> bytes | None:
        table = self.log_tables.log_state
        return (await self.connection.execute(select(table.c.state))).scalar_one_or_none()

    async def put_log_state(self, state: bytes) -> None:
        table = self.log_tables.log_state
        await self.connection.execute(delete(table))
        await self.connection.execute(insert(table).values(id=1, state=state))

    async def leaves(self, start: int = 0) -> list[tuple[int, bytes]]:
        table = self.log_tables.leaves
        query = select(table.c.position, table.c.leaf).where(table.c.position >= start).order_by(table.c.position)
        rows = await self.connection.execute(query)
        return [(row.position, row.leaf) for row in rows]

    async def add_leaves(self, leaves: Iterable[tuple[int, bytes]]) -> int:
        table = self.log_tables.leaves
        given, known = list(leaves), set[int]()
        for first in range(0, len(given), _AT_ONCE):
            asked = [index for index, _ in given[first : first + _AT_ONCE]]
            kept = select(table.c.position).where(table.c.position.in_(asked))
            known.update((await self.connection.execute(kept)).scalars())
        fresh = [{"position": index, "leaf": leaf} for index, leaf in given if index not in known]
        if fresh:
            await self.connection.execute(insert(table), fresh)
        return len(fresh)
