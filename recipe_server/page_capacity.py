"""How much room is taken of the entries that every reader fetches (``tacit.tlog.pages``), and by whom.

The room is divided (P38): a part for directories and key sets, without which nobody could ask anything, a part for
void leaves, and the rest for the analysts that the policy names, each its share. Keys may also have what is free
elsewhere; nothing else may have theirs, so an issuer's next directory has room however many recipes and void leaves
there are.

A recipe takes room of its analyst's for itself, its opt-ins and, if it is a census, both shares, from the moment that
it enters the log; a series for itself and the leaf that may end it. The counted room is never less than what is live
later, so nothing that was admitted can make the pages too many.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from recipe_server.schema import CENSUSES, DIRECTORIES, ENTRIES, KEY_SETS, RECIPES, VOIDS
from recipe_server.series import SeriesRows
from tacit.errors import Refusal
from tacit.recipe.policy import Policy
from tacit.tlog.pages import CAPACITY, entry_bytes

AGGREGATORS_LEAF = 1280
"""Most bytes of an opt-in or void leaf, or one that ends a series: two names of 253 characters, three hashes, a
signature."""
CELL_SIZE = 24
"""Most bytes of a census share for each conjunction."""
PARTS = 8
"""Of so many parts of the whole room one is kept for directories and key sets, and one for void leaves."""


def recipe_bytes(leaf_size: int) -> int:
    """Room in bytes of a recipe with its two opt-ins."""
    return entry_bytes(leaf_size) + 2 * entry_bytes(AGGREGATORS_LEAF)


def series_bytes(leaf_size: int) -> int:
    """Room in bytes of a series whose leaf has ``leaf_size`` bytes, with the leaf that may end it."""
    return entry_bytes(leaf_size) + entry_bytes(AGGREGATORS_LEAF)


def census_bytes(cells: int, count: int = 1) -> int:
    """Room in bytes of both shares of ``count`` censuses that have ``cells`` conjunctions together."""
    return 2 * (count * entry_bytes(AGGREGATORS_LEAF) + cells * CELL_SIZE * 4 // 3)


@dataclass(slots=True)
class Taken:
    """Bytes that are taken: by directories and key sets, by void leaves, and by each analyst's recipes and series."""

    keys: int = 0
    voids: int = 0
    analysts: dict[str, int] = field(default_factory=dict)

    def add(self, analyst: str, size: int) -> None:
        """Count ``size`` more bytes to the analyst."""
        self.analysts[analyst] = self.analysts.get(analyst, 0) + size

    @property
    def left(self) -> int:
        """Bytes of ``CAPACITY`` that neither keys, void leaves nor analysts have taken."""
        return CAPACITY - self.keys - self.voids - sum(self.analysts.values())

    def require_keys(self, wanted: int) -> None:
        """Raise ``Refusal`` ``log-room`` unless ``wanted`` more bytes of directories and key sets have room."""
        _require(wanted, self.left, "what every device fetches")

    def require_voids(self, wanted: int) -> None:
        """Raise ``Refusal`` ``log-room`` unless ``wanted`` more bytes of void leaves have room. They leave the others
        theirs, and may be sent again when earlier ones are no longer shown."""
        _require(wanted, min(CAPACITY // PARTS - self.voids, self.left), "the room for void leaves")

    def require_share(self, wanted: int, analyst: str, policy: Policy) -> None:
        """Raise ``Refusal`` ``log-room`` unless ``wanted`` more bytes of the analyst have room: within its share, and
        beside what others have, of whom the policy may name some no more."""
        whole = CAPACITY - 2 * (CAPACITY // PARTS)
        share = policy.share(analyst, whole)
        left = min(share - self.analysts.get(analyst, 0), whole - sum(self.analysts.values()), self.left)
        _require(wanted, left, f"the share of {analyst}, {share} bytes of what every device fetches,")


def _require(wanted: int, left: int, what: str) -> None:
    if wanted > left:
        raise Refusal("log-room", f"{what} has room for {max(0, left)} more bytes; this leaf takes {wanted}")


class PageCapacity:
    """The room that is taken, as one transaction sees it."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def taken(self, now: float, ended_seconds: int, policy: Policy) -> Taken:
        """What is taken at ``now`` (POSIX seconds); ``ended_seconds`` and ``policy`` as for the live entries."""
        gone, counted = int(now) - ended_seconds, int(now) - policy.census_max_age_seconds
        taken = Taken()
        directory_end = (DIRECTORIES.c.epoch + 1) * DIRECTORIES.c.epoch_seconds
        set_end = (KEY_SETS.c.period + 2) * KEY_SETS.c.rotation_seconds
        taken.keys = await self._sum(DIRECTORIES, directory_end > gone) + await self._sum(KEY_SETS, set_end > int(now))
        taken.voids = await self._sum(VOIDS, VOIDS.c.published_at > gone)
        joined = sa.join(RECIPES, ENTRIES, ENTRIES.c.position == RECIPES.c.position)
        columns = (RECIPES.c.analyst, sa.func.count(), sa.func.sum(_ENCODED))
        live = sa.select(*columns).select_from(joined).where(RECIPES.c.ends_at > gone).group_by(RECIPES.c.analyst)
        for analyst, count, size in await self._connection.execute(live):
            taken.add(analyst, int(size) + int(count) * recipe_bytes(0))
        await self._censuses(taken, min(counted, gone))
        series = {one.index: one.analyst for one in await SeriesRows(self._connection).live(gone, policy)}
        sizes = sa.select(ENTRIES.c.position, _ENCODED).where(ENTRIES.c.position.in_(series))
        for row in await self._connection.execute(sizes):
            taken.add(series[row.position], int(row[1]) + series_bytes(0))
        return taken

    async def _sum(self, table: sa.Table, live: sa.ColumnElement[bool]) -> int:
        """The bytes of room that the live leaves of a table take."""
        joined = sa.join(table, ENTRIES, ENTRIES.c.position == table.c.position)
        statement = sa.select(sa.func.count(), sa.func.sum(_ENCODED)).select_from(joined).where(live)
        count, size = (await self._connection.execute(statement)).one()
        return int(size or 0) + int(count) * entry_bytes(0)

    async def _censuses(self, found: Taken, counted: int) -> None:
        """Add the censuses that count, each with its recipe, which may be over, and with both shares."""
        joined = sa.join(CENSUSES, RECIPES, RECIPES.c.hash == CENSUSES.c.recipe_hash)
        joined = sa.join(joined, ENTRIES, ENTRIES.c.position == RECIPES.c.position)
        columns = (RECIPES.c.analyst, sa.func.count(), sa.func.sum(CENSUSES.c.cells), sa.func.sum(_ENCODED))
        live = sa.select(*columns).select_from(joined).where(RECIPES.c.ends_at > counted).group_by(RECIPES.c.analyst)
        for analyst, count, cells, size in await self._connection.execute(live):
            found.add(analyst, census_bytes(int(cells), int(count)) + int(size) + int(count) * entry_bytes(0))


_ENCODED = (sa.func.length(ENTRIES.c.leaf) + 2) // 3 * 4
"""Length of a leaf in base64."""
