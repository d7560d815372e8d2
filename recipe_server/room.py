"""How much room is taken of the entries that every reader fetches (``tacit.tlog.pages``).

A recipe takes room for itself, its opt-ins and, if it is a census, both shares, from the moment that it enters the log.
The counted room is never less than what is live later, so nothing that was admitted can make the pages too many.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from recipe_server.schema import CENSUSES, DIRECTORIES, ENTRIES, KEY_SETS, RECIPES, SERIES, VOIDS
from tacit.tlog.pages import CAPACITY, entry_room

AGGREGATORS_LEAF = 1280
"""Most bytes of an opt-in or void leaf: two names of 253 characters, three hashes, a signature."""
CELL_SIZE = 24
"""Most bytes of a census share for each conjunction."""


def recipe_room(leaf_size: int) -> int:
    """Room in bytes of a recipe with its two opt-ins."""
    return entry_room(leaf_size) + 2 * entry_room(AGGREGATORS_LEAF)


def census_room(cells: int, count: int = 1) -> int:
    """Room in bytes of both shares of ``count`` censuses that have ``cells`` conjunctions together."""
    return 2 * (count * entry_room(AGGREGATORS_LEAF) + cells * CELL_SIZE * 4 // 3)


class Room:
    """The room that is taken, as one transaction sees it."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def left(self, now: float, ended_seconds: int, census_seconds: int) -> int:
        """Bytes that are left at ``now`` (POSIX seconds); ``ended_seconds`` and ``census_seconds`` as for the live
        entries."""
        gone, counted = int(now) - ended_seconds, int(now) - census_seconds
        directory_end = (DIRECTORIES.c.epoch + 1) * DIRECTORIES.c.epoch_seconds
        set_end = (KEY_SETS.c.period + 2) * KEY_SETS.c.rotation_seconds
        count, size = await self._sum(RECIPES, RECIPES.c.ends_at > gone)
        taken = size + 2 * count * entry_room(AGGREGATORS_LEAF)
        for table, live in (
            (SERIES, SERIES.c.ends_at > gone),
            (VOIDS, VOIDS.c.published_at > gone),
            (DIRECTORIES, directory_end > gone),
            (KEY_SETS, set_end > int(now)),
        ):
            taken += (await self._sum(table, live))[1]
        return CAPACITY - taken - await self._censuses(min(counted, gone))

    async def _sum(self, table: sa.Table, live: sa.ColumnElement[bool]) -> tuple[int, int]:
        """How many leaves of a table are live, and the bytes of room that they take."""
        encoded = (sa.func.length(ENTRIES.c.leaf) + 2) // 3 * 4
        joined = sa.join(table, ENTRIES, ENTRIES.c.position == table.c.position)
        statement = sa.select(sa.func.count(), sa.func.sum(encoded)).select_from(joined).where(live)
        count, size = (await self._connection.execute(statement)).one()
        return int(count), int(size or 0) + int(count) * entry_room(0)

    async def _censuses(self, counted: int) -> int:
        joined = sa.join(CENSUSES, RECIPES, RECIPES.c.hash == CENSUSES.c.recipe_hash)
        statement = sa.select(sa.func.count(), sa.func.sum(CENSUSES.c.cells)).select_from(joined)
        count, cells = (await self._connection.execute(statement.where(RECIPES.c.ends_at > counted))).one()
        still = await self._sum(RECIPES, sa.and_(RECIPES.c.ends_at > counted, RECIPES.c.hash.in_(_CENSUS_HASHES)))
        return census_room(int(cells or 0), int(count)) + still[1]


_CENSUS_HASHES = sa.select(CENSUSES.c.recipe_hash).scalar_subquery()
