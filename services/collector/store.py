"""The collector's store: verified leaves, collections with the exact bytes of their requests, results."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from services.collector.records import COLLECTION_STATES, UNFINISHED, Collection, CollectionState, Result
from services.collector.schema import COLLECTIONS, LOG, METADATA, MIGRATIONS, RELEASES, RESULTS
from tacit.adapters.databases.log_tables import SqlLeavesTx
from tacit.adapters.databases.stored import DatabaseStore
from tacit.errors import Fatal


class CollectorTx(SqlLeavesTx):
    """One transaction; its owner decides what belongs together."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection
        self.log_tables = LOG

    async def collections(
        self, recipe_hash: bytes | None = None, after: int = 0, limit: int | None = None
    ) -> list[Collection]:
        """Collections, or those of one recipe, by recipe and number: at most ``limit``, behind the first ``after``."""
        query = sa.select(COLLECTIONS).order_by(COLLECTIONS.c.recipe_hash, COLLECTIONS.c.number)
        query = query.offset(after).limit(limit)
        if recipe_hash is not None:
            query = query.where(COLLECTIONS.c.recipe_hash == recipe_hash)
        return _collections(await self.connection.execute(query))

    async def collection(self, collection_id: str) -> Collection | None:
        """The collection with this id, or None; also None for a text with a NUL, which PostgreSQL does not take."""
        if "\0" in collection_id:
            return None
        query = sa.select(COLLECTIONS).where(COLLECTIONS.c.id == collection_id)
        return next(iter(_collections(await self.connection.execute(query))), None)

    async def due(self, now: float, limit: int) -> list[Collection]:
        """Unfinished collections whose next attempt is due, the longest overdue first."""
        query = (
            sa.select(COLLECTIONS)
            .where(COLLECTIONS.c.state.in_([state.value for state in UNFINISHED]))
            .where(COLLECTIONS.c.next_attempt <= now)
            .order_by(COLLECTIONS.c.next_attempt)
            .limit(limit)
        )
        return _collections(await self.connection.execute(query))

    async def add_collection(self, row: Collection) -> None:
        """Store a new collection. Raises ``Fatal`` if it begins in a state that it cannot begin in."""
        COLLECTION_STATES.check(None, row.state)
        await self.connection.execute(sa.insert(COLLECTIONS).values({**asdict(row), "state": row.state.value}))

    async def put_collection(self, row: Collection) -> None:
        """Replace one collection's row. Raises ``Fatal`` for a move that ``COLLECTION_STATES`` does not allow."""
        movable = COLLECTIONS.c.state.in_(COLLECTION_STATES.names_before(row.state))
        moved = sa.update(COLLECTIONS).where(COLLECTIONS.c.id == row.id, movable)
        if (await self.connection.execute(moved.values({**asdict(row), "state": row.state.value}))).rowcount != 1:
            raise Fatal(f"no collection of this id can become {row.state}")

    async def add_result(self, result: Result) -> None:
        """Store a release. Raises ``IntegrityError`` for a second one of the same batch."""
        last = (await self.connection.execute(sa.select(sa.func.max(RELEASES.c.place)))).scalar() or 0
        await self.connection.execute(sa.insert(RESULTS).values(asdict(result)))
        await self.connection.execute(sa.insert(RELEASES).values(place=last + 1, collection=result.collection))

    async def results(self, recipe_hash: bytes, after: int = 0, limit: int | None = None) -> list[Result]:
        """A recipe's releases in order: at most ``limit``, behind the first ``after``."""
        query = sa.select(RESULTS).where(RESULTS.c.recipe_hash == recipe_hash).order_by(RESULTS.c.number)
        query = query.offset(after).limit(limit)
        return [Result(*row) for row in await self.connection.execute(query)]

    async def released(self, after: int, limit: int) -> list[Result]:
        """At most ``limit`` releases after the first ``after``, in the order of release."""
        query = (
            sa.select(RESULTS)
            .join(RELEASES, RELEASES.c.collection == RESULTS.c.collection)
            .where(RELEASES.c.place > after)
            .order_by(RELEASES.c.place)
            .limit(limit)
        )
        return [Result(*row) for row in await self.connection.execute(query)]

    async def unpublished(self, limit: int) -> Sequence[Result]:
        """At most ``limit`` releases that the recipe server has not acknowledged."""
        query = sa.select(RESULTS).where(RESULTS.c.published.is_(False)).limit(limit)
        return [Result(*row) for row in await self.connection.execute(query)]

    async def collections_by_state(self) -> dict[str, int]:
        """Number of collections by state, without the states that no collection is in."""
        state = COLLECTIONS.c.state
        rows = await self.connection.execute(sa.select(state, sa.func.count()).group_by(state))
        return {row[0]: row[1] for row in rows}

    async def all_unpublished(self) -> int:
        """How many releases the recipe server has not acknowledged."""
        query = sa.select(sa.func.count()).select_from(RESULTS).where(RESULTS.c.published.is_(False))
        return int((await self.connection.execute(query)).scalar_one())

    async def set_published(self, collection: str) -> None:
        """Record that the recipe server has the result."""
        statement = sa.update(RESULTS).where(RESULTS.c.collection == collection)
        await self.connection.execute(statement.values(published=True))


def _collections(rows: sa.CursorResult[tuple[object, ...]]) -> list[Collection]:
    return [Collection(**{**row, "state": CollectionState(row["state"])}) for row in rows.mappings()]


class CollectorStore(DatabaseStore):
    """The collector's database: collections, results, and what it read of the log."""

    def __init__(self, url: str) -> None:
        super().__init__(url, METADATA, MIGRATIONS)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[CollectorTx]:
        """Commit everything in the block, or nothing."""
        async with self._database.transaction() as connection:
            yield CollectorTx(connection)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[CollectorTx]:
        """A read-only transaction, whose statements all see one state of the database."""
        async with self._database.read() as connection:
            yield CollectorTx(connection)
