"""The issuer's store: keys until their epoch is over, one directory leaf per epoch for ever, and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from services.issuer.ports import StoredKey
from services.issuer.schema import DIRECTORIES, ISSUANCE, METADATA, MIGRATIONS, SLOT_KEYS
from tacit.adapters.stored import DatabaseStore
from tacit.adapters.watermark import Watermark


class SqlIssuerStore(DatabaseStore):
    """``services.issuer.ports.IssuerStore`` over a database. Every method is one transaction."""

    def __init__(self, url: str, mark: Watermark | None = None) -> None:
        super().__init__(url, METADATA, MIGRATIONS, mark)

    async def keys(self) -> list[StoredKey]:
        """See ``IssuerStore.keys``; reads one snapshot."""
        statement = sa.select(SLOT_KEYS.c.epoch, SLOT_KEYS.c.slot, SLOT_KEYS.c.private_key)
        async with self._database.read() as connection:
            rows = await connection.execute(statement.order_by(SLOT_KEYS.c.epoch, SLOT_KEYS.c.slot))
            return [StoredKey(*row) for row in rows]

    async def epochs(self) -> set[int]:
        """As in ``IssuerStore``: the epochs of the directories, which are kept for ever."""
        async with self._database.read() as connection:
            return set((await connection.execute(sa.select(DIRECTORIES.c.epoch))).scalars())

    async def add_epoch(self, epoch: int, keys: Sequence[StoredKey], leaf: bytes) -> None:
        """As in ``IssuerStore``: both tables are written in one transaction, which counts as a write that must not be
        lost."""
        async with self._database.transaction() as connection:
            await connection.execute(sa.insert(DIRECTORIES).values(epoch=epoch, leaf=leaf))
            await connection.execute(
                sa.insert(SLOT_KEYS),
                [{"epoch": key.epoch, "slot": key.slot, "private_key": key.private_key} for key in keys],
            )
            await self._database.spend(connection)

    async def unpublished(self) -> tuple[int, bytes] | None:
        """As in ``IssuerStore``: the first directory without a log index."""
        statement = sa.select(DIRECTORIES.c.epoch, DIRECTORIES.c.leaf).where(DIRECTORIES.c.log_index.is_(None))
        async with self._database.read() as connection:
            row = (await connection.execute(statement.order_by(DIRECTORIES.c.epoch).limit(1))).first()
            return None if row is None else (row.epoch, row.leaf)

    async def leaf(self, epoch: int) -> bytes | None:
        """The directory leaf of ``epoch``, or None."""
        async with self._database.read() as connection:
            statement = sa.select(DIRECTORIES.c.leaf).where(DIRECTORIES.c.epoch == epoch)
            leaf: bytes | None = (await connection.execute(statement)).scalar()
            return leaf

    async def published(self, epoch: int, log_index: int) -> None:
        """As in ``IssuerStore``: the index is stored with the directory."""
        async with self._database.transaction() as connection:
            statement = sa.update(DIRECTORIES).where(DIRECTORIES.c.epoch == epoch)
            await connection.execute(statement.values(log_index=log_index))

    async def destroy_before(self, epoch: int) -> int:
        """As in ``IssuerStore``. Deleted rows are overwritten if the database does that. Counts as a write that must
        not be lost."""
        async with self._database.transaction() as connection:
            destroyed = (await connection.execute(sa.delete(SLOT_KEYS).where(SLOT_KEYS.c.epoch < epoch))).rowcount
            await self._database.spend(connection)
            return destroyed

    async def counts(self) -> dict[tuple[int, int], int]:
        """See ``IssuerStore.counts``; reads one snapshot."""
        async with self._database.read() as connection:
            rows = await connection.execute(sa.select(ISSUANCE.c.epoch, ISSUANCE.c.slot, ISSUANCE.c.count))
            return {(epoch, slot): count for epoch, slot, count in rows}

    async def add_counts(self, counts: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], int]:
        """As in ``IssuerStore``, by INSERT ... ON CONFLICT. Counts as a write that must not be lost."""
        rows = [{"epoch": epoch, "slot": slot, "count": count} for (epoch, slot), count in counts.items()]
        async with self._database.transaction() as connection:
            if rows:
                added = self._database.dialect.upsert(ISSUANCE)
                total = added.on_conflict_do_update(
                    index_elements=[ISSUANCE.c.epoch, ISSUANCE.c.slot],
                    set_={"count": ISSUANCE.c.count + added.excluded.count},
                )
                await connection.execute(total, rows)
            moved = sa.tuple_(ISSUANCE.c.epoch, ISSUANCE.c.slot).in_(list(counts))
            totals = await connection.execute(
                sa.select(ISSUANCE.c.epoch, ISSUANCE.c.slot, ISSUANCE.c.count).where(moved)
            )
            found = {(epoch, slot): count for epoch, slot, count in totals}
            await self._database.spend(connection)
            return found
